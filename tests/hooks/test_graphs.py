"""What torch compiles, exports and traces is the same under voir: graphs, breaks, warnings."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from tests.forking import PATIENCE
from tests.running import environment

SCRIPT = Path(__file__).with_name("graphs.py")
VOIR = [sys.executable, "-m", "voir", "--quiet"]
#: Probes in what is compiled, in what learns and in what is only called.
PROBES = """
def instrument_probes(ov):
    yield ov.phases.load_script
    for selector in ("//a_function > #exit as left", "//epoch > total", "//body > i", "//loss > x",
                     "//a_training_step > loss", "//f > loss", "//found > result"):
        ov.probe(selector).subscribe(lambda event: None)
"""
#: By name: what stands before the script.
WAYS = {
    "python": [sys.executable],
    "plain": [*VOIR, "--no-record", "--no-voirfile"],
    "all on": [*VOIR, "--run-dir", "run", "--dash", "--trace", "--trace-level", "module"],
}


@cache
def started(way: str, place: str) -> subprocess.Popen[str]:
    env = environment(None)
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*WAYS[way], str(SCRIPT)], cwd=place, env=env, **pipes)


@cache
def said(way: str, place: str) -> dict[str, Any]:
    """By program, what Dynamo made of it."""
    process = started(way, place)
    printed, errors = process.communicate(timeout=5 * PATIENCE)
    assert process.returncode == 0, errors
    return {one["name"]: one for one in map(json.loads, printed.splitlines())}


@pytest.mark.slow  # It compiles the same programs twice, for a minute.
@pytest.mark.parametrize("way", ["all on", "plain"])
def test_graphs_are_the_same_under_voir(way: str, tmp_path: Path) -> None:
    (tmp_path / "voirfile.py").write_text(PROBES)
    started(way, str(tmp_path))  # Both at once.
    plain = said("python", str(tmp_path))
    assert len(plain) > 30
    assert sum(one["graphs"] for one in plain.values()) > 20
    for name, one in said(way, str(tmp_path)).items():
        assert one == plain[name]
