"""Replaying a log: what was recorded, and the steps that the fold makes of it.

``python -m tests.programs.replay LOG [--events]`` reads a ``kept.log``, which
``VOIR_KEEP_LOG=1 voir --trace main.py`` leaves in the run's directory, or a log of ``tests/logs``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from overseer.model.fold import Fold
from overseer.model.steps import Step
from overseer.recorder import sites as k
from overseer.recorder.log import events
from overseer.trace.writer import FOLD_TAG, STRUCTURE_TAG, TraceLog
from tests.programs.record import read


def pieces(path: Path) -> tuple[list[dict[str, Any]], Iterator[bytes]]:
    """The table of sites of a log, and its events in pieces."""
    if path.suffix == ".gz":
        head, data = read(path)
        return head["sites"], iter([data])
    log = TraceLog(path)

    def whole() -> Iterator[bytes]:
        for tag, data in log.events():
            if tag == FOLD_TAG:
                raise SystemExit("The log has lost events in between: only its head is replayed.")
            if tag == STRUCTURE_TAG:
                yield data

    return log.sites, whole()


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each event and each step of a log."""
    parser = argparse.ArgumentParser(prog="replay", description=__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("--events", action="store_true", help="events too, in order of their ends")
    options = parser.parse_args(arguments)
    sites, data = pieces(options.log)
    steps: list[Step] = []

    def show(step: Step) -> None:
        steps.append(step)
        print(
            f"step {step.number} of {step.task}: {step.ns / 1e6:.3f} ms, items {step.items:g}, "
            f"loss {step.loss:g}, parts {[round(ns / 1e6, 3) for ns in step.parts]}"
        )

    fold, first = Fold(sites, show), 0
    for piece in data:
        if not options.events:
            fold.feed(piece)
            continue
        for at, event in enumerate(events(piece)):
            first = first or event.start
            site = sites[event.site]
            kind = k.KINDS[site["kind"] or k.THREAD].name
            print(
                f"{(event.start - first) / 1e6:12.3f} ms  {kind} {site.get('label', '')} "
                f"took {event.ns / 1e6:.3f} ms, value {event.value:g}, object {event.object}, "
                f"depth {event.depth}, flags {event.flags:#x}, thread {event.thread}"
            )
            fold.feed(piece[at * 32 : at * 32 + 32])
    fold.finish()
    for task in fold.tasks.values():
        print(f"{task.name}: {task.steps} steps, {task.items:g} items")


if __name__ == "__main__":
    main(sys.argv[1:])
