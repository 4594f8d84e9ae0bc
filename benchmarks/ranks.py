"""Measure jobs of many processes: what is named, what it costs, how long reading takes.

    python benchmarks/ranks.py [--rounds N] [--jobs N] [--parts PART ...]

- job: torchrun starts two ranks with DistributedDataParallel over gloo. In the backward of one
  rank, a hook waits busily. The table has the step times with and without voir and with and
  without the wait, interleaved, and what voir says: rank, part and by how much the job would be
  faster, beside the truth: the ratio of the step times.
- detection: simulated jobs, in which one rank is 10 % slower or none is.
- reading: the time until the figures of a simulated job are computed.
- watching: the processor time of the dashboard for reading the records of a job's ranks.
- report: a whole ``voir report`` of 8 ranks of 100,000 steps, and the size of the page.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from instruments.dash import LOOK_SECONDS
from overseer.job.figures import job_facts
from overseer.job.live import LiveRanks
from overseer.job.straggler import ROTATING, find_straggler
from overseer.rundir.reading import read_run
from tests.job.simulate import STEP, SimulatedJob, Slow

TRAIN = """
import os, statistics, sys, time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WAIT, STEPS = float(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
layers = [layer for _ in range(4) for layer in (nn.Linear(256, 256), nn.ReLU())]
model = nn.Sequential(*layers, nn.Linear(256, 8))


def wait(*_):
    end = time.perf_counter() + WAIT
    while time.perf_counter() < end:
        pass


if rank == 1 and WAIT:
    model[2].register_full_backward_hook(wait)
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
data = [(torch.randn(128, 256), torch.randint(8, (128,))) for _ in range(8)]
ends = []
for step in range(STEPS):
    inputs, labels = data[step % 8]
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    ends.append(time.perf_counter())
if rank == 0:
    took = [b - a for a, b in zip(ends[20:], ends[21:])]
    print("STEP", statistics.median(took), statistics.fmean(took), flush=True)
dist.destroy_process_group()
"""
VOIR = [sys.executable, "-m", "voir", "--quiet"]


@dataclass(frozen=True)
class Measured:
    """A run: the median step, in seconds, and of a run under voir what it says."""

    step: float
    straggler: dict[str, Any]


def launched(directory: Path, wait: float, steps: int, voir: bool) -> Measured:
    """Run the job in a directory of its own."""
    directory.mkdir()
    (directory / "train.py").write_text(TRAIN)
    launcher = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        "--no-python",
    ]  # fmt: skip
    command = [*launcher, *(VOIR if voir else [sys.executable]), "train.py", str(wait), str(steps)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=directory, env=env, capture_output=True, text=True, timeout=180, check=False
    )
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("STEP ")]
    if done.returncode or len(lines) != 1:
        raise SystemExit(f"the job failed ({done.returncode}):\n{done.stdout}\n{done.stderr}")
    found: dict[str, Any] = {}
    if voir:
        (run,) = (directory / "voir-runs").iterdir()
        tasks = job_facts(read_run(run))["tasks"]
        found = next(iter(tasks.values())).get("straggler", {})
    return Measured(float(lines[0][1]), found)


def measure_jobs(rounds: int, waits: list[float], steps: int) -> None:
    """Print the tables of the real job."""
    measured: dict[tuple[float, bool], list[Measured]] = {}
    with tempfile.TemporaryDirectory() as tmp:
        for number in range(rounds):
            for wait in [0.0, *waits]:
                for voir in (False, True) if number % 2 else (True, False):
                    at = Path(tmp) / f"{number}-{wait}-{voir}"
                    found = launched(at, wait, steps, voir)
                    measured.setdefault((wait, voir), []).append(found)
    print(f"Two ranks, DDP over gloo, {steps} steps, medians of {rounds} rounds:\n")
    print("| wait in rank 1's backward | step | with voir | ratio | named | kind | late "
          "| its part, the others' | gain told | rerun without |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    base = {voir: _step(measured[0.0, voir]) for voir in (False, True)}
    for wait in [0.0, *waits]:
        plain, recorded = _step(measured[wait, False]), _step(measured[wait, True])
        said = [each.straggler for each in measured[wait, True]]
        blamed = [each for each in said if each.get("kind") not in (None, ROTATING)]
        row = [f"{wait * 1e3:g} ms", f"{plain * 1e3:.2f} ms", f"{recorded * 1e3:.2f} ms",
               f"{recorded / plain:.3f}"]  # fmt: skip
        named = {(each["rank"], each["part"]) for each in blamed}
        row.append(f"{len(blamed)}/{len(said)}: {', '.join(f'rank {r} {p}' for r, p in named)}")
        row.append(", ".join(sorted({str(each["kind"]) for each in blamed})))
        for keys in ("late",), ("own", "others"):
            middle = [statistics.median([each[key] for each in blamed] or [0]) for key in keys]
            row.append(", ".join(f"{value * 1e3:.1f} ms" for value in middle))
        row.append(f"{statistics.median([each.get('gain') or 0 for each in blamed] or [0]):.0%}")
        row.append(f"{recorded / base[True] - 1:.0%}")
        print("|", " | ".join(row), "|")


def _step(measured: list[Measured]) -> float:
    return statistics.median(each.step for each in measured)


# Simulated


def measure_detection(jobs: int) -> None:
    """Print how often the slow rank, and no other, is found."""
    print(f"\nSimulated jobs, noise of a step 3 to 10 %, {jobs} each:\n")
    print("| ranks | steps | +10 % on one rank: rank and part found | equal: a rank blamed "
          "| another rank each time: a rank blamed | seconds per search |")  # fmt: skip
    print("|---|---|---|---|---|---|")
    for ranks, steps in (2, 300), (8, 200), (8, 1000), (64, 300), (256, 300), (1024, 300):
        n = jobs if ranks < 256 else max(1, jobs // 5)
        found, equal, rotating, seconds = 0, 0, 0, 0.0
        for seed in range(n):
            chance = random.Random(seed)
            rank, part = chance.randrange(ranks), chance.choice([*STEP])
            job = SimulatedJob(ranks, steps, seed, noise=chance.uniform(0.03, 0.1))
            slow = replace(job, slow=[Slow(rank, 0.1, part)]).rank_steps()
            begin = time.perf_counter()
            straggler = find_straggler(slow)
            seconds += time.perf_counter() - begin
            found += straggler is not None and (straggler.ranks, straggler.part) == ([rank], part)
            equal += _blames(job)
            rotating += _blames(replace(job, slow=[Slow(None, 0.5)]))
        print(f"| {ranks} | {steps} | {found}/{n} | {equal}/{n} | {rotating}/{n} "
              f"| {seconds / n:.2f} |", flush=True)  # fmt: skip


def _blames(job: SimulatedJob) -> bool:
    straggler = find_straggler(job.rank_steps())
    return straggler is not None and straggler.kind != ROTATING


def measure_reading() -> None:
    """Print how long it takes to read jobs."""
    print("\n| ranks | steps each | files | seconds | of it the search | peak memory |")
    print("|---|---|---|---|---|---|")
    for ranks, steps in (8, 1000), (64, 1000), (1024, 1000), (8, 500_000):
        with tempfile.TemporaryDirectory() as tmp:
            at, written = Path(tmp) / "job", min(steps, 10_000)
            SimulatedJob(ranks, written, 1, slow=[Slow(3, 0.1)]).write(at, repeat=steps // written)
            size = sum(file.stat().st_size for file in at.rglob("*") if file.is_file())
            print(f"| {ranks} | {steps:,} | {size / 1e6:,.0f} MB |", _read(at), flush=True)


def _read(job: Path) -> str:
    """Read a job in a process of its own; returns the cells of the table."""
    source = (
        f"import sys; sys.path[:0] = {sys.path!r}; from ranks import timed; timed({str(job)!r})"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    whole, search, peak = json.loads(done.stdout)
    return f"{whole:.2f} | {search:.2f} | {peak / 1024:,.0f} MB |"


def timed(job: str) -> None:
    """Print the seconds of reading a job and of the search, and the peak memory in KiB."""
    from overseer.job import figures

    search, seconds = figures.examine, 0.0

    def examine(steps: Any) -> Any:
        nonlocal seconds
        begin = time.perf_counter()
        found = search(steps)
        seconds += time.perf_counter() - begin
        return found

    figures.examine = examine
    begin = time.perf_counter()
    facts = job_facts(read_run(job))
    whole = time.perf_counter() - begin
    if facts["tasks"]["train"]["straggler"]["rank"] != 3:
        raise SystemExit("the straggler was not found")
    print(json.dumps([whole, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))


def measure_watching() -> None:
    """Print the processor time of reading the rows of all ranks, as a share of a core."""
    print("\n| ranks | a look | of a core |")
    print("|---|---|---|")
    for ranks in (8, 64):
        with tempfile.TemporaryDirectory() as tmp:
            live = LiveRanks(SimulatedJob(ranks, 1000, 1).write(Path(tmp) / "job"))
            live()
            begin = time.process_time()
            for _ in range(100):
                live()
            look = (time.process_time() - begin) / 100
        print(f"| {ranks} | {1000 * look:.2f} ms | {100 * look / LOOK_SECONDS:.2f} % |")


def measure_report() -> None:
    """Print the time of writing a job's page, its process included, and the size of the page."""
    with tempfile.TemporaryDirectory() as tmp:
        job = SimulatedJob(8, 2000, 1, slow=[Slow(3)]).write(Path(tmp) / "job", repeat=50)
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            subprocess.run([*VOIR[:-1], "report", str(job)], check=True, capture_output=True)
            times.append(time.perf_counter() - begin)
        size = (job / "report.html").stat().st_size
    said = f"{statistics.median(times):.1f} s ({min(times):.1f} to {max(times):.1f})"
    print(f"\nvoir report, 8 ranks of 100,000 steps: {said}, {size / 1000:.0f} KB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the job (default: 3)")
    parser.add_argument("--jobs", type=int, default=100, help="simulated jobs (default: 100)")
    parser.add_argument("--steps", type=int, default=300, help="steps of the job (default: 300)")
    parts = ["job", "detection", "reading", "watching", "report"]
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts, help="(default: all)")
    options = parser.parse_args()
    if "job" in options.parts:
        measure_jobs(options.rounds, [0.002, 0.01], options.steps)
    if "detection" in options.parts:
        measure_detection(options.jobs)
    if "reading" in options.parts:
        measure_reading()
    if "watching" in options.parts:
        measure_watching()
    if "report" in options.parts:
        measure_report()


if __name__ == "__main__":
    main()
