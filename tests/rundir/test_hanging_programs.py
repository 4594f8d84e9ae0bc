"""Real programs that hang: what their records say while they do, and after a kill."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from contextlib import suppress

import pytest

from overseer.model.hangs import place_text
from tests.running import VOIR, Place, environment

HURRIES = """
    from overseer.rundir import killed
    killed.IDLE_SECONDS, killed.IDLE_STEPS = 1.0, 0
    killed.HANG_SECONDS, killed.HANG_STEPS = 3.0, 0
    __instruments__ = []
    """
RANKS = """
    import sys, time, torch, torch.distributed as dist

    dist.init_process_group("gloo")
    rank, how = dist.get_rank(), sys.argv[1]
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    if how == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)

    def load_shard(step):
        if step == 5 and rank == 1:
            time.sleep(100)

    def train():
        try:
            for step in range(9):
                load_shard(step)
                model(torch.ones(2, 4)).sum().backward()
                if how == "sum":
                    dist.all_reduce(model.weight.grad)
                optimizer.step()
                if how == "finally" and rank == 0 and step == 3:
                    raise ValueError("no shard")
        finally:
            dist.barrier()
            dist.destroy_process_group()

    train()
    """
LOADER = """
    import time, torch
    from torch.utils.data import DataLoader

    class Shards:
        def __len__(self):
            return 64

        def __getitem__(self, index):
            time.sleep(100 if index == 50 else 0)
            return torch.ones(4)

    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for batch in DataLoader(Shards(), batch_size=4, num_workers=2):
        model(batch).sum().backward()
        optimizer.step()
    """


def hung(place, script, ranks, *arguments):
    """Run a script until all ranks hang, end them as a launcher does, and return their facts."""
    place.write("main.py", script)
    place.write("voirfile.py", HURRIES)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    known = {"OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    command = [*VOIR, "--quiet", "--no-monitor", "--run-dir", "job", "main.py", *arguments]
    processes = []
    for rank in range(ranks):
        if ranks > 1:
            known |= {"RANK": str(rank), "WORLD_SIZE": str(ranks)}
        with open(place.path / f"said{rank}", "wb") as said:  # Workers outlive their loader.
            started = subprocess.Popen(
                command, cwd=place.path, env=environment(known), stderr=said, start_new_session=True
            )
        processes.append(started)
    job = place.path / "job"
    files = [job / (f"rank{rank}/run.json" if ranks > 1 else "run.json") for rank in range(ranks)]
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until:
            time.sleep(0.2)
            seen = [json.loads(file.read_text()) for file in files if file.exists()]
            if [facts.get("idle", {}).get("hangs") for facts in seen] == [True] * ranks:
                break
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(timeout=60)
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    text = (place.path / "said0").read_text()
    assert text.count("[hang]") == 1, text
    for file in files:
        assert "(MainThread)" in (file.parent / "stacks.txt").read_text()
    return [json.loads(file.read_text()) for file in files]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("sum", "in all_reduce number 6 of group 0, main.py:21 in train"),
        ("ddp", "in backward, where DDP waits for the other ranks, main.py:19 in train"),
        (
            "finally",
            "in barrier number 1 of group 0, main.py:26 in train, "
            "while handling ValueError: no shard (main.py:24)",
        ),
    ],
)
def test_each_rank_of_a_job_that_hangs_says_where_it_is(tmp_path, how, text):
    facts = hung(Place(tmp_path), RANKS, 2, how)
    assert [each["diagnosis"]["verdict"] for each in facts] == ["hang"] * 2
    texts = [place_text(each["idle"]).replace(f"{tmp_path}/", "") for each in facts]
    assert texts == [text, "in time.sleep, main.py:13 in load_shard"]


@pytest.mark.slow
def test_the_worker_whose_batch_is_due_is_named(tmp_path):
    [facts] = hung(Place(tmp_path), LOADER, 1)
    idle = facts["idle"]
    assert (idle["line"], idle["doing"], idle["call"]) == (15, "loading", "DataLoader")
    assert (idle["worker"]["number"], idle["worker"]["count"]) == (0, 2)
    assert idle["worker"]["state"] == "sleeping"
