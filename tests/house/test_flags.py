"""The list of flags is a promise to scripts and to people: it changes on purpose only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.running import Place

GOLDEN = Path(__file__).with_name("flags.txt")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_flags_are_those_of_the_list(place: Place) -> None:
    shown = place.voir("--help-all", env={"COLUMNS": "200"})
    assert shown.status == 0, shown.stderr
    assert shown.stderr == ""
    flags = [line for line in shown.stdout.splitlines() if re.match(r"  -", line)]
    found = [re.split(r"  +", line.strip())[0] for line in flags]
    assert sorted(found) == GOLDEN.read_text().splitlines(), f"if it is meant, change {GOLDEN}"


def test_the_short_help_fits_on_a_screen(place: Place) -> None:
    shown = place.voir("--help").stdout.splitlines()
    assert len(shown) < 60
    topics = [line for line in shown if re.match(r"\w+:$", line)]
    assert topics == ["run:", "look:", "measure:", "trace:", "check:"]


def test_every_flag_says_what_it_does(place: Place) -> None:
    shown = place.voir("--help-all", env={"COLUMNS": "200"}).stdout
    for line in GOLDEN.read_text().splitlines():
        assert re.search(rf"^  {re.escape(line)}\s+\w", shown, re.MULTILINE), line
