"""Programs are recorded anew, and those of frameworks: each tells the same as its log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from overseer.model.events import PART_OPTIMIZER
from overseer.model.fold import TRAIN
from tests.model.test_logs import compare, folded
from tests.programs.record import HERE, programs
from tests.running import Place

ROOT = HERE.parents[1]
#: Within their major versions: what is tested is that voir keeps up with them.
FRAMEWORKS = [
    "accelerate>=1.15,<2", "keras>=3.15,<4", "lightning>=2.6,<3", "ray[train]>=2.60,<3",
    "transformers>=5.23,<6",
]  # fmt: skip


def record(python: str | Path, into: Path, *names: str) -> None:
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("VOIR", "PYTEST"))}
    done = subprocess.run(
        [python, "-m", "tests.programs.record", "--into", into, *names],
        cwd=ROOT,
        env={**environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_programs_recorded_anew_have_the_same_figures(tmp_path: Path) -> None:
    record(sys.executable, tmp_path)
    found = sorted(tmp_path.glob("*.log.gz"))
    assert len(found) == len(programs())
    for path in found:
        compare(path)


@pytest.fixture(scope="module")
def python() -> Path:
    """The python of an environment in the tree with the frameworks, which shares this one's torch.

    It is made once, and again when what is to be in it changes.
    """
    home = ROOT / ".venv-frameworks"
    stamp, wanted = home / "installed", " ".join([*FRAMEWORKS, sys.version])
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True, timeout=120)
        ours = sysconfig.get_paths()["purelib"]
        (home / Path(ours).relative_to(sys.prefix) / "shared.pth").write_text(ours)
        pip = [home / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        done = subprocess.run([*pip, *FRAMEWORKS], capture_output=True, timeout=400)
        if done.returncode:
            pytest.skip(f"the frameworks cannot be installed: {done.stderr[-300:]!r}")
        stamp.write_text(wanted)
    return home / "bin/python"


@pytest.mark.parametrize("framework", ["accelerate", "keras", "lightning", "transformers"])
def test_figures_of_frameworks_are_the_true_ones(
    framework: str, python: Path, tmp_path: Path
) -> None:
    record(python, tmp_path, f"frameworks/with_{framework}")
    log = tmp_path / f"with_{framework}.log.gz"
    compare(log)
    steps = [step for step in folded(log)[2] if step.task == TRAIN]
    assert all(step.parts[PART_OPTIMIZER] > 0 for step in steps)


TIMED = """
import json, time
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def collate(samples):
    time.sleep(0.008)
    return torch.stack([sample[0] for sample in samples])


loader = DataLoader(TensorDataset(torch.randn(800, 4)), batch_size=8, collate_fn=collate)
model(torch.randn(8, 4)).mean().backward()
optimizer.step()
optimizer.zero_grad()
begun, waited, asked = time.perf_counter(), 0.0, time.perf_counter()
for inp in loader:
    waited += time.perf_counter() - asked
    time.sleep(0.012)
    model(inp).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    asked = time.perf_counter()
took = asked - begun
print(json.dumps({"rate": 800 / took, "loading": waited / took}))
"""


def test_rates_and_shares_are_those_of_the_program(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", TIMED)
    done = place.voir("--quiet", "main.py")
    true, task = json.loads(done.stdout), place.record()["tasks"]["train"]
    assert task["rate"]["median"] == pytest.approx(true["rate"], rel=0.02)
    assert task["loading"]["share"] == pytest.approx(true["loading"], abs=0.03)
