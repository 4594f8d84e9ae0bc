"""Measure one event of a probe, next to a handwritten line, ptera and voir 0.2.

    python benchmarks/probes.py [--rounds N] [--peers] [--memory EVENTS]

A nearly empty function runs bare, with a handwritten line, and with a probe of each tool. Every
side is a separate process, which runs the function twenty times and keeps the fastest; sides
alternate, there and back, and the table has medians over rounds. The cost of an event is the
added time divided by the number of events; the ratio is to the handwritten line that does the
same.

The peers have their own environments; ``--peers`` creates them, in ``.venv-upstream``.
``--memory`` measures the growth of resident memory over that many events.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from overhead import existing, made

SCRIPT = """
import gc
import json
import sys
import time

from time import perf_counter_ns

seen = []


def sink(event):
    pass


def nothing(n):
    for i in range(n):
        x = i


def by_hand(n):
    for i in range(n):
        x = i
        sink({"x": x})


def value(n):
    for i in range(n):
        x = i


def bare(batches):
    for inp in batches:
        pass


def loop_by_hand(batches):
    items = 0
    for inp in batches:
        items += len(inp)
        seen.append((perf_counter_ns(), items))


def loop(batches):
    for inp in batches:
        pass


def pair_by_hand(batches):
    items = 0
    for inp in batches:
        since = perf_counter_ns()
        items += len(inp)
        seen.append((since, perf_counter_ns(), items))


def pair(batches):
    for inp in batches:
        pass


def best(function, n):
    took = []
    for _ in range(20):
        argument = n if function in (nothing, by_hand, value) else [BATCH] * n
        del seen[:]
        gc.collect()
        since = perf_counter_ns()
        function(argument)
        took.append((perf_counter_ns() - since) / n)
    return min(took)


class Batch:
    shape = (8, 3)

    def __len__(self):
        return 8


BATCH = Batch()


def main():
    name, n = sys.argv[1], int(sys.argv[2])
    print(json.dumps({"ns": best(globals()[name], n)}))


if __name__ == "__main__":
    main()
"""
PTERA = """
import sys

import work
from ptera.probe import probing

name, selector = sys.argv.pop(1), sys.argv.pop(1)
with probing(selector, env=vars(work)) as probe:
    probe.subscribe(work.sink)
    work.main()
"""
LOOP = "//{loop}(inp as batch) > #endloop_inp as step"
PAIR = "//pair(inp as batch, !#loop_inp as compute_start, !!#endloop_inp as compute_end)"


def voirfile(*lines: str) -> str:
    """A voirfile that does these things once the script is there."""
    body = "\n    ".join(lines)
    return (
        "def sink(event):\n    pass\n\n\n"
        "def instrument_probes(ov):\n    yield ov.phases.load_script\n    " + body + "\n"
    )


#: Upstream has one rate, which counts what carries a task.
UPSTREAM_RATE = """
from voir.instruments import rate


def instrument_rates(ov):
    yield ov.phases.init
    ov.require(rate(interval="1s"))
    ov.given.where("step", "batch", "!task").subscribe(
        lambda event: ov.give(task="train", batch=event["batch"])
    )
"""
UPSTREAM_PAIR = """
import time


def instrument_pairs(ov):
    yield ov.phases.init
    ov.given.wmap("compute_start", timed).subscribe(sink)


def timed(compute_start=None, batch=None):
    since = time.time_ns()
    yield
    return time.time_ns() - since
"""


@dataclass(frozen=True)
class Side:
    """One way to see an event.

    Attributes:
        group: What is seen; a group's first side sees nothing, its second is written by hand.
        name: What the table calls it.
        function: Which function of the script runs.
        events: Events per iteration of its loop.
        tool: ``python``, ``voir``, ``ptera`` or ``upstream``.
        probe: A voirfile, or ptera's selector.
        n: Turns of the loop.
    """

    group: str
    name: str
    function: str
    events: int = 1
    tool: str = "python"
    probe: str = ""
    n: int = 50_000


VALUE, STEP, TWO = "a variable's value", "the end of an iteration", "a pair, begin and end"


def sides(upstream: bool) -> list[Side]:
    """All sides, of a group one after the other."""
    give = 'ov.probe("//value > x").give()'
    plain = 'ov.probe("//value > x").subscribe(sink)'
    step, both = (f'ov.probe("{s.format(loop="loop")}").give()' for s in (LOOP, PAIR))
    found = [
        Side(VALUE, "no probe", "nothing"),
        Side(VALUE, "written by hand", "by_hand"),
        Side(VALUE, "voir, no subscriber", "value", 1, "voir",
             voirfile('ov.probe("//value > x")')),
        Side(VALUE, "voir, one callable", "value", 1, "voir", voirfile(plain)),
        Side(VALUE, "voir, .give() and a reducer", "value", 1, "voir",
             voirfile(give, 'ov.given["x"].max().subscribe(sink)'), 5_000),
        Side(VALUE, "ptera", "value", 1, "ptera", "value > x", 5_000),
        Side(STEP, "no probe", "bare"),
        Side(STEP, "written by hand", "loop_by_hand"),
        Side(STEP, "voir, into the rates", "loop", 1, "voir", voirfile(step)),
        Side(TWO, "no probe", "bare"),
        Side(TWO, "written by hand", "pair_by_hand"),
        Side(TWO, "voir, into the step model", "pair", 1, "voir", voirfile(both)),
    ]  # fmt: skip
    if upstream:
        found += [
            Side(VALUE, "voir 0.2.24, one callable", "value", 1, "upstream", voirfile(plain),
                 5_000),
            Side(STEP, "voir 0.2.24, into its rate", "loop", 1, "upstream",
                 voirfile(step) + UPSTREAM_RATE, 5_000),
            Side(TWO, "voir 0.2.24, into wmap", "pair", 1, "upstream",
                 voirfile(both) + UPSTREAM_PAIR, 5_000),
        ]  # fmt: skip
    return found


def once(side: Side, directory: Path, upstream: str | None) -> float:
    """Nanoseconds per iteration of the loop."""
    (directory / "work.py").write_text(SCRIPT)
    (directory / "under_ptera.py").write_text(PTERA)
    (directory / "voirfile.py").write_text(side.probe if side.tool in ("voir", "upstream") else "")
    arguments = [side.function, str(side.n)]
    command = {
        "python": [sys.executable, "work.py"],
        "voir": [sys.executable, "-m", "voir", "--quiet", "--no-monitor", "work.py"],
        "ptera": [sys.executable, "under_ptera.py", "ptera", side.probe],
        "upstream": [str(upstream), "-m", "voir", "work.py"],
    }[side.tool]
    done = run([*command, *arguments], directory)
    told = [line for line in done.stdout.splitlines() if line.startswith('{"ns"')]
    if done.returncode or not told:
        raise SystemExit(f"{side.name}: {done.stdout}\n{done.stderr}")
    return float(json.loads(told[-1])["ns"])


def run(command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    """Run it without inherited options, and with a descriptor for events."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VOIR"))}
    with open(directory / "data", "w") as data:
        return subprocess.run(
            command,
            cwd=directory,
            env={**kept, "DATA_FD": str(data.fileno())},
            pass_fds=[data.fileno()],
            capture_output=True,
            text=True,
        )


