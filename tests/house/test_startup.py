"""An empty script starts few modules of voir, and no heavy ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.running import Place

OURS = ("overseer", "instruments", "voir")
#: Each costs some 0.2 ms. Those that a plain run does not need are imported where they are used.
MOST = 48
HEAVY = {
    "ast", "asyncio", "codefind", "dataclasses", "email", "giving", "hashlib", "http",
    "importlib.metadata", "inspect", "json", "logging", "numpy", "pathlib", "psutil", "ptera",
    "reactivex", "rich", "socket", "ssl", "subprocess", "tomllib", "torch", "typing", "urllib",
    "yaml",
}  # fmt: skip
LISTENS = """
    def instrument_listen(ov):
        yield ov.phases.init
        ov.listen(lambda event: None, "loss")
    """


def imported(place: Place, *command: str) -> set[str]:
    """The modules that a command imports; those that code asks for by name, the script shows."""
    done = place.run(sys.executable, "-X", "importtime", *command)
    assert done.status == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {*done.stdout.split(), *(line.rpartition("|")[2].strip() for line in lines)}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("empty.py", "import sys\nprint(*sys.modules)\n")
    return place


def test_an_empty_script_starts_with_few_modules(place: Place) -> None:
    names = imported(place, "-m", "voir", "empty.py")
    ours = {name for name in names if name.partition(".")[0] in OURS}
    assert "overseer.recorder" in ours
    assert len(ours) <= MOST, sorted(ours)
    assert not [name for name in ours if name.startswith(("overseer.trace", "overseer.views.dash"))]
    assert names & HEAVY == set()


def test_the_package_and_a_voirfile_that_only_listens_import_nothing_heavy(place: Place) -> None:
    names = imported(place, "-c", "import overseer, voir")
    assert names & HEAVY == set()
    place.write("voirfile.py", LISTENS)
    names = imported(place, "-m", "voir", "empty.py")
    assert names & HEAVY == set()
    place.write("voirfile.py", "import tomllib\n")  # It is seen.
    assert "tomllib" in imported(place, "-m", "voir", "empty.py") & HEAVY
