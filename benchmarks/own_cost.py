"""Check that the own cost that voir prints is right within a factor of two.

    python benchmarks/own_cost.py [--work loops|mlp] [--rounds N] [--epochs N ...]

The same script runs alternately with and without voir. The difference in CPU time is compared
with the own cost in the run's record (wall time is shown too, but other programs disturb it more
than voir does). Start, measurement and end all count. The scripts are a small MLP, and plain
Python loops with iterations of 1, 10 and 100 us and one kind of event each.

The MLP takes ten seconds, and the speed of a shared machine varies by more than the effect. So
the script reports the time of each of its parts (start, import, setup, the first epoch, the first
decile of the epochs, end); "quiet" is the difference of each part's minimum over all runs.
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
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from overhead import ALL_ON, MLP, PROBES, environment

LOOP = """
import sys
{head}

def work(k):
    total = 0
    for i in range(k):
        total += i
    return total


def train(n, k):
    for inp in {over}:
        loss = work(k)
{body}

for _ in range(int(sys.argv[1])):
    train({n}, {k})
"""
PROBED = """
def instrument_probes(ov):
    yield ov.phases.load_script
    {probe}
"""
#: By the time of an iteration: iterations per epoch, and work in each.
TURNS = {"1 us": (50_000, 16), "10 us": (20_000, 250), "100 us": (2_000, 2600)}
PAIR = "//train(inp as batch, !#loop_inp as compute_start, !!#endloop_inp as compute_end)"
#: Probes that are set in such a loop.
PROBES_OF = {
    "a loss": 'ov.probe("//train > loss").give()',
    "the end of an iteration": 'ov.probe("//train(inp as batch) > #endloop_inp as step").give()',
    "a pair": f'ov.probe("{PAIR}").give()',
    "a subscriber of giving's": 'ov.probe("//train > loss")["loss"].subscribe([].append)',
    "a reducer of giving's": 'ov.probe("//train > loss")["loss"].average().give("average")',
}
#: What the script itself may do in one: the head, what it goes over, and what is in its body.
ITSELF = {
    "voir.give": ("import voir", "[DATA] * n", "        voir.give(step=1, batch_size=16)\n"),
    "voir.iterate": ("import voir", 'voir.iterate("train", [DATA] * n, True, batch_size=16)', ""),
}
DATA = "\nDATA = [1] * 16"


def loops() -> Iterator[tuple[str, str, str, str]]:
    """The name of each loop, the script, the script without voir, and the voirfile."""
    for turn, (n, k) in TURNS.items():
        plain = LOOP.format(head=DATA, over="[DATA] * n", body="", n=n, k=k)
        for kind, probe in PROBES_OF.items():
            yield f"{kind}, {turn}", plain, plain, PROBED.format(probe=probe)
        for kind, (head, over, body) in ITSELF.items():
            script = LOOP.format(head=head + DATA, over=over, body=body, n=n, k=k)
            yield f"{kind}, {turn}", script, plain, ""


class Taken(NamedTuple):
    """Seconds of one process.

    Attributes:
        cpu: Processor time.
        wall: From its start to its end.
        parts: Processor time of its parts, if it tells.
    """

    cpu: float
    wall: float
    parts: tuple[float, ...] = ()


class Pair(NamedTuple):
    """A run without voir, one with it, and the own cost and its share that this told."""

    plain: Taken
    under: Taken
    own: float
    share: float


def once(command: list[str], directory: Path) -> Taken:
    """Run a command to its end; what it used."""
    since = time.perf_counter()
    with open(os.devnull, "w") as nowhere, tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            command, cwd=directory, env=environment(2), stdout=said, stderr=nowhere
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - since
        said.seek(0)
        told = [line for line in said if line.startswith('{"wall"')]
    if status:
        raise SystemExit(f"{command} failed in {directory}")
    cpu = usage.ru_utime + usage.ru_stime
    if not told:
        return Taken(cpu, wall)
    used = json.loads(told[0])["used"]
    parts = (used[0], *(b - a for a, b in pairwise(used[:-1])), cpu - used[-1])
    return Taken(cpu, wall, parts)


def pair(script: str, plain: str, voirfile: str, epochs: int, first: bool) -> Pair:
    """One run of each."""
    with tempfile.TemporaryDirectory() as tmp:
        directory = Path(tmp)
        (directory / "main.py").write_text(script)
        (directory / "plain.py").write_text(plain)
        if voirfile:
            (directory / "voirfile.py").write_text(voirfile)
        without = [sys.executable, "plain.py", str(epochs)]
        under = [sys.executable, "-m", "voir", *ALL_ON, "--run-dir", "run", "main.py", str(epochs)]
        order = [under, without] if first else [without, under]
        taken = {command[1]: once(command, directory) for command in order}
        overhead = json.loads((directory / "run/run.json").read_text())["overhead"]
    return Pair(taken["plain.py"], taken["-m"], overhead["seconds"], overhead["share"])


def quiet(found: list[Pair]) -> float | None:
    """What voir added to the parts of a script, each as fast as it ever was; None: it has none."""
    plain = [min(part) for part in zip(*(one.plain.parts for one in found), strict=True)]
    under = [min(part) for part in zip(*(one.under.parts for one in found), strict=True)]
    return sum(under) - sum(plain) if plain else None


def row(name: str, found: list[Pair]) -> str:
    """One line of the table: medians."""
    cpu = statistics.median(one.under.cpu - one.plain.cpu for one in found)
    wall = statistics.median(one.under.wall - one.plain.wall for one in found)
    own = statistics.median(one.own for one in found)
    share = statistics.median(one.share for one in found)
    least = quiet(found)
    added = f"{cpu:.2f} s | {wall:.2f} s | {'' if least is None else f'{least:.2f} s'}"
    ratio = own / (cpu if least is None else least)
    return f"| {name} | {added} | {own:.2f} s | {share:.1%} | {ratio:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=6, help="pairs of runs (default: 6)")
    parser.add_argument("--epochs", type=int, nargs="+", default=[10, 200], help="of 100 steps")
    parser.add_argument("--work", choices=("loops", "mlp"), default="mlp")
    options = parser.parse_args()
    if options.work == "loops":
        works = [(*loop, 10) for loop in loops()]
    else:
        works = [
            (f"{(n + 1) * 100:,} steps, {which}", MLP, MLP, voirfile, n)
            for n in options.epochs
            for which, voirfile in (("a voirfile's probes", PROBES), ("no voirfile", ""))
        ]
    print("| events | added, processor | added, wall | quiet | own cost | share | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name, *work in works:
        found = [pair(*work, first=bool(i % 2)) for i in range(options.rounds)]
        print(row(name, found), flush=True)


if __name__ == "__main__":
    main()
