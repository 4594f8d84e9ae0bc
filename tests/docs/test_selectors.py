"""Every selector that the documentation explains fires on the script it is explained by."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from .blocks import ROOT, blocks
from .shown import FIXTURES, ShownPlace

ROW = re.compile(r"^\| `(//?[^`]*)` \|", re.MULTILINE)
#: A module that the guide's table names.
PACKAGE = {
    "pkg/__init__.py": "",
    "pkg/train.py": """
        class Trainer:
            def step(self):
                loss = 1.0

        def train_epoch():
            loss = 2.0
    """,
}
SLOW = "## The slow path"
USES_JSON = "import json\njson.loads('[]')\n"


def selectors(page: str, slow: bool = False) -> list[str]:
    """The first column of the page's tables, where it is a selector; the slow path's apart."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return ROW.findall(text.partition(SLOW)[2 if slow else 0])


def states(place: ShownPlace, selectors: list[str]) -> dict[str, str]:
    """What became of each selector's probe in a run of ``main.py``."""
    lines = [f"ov.probe({one!r}).subscribe(lambda event: None)" for one in selectors]
    body = ["yield ov.phases.load_script", "ov.log({'x': 1})", *lines]
    place.write("voirfile.py", "\n    ".join(["def instrument_all(ov):", *body]))
    done = place.voir("main.py")
    assert done.status == 0, done.stderr
    return {probe["selector"]: probe["state"] for probe in place.record()["probes"]}


NO_PTERA = pytest.mark.skipif(sys.version_info >= (3, 14), reason="it does not run on 3.14")


@pytest.mark.parametrize(
    ("slow", "least"), [(False, 16), pytest.param(True, 3, marks=NO_PTERA, id="ptera's engine")]
)
def test_the_selectors_of_the_page_fire_on_its_script(
    tmp_path: Path, slow: bool, least: int
) -> None:
    place = ShownPlace(tmp_path)
    script = next(b for b in blocks("python", ROOT / "docs/selectors.md"))
    assert place.put(script) == "main.py"
    place.write("main.py", script.text + USES_JSON)  # One selector names that module.
    wanted = selectors("docs/selectors.md", slow)
    assert len(wanted) >= least
    assert states(place, wanted) == dict.fromkeys(wanted, "fired")


def test_the_selectors_of_the_guide_fire_on_a_script_like_its_own(tmp_path: Path) -> None:
    place = ShownPlace(tmp_path)
    for name, text in PACKAGE.items():
        place.write(name, text)
    uses = "import pkg.train\npkg.train.train_epoch()\npkg.train.Trainer().step()\n"
    place.write("main.py", uses + (FIXTURES / "main.py").read_text())
    wanted = selectors("docs/guide.md")
    assert len(wanted) >= 6
    assert states(place, wanted) == dict.fromkeys(wanted, "fired")
