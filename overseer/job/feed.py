"""Feeds a board from the files of a run, live or not: the same board that a run feeds itself."""

from __future__ import annotations

import math
import os
from collections import deque
from contextlib import suppress
from typing import Any

from ..boundary import said
from ..clock import time_ns
from ..errors import VoirError, clean
from ..files import parsed, reading
from ..model.facts import main_task_name, number, part
from ..recorder.log import read_header
from ..rundir.killed import IDLE_SECONDS
from ..rundir.reading import Run, as_number, read_run
from ..rundir.steps import STEPS_FILE, Stretch, steps_of
from ..views.dash.board import HEARD, Board, History
from ..views.text import cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Rows of ``steps.npy`` that are read of a long run or range, and the places that they come from.
_ROWS, _PLACES = 20_000, 1000
#: Bytes of ``metrics.jsonl`` that are read at a time: what is older is not the latest.
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
        self._latest: dict[str, _Latest] = {}
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
            VoirError: The run cannot be read any more, or its record is damaged.
        """
        try:
            self._refresh()
        except VoirError:
            raise
        except Exception as error:  # Another program's record.
            what = f"the record of {self._path} cannot be shown: {said(error)}"
            raise VoirError("run-damaged", what, "voir doctor RUN checks its files.") from None

    def _refresh(self) -> None:
        path, before = self._path, self._changed
        self._changed = _state(path / "run.json")
        if self._changed != before or not self.ended:
            self.run = read_run(path)
        facts, fresh = self.run.facts, self._offset < 0
        self._events()
        told = part(facts, "tasks")
        self.board.read(self._now(facts), lambda: told, last=True)
        self._read_steps(fresh)
        for name, task in self.board.tasks.items():
            task.facts = _renewed(task.facts, self._latest.get(name))
        for bar in facts.get("progress") or () if self.ended else ():
            self._bar(bar)
        idle = number(facts, "idle.seconds") or 0.0
        main = self.board.tasks.get(main_task_name(facts) or "")
        if idle >= IDLE_SECONDS and main is not None and main.now and not self.ended:
            main.now = 0.0
            main.rate.add(self.board.now - idle, 0.0)
        if main is not None and main.now == 0.0:
            main.rate.add(self.board.now, 0.0)

    def _bar(self, bar: object) -> None:
        """Set a progress bar as it was at the end."""
        done, total = number(bar, "done"), number(bar, "total")
        if isinstance(bar, dict) and done is not None and total:
            task = self.board.task(bar.get("task"))
            if task is not None and task.of:
                task.progressed(self.board.now, done, total, task.unit)

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
            self._base = self._base or self._begin(facts)
            if not self._base:  # The run is about to write it.
                return
            if anew:
                self._latest.clear()
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

    def _begin(self, facts: Mapping[str, Any]) -> int:
        """The run's start by the clock of its steps, in ns; 0 if it is not known yet."""
        begin = number(part(facts, "steps"), "start")
        header = read_header(os.fspath(self._path)) if begin is None else None
        if header is not None and self.run.began is not None:
            return header.monotonic + round(self.run.began * _NS) - header.epoch
        return int(begin or 0)

    def _draw(self, rows: Stretch, together: int) -> None:
        task = self.board.task(rows.task)
        if task is None:
            return
        starts, ends, losses, items = (rows[name] for name in ("start", "end", "loss", "items"))
        base = self._base
        task.began = (starts[0] - base) / _NS if task.began is None else task.began
        units = cut(clean(str(task.facts.get("units") or "items")), 20)
        task.units = units if units.endswith("/s") else f"{units}/s"
        self.board.by_steps = True
        self._latest.setdefault(rows.task, _Latest()).add(rows)
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
            if self._offset < 0 or not 0 <= size - self._offset <= _TAIL_BYTES:
                self._offset, self._rest = max(size - _TAIL_BYTES, 0), b""
                if self._offset:
                    file.seek(self._offset)
                    self._offset += len(file.readline())
            file.seek(self._offset)
            data = file.read(size - self._offset)
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


class _Latest:
    """The steps of a task that are newer than its figures in ``run.json``."""

    def __init__(self) -> None:
        self._rows: deque[tuple[int, float, float]] = deque(maxlen=_ROWS)

    def add(self, rows: Stretch) -> None:
        """Add steps."""
        self._rows.extend(zip(rows["step"], rows["items"], rows["loss"], strict=True))

    def after(self, step: float) -> list[tuple[int, float, float]]:
        """The number, items and loss of each step after this one; others are forgotten."""
        while self._rows and self._rows[0][0] <= step:
            self._rows.popleft()
        return [*self._rows]


def _renewed(facts: Mapping[str, Any], latest: _Latest | None) -> dict[str, Any]:
    """A task's figures with those of its latest steps, and with numbers that are not finite."""
    known = number(facts, "steps") or 0.0
    losses = {key: _plain(value) for key, value in part(facts, "loss").items()}
    made = {**facts, "loss": losses} if losses else {**facts}
    newer = latest.after(known) if latest is not None else []
    if not newer:
        return made
    made["steps"] = steps = newer[-1][0]
    items = sum(each for _, each, _ in newer) / len(newer)  # Of a thinned file, of some.
    if math.isfinite(items) and "items" in facts:
        made["items"] = (number(facts, "items") or 0.0) + round((steps - known) * items)
    if given := [loss for *_, loss in newer if not math.isnan(loss)]:
        lowest = as_number(losses.get("min"))
        finite = [loss for loss in given if math.isfinite(loss)]
        losses = {**losses, "last": given[-1]}
        if finite and (lowest is None or min(finite) < lowest):
            losses["min"] = min(finite)
        made["loss"] = {"first": given[0], **losses}
    return made


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
