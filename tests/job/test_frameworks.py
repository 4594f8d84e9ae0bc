"""Launchers and engines of frameworks are recorded as they start their processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.recorded import ROOT, python  # noqa: F401
from tests.running import Place

from .test_children import members

LIGHTNING = """
import torch, lightning
from torch.utils.data import DataLoader, TensorDataset
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, index): return self.layer(batch[0]).pow(2).mean()
    def configure_optimizers(self): return torch.optim.SGD(self.parameters(), 0.01)
data = DataLoader(TensorDataset(torch.randn(640, 8)), batch_size=16)
trainer = lightning.Trainer(
    accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False,
    enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(Model(), data)
"""
RAY = """
import os, ray, ray.train, torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
def train():
    model = prepare_model(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(16, 8)).pow(2).mean().backward()
        optimizer.step()
    print("trained", [name for name in os.environ if "VOIR" in name or "preload" in name])
if __name__ == "__main__":
    ray.init(include_dashboard=False, num_cpus=2)
    where = RunConfig(storage_path=os.path.abspath("results"))
    TorchTrainer(train, scaling_config=ScalingConfig(num_workers=2), run_config=where).fit()
    print("fitted")
"""
ACCELERATE = """
import torch
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(8, 1)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.01))
for _ in range(10):
    optimizer.zero_grad()
    accelerator.backward(model(torch.randn(16, 8)).pow(2).mean())
    optimizer.step()
"""


@pytest.mark.slow
def test_each_rank_of_lightnings_ddp_is_recorded(python: Path, tmp_path: Path) -> None:  # noqa: F811
    place = Place(tmp_path)
    place.write("main.py", LIGHTNING)
    done = place.run(str(python), "-m", "voir", "main.py", env={"PYTHONPATH": str(ROOT)})
    assert done.status == 0, done.stderr
    (run,) = place.runs
    found = members(run)
    assert {name: facts["rank"] for name, facts in found.items()} == {".": 0, "rank1": 1}
    trained = [facts["tasks"]["train"] for facts in found.values()]
    assert [(one["steps"], one["items"]) for one in trained] == [(20, 320)] * 2


@pytest.mark.slow
@pytest.mark.parametrize(("stop", "steps"), [([], 20), (["--stop=10"], 10)])
def test_each_worker_of_ray_train_is_a_rank(
    python: Path,  # noqa: F811
    tmp_path: Path,
    stop: list[str],
    steps: int,
) -> None:
    place = Place(tmp_path)
    place.write("main.py", RAY)
    env = {"PYTHONPATH": str(ROOT), "RAY_DEDUP_LOGS": "0", "RAY_AUTH_MODE": "disabled"}
    command = [str(python), "-m", "voir", *stop, "main.py"]
    done = place.run(*command, env=env, timeout=300)
    assert (done.status, done.stdout.count("fitted\n")) == (0, 1), done.stderr
    assert done.stdout.count("trained []") == (0 if stop else 2)
    assert done.stderr.count("voir:") == 1 and "main.py · 2 ranks · " in done.stderr
    (run,) = place.runs
    found = members(run)
    assert [*found] == [".", "rank0", "rank1"]
    for rank in range(2):
        facts = found[f"rank{rank}"]
        assert (facts["rank"], facts["tasks"]["train"]["steps"]) == (rank, steps)
        assert (facts["exit_status"], facts.get("ended_by")) == (0, None)


@pytest.mark.slow
def test_accelerates_launcher_hands_voir_on(python: Path, tmp_path: Path) -> None:  # noqa: F811
    place = Place(tmp_path)
    place.write("main.py", ACCELERATE)
    launch = ["-m", "accelerate.commands.launch", "--cpu", "--num_processes=1", "--num_machines=1"]
    options = ["--mixed_precision=no", "--dynamo_backend=no"]
    command = [str(python), "-m", "voir", *launch, *options, "main.py"]
    done = place.run(*command, env={"PYTHONPATH": str(ROOT)})
    assert done.status == 0, done.stderr
    facts = place.record()
    assert facts["script"].endswith("main.py") and facts["tasks"]["train"]["steps"] == 10
