"""Measure voir's start-up: an empty script, against plain python and other tools.

    python benchmarks/startup.py [--runs N] [--peers] [--beside NAME=PYTHON]

Runs are interleaved (every side once a round), so that changes in the machine's speed affect all
sides; the table has medians, and the median of the per-round differences and ratios to plain
python. Wall time is what a user waits for; CPU time is nearly the same, also on a busy machine.
``--peers`` adds the tools installed in the same environment: viztracer, pyinstrument, coverage,
cProfile. ``--beside`` adds another voir, by the python of its environment: an earlier one, or
voir 0.2.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PEERS = {
    "cProfile": ["-m", "cProfile", "-o", os.devnull],
    # It deletes the file before it writes it: never one that is a device.
    "coverage": ["-m", "coverage", "run", "--data-file", "{tmp}/coverage"],
    "pyinstrument": ["-m", "pyinstrument", "-o", os.devnull],
    "viztracer": ["-m", "viztracer", "-o", "{tmp}/trace.json", "--quiet"],
}


def sides(peers: bool, beside: dict[str, str], tmp: str) -> dict[str, list[str]]:
    """What is run, by name: the command up to the script."""
    python = [sys.executable]
    found = {
        "python": python,
        "voir": [*python, "-m", "voir", "--quiet"],
        "voir --no-record --no-monitor": [
            *python,
            *["-m", "voir", "--quiet", "--no-record", "--no-monitor"],
        ],
    }
    for name, arguments in PEERS.items() if peers else ():
        if name == "cProfile" or importlib.util.find_spec(name):
            found[name] = [*python, *(a.format(tmp=tmp) for a in arguments)]
    return found | {name: [other, "-m", "voir"] for name, other in beside.items()}


def once(command: list[str], script: str, directory: str) -> tuple[float, float]:
    """Seconds of wall time and of processor time that one run takes."""
    # Compiled files are cached as on any user's machine.
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    process = subprocess.Popen(
        [*command, script],
        cwd=directory,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return wall, usage.ru_utime + usage.ru_stime


def measure(runs: int, peers: bool, beside: dict[str, str]) -> dict[str, list[tuple[float, float]]]:
    """The times of each side, one a round, after a round that is not counted."""
    with tempfile.TemporaryDirectory() as tmp:
        script = Path(tmp) / "empty.py"
        script.touch()
        commands = sides(peers, beside, tmp)
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for counted in [False] + [True] * runs:
            for name, command in commands.items():
                times = once(command, str(script), tmp)
                if counted:
                    taken[name].append(times)
    return taken


def table(taken: dict[str, list[tuple[float, float]]]) -> str:
    """The result as a Markdown table."""
    rows = [
        "| side | wall | more than python | ratio | processor | more than python |",
        "|---|---|---|---|---|---|",
    ]
    plain = taken["python"]
    for name, times in taken.items():
        wall, cpu = (statistics.median(both) for both in zip(*times, strict=True))
        more = [
            statistics.median(t[i] - p[i] for t, p in zip(times, plain, strict=True))
            for i in (0, 1)
        ]
        ratio = statistics.median(t[0] / p[0] for t, p in zip(times, plain, strict=True))
        figures = [f"{wall * 1e3:.0f} ms", f"{more[0] * 1e3:+.0f} ms", f"{ratio:.1f}"]
        figures += [f"{cpu * 1e3:.0f} ms", f"{more[1] * 1e3:+.0f} ms"]
        rows.append(f"| {name} | {' | '.join(figures)} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20, help="counted rounds (default: 20)")
    parser.add_argument("--peers", action="store_true", help="also run other tools that are there")
    parser.add_argument("--beside", metavar="NAME=PYTHON", action="append", help="another voir")
    options = parser.parse_args()
    beside = dict(other.split("=", 1) for other in options.beside or ())
    taken = measure(options.runs, options.peers, beside)
    print(f"An empty script, {options.runs} rounds, Python {sys.version.split()[0]}:\n")
    print(table(taken))


if __name__ == "__main__":
    main()
