"""What a run does not use, it does not import: start-up is a budget."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running import PYTHON, VOIR, Place

HEAVY = {
    "rich", "reactivex", "giving", "ptera", "codefind", "torch", "numpy", "psutil", "yaml",
    "asyncio", "email", "http", "ssl", "logging", "tomllib", "subprocess", "hashlib",
    "importlib.metadata", "dataclasses", "inspect", "pathlib", "socket", "json", "urllib",
}  # fmt: skip
SHOW = "import sys\nprint(*sorted(sys.modules), sep='\\n')\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("show.py", SHOW)
    return place


def brought_in(place: Place, *command: str) -> list[str]:
    """The heavy modules that a command imports beyond what a bare interpreter has."""
    plain = place.python("show.py")
    under = place.run(*command)
    assert under.status == 0, under.stderr
    new = set(under.stdout.split()) - set(plain.stdout.split())
    assert "overseer" in new
    return sorted(new & HEAVY)


def test_importing_the_engine_imports_nothing_heavy(place: Place) -> None:
    place.write("engine.py", "import overseer, voir\n" + SHOW)
    assert brought_in(place, *PYTHON, "engine.py") == []


def test_running_an_empty_script_imports_nothing_heavy(place: Place) -> None:
    assert brought_in(place, *VOIR, "show.py") == []


def test_a_voirfile_that_only_listens_imports_nothing_heavy(place: Place) -> None:
    place.write(
        "voirfile.py",
        """
        def instrument_listen(ov):
            yield ov.phases.init
            ov.listen(lambda event: None, "loss")
        """,
    )
    assert brought_in(place, *VOIR, "show.py") == []


def test_the_test_sees_what_is_imported(place: Place) -> None:
    place.write("voirfile.py", "import rich\n")
    assert "rich" in brought_in(place, *VOIR, "show.py")
