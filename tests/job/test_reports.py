"""Jobs of DDP from public reports, on gloo: what voir says of them, against what they do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch.distributed.run", reason="torch comes with the extra [examples]")

from overseer.job.figures import job_facts
from overseer.rundir.reading import read_run
from tests.running import Place, environment

pytestmark = pytest.mark.slow

#: Seconds that a job may take on a busy machine.
PATIENCE = 240
HEAD = """
    import contextlib, os, sys, time
    import torch
    from torch import nn
    from torch.distributed import destroy_process_group, get_rank, init_process_group
    from torch.distributed.algorithms.join import Join
    from torch.distributed.elastic.multiprocessing.errors import record
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, TensorDataset

    init_process_group("gloo")
    torch.set_num_threads(1)
    rank = get_rank()
    torch.manual_seed(rank)
    layers = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def batches(n):
        return DataLoader(TensorDataset(torch.randn(8 * n, 64), torch.zeros(8 * n).long()), 8)

    def step(x, y, share=1.0):
        (nn.functional.cross_entropy(model(x), y) * share).backward()
"""
REPORTS = {
    # traceml#252: the durations of all backwards are equal, so nobody is named.
    "busy_wait": """
        def wait(*args):
            end = time.perf_counter() + 0.02
            while time.perf_counter() < end:
                pass
        if rank == 2:
            layers[2].register_full_backward_hook(wait)
        model = DistributedDataParallel(layers)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for x, y in batches(60):
            optimizer.zero_grad()
            step(x, y)
            optimizer.step()
    """,
    # axolotl#3688: items under gradient accumulation are counted too low.
    "accumulation": """
        model = DistributedDataParallel(layers)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for n, (x, y) in enumerate(batches(80), 1):
            with model.no_sync() if n % 4 else contextlib.nullcontext():
                step(x, y, 0.25)
            if n % 4 == 0:
                optimizer.step()
                optimizer.zero_grad()
    """,
    "join": """
        model = DistributedDataParallel(layers)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        with Join([model]):
            for x, y in batches(30 + 10 * rank):
                optimizer.zero_grad()
                step(x, y)
                optimizer.step()
    """,
    # pytorch#146371: a rank ends with status 1 in the middle.
    "exits": """
        model = DistributedDataParallel(layers)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        @record
        def main():
            for n, (x, y) in enumerate(batches(60)):
                if n == 30 and rank == 1:
                    sys.exit(1)
                optimizer.zero_grad()
                step(x, y)
                optimizer.step()
        main()
    """,
}
#: pytorch#36136: Ctrl-C leaves spawned workers alive.
SPAWNED = """
    import os, sys, time
    import torch
    import torch.multiprocessing as mp

    def work(rank):
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for n in range(6000):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
            if n == 20:
                open(f"pid{rank}", "w").write(str(os.getpid()))
            time.sleep(0.01)

    if __name__ == "__main__":
        mp.spawn(work, nprocs=2)
"""


def ran(
    path: Path, name: str, ranks: int
) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    """The end of a job under torchrun, and its facts."""
    place = Place(path)
    script = HEAD + REPORTS[name].replace("\n    ", "\n") + "    destroy_process_group()\n"
    place.write("main.py", script)
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    env = {"PYTHONPATH": os.path.abspath("."), "OMP_NUM_THREADS": "1"}
    voir = ["-m", "voir", "--no-voirfile", "--run-dir", "job", "main.py"]
    command = [sys.executable, *torchrun, *voir]
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    done = subprocess.run(command, cwd=path, env=environment(env), timeout=PATIENCE, **options)
    return done, job_facts(read_run(path / "job"))


def test_a_busy_wait_in_the_backward_of_one_of_four_ranks_is_named(tmp_path: Path) -> None:
    done, facts = ran(tmp_path, "busy_wait", 4)
    assert done.returncode == 0, done.stderr
    found = facts["tasks"]["train"]["straggler"]
    assert (found["kind"], found["rank"], found["part"]) == ("constant", 2, "backward")
    assert 0.01 < found["late"] < 0.1 and found["own"] > 5 * found["others"]
    assert facts["diagnosis"]["verdict"] == "straggler"
    assert done.stderr.count("voir: main.py") == 1
    assert "4 ranks · finished" in done.stderr
    assert facts["tasks"]["train"]["items"] == 4 * 60 * 8


def test_items_under_accumulation_are_those_of_all_batches_of_all_ranks(tmp_path: Path) -> None:
    done, facts = ran(tmp_path, "accumulation", 2)
    assert done.returncode == 0, done.stderr
    train = facts["tasks"]["train"]
    assert (train["steps"], train["items"]) == (20, 2 * 80 * 8)
    assert facts["job"]["parallel"] == {"size": 2, "by": "DDP"}


def test_ranks_with_more_batches_than_others_are_joined_and_counted(tmp_path: Path) -> None:
    done, facts = ran(tmp_path, "join", 2)
    assert done.returncode == 0, done.stderr
    assert (facts["tasks"]["train"]["steps"], facts["tasks"]["train"]["items"]) == (40, 70 * 8)


def test_a_rank_that_exits_in_the_middle_is_the_first_to_fail(tmp_path: Path) -> None:
    done, facts = ran(tmp_path, "exits", 2)
    assert done.returncode == 1
    first, *_ = facts["job"]["failed"]
    assert (first["rank"], first["why"]) == (1, "exit status 1")
    assert facts["tasks"]["train"]["steps"] >= 29
    assert done.stderr.count("voir: main.py") == 1


def test_ctrl_c_ends_spawned_processes_and_leaves_their_records(tmp_path: Path) -> None:
    Place(tmp_path).write("main.py", SPAWNED)
    env = {**os.environ, "PYTHONPATH": os.path.abspath("."), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "voir", "--no-voirfile", "--run-dir", "job", "main.py"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=env, start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    waits = time.monotonic() + PATIENCE
    try:
        while not all((tmp_path / f"pid{rank}").exists() for rank in (0, 1)):
            assert time.monotonic() < waits and process.poll() is None
            time.sleep(0.2)
        time.sleep(2)
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGINT, told
    for rank in (0, 1):
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / f"pid{rank}").read_text()), 0)
    assert told.count("voir: main.py") == 1, told
    records = [*(tmp_path / "job").glob("process*/run.json")]
    facts = [json.loads(record.read_text()) for record in records]
    assert len(facts) == 2 and all(each["tasks"]["train"]["steps"] > 20 for each in facts)
