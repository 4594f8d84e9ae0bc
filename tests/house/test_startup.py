"""What starts with an empty script: few modules of ours, and none that are heavy."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.running import Place

OURS = ("overseer", "instruments", "voir")
#: Each costs some 0.2 ms. Those that a plain run does not need are imported where they are used.
MOST = 75
HEAVY = {"typing", "ast", "inspect", "dataclasses", "pathlib", "json", "logging", "subprocess"}


def test_an_empty_script_starts_with_few_modules(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("empty.py", "")
    done = place.run(sys.executable, "-X", "importtime", "-m", "voir", "empty.py")
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    names = {line.rpartition("|")[2].strip() for line in lines}
    ours = {name for name in names if name.partition(".")[0] in OURS}
    assert "overseer.recorder" in ours
    assert len(ours) <= MOST, sorted(ours)
    assert names.isdisjoint(HEAVY)
    assert names.isdisjoint({"torch", "rich", "psutil", "giving", "ptera", "numpy"})
