"""Measure a trace: one event, a training step, and the file made at the end.

    python benchmarks/trace.py [--rounds N] [--seconds S] [--events N] [--ranks N --steps N]

Events are timed in one process: the minimum of many short alternating rounds, without the loop
and its call of an empty function. Steps are those of benchmarks/overhead.py, alternating with
python. The file is made from a log of steps with their passes, modules and losses. With --ranks,
only the traces of a job of so many ranks, eight to a machine, are merged and summed up.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter, perf_counter_ns, process_time

from overhead import Side, measure, table, works

from overseer.cli.trace import job_summary
from overseer.recorder import recorder
from overseer.recorder import sites as k
from overseer.recorder.log import EVENT
from overseer.trace import channel
from overseer.trace.channels import record, stop
from overseer.trace.digest import read_digest
from overseer.trace.rows import make
from overseer.trace.timeline import Timeline, shift
from overseer.trace.writer import STRUCTURE_TAG, VALUES_TAG, LogWriter, TraceLog, this_process

CALLS = 2_000
VOIR = (sys.executable, "-m", "voir", "--quiet")
SIDES = [
    Side("python", (sys.executable,)),
    Side("voir", VOIR),
    Side("voir --trace", (*VOIR, "--trace")),
    Side("... --trace-level module", (*VOIR, "--trace", "--trace-level", "module")),
]
#: A step's events in the order in which they end: ring, kind, label, begin and end in microseconds.
STEP = (
    (STRUCTURE_TAG, k.LOADING, "", 0, 60),
    (VALUES_TAG, k.MODULE, "0", 80, 110),
    (VALUES_TAG, k.MODULE, "1", 112, 118),
    (VALUES_TAG, k.MODULE, "2", 120, 150),
    (VALUES_TAG, k.MODULE, "", 70, 155),
    (STRUCTURE_TAG, k.FORWARD, "", 69, 156),
    (VALUES_TAG, k.VALUE, "accuracy", 170, 170),
    (STRUCTURE_TAG, k.BACKWARD, "", 180, 330),
    (STRUCTURE_TAG, k.OPTIMIZER, "", 340, 395),
)
#: How long such a step is; what it has in the trace: its own row, begins and ends, two values.
STEP_NS, PACKETS = 400_000, 3 * 2 + 8 * 2 + 2
FLAGS = k.TRAINING | k.GRAD | k.MODEL


def per_event(seconds: float) -> dict[str, float]:
    """Nanoseconds of an event on the thread that records, with tracing and without."""
    app = channel("benchmark")
    loss = app.counter("loss")

    def span() -> None:
        with app.span("step"):
            pass

    def arguments() -> None:
        with app.span("step", number=1, name="x"):
            pass

    calls: dict[str, Callable[[], object]] = {
        "": lambda: None,
        "span": span,
        "span, two arguments": arguments,
        "counter": lambda: loss.add(1.5),
        "instant": lambda: app.instant("now"),
    }
    took: dict[str, list[float]] = {}
    for state in (", not tracing", ""):
        if not state:
            record()
        until = perf_counter() + seconds
        while perf_counter() < until:
            for name, call in calls.items():
                since = perf_counter_ns()
                for _ in range(CALLS):
                    call()
                took.setdefault(name + state, []).append((perf_counter_ns() - since) / CALLS)
    stop()
    least = {name: min(each) for name, each in took.items()}
    return {
        name: found - least[""]
        for name, found in least.items()
        if name not in ("", ", not tracing")
    }


def log_of(path: Path, steps: int, facts: dict[str, object] | None = None) -> TraceLog:
    """A log of so many steps."""
    kinds = list(dict.fromkeys((kind, label) for _, kind, label, _, _ in STEP))
    sites = [{"kind": 0}, {"kind": k.MADE}]
    sites += [{"kind": kind, "label": label, "keys": [label]} for kind, label in kinds]
    head = {**this_process(), "name": "main.py", "wall_ns": 1_790_000_000 * 10**9, "now_ns": 0}
    head |= facts or {}
    names = [[20 + at, 0, f"Net.{at}", "Linear"] for at in range(len(sites))]
    writer = LogWriter(path, head, 1 << 40, False, print)
    writer.rows({"sites": sites, "names": names})
    first = EVENT.pack(0, float(head["pid"]), 0, 0, 1, 0) + EVENT.pack(1, 1.0, 9, 1, 1, 0)
    writer.events(STRUCTURE_TAG, first, {})
    for since in range(0, steps, 1000):
        rings = {STRUCTURE_TAG: bytearray(), VALUES_TAG: bytearray()}
        for at in range(since, min(since + 1000, steps)):
            for ring, kind, label, begin, end in STEP:
                site = kinds.index((kind, label)) + 2
                start, took = at * STEP_NS + begin * 1000 + 1000, (end - begin) * 1000
                rings[ring] += EVENT.pack(
                    start, 1 / (at + 1), 20 + site, site, 1, took | FLAGS << 56
                )
        for ring, data in rings.items():
            writer.events(ring, bytes(data), {})
    writer.close()
    return TraceLog(path)


def making(events: int, rounds: int) -> str:
    """How long the trace of a log takes, of so many events, and how large it is."""
    with tempfile.TemporaryDirectory() as tmp:
        log, took = log_of(Path(tmp, "trace.log"), events // PACKETS), []
        for _ in range(rounds):
            since = perf_counter(), process_time()
            made = make(log, Path(tmp, "trace.pftrace"))
            took.append((perf_counter() - since[0], process_time() - since[1]))
        size = made.path.stat().st_size / made.events
        wall, cpu = (median(each) for each in zip(*took, strict=True))
        return (
            f"{made.events:,} events of {made.steps:,} steps in {wall:.2f} s (least "
            f"{min(took)[0]:.2f}), {cpu:.2f} s of processor time; {size:.1f} bytes an event, of "
            f"{log.size / made.events:.1f} in the log"
        )


def job(directory: Path, ranks: int, steps: int) -> None:
    """Write the traces of a job: eight ranks a machine, with a clock of its own."""
    made = Path(directory, "made.pftrace")
    for rank in range(ranks):
        machine = rank // 8
        offset = machine * 1_234_567
        place = directory / f"rank{rank}"
        place.mkdir()
        if not rank:
            make(log_of(directory / "made.log", steps, {"rank": 0, "host": "node0"}), made)
            digest, data = read_digest(made), bytearray(made.read_bytes())
            del data[digest.size :]
            digest.moments = {"0": {n: digest.begin + n * STEP_NS for n in range(0, steps, 16)}}
        moments = {"0": {n: time + offset for n, time in digest.moments["0"].items()}}
        begin, end = digest.begin + offset, digest.end + offset
        known = {"rank": rank, "host": f"node{machine}", "boot": f"{machine}", "begin": begin}
        own = replace(digest, **known, name=f"rank {rank}: main.py", end=end, moments=moments)
        with open(place / "trace.pftrace", "wb") as file:
            copied = bytearray(data)
            shift(copied, 0, offset, 0.0)
            file.write(copied)
            file.write(own.packet())


def joined(ranks: int, steps: int) -> str:
    """How long the traces of a job take to be merged and summed up, and how much memory."""
    with tempfile.TemporaryDirectory() as tmp:
        job(Path(tmp), ranks, steps)
        files = [Path(tmp, f"rank{rank}", "trace.pftrace") for rank in range(ranks)]
        size, since = sum(file.stat().st_size for file in files), perf_counter()
        timeline = Timeline(files)
        read = perf_counter()
        text = job_summary(timeline, Path(tmp), 30)
        summed = perf_counter()
        timeline.merge(Path(tmp, "ranks.pftrace"))
        merged = perf_counter()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return (
            f"{text.partition(chr(10) * 2)[0]}\n{size / 1e6:,.0f} MB: digests and clocks "
            f"{read - since:.2f} s, summary {summed - read:.2f} s, "
            f"merging {merged - summed:.2f} s; {peak / 1024:,.0f} MiB at most"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (default: 5)")
    parser.add_argument("--seconds", type=float, default=4, help="of training (default: 4)")
    parser.add_argument("--events", type=int, default=1_000_000, help="of the file")
    parser.add_argument("--ranks", type=int, default=0, help="only merge the traces of a job")
    parser.add_argument("--steps", type=int, default=10_000, help="of each of its ranks")
    options = parser.parse_args()
    if options.ranks:
        print(joined(options.ranks, options.steps))
        return
    recorder.open(1 << 10, 1 << 14)
    print("| what | ns on the calling thread |\n|---|---|")
    for name, took in per_event(min(options.seconds, 2)).items():
        print(f"| {name} | {took:,.0f} |")
    print(f"\n{making(options.events, max(options.rounds, 1))}\n", flush=True)
    if options.rounds:
        print(table(measure(SIDES, works(options.seconds)["mlp"], options.rounds)))


if __name__ == "__main__":
    main()