def measure(found: list[Side], rounds: int, upstream: str | None) -> dict[Side, list[float]]:
    """Nanoseconds per iteration on each side, by round."""
    taken: dict[Side, list[float]] = {side: [] for side in found}
    with tempfile.TemporaryDirectory() as tmp:
        for number in range(rounds):
            for side in found if number % 2 == 0 else reversed(found):
                taken[side].append(once(side, Path(tmp), upstream))
    return taken


def table(taken: dict[Side, list[float]]) -> str:
    """The result as a Markdown table."""
    rows = ["| event | side | more, ns | of by hand |", "|---|---|---|---|"]
    for group in (VALUE, STEP, TWO):
        own = [side for side in taken if side.group == group]
        bare = statistics.median(taken[own[0]])
        hand = statistics.median(taken[own[1]]) - bare
        for side in own[1:]:
            more = statistics.median(taken[side]) - bare
            rows.append(f"| {group} | {side.name} | {more:,.0f} | {more / hand:.2f} |")
    return "\n".join(rows)


FIRST = """
import time

import torch


def instrument_first(ov):
    yield ov.phases.load_script
    since = time.perf_counter()
    ov.probe("//value > x").subscribe(print)
    print('{"first": %f}' % (time.perf_counter() - since))
"""


def first(python: str, directory: Path) -> float:
    """Seconds that the first probe takes to be set, with torch imported."""
    (directory / "work.py").write_text(SCRIPT)
    (directory / "voirfile.py").write_text(FIRST)
    command = [python, "-m", "voir", "work.py", "nothing", "1"]
    done = run(command, directory)
    told = [line for line in done.stdout.splitlines() if line.startswith('{"first"')]
    if not told:
        raise SystemExit(f"first probe: {done.stdout}\n{done.stderr}")
    return float(json.loads(told[0])["first"])


MEMORY = """
import sys


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def loop(batches):
    for inp in batches:
        pass


class Batches:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))


n = int(sys.argv[1])
loop(Batches(n // 10))
before = resident()
loop(Batches(n))
print((resident() - before) / 1e6)
"""


def memory(events: int, directory: Path) -> float:
    """Megabytes by which resident memory grows over so many events, after a tenth of them."""
    (directory / "work.py").write_text(MEMORY)
    loop = '    ov.probe("//loop(inp as batch_size) > #endloop_inp as step").give()\n'
    (directory / "voirfile.py").write_text(voirfile(loop.strip()))
    done = run([sys.executable, "-m", "voir", "--quiet", "work.py", str(events)], directory)
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="counted rounds (default: 7)")
    parser.add_argument("--peers", action="store_true", help="make an environment for upstream")
    what = "a python that has voir 0.2.24"
    parser.add_argument("--upstream", metavar="PYTHON", type=existing, help=what)
    parser.add_argument("--memory", type=int, metavar="EVENTS", help="watch memory instead")
    options = parser.parse_args()
    upstream = options.upstream or (made("upstream") if options.peers else None)
    print(f"Python {sys.version.split()[0]}:\n")
    with tempfile.TemporaryDirectory() as tmp:
        if options.memory:
            grown = memory(options.memory, Path(tmp))
            print(f"resident memory after {options.memory:,} events: {grown:+.1f} MB")
            return
        print(table(measure(sides(bool(upstream)), options.rounds, upstream)), flush=True)
        pythons = {"voir": sys.executable, **({"voir 0.2.24": upstream} if upstream else {})}
        for name, python in pythons.items():
            took = [first(python, Path(tmp)) for _ in range(options.rounds)]
            print(
                f"\nfirst probe with torch imported, {name}: {statistics.median(took) * 1e3:.1f} ms"
            )


if __name__ == "__main__":
    main()
