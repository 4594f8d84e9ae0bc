"""The list of flags is a promise to users: it changes on purpose only."""

from __future__ import annotations

import re
from pathlib import Path

from tests.running import Place

GOLDEN = Path(__file__).with_name("flags.txt")


def test_the_flags_are_those_of_the_list_and_each_has_a_help_text(tmp_path: Path) -> None:
    shown = Place(tmp_path).voir("--help-all", env={"COLUMNS": "200"})
    assert (shown.status, shown.stderr) == (0, "")
    flags = [line for line in shown.stdout.splitlines() if re.match(r"  -", line)]
    found = [re.split(r"  +", line.strip())[0] for line in flags]
    assert sorted(found) == GOLDEN.read_text().splitlines(), f"if it is meant, change {GOLDEN}"
    for flag in found:
        assert re.search(rf"^  {re.escape(flag)}\s+\w", shown.stdout, re.MULTILINE), flag


def test_the_short_help_fits_on_a_screen(tmp_path: Path) -> None:
    shown = Place(tmp_path).voir("--help").stdout.splitlines()
    assert len(shown) < 60
    topics = [line for line in shown if re.match(r"\w+:$", line)]
    assert topics == ["run:", "view:", "measure:", "trace:", "check:"]
