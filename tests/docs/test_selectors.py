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


def selectors(page: str) -> list[str]:
    """The first column of the page's tables, where it is a selector; the slow path's apart."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return ROW.findall(text.partition(SLOW)[0])


def slow_selectors() -> list[str]:
    """The selectors that go to ptera's own engine."""
    return ROW.findall((ROOT / "docs/selectors.md").read_text(encoding="utf-8").partition(SLOW)[2])


def voirfile(selectors: list[str]) -> str:
    """A voirfile that sets a probe for each selector."""
    lines = [f"ov.probe({one!r}).subscribe(lambda event: None)" for one in selectors]
    body = ["yield ov.phases.load_script", "ov.log({'x': 1})", *lines]
    return "\n    ".join(["def instrument_all(ov):", *body])


def states(place: ShownPlace, selectors: list[str]) -> dict[str, str]:
    """What became of each selector's probe in a run of ``main.py``."""
    place.write("voirfile.py", voirfile(selectors))
    done = place.voir("main.py")
    assert done.status == 0, done.stderr
    return {probe["selector"]: probe["state"] for probe in place.record()["probes"]}


def put_script(place: ShownPlace) -> None:
    """Write the script of the page, which also uses the module that one selector names."""
    script = next(b for b in blocks("python", ROOT / "docs/selectors.md"))
    assert place.put(script) == "main.py"
    place.write("main.py", script.text + USES_JSON)


def test_the_selectors_of_the_page_fire_on_its_script(tmp_path: Path) -> None:
    place = ShownPlace(tmp_path)
    put_script(place)
    wanted = selectors("docs/selectors.md")
    assert len(wanted) > 15
    assert states(place, wanted) == dict.fromkeys(wanted, "fired")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="ptera's engine does not run on 3.14")
def test_the_selectors_of_the_slow_path_fire_too(tmp_path: Path) -> None:
    place = ShownPlace(tmp_path)
    put_script(place)
    wanted = slow_selectors()
    assert len(wanted) >= 3
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
