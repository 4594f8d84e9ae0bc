"""Measure ``voir.proc``: throughput, and CPU time while waiting.

    python benchmarks/multiplexer.py [--megabytes 100] [--rounds 3] [--seconds 5] [--peer PYTHON]

A program writes the given megabytes in lines of 100 bytes; the table has the median of the
rounds, next to a handwritten reader (a loop over ``Popen.stdout`` without entries). The CPU time
of waiting is the reader's while four programs are silent, one of them with its streams closed.
``--peer`` is the python of an environment with voir 0.2, for the same measurements there.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from overhead import existing

LINE = 100
MEGABYTE = 1_000_000
WRITER = """
import os, sys
block = (b"x" * {text} + b"\\n") * 1000
left = {size}
while left > 0:
    left -= len(block)
    os.write(1, block)
"""


def by_voir(command: list[str]) -> Iterator[str]:
    """The lines of a program, as entries of a multiplexer."""
    from voir.proc import run

    for entry in run(command, info={"index": 1}, constructor=entry_class(), timeout=None):
        if entry.event == "line":
            yield entry.data


def entry_class() -> type:
    from dataclasses import dataclass

    from voir.proc import LogEntry

    @dataclass
    class Entry(LogEntry):
        index: int = 0

    return Entry


def by_hand(command: list[str]) -> Iterator[str]:
    """The lines of a program, without any entries."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield from process.stdout


def rate(read: Callable[[list[str]], Iterator[str]], megabytes: int) -> float:
    """Megabytes a second that pass."""
    size = megabytes * MEGABYTE
    command = [sys.executable, "-S", "-c", WRITER.format(text=LINE - 1, size=size)]
    started = time.perf_counter()
    lines, seen = 0, 0
    for line in read(command):
        lines, seen = lines + 1, seen + len(line)
    seconds = time.perf_counter() - started
    if seen < size:
        raise SystemExit(f"{seen} bytes came of {size}")
    if lines != seen // LINE:
        print(f"  of {seen // LINE} lines, {lines - seen // LINE} came in two pieces")
    return seen / MEGABYTE / seconds


def waiting(seconds: float) -> float:
    """Percent of a core that reading takes while four programs say nothing."""
    from voir.proc import Multiplexer

    multiplexer = Multiplexer(timeout=None)
    for number in range(4):
        quiet = f"exec sleep {seconds}" if number else f"exec >&- 2>&-; exec sleep {seconds}"
        multiplexer.start(["/bin/sh", "-c", quiet], info={})
    started, used = time.perf_counter(), time.process_time()
    for _ in multiplexer:
        pass
    return 100 * (time.process_time() - used) / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--peer", metavar="PYTHON", type=existing)
    options = parser.parse_args()
    if options.peer:
        peer = [options.peer, __file__, "--megabytes", "10", "--rounds", "1"]
        print("voir 0.2, 10 MB:", flush=True)
        subprocess.run([*peer, "--seconds", str(options.seconds)])
    for name, read in (("voir", by_voir), ("by hand", by_hand)):
        rates = [rate(read, options.megabytes) for _ in range(options.rounds)]
        print(f"{name:8} {statistics.median(rates):7.0f} MB/s ({LINE} bytes a line)", flush=True)
    print(f"waiting  {waiting(options.seconds):7.2f} % of a core")


if __name__ == "__main__":
    main()
