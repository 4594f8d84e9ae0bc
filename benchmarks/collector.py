"""Measure the cost of voir's objects in the garbage collections of an allocating script.

    python benchmarks/collector.py [--rounds N]

Plain Python creates and drops a million containers, which triggers thousands of collections,
about thirty of them full. The table shows the CPU time of that part of the script relative to
python's in the same round, with alternating sides: of the script's own thread (median and
quartiles of the rounds) and of all threads. The second python shows the noise of such a ratio.
The last columns are the objects tracked when the script begins, and the objects visited by the
full collections, which is the same each time (counted in a separate, untimed run).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = """
import gc, sys, time
tracked, walked = len(gc.get_objects()), 0

def count(phase, info):
    global walked
    if phase == "start" and info["generation"] == 2:
        walked += len(gc.get_objects())

def allocate():
    for _ in range(6):
        [[i, {i: i}] for i in range(300_000)]

if sys.argv[1] == "count":
    gc.callbacks.append(count)
begun = time.thread_time(), time.process_time()
allocate()
print(time.thread_time() - begun[0], time.process_time() - begun[1], tracked, walked)
"""
VOIR = "import sys; sys.argv[0] = 'voir'; from overseer.cli import main; main()"
OPTIONS = ["--quiet", "--no-record"]
SIDES = {
    "python": [],
    "python again": [],
    "voir": ["-c", VOIR, *OPTIONS],
    "voir, nothing frozen": ["-c", f"import gc; gc.freeze = int; {VOIR}", *OPTIONS],
}


def once(side: str, script: Path, how: str) -> list[float]:
    """Seconds of the thread and of the process, objects at the beginning and gone through."""
    command = [sys.executable, *SIDES[side], str(script), how]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=script.parent)
    return [float(word) for word in ran.stdout.split()]


def over(taken: list[list[float]], plain: list[list[float]], at: int) -> list[float]:
    """By how much each round took longer."""
    return [one[at] / other[at] - 1 for one, other in zip(taken, plain, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="how often (default: 20)")
    rounds = max(parser.parse_args().rounds, 2)
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / "allocating.py"
        script.write_text(SCRIPT)
        counts = {side: once(side, script, "count")[2:] for side in SIDES}
        seconds: dict[str, list[list[float]]] = {side: [] for side in SIDES}
        for _ in range(rounds):
            for side in SIDES:
                seconds[side].append(once(side, script, "time"))
    print(f"A script that allocates, {rounds} rounds, Python {sys.version.split()[0]}:\n")
    print("| side | its thread | over python | quartiles | all threads | tracked | gone through |")
    print("|---|---|---|---|---|---|---|")
    for side, taken in seconds.items():
        own, every = (over(taken, seconds["python"], at) for at in (0, 1))
        q1, median, q3 = statistics.quantiles(own, n=4)
        took = statistics.median(one[0] for one in taken)
        ratios = f"{median:+.1%} | {q1:+.1%} to {q3:+.1%} | {statistics.median(every):+.1%}"
        tracked, walked = counts[side]
        print(f"| {side} | {took:.2f} s | {ratios} | {tracked:,.0f} | {walked:,.0f} |")


if __name__ == "__main__":
    main()
