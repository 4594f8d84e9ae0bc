"""Options that switch a part of voir off leave all other figures unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from tests.forking import PATIENCE
from tests.programs.told.parts import TEN

ROOT = Path(__file__).parents[2]
OPTIONS = ["--no-auto", "--no-monitor", "--no-record", "--quiet"]
#: By name: the environment, and arguments before the sets of options.
WAYS: dict[str, tuple[dict[str, str], list[str]]] = {
    "as installed": ({}, []),
    "the recorder in Python": ({"VOIR_RECORDER": "python"}, []),
    "an uncompiled fold": ({}, ["--uncompiled"]),
    "nothing compiled": ({"VOIR_RECORDER": "python"}, ["--uncompiled"]),
}
Figures = dict[str, dict[str, Any]]


def said(way: str, *options: str) -> Figures:
    """Figures of the ten programs, by set of options."""
    env, before = WAYS[way]
    command = [sys.executable, "-m", "tests.programs.told.parts", *before, *options]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("VOIR")}
    done = subprocess.run(
        command, cwd=ROOT, env={**kept, **env}, capture_output=True, timeout=10 * PATIENCE
    )
    assert done.returncode == 0, done.stderr.decode()
    found: Figures = json.loads(done.stdout)
    return found


@cache
def alone() -> Figures:
    """Figures with one option each, and with none."""
    return said("as installed", "-", "--no-voirfile", "--bare", *OPTIONS)


@pytest.mark.parametrize("name", TEN)
def test_figures_are_the_same_without_a_part(name: str) -> None:
    found = alone()
    assert found["-"][name]["tasks"]["train"]["steps"] > 5
    for option in OPTIONS:
        assert found[option][name] == found["-"][name], option
    assert found["--no-voirfile"][name] == found["--bare"][name]


@pytest.mark.parametrize(
    "way",
    ["nothing compiled", *(pytest.param(w, marks=pytest.mark.slow) for w in list(WAYS)[1:3])],
)
def test_figures_are_the_same_without_compiled_code(way: str) -> None:
    assert said(way, "-")["-"] == alone()["-"]
