"""Feeds a board from the files of a run, live or not: the same board that a run feeds itself."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from typing import Any

from ..clock import time_ns
from ..errors import VoirError
from ..files import parsed, reading
from ..model.facts import number, part
from ..rundir.reading import Run, as_number, read_run
from ..rundir.steps import STEPS_FILE, Stretch, steps_of
from ..views.dash.board import HEARD, Board, History

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Rows of ``steps.npy`` that are read of a long run or range, and the places that they come from.
_ROWS, _PLACES = 20_000, 1000
#: Bytes of ``metrics.jsonl`` that are read at first, and then at a time.
_TAIL_BYTES = 1 << 18
#: Points of a curve, about.
_POINTS = 2000
_NS = 1e9


class Feed:
    """Reads what one process of a run has written since it last looked, and feeds a board.

    Times on the board are seconds since the run's start. Curves are those of the recorded steps:
    of many of them, of some in evenly spread places.

    Args:
        path: The directory of the process.

    Raises:
        VoirError: There is no run in it, or it cannot be read.

    Attributes:
        run: The run as last read.
        board: The board.
        said: Why its steps cannot be read, if so.
    """

    def __init__(self, path: Path) -> None:
        self.run = read_run(path)
        self.board, self.said = Board(_title(self.run)), ""
        self._path = path
        self._changed: tuple[int, ...] | None = None
        self._steps: tuple[int, ...] | None = None
        self._after, self._base = 0, 0
        self._latest: dict[str, tuple[int, float]] = {}
        self._offset = -1
        self._rest = b""
        self.refresh()

    @property
    def ended(self) -> bool:
        """Whether the run has ended, or was killed."""
        return "ended" in self.run.facts

    def refresh(self) -> None:
        """Read what is new.

        Raises:
            VoirError: The run cannot be read any more.
        """
        path, before = self._path, self._changed
        self._changed = _state(path / "run.json")
        if self._changed != before or not self.ended:
            self.run = read_run(path)
        facts, fresh = self.run.facts, self._offset < 0
        self._events()
        told = part(facts, "tasks")
        self.board.read(self._now(facts), lambda: told, last=True)
        self._read_steps(fresh)
        for name, (steps, loss) in self._latest.items():
            task = self.board.tasks.get(name)
            if task is not None and steps > (number(task.facts, "steps") or 0):
                last = {"loss": {**part(task.facts, "loss"), "last": loss}} if loss == loss else {}
                task.facts = {**task.facts, "steps": steps, **last}

    def look_back(self, seconds: float | None) -> None:
        """Draw the curves anew, of the latest time only, and so with more points; None: whole."""
        end = self._base + round(self._now(self.run.facts) * _NS)
        self._after = 0 if seconds is None else end - round(seconds * _NS)
        self._read_steps(True)

    def _now(self, facts: Mapping[str, Any]) -> float:
        known = number(facts, "seconds") or 0.0
        if "ended" in facts or self.run.began is None:
            return known
        return max(known, time_ns() / _NS - self.run.began)

    # Steps

    def _read_steps(self, anew: bool) -> None:
        """Add new rows to the curves; ``anew`` clears them first."""
        state = _state(self._path / STEPS_FILE)
        if state is None or (state == self._steps and not anew):
            return
        facts = self.run.facts
        try:
            steps = steps_of(self._path, facts)
            if steps is None:
                return
            self._base = int(number(part(facts, "steps"), "start") or self._base)
            if anew:
                for task in self.board.tasks.values():
                    task.loss, task.rate = History(), History(length=0.5)
            first, last = steps.row_at(self._after), self._after
            together = 1 + min(len(steps) - first, _ROWS) // _POINTS
            for rows in steps.stretches(_ROWS, _PLACES, first):
                self._draw(rows, together)
                last = max(last, rows["end"][-1])
            self._after, self.said = last, ""
        except VoirError as error:
            self.said = error.what
        self._steps = state

    def _draw(self, rows: Stretch, together: int) -> None:
        task = self.board.task(rows.task)
        if task is None:
            return
        starts, ends, losses, items = (rows[name] for name in ("start", "end", "loss", "items"))
        base = self._base = self._base or starts[0]
        task.began = (starts[0] - base) / _NS if task.began is None else task.began
        units = str(task.facts.get("units") or "items")
        task.units = units if units.endswith("/s") else f"{units}/s"
        self.board.by_steps = True
        self._latest[rows.task] = rows["step"][-1], losses[-1]
        for at in range(0, len(rows), together):
            some = slice(at, at + together)
            end = (ends[some][-1] - base) / _NS
            known = [loss for loss in losses[some] if not math.isnan(loss)]
            if known:
                task.loss.include(end, sum(known), len(known), min(known), max(known))
            took = (sum(ends[some]) - sum(starts[some])) / _NS
            done = sum(items[some])
            if took > 0:
                rate = (done if math.isfinite(done) else len(ends[some])) / took
                task.rate.add(end, rate)

    # Events

    def _events(self) -> None:
        """Feed the new lines of ``metrics.jsonl``; of those written before, the last ones."""
        began = self.run.began
        with suppress(OSError), reading(self._path / "metrics.jsonl") as file:
            size = os.fstat(file.fileno()).st_size
            if self._offset < 0 or size < self._offset:
                self._offset, self._rest = max(size - _TAIL_BYTES, 0), b""
                if self._offset:
                    file.seek(self._offset)
                    self._offset += len(file.readline())
            file.seek(self._offset)
            data = file.read(min(size - self._offset, _TAIL_BYTES))
            self._offset += len(data)
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                with suppress(ValueError):
                    event = parsed(line)
                    if isinstance(event, dict):
                        self._feed(event, began)

    def _feed(self, event: dict[str, Any], began: float | None) -> None:
        at = as_number(event.get("t"))
        seconds = at - began if at is not None and began is not None else 0.0
        event = {key: _plain(value) for key, value in event.items() if key not in _ADDED}
        if not event.keys().isdisjoint(HEARD):
            self.board.hear(event, seconds)
        self.board.keep(event)


def _plain(value: object) -> object:
    """A value of JSON, with numbers that are not finite as such."""
    return as_number(value) if isinstance(value, str) and value in _ODD else value


_ODD = frozenset({"NaN", "Infinity", "-Infinity"})
#: Keys that the record adds to an event.
_ADDED = frozenset({"t", "n"})


def _title(run: Run) -> str:
    name = run.facts.get("name")
    script = os.path.basename(str(run.facts.get("script") or run.path.name))
    return f"{script} · {name}" if name else script


def _state(path: Path) -> tuple[int, ...] | None:
    """What changes with a file; None without it."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
