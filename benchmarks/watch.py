"""Measure ``voir watch``: its first screen, its share of a core, and what the watched script pays.

    python benchmarks/watch.py [--rounds N] [--seconds S]

- first screen: ``voir watch RUN --once`` of a run of a million steps, as a process; beside it the
  time of ``python -c pass``.
- share: the processor time of ``voir watch`` in a terminal of 120x40, of a live run.
- watched: the median step time of a script, while a ``voir watch`` shows it and while none does,
  in turns within one run (ABBA): the ratio, and its 95 % interval over the pairs.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from overseer.rundir.steps import read_steps
from tests.cli.screens import Terminal
from tests.cli.test_watch import put
from tests.running import VOIR

#: Rows of a run of a million steps: with the usual limit of size, every second step has one.
MILLION_ROWS = 500_000
SCRIPT = """
import sys, time
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
data = torch.randn(64, 256)
end = time.perf_counter() + float(sys.argv[1])
while time.perf_counter() < end:
    loss = (model(data) - data).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
#: Two-sided 95 % quantiles of Student's t, by degrees of freedom.
_T95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}


def first_screen(place: Path, rounds: int) -> None:
    """Print the time of the first screen of a long run."""
    run = put(place / "long", MILLION_ROWS, loss=lambda at: 2 * math.exp(-at / 1e5))
    commands = {"voir watch": [*VOIR, "watch", str(run), "--once"],
                "python": [sys.executable, "-c", "pass"]}  # fmt: skip
    took = dict[str, list[float]]()
    for _ in range(rounds):
        for name, command in commands.items():
            begun = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            took.setdefault(name, []).append(time.perf_counter() - begun)
    for name, seconds in took.items():
        print(f"| {name} | {statistics.median(seconds):.2f} s | {min(seconds):.2f} s |")


def _used(pid: int) -> float:
    """The processor time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watched_script(place: Path, rounds: int, seconds: float) -> None:
    """Print what watching costs a script, and the share of a core that it takes."""
    script, run = place / "main.py", place / "run"
    script.write_text(SCRIPT)
    whole = 2 * rounds * (seconds + 1) + 15
    command = [*VOIR, "--quiet", "--no-voirfile", "--run-dir", str(run), str(script), str(whole)]
    process = subprocess.Popen(command, cwd=place)
    while not (run / "steps.npy").exists():
        time.sleep(0.05)
    time.sleep(3)
    parts, shares = [], []
    for at in range(2 * rounds):
        if watched := at % 4 in (0, 3):  # ABBA.
            with Terminal(place, "watch", str(run), columns=120, rows=40) as shown:
                shown.until(lambda text: "loss" in text)
                begun, now = _used(shown.process.pid), time.perf_counter_ns()
                shown.ignore(seconds)
                took = (time.perf_counter_ns() - now) / 1e9
                shares.append((_used(shown.process.pid) - begun) / took)
        else:
            now = time.perf_counter_ns()
            time.sleep(seconds)
        parts.append((watched, now, time.perf_counter_ns()))
    process.wait()
    steps = list(read_steps(run / "steps.npy"))
    medians = [
        statistics.median(s["end"] - s["start"] for s in steps if begin <= s["start"] < end)
        for _, begin, end in parts
    ]
    ratios = []
    for at in range(0, len(parts), 2):
        pair = dict(zip((parts[at][0], parts[at + 1][0]), medians[at : at + 2], strict=True))
        ratios.append(pair[True] / pair[False] - 1)
    mean = statistics.mean(ratios)
    print(f"| share of a core | {statistics.median(shares):.1%} |")
    if rounds > 1:
        width = _T95.get(rounds - 1, 2.1) * statistics.stdev(ratios) / math.sqrt(rounds)
        print(f"| step time, watched | {mean:+.2%} ({mean - width:+.2%} to {mean + width:+.2%}) |")
    print(f"| median step | {statistics.median(medians) / 1e6:.2f} ms |")


def main() -> None:
    """Run the benchmark that the command line describes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="pairs (default: 10)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each part (default: 5)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        first_screen(Path(place), max(options.rounds, 3))
        watched_script(Path(place), options.rounds, options.seconds)


if __name__ == "__main__":
    main()
