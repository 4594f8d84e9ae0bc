"""Programs that no hook sees, measured by voirfiles alone, by sets of lines in several orders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.forking import PATIENCE
from tests.programs.told.matrix import cases

ROOT = Path(__file__).parents[2]
#: Cases by the program and what the lines tell; the orders of the lines are tried together.
SETS = sorted({name.partition(" #")[0] for name in cases()})


@cache
def found() -> dict[str, list[str]]:
    """What differs, by case; the recorder in Python takes its time from the programs."""
    command = [sys.executable, "-m", "tests.programs.told.matrix"]
    env = {**os.environ, "VOIR_RECORDER": "python"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=5 * PATIENCE)
    assert done.returncode == 0, done.stderr.decode()
    differences: dict[str, list[str]] = json.loads(done.stdout)
    return differences


@pytest.mark.parametrize("name", SETS)
def test_figures_are_those_of_the_program_whatever_the_order_of_the_lines(name: str) -> None:
    orders = {case: wrong for case, wrong in found().items() if case.partition(" #")[0] == name}
    assert orders
    assert not any(orders.values()), orders
