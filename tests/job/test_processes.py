"""Processes of multiprocessing record beside the run that starts them, and end as without voir."""

from __future__ import annotations

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from overseer.launch.processes import LOADER, is_loader
from tests.running import Place

from .test_children import members

METHODS = ["fork", "spawn", "forkserver"]
ENDS = """
import multiprocessing, os, signal, sys
def work(n):
    import torch
    import voir
    voir.log(x=n)
    print("child", n, [name for name in os.environ if "VOIR" in name], flush=True)
    if n == 1: sys.exit(7)
    if n == 2: 1 / 0
    if n == 3: os.kill(os.getpid(), signal.SIGTERM)
    if n == 4: os._exit(5)
def nothing(n):
    import torch
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    for n in range(5):
        child = context.Process(target=work, args=(n,), name=f"Child-{n}")
        child.start(); child.join(); print(child.exitcode, flush=True)
    with context.Pool(2) as pool:
        print(pool.map(abs, range(5)), pool.map(nothing, range(2)))
    try:
        context.Process(target=lambda: 1).start()
    except Exception:
        import traceback
        print(traceback.format_exc(), file=sys.stderr)
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A directory with a stand-in for PyTorch, whose import begins the run of a process."""
    made = Place(tmp_path)
    made.write("torch.py", "")
    return made


def plain(text: str) -> str:
    return re.sub("0x[0-9a-f]+", "...", text)


@pytest.mark.parametrize("method", METHODS)
def test_each_process_ends_as_without_voir_and_is_recorded(place: Place, method: str) -> None:
    place.write("main.py", ENDS)
    quiet = ["-m", "voir", "--quiet", "--no-monitor", "--no-voirfile"]
    alone = place.run(sys.executable, "main.py", method)
    under = place.run(sys.executable, *quiet, "main.py", method)
    assert (under.seen, plain(under.stderr)) == (alone.seen, plain(alone.stderr))
    (run,) = place.runs
    found = members(run)
    assert [*found] == [".", *(f"process{n}" for n in range(1, 5))]
    assert [found[f"process{n}"]["exit_status"] for n in range(1, 5)] == [0, 7, 1, -15]
    assert found["process3"]["error"] == "ZeroDivisionError: division by zero"
    assert found["process1"]["script"] == found["."]["script"]


TREE = """
import multiprocessing, os, sys
def work(rank):
    import torch, voir
    os.environ.update(RANK=str(rank), WORLD_SIZE="2")
    voir.log(x=rank)
    if rank == 1:
        child = context.Process(target=inner)
        child.start(); child.join(); print(child.exitcode)
def inner():
    import torch, voir
    voir.log(x=2)
context = multiprocessing.get_context(sys.argv[1])
if __name__ == "__main__":
    for rank in 0, 1, 1:
        child = context.Process(target=work, args=(rank,))
        child.start(); child.join(); print(child.exitcode)
"""


def test_processes_of_processes_join_the_same_run(place: Place) -> None:
    place.write("main.py", TREE)
    env = {"VOIR_RECORDER": "python"}
    done = place.voir("--quiet", "--run-dir", "here", "main.py", "spawn", env=env)
    assert (done.seen, done.stderr) == ((0, "0\n0\n0\n0\n0\n"), "")
    # Three have the rank, and the variables, of one that is recorded already.
    found = members(place.path / "here")
    assert [*found] == [".", "process1", "process2", "process3", "rank0", "rank1"]
    assert {found[f"process{n}"]["rank"] for n in (1, 2, 3)} == {1}


DDP = """
import os, socket, sys
import torch, torch.distributed as dist, torch.multiprocessing as mp
def train(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(10):
        optimizer.zero_grad(); model(torch.randn(16, 8)).sum().backward(); optimizer.step()
    del model, optimizer  # Their end may wait for that of the group.
    dist.barrier()
    dist.destroy_process_group()
    if rank: raise ValueError("at the end")
    import time; time.sleep(60)  # Until it is terminated.
if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as server: port = server.getsockname()[1]
    try:
        mp.start_processes(train, (port,), 2, start_method=sys.argv[1])
    except mp.ProcessRaisedException as error:
        print(error)
"""
WITH_TORCH = ["fork", *(pytest.param(each, marks=pytest.mark.slow) for each in METHODS[1:])]


