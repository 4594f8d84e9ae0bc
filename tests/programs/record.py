"""Recording programs: each runs under voir's own hooks, and its events are kept as a log.

``python -m tests.programs.record [NAME ...]`` writes ``tests/logs/NAME.log.gz`` of the programs of
these names, or of all; with ``--into DIRECTORY``, there. A log is one line of JSON (what the
program counts itself, the table of sites, the version of torch), then the events of the structure
ring: first the first bytes of all events, then the second ones, and so on: it compresses better.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LOGS = HERE.parent / "logs"
SIZE = 32
#: Not programs.
OTHERS = {"__init__", "record", "recorded", "replay", "training", "truth"}


def programs() -> list[str]:
    """The names of all programs that need nothing but torch."""
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem not in OTHERS)


def read(path: Path) -> tuple[dict[str, Any], bytes]:
    """What the first line of a log says, and its events."""
    head, _, columns = gzip.decompress(path.read_bytes()).partition(b"\n")
    n = len(columns) // SIZE
    data = bytearray(len(columns))
    for place in range(SIZE):
        data[place::SIZE] = columns[place * n : (place + 1) * n]
    return json.loads(head), bytes(data)


def write(path: Path, head: dict[str, Any], data: bytes) -> None:
    """Write a log."""
    line = json.dumps(head, separators=(",", ":"), default=str).encode() + b"\n"
    columns = b"".join(data[place::SIZE] for place in range(SIZE))
    path.write_bytes(gzip.compress(line + columns, 9, mtime=0))


def run(script: Path) -> tuple[dict[str, Any], bytes]:
    """Run a program under voir, in this process; the first line of a log, and its events."""
    import torch

    from instruments.auto import instrument_auto
    from instruments.rate import instrument_rates
    from overseer import Overseer
    from overseer.recorder import table

    torch.set_num_threads(1)
    pieces: list[bytes] = []

    def instrument_log(ov: Overseer) -> Any:
        ov.measuring.read(pieces.append)
        yield ov.phases.init

    overseer = Overseer([instrument_auto, instrument_rates, instrument_log], stderr=io.StringIO())
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        overseer(["--no-record", str(script)])
    rows = [{key: row[key] for key in ("kind", "task") if key in row} for row in table.rows]
    truth = {"losses": None, "unknown": [], **json.loads(printed.getvalue().splitlines()[-1])}
    return {"torch": torch.__version__, "truth": truth, "sites": rows}, b"".join(pieces)


def record(name: str, logs: Path) -> str:
    """Record a program in a process of its own; returns its traceback, if it failed."""
    sys.stdout.flush()
    here, there = os.pipe()
    pid = os.fork()
    if pid:
        os.close(there)
        with open(here, encoding="utf-8") as told:
            failure = told.read()
        os.waitpid(pid, 0)
        return failure
    try:
        os.close(here)
        path = HERE / f"{name}.py"
        try:
            write(logs / f"{path.stem}.log.gz", *run(path))
        except BaseException:
            os.write(there, traceback.format_exc().encode())
    finally:
        os._exit(0)


def main(arguments: list[str]) -> int:
    """Record programs; returns how many failed."""
    import torch  # Once for all of them, as each runs in a fork of this process.

    torch.set_num_threads(1)
    logs = LOGS
    if arguments[:1] == ["--into"]:
        logs, arguments = Path(arguments[1]), arguments[2:]
    logs.mkdir(exist_ok=True)
    failed = 0
    for name in arguments or programs():
        failure = record(name, logs)
        failed += bool(failure)
        print(f"{name}: {failure or 'recorded'}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
