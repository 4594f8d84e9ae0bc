"""Programs that hooks do not see: the lines of a voirfile give the same figures in any order."""

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
#: Orders tried of each set of lines: each begins with another line. The slow test tries more.
ORDERS = 2
#: Cases by program and set of lines; the orders of the lines are one case.
SETS = sorted({name.partition(" #")[0] for name in cases(ORDERS)})


@cache
def found(orders: int) -> dict[str, list[str]]:
    """The differences, by case; the recorder in Python reads the programs' own clock."""
    command = [sys.executable, "-m", "tests.programs.told.matrix", str(orders)]
    env = {**os.environ, "VOIR_RECORDER": "python"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=5 * PATIENCE)
    assert done.returncode == 0, done.stderr.decode()
    differences: dict[str, list[str]] = json.loads(done.stdout)
    return differences


@pytest.mark.parametrize("name", SETS)
def test_figures_are_those_of_the_program_in_any_order_of_the_lines(name: str) -> None:
    differing = {case: w for case, w in found(ORDERS).items() if case.partition(" #")[0] == name}
    assert differing
    assert not any(differing.values()), differing


@pytest.mark.slow
def test_figures_are_those_of_the_program_in_more_orders_of_the_lines() -> None:
    differing = found(12)
    assert len(differing) > 2 * len(found(ORDERS))
    assert not any(differing.values()), {case: wrong for case, wrong in differing.items() if wrong}
