"""Measure the CPU time of the monitors while a script only sleeps.

    python benchmarks/monitors.py [--seconds S] [--rounds N]

All CPU time beyond plain python's is voir's own. The table shows the difference as a share of one
core; start-up is excluded by subtracting a run that does not sleep. Rounds are interleaved; the
table has medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

VOIR = [sys.executable, "-m", "voir", "--quiet", "--no-record"]
SIDES = {
    "python": [sys.executable],
    "voir --no-monitor": [*VOIR, "--no-monitor"],
    "voir": VOIR,
    "voir --monitor-interval 0.1": [*VOIR, "--monitor-interval", "0.1"],
}


def cpu_seconds(command: list[str], script: Path, seconds: float) -> float:
    """Processor seconds, in the system and out of it, of one run that sleeps for ``seconds``."""
    process = subprocess.Popen([*command, str(script), str(seconds)], cwd=script.parent)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def measure(seconds: float, rounds: int) -> dict[str, list[float]]:
    """The share of a core that each side takes while it waits, one value a round."""
    with tempfile.TemporaryDirectory() as tmp:
        script = Path(tmp) / "wait.py"
        script.write_text("import sys, time\ntime.sleep(float(sys.argv[1]))\n")
        taken: dict[str, list[float]] = {name: [] for name in SIDES}
        for _ in range(rounds):
            for name, command in SIDES.items():
                # The short run still samples once, so that importing psutil is left out too.
                short = cpu_seconds(command, script, 1.0)
                taken[name].append((cpu_seconds(command, script, 1.0 + seconds) - short) / seconds)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="how long (default: 20)")
    parser.add_argument("--rounds", type=int, default=3, help="how often (default: 3)")
    options = parser.parse_args()
    taken = measure(options.seconds, options.rounds)
    print(f"A script that sleeps, {options.rounds} rounds of {options.seconds:g} s:\n")
    print("| side | share of one core |\n|---|---|")
    for name, shares in taken.items():
        print(f"| {name} | {statistics.median(shares):.2%} |")


if __name__ == "__main__":
    main()
