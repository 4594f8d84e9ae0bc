"""What voir costs a script that allocates: its objects in the script's garbage collections.

    python benchmarks/collector.py [--rounds N]

Plain Python makes and drops a million containers, which sets off thousands of collections, some
thirty of them of all objects. What is shown is the processor time of that part of the script over
python's of the same round, all sides in turn: of the script's own thread (the median, and the
quartiles of the rounds) and of all threads. The second python says what such a ratio is good to.
Beside it stands how many objects are tracked when the script begins, and how many the collections
of all objects went through, which is the same each time (counted in a run that is not timed).
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
