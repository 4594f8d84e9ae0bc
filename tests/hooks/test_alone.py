"""Programs that need a process of their own: what is compiled, and what is imported late."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from tests.model.test_logs import compare
from tests.running import Place, environment

ROOT = Path(__file__).parents[2]
NAMES = ("compiled", "compiled_steps")
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


@pytest.mark.slow
def test_what_is_compiled_in_one_graph_stays_so_and_is_not_compiled_again(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.programs.record", "--into", str(tmp_path), *NAMES]
    env = environment({"PYTHONPATH": str(ROOT)})
    subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=True, timeout=120)
    for name in NAMES:
        compare(tmp_path / f"{name}.log.gz")


def test_nothing_of_voirs_is_imported_while_steps_are_made(tmp_path: Path) -> None:
    """An import makes objects, and may set off a garbage collection in a step."""
    place = Place(tmp_path)
    place.write("main.py", LATE)
    assert place.voir("main.py", fresh=True).seen == (0, "[]\n")
