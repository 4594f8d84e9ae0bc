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


NO_PTERA = pytest.mark.skipif(sys.version_info >= (3, 14), reason="ptera does not run on 3.14")
SCRIPT = blocks("python", ROOT / "docs/selectors.md")[0].text
OF_GUIDE = "import pkg.train\npkg.train.train_epoch()\npkg.train.Trainer().step()\n"
OF_GUIDE += (FIXTURES / "main.py").read_text()


@pytest.mark.parametrize(
    ("page", "slow", "least", "script"),
    [
        ("docs/selectors.md", False, 16, SCRIPT + USES_JSON),  # One selector names that module.
        pytest.param("docs/selectors.md", True, 3, SCRIPT, marks=NO_PTERA, id="ptera's engine"),
        ("docs/guide.md", False, 6, OF_GUIDE),
    ],
)
def test_the_selectors_of_the_page_fire_on_its_script(
    tmp_path: Path, page: str, slow: bool, least: int, script: str
) -> None:
    place = ShownPlace(tmp_path)
    for name, text in {**PACKAGE, "main.py": script}.items():
        place.write(name, text)
    wanted = selectors(page, slow)
    assert len(wanted) >= least
    lines = [f"ov.probe({one!r}).subscribe(lambda event: None)" for one in wanted]
    body = ["yield ov.phases.load_script", "ov.log({'x': 1})", *lines]
    place.write("voirfile.py", "\n    ".join(["def instrument_all(ov):", *body]))
    done = place.voir("main.py")
    assert done.status == 0, done.stderr
    states = {probe["selector"]: probe["state"] for probe in place.record()["probes"]}
    assert states == dict.fromkeys(wanted, "fired")
