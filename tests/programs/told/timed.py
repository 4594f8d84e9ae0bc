"""What is left to ``./dev test-all``: programs in real time, and options in pairs."""

from __future__ import annotations

import contextlib
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from tests.instruments.test_parts import OPTIONS, WAYS, alone, said

from .matrix import Said, sets
from .programs import PROGRAMS
from .truth import T


def in_real_time(name: str, directory: str) -> tuple[list[Any], list[Any]]:
    """What is said of a program, and what is true: steps, items, seconds loading and working."""
    program = PROGRAMS[name]
    told = dict(sets(program))
    lines = told.get("mark0+pair0") or next(iter(told.values()))
    script = Path(directory) / "main.py"
    script.write_text(program.script)
    T.real = True
    with contextlib.chdir(directory):
        steps = Said(script, lines).steps["train"]
    true = T.tasks["train"]["steps"]
    later = [s for s, one in zip(steps, true, strict=False) if not one["first"]]
    known = [one for one in true if not one["first"]]
    found = [len(steps), [s.items for s in steps], sum(sum(s.parts) for s in later) / 1e6]
    found.append(sum(s.parts[0] for s in later) / 1e6 if any(s.loaded for s in steps) else None)
    real = [len(true), [one["items"] for one in true]]
    real.append(sum(one["load"] + one["work"] for one in known))
    real.append(sum(one["load"] for one in known))
    return found, real


@pytest.mark.parametrize("name", PROGRAMS)
def test_figures_are_those_of_the_program_in_real_time(name: str, tmp_path: Path) -> None:
    with get_context("fork").Pool(1) as process:
        found, true = process.apply(in_real_time, (name, str(tmp_path)))
    assert found[0] == true[0]
    assert all(a == b or a != a for a, b in zip(found[1], true[1], strict=True))
    assert found[2] == pytest.approx(true[2], rel=0.25)
    assert found[3] is None or found[3] == pytest.approx(true[3], rel=0.25, abs=5)


@pytest.mark.parametrize("way", WAYS)
def test_figures_are_the_same_without_two_parts(way: str) -> None:
    pairs = [",".join(pair) for pair in combinations(OPTIONS, 2)]
    for options, figures in said(way, *OPTIONS, *pairs).items():
        assert figures == alone()["-"], options
