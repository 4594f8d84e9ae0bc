"""Programs that need a process of their own: what is compiled, and what is imported late."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from tests.model.test_logs import compare

ROOT = Path(__file__).parents[2]
LATE = """
import sys
import time

import torch

torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
before = set(sys.modules)
for _ in range(400):
    optimizer.zero_grad()
    model(torch.ones(8, 4)).pow(2).mean().backward()
    optimizer.step()
    time.sleep(0.003)
new = {name for name in set(sys.modules) - before if name.startswith(("overseer", "instruments"))}
print(sorted(new))
"""


def python(*arguments: str, cwd: Path = ROOT) -> str:
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("VOIR", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_what_is_compiled_in_one_graph_stays_so_and_is_not_compiled_again(tmp_path: Path) -> None:
    python("-m", "tests.programs.record", "--into", str(tmp_path), "compiled", "compiled_steps")
    for name in ("compiled", "compiled_steps"):
        compare(tmp_path / f"{name}.log.gz")


def test_nothing_of_voirs_is_imported_while_steps_are_made(tmp_path: Path) -> None:
    """An import makes objects, and may set off a garbage collection in a step."""
    (tmp_path / "main.py").write_text(LATE)
    assert python("-m", "voir", "main.py", cwd=tmp_path) == "[]\n"