@pytest.mark.parametrize("method", WITH_TORCH)
def test_each_rank_of_a_group_has_its_steps(tmp_path: Path, method: str) -> None:
    place = Place(tmp_path)
    place.write("main.py", DDP)
    done = place.voir("--no-voirfile", "main.py", method, warm=method == "fork")
    assert "ValueError: at the end" in done.stdout, done.stderr
    assert not {"overseer", "instruments"} & set(re.findall(r"\w+", done.stdout))
    (run,) = place.runs
    found = members(run)
    assert [*found] == [".", "rank0", "rank1"]
    for rank in range(2):
        facts = found[f"rank{rank}"]
        assert (facts["rank"], facts["world_size"]) == (rank, 2)
        assert facts["parallel"] == {"data": [rank, 2], "by": "DDP"}
        train = facts["tasks"]["train"]
        assert (train["steps"], train["items"]) == (10, 160)
        assert train["breakdown"].keys() >= {"forward", "backward", "optimizer"}
    assert found["rank1"]["error"] == "ValueError: at the end"
    assert [found[f"rank{rank}"]["exit_status"] for rank in range(2)] == [-15, 1]


STOPS = """
import multiprocessing
def work():
    import torch, voir
    for n in range(1000):
        voir.give(step=n, batch_size=1)
    print("not reached")
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=work)
    child.start(); child.join(); print(child.exitcode)
"""


def test_a_stop_ends_a_process_cleanly(place: Place) -> None:
    place.write("main.py", STOPS)
    done = place.voir("--stop", "3", "--run-dir", "here", "--quiet", "main.py")
    assert (done.seen, done.stderr) == ((0, "0\n"), "")
    found = members(place.path / "here")
    assert found["process1"]["stopped_early"] == "after 3 steps"
    assert found["process1"]["tasks"]["train"]["steps"] == 3


def test_nothing_is_left_of_processes_that_record_nothing(place: Place) -> None:
    place.write("main.py", ENDS.replace("    voir.log(x=n)\n", ""))
    assert place.voir("--no-monitor", "main.py", "fork").status == 0
    assert place.runs == []


def test_a_worker_of_a_loader_is_left_alone() -> None:
    class Worker:
        _target = staticmethod(lambda: None)

    assert not is_loader(Worker()) and not is_loader(None)
    Worker._target.__module__ = LOADER
    assert is_loader(Worker())
    torch = find_spec("torch")
    assert torch is not None and torch.origin is not None
    file = Path(torch.origin).parents[1] / f"{LOADER.replace('.', '/')}.py"
    assert "def _worker_loop(" in file.read_text()


LONG = """
import multiprocessing
import torch
def work(factor):
    torch.set_num_threads(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(20_000):
        optimizer.zero_grad()
        (factor * model(torch.ones(2, 4)).square().mean()).backward()
        optimizer.step()
if __name__ == "__main__":
    for factor in (1.0, float("inf")):
        child = multiprocessing.get_context("fork").Process(target=work, args=(factor,))
        child.start(); child.join(); print(child.exitcode)
"""


def test_processes_end_after_as_many_steps_as_a_script_and_check_what_they_recorded(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    place = Place(tmp_path)
    place.write("main.py", LONG)
    options = "--no-voirfile", "--verify", "--verify-json", "checks.json"
    done = place.voir(*options, "main.py", warm=True)
    assert done.seen == (3, "0\n0\n"), done.stderr
    (run,) = place.runs
    found = members(run)
    assert [found[f"process{n}"]["tasks"]["train"]["steps"] for n in (1, 2)] == [200, 200]
    checks = json.loads((tmp_path / "checks.json").read_text())["verify"]
    told = {one["check"]: (one["verdict"], one.get("rank")) for one in checks}
    assert told["steps"] == ("PASS", 1) and told["loss"] == ("FAIL", 2)
    assert not any("ov.probe" in one.get("hint", "") for one in checks), "none reaches a process"
    assert "checks of process 1" in done.stderr
    assert "FAIL  loss          process 2: " in done.stderr, done.stderr
