"""Measure the time that ``voir compare`` takes for many recorded processes.

    python benchmarks/compared.py [--runs N] [--steps N] [--rounds N]

It writes two directories of runs like those of a bench, with packages, an environment, two tasks
and the rows of all steps, and times whole commands: start of the interpreter, reading, comparing.
The fastest round and the CPU time are printed beside the median, as other programs only add time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from overseer.rundir.steps import ROW, header


def record(random: Random, number: int, steps: int) -> dict[str, Any]:
    """A ``run.json`` of a run whose rate varies by 1 %."""
    rate = 1000 * random.gauss(1, 0.01)
    seconds = 32 * steps / rate
    parts = {"loading": 0.1, "forward": 0.3, "backward": 0.5, "optimizer": 0.05, "other": 0.05}
    task = {
        "steps": steps, "items": 32 * steps, "units": "items", "first_step_seconds": 0.1,
        "rate": {"wall": rate * 0.9, "steady": rate, "median": rate, "q1": rate * 0.98,
            "q3": rate * 1.02, "n": steps, "skipped": 0, "clock": "perf_counter"},
        "step_seconds": {"median": 32 / rate, "q1": 31 / rate, "q3": 33 / rate},
        "steady": {"verdict": "steady", "from_step": 1},
        "loading": {"seconds": 0.1 * seconds, "share": 0.1},
        "compute": {"seconds": 0.9 * seconds, "share": 0.9},
        "breakdown": {name: share * seconds for name, share in parts.items()},
        "pause": {"seconds": 0.1, "count": 3, "kinds": {}},
        "loss": {"first": 2.3, "last": 0.1, "min": 0.1},
    }  # fmt: skip
    provenance = {
        "command": "voir main.py", "cwd": "/home/me", "hostname": "here", "kernel": "Linux 6",
        "python": {"version": "3.11.7", "implementation": "cpython"},
        "env": {f"VARIABLE_{n}": "value" for n in range(20)}, "git": {"sha": "0" * 40},
        "packages": {f"package-{n}": f"1.{n}.0" for n in range(150)},
        "torch": {"version": "2.13.0", "threads": 2, "seed": number},
    }  # fmt: skip
    started = f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"
    return {
        "schema": 2, "argv": ["voir", "main.py"], "script": "main.py", "voirfiles": [],
        "started": started, "ended": started, "seconds": seconds, "exit_status": 0, "pid": number,
        "version": "0.2.0", "provenance": provenance, "tasks": {"train": task, "eval": task},
    }  # fmt: skip


def write(directory: Path, facts: dict[str, Any], steps: int, random: Random) -> None:
    """Write the files of a run."""
    directory.mkdir(parents=True)
    (directory / "run.json").write_text(json.dumps(facts, indent=1))
    rows = [
        ROW.pack(n, b"train", 0, 1, 32.0, random.gauss(1, 0.1), *[10**6] * 6, 0, 1, 0)
        for n in range(1, steps + 1)
    ]
    (directory / "steps.npy").write_bytes(header(steps) + b"".join(rows))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000, help="recorded processes of both sides")
    parser.add_argument("--steps", type=int, default=200, help="steps of each")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    random, walls, times = Random(1), list[float](), list[float]()
    with tempfile.TemporaryDirectory() as directory:
        for number in range(options.runs):
            facts = record(random, number, options.steps)
            at = Path(directory, "AB"[number % 2], f"{number:04}")
            write(at, facts, options.steps, random)
        for _ in range(options.rounds):
            begun = time.perf_counter()
            command = [sys.executable, "-m", "voir", "compare", "A", "B"]
            begun, before = time.perf_counter(), sum(os.times()[2:4])
            subprocess.run(command, cwd=directory, stdout=subprocess.DEVNULL, check=True)
            walls.append(time.perf_counter() - begun)
            times.append(sum(os.times()[2:4]) - before)
    print("| runs | wall, fastest | wall, median | CPU, median |\n|---|---|---|---|")
    shown = min(walls), statistics.median(walls), statistics.median(times)
    print(f"| {options.runs:,} | {' | '.join(f'{each:.2f} s' for each in shown)} |")


if __name__ == "__main__":
    main()
