"""Workers of Ray Train record beside the run that starts their cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from overseer.rundir.reading import read_run
from tests.running import Place

from .test_children import members

#: What is used of Ray: a node that starts workers, and what runs a training function in them.
NODE = """
import os, subprocess, sys, types
class Node:
    def __init__(self, starts):
        self._ray_params = types.SimpleNamespace(env_vars=None)
        self.all_processes = {}
        if starts: self.start_raylet()
        self.check_version_info()
    def check_version_info(self): pass
    def start_raylet(self):
        self.all_processes["raylet"] = []
        worker = os.path.join(os.path.dirname(__file__), "worker.py")
        for rank in "0", "1", "":
            env = {**os.environ, **(self._ray_params.env_vars or {})}
            subprocess.run([sys.executable, worker, rank], env=env, cwd="/")
"""
WORKER = """
import importlib, os, sys
for name in os.environ.get("RAY_preload_python_modules", "").split(","):
    if name: importlib.import_module(name)
import torch
def train():
    import voir
    voir.log(x=int(sys.argv[1]))
    print([f"{k}={v}" for k, v in os.environ.items() if "VOIR" in k or "preload" in k])
    if sys.argv[1] == "1": raise ValueError("at the end")
if sys.argv[1]:
    from ray.train.v2._internal.execution.worker_group.thread_runner import ThreadRunner
    runner = ThreadRunner()
    os.environ.update(RANK=sys.argv[1], WORLD_SIZE="2", MASTER_ADDR="::1")
    runner.run(train)
    runner.get_return_value()
sys.stdout.flush()
os._exit(0)
"""
RUNNER = """
class UserError(Exception): pass
class ThreadRunner:
    def __init__(self): self._exc = None
    def run(self, target):
        try:
            target()
        except BaseException as error:
            self._exc = UserError()
            self._exc._base_exc = error
            print(type(error))
    def get_error(self): return self._exc
    def get_return_value(self): pass
"""
MAIN = """
import os, sys
import ray.train
from ray._private.node import Node
for port in 1, 2:
    os.environ["MASTER_PORT"] = str(port)
    Node(starts=sys.argv[1] == "starts")
"""
SAID = """preloaded
['RAY_preload_python_modules=other']
preloaded
['RAY_preload_python_modules=other']
<class 'ValueError'>
preloaded
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A directory with stand-ins for PyTorch and Ray, and a module that the user preloads."""
    made = Place(tmp_path)
    group = "ray/train/v2/_internal/execution/worker_group/thread_runner.py"
    files = {
        "torch.py": "",
        "other.py": "print('preloaded')",
        "ray/_private/node.py": NODE,
        "ray/_private/worker.py": WORKER,
        group: RUNNER,
        "main.py": MAIN,
    }
    for name, text in files.items():
        made.write(name, text)
        for above in Path(name).parents[:-1]:
            (tmp_path / above / "__init__.py").touch()
    return made


def test_each_worker_that_trains_is_a_rank_of_the_run(place: Place) -> None:
    env = {"RAY_preload_python_modules": "other", "PYTHONPATH": str(place.path)}
    quiet = ("--quiet", "--no-monitor", "--follow-children")
    done = place.voir(*quiet, "--run-dir", "here", "main.py", "starts", env=env, fresh=True)
    assert (done.seen, done.stderr) == ((0, SAID * 2), "")
    found = members(place.path / "here")
    assert [*found] == [".", "attempt2/rank0", "attempt2/rank1", "rank0", "rank1"]
    for name, status, error in ("rank0", 0, None), ("rank1", 1, "ValueError: at the end"):
        assert (found[name]["exit_status"], found[name].get("error")) == (status, error)
    assert found["attempt2/rank1"]["attempt"] == 2
    run = read_run(place.path / "here")
    assert [one.path.parent.name for one in run.ranks] == ["attempt2"] * 2
    assert [one.path.name for one in run.attempts] == ["here"]
    assert found["rank0"]["script"] == found["."]["script"]


def test_workers_of_a_cluster_that_runs_already_are_missed(place: Place) -> None:
    done = place.voir("--quiet", "main.py", "connects")
    assert done.seen == (0, "")
    assert done.stderr.count("voir:") == 1
    assert "Ray Train are not recorded: their cluster runs already" in done.stderr
