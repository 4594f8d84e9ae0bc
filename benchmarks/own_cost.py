"""Whether the own cost that voir prints is the truth, within a factor of two.

    python benchmarks/own_cost.py [--rounds N] [--epochs N ...]

The same script runs plain and under voir in turns. What voir added is the difference of the two,
in processor time (wall time is shown too, but another program on the machine disturbs it more than
voir does); beside it stands what the run's own record says. All of it counts here: to start, to
measure and to end.
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
from typing import NamedTuple

from overhead import ALL_ON, MLP, PROBES, environment


class Taken(NamedTuple):
    """Seconds of one process."""

    cpu: float
    wall: float


def once(command: list[str], directory: Path) -> Taken:
    """Run a command to its end; what it used."""
    since = time.perf_counter()
    with open(os.devnull, "w") as nowhere:
        process = subprocess.Popen(
            command, cwd=directory, env=environment(2), stdout=nowhere, stderr=nowhere
        )
        _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command} failed in {directory}")
    return Taken(used.ru_utime + used.ru_stime, time.perf_counter() - since)


def pair(epochs: int, probes: bool, first: bool) -> tuple[Taken, float, float]:
    """What voir added in one run beside a plain one, and the own cost and share it told."""
    with tempfile.TemporaryDirectory() as tmp:
        directory = Path(tmp)
        (directory / "main.py").write_text(MLP)
        if probes:
            (directory / "voirfile.py").write_text(PROBES)
        plain = [sys.executable, "main.py", str(epochs)]
        under = [sys.executable, "-m", "voir", *ALL_ON, "--run-dir", "run", *plain[1:]]
        order = [under, plain] if first else [plain, under]
        taken = {command[1]: once(command, directory) for command in order}
        overhead = json.loads((directory / "run/run.json").read_text())["overhead"]
    added = Taken(*(b - a for a, b in zip(taken["main.py"], taken["-m"], strict=True)))
    return added, overhead["seconds"], overhead["share"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=6, help="pairs of runs (default: 6)")
    parser.add_argument("--epochs", type=int, nargs="+", default=[10, 200], help="of 100 steps")
    options = parser.parse_args()
    print("| steps | probes | added, processor | added, wall | own cost | share | ratio |")
    print("|---|---|---|---|---|---|---|")
    for epochs in options.epochs:
        for probes in (True, False):
            found = [pair(epochs, probes, bool(i % 2)) for i in range(options.rounds)]
            cpu = statistics.median(added.cpu for added, _, _ in found)
            wall = statistics.median(added.wall for added, _, _ in found)
            own = statistics.median(seconds for _, seconds, _ in found)
            share = statistics.median(share for _, _, share in found)
            steps, which = (epochs + 1) * 100, "a voirfile's" if probes else "none"
            cells = f"{cpu:.2f} s | {wall:.2f} s | {own:.2f} s | {share:.1%} | {own / cpu:.2f}"
            print(f"| {steps:,} | {which} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
