"""Turns what the feeds keep into a board, once a frame, in the dashboard's own thread."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from instruments.dash.board import Board, Given, Task, Trend
from instruments.dash.cells import clean
from instruments.dash.feed import DEFAULT_TASK, MONITORS, Burst, Feed, Slot, Stamped
from instruments.dash.machine import Machine
from instruments.dash.pace import Pace
from instruments.dash.series import Series, squeeze
from instruments.dash.values import DeviceScalar, as_number, as_text, mapping, pair

#: Keys that have a row of their own, and those that only qualify another key.
_ROWS = frozenset({"loss", "rate", "progress", "loading_share", "compute_share"})
_QUIET = MONITORS | {"units", "compute_start", "compute_end"}
#: What counts as a step when nothing gives a rate, best first, and the unit that makes.
_STEPS = {"step": "steps/s", "batch": "batches/s", "loss": "losses/s"}
#: Frames over which progress and steps are timed: about half a minute, and five seconds.
_LONG, _SHORT = 60, 10
#: Points of history a frame, so that a short run has a curve, too.
_POINTS = 4

Slots = Mapping[str, Slot]


class Progress(NamedTuple):
    """Done of total, seconds left, and the part of the whole run, each as far as known."""

    done: float | None
    total: float | None
    left: float | None
    through: float | None


class Track:
    """The history of one task."""

    def __init__(self) -> None:
        self._loss, self._rate = Series(), Series()
        self._low = math.inf
        self._last: float | None = None
        self._progress, self._steps = Pace(_LONG), Pace(_SHORT)
        self._rated = 0
        #: Whether the progress has started again, as it does where each epoch counts its own.
        self._again = False

    def loss(self, slot: Slot | None) -> Trend | None:
        """The loss so far; every value since the last frame counts."""
        if not isinstance(slot, Burst):
            return None
        if values := slot.drain():
            for point in squeeze(values, _POINTS):
                self._loss.add(point)
            self._last = values[-1]
            self._low = min([self._low, *filter(math.isfinite, values)])
        if self._last is None:
            return None
        low = self._low if math.isfinite(self._low) else None
        return Trend(self._loss.points(), self._last, as_number(slot.first), low)

    def rate(self, now: float, slots: Slots) -> tuple[Trend | None, str]:
        """The given rate and its unit; without one, steps timed here."""
        slot = slots.get("rate")
        last = as_number(slot.kept) if slot else None
        if slot is None or last is None:
            return self._timed(now, slots)
        if slot.count != self._rated:
            if not self._rated:  # What was timed until now has another unit.
                self._rate = Series()
            self._rated = slot.count
            self._rate.add(last)
        units = slots.get("units")
        return Trend(self._rate.points(), last), as_text(units.kept) if units else "per second"

    def _timed(self, now: float, slots: Slots) -> tuple[Trend | None, str]:
        key = next((key for key in _STEPS if key in slots), None)
        if key is None:
            return None, ""
        self._steps.see(now, slots[key].count)
        speed = self._steps.per_second(now)
        if speed is None:
            return None, ""
        self._rate.add(speed)
        return Trend(self._rate.points(), speed), _STEPS[key]

    def progress(self, slot: Slot | None, now: float) -> Progress:
        """How far the task is and how long it will take."""
        done, total = pair(slot.kept if slot else None) or (None, None)
        if done is None or not total:
            return Progress(done, None, None, None)
        at = slot.at / 1e9 if isinstance(slot, Stamped) else now
        self._again |= self._progress.see(at, done)
        through = None if self._again else done / total
        return Progress(done, total, self._progress.seconds_to(total, now), through)


class Reader:
    """Reads two feeds: what was given, and what was only logged."""

    def __init__(self, given: Feed, logged: Feed) -> None:
        self._feeds = (given, logged)
        self._tracks: dict[str, Track] = {}
        self._machine = Machine()

    def read(self, title: str, start: int, now: int, known: Mapping[str, object]) -> Board:
        """The board of this moment.

        Args:
            start: Monotonic nanoseconds at the start of the run, and ``now`` at this moment.
            known: What the run's record says of each task so far, by name.
        """
        slots = self._slots()
        monitors = {k: s for part in slots.values() for k, s in part.items() if k in MONITORS}
        board = Board(
            title=clean(title),
            elapsed=(now - start) / 1e9,
            tasks=tuple(self._tasks(slots, now / 1e9, known)),
            host=self._machine.host(monitors),
            gpus=self._machine.gpus(monitors),
            flows=self._machine.flows(monitors),
            given=tuple(_cells(slots)),
        )
        for part in slots.values():
            for slot in part.values():
                slot.renew()
        return board

    def _slots(self) -> dict[str, dict[str, Slot]]:
        """Each task's slots; a key that was given is not shown again when it is logged."""
        merged: dict[str, dict[str, Slot]] = {}
        for feed in self._feeds:
            # Copied first, in one step of the interpreter: other threads add keys meanwhile.
            for task, slots in dict(feed.tasks).items():
                part = merged.setdefault(task, {})
                part.update({k: s for k, s in dict(slots).items() if s.count and k not in part})
        return merged

    def _tasks(
        self, slots: Mapping[str, Slots], now: float, known: Mapping[str, object]
    ) -> Iterator[Task]:
        for name, part in slots.items():
            if not (_ROWS | _STEPS.keys()).isdisjoint(part):
                yield self._task(name, part, now, mapping(known.get(name)))

    def _task(self, name: str, slots: Slots, now: float, known: Mapping[object, object]) -> Task:
        track = self._tracks.setdefault(name, Track())
        progress = track.progress(slots.get("progress"), now)
        rate, units = track.rate(now, slots)
        loading, compute = _shares(slots, known)
        return Task(
            name=clean(name),
            done=progress.done,
            total=progress.total,
            left=progress.left,
            through=progress.through,
            steps=next((slots[key].count for key in _STEPS if key in slots), 0),
            loss=track.loss(slots.get("loss")),
            rate=rate,
            units=units,
            loading=loading,
            compute=compute,
        )


def _kept(slots: Slots, key: str) -> object:
    slot = slots.get(key)
    return slot.kept if slot else None


def _shares(slots: Slots, known: Mapping[object, object]) -> tuple[float | None, float | None]:
    """Loading and compute, from events or else from the record; one gives the other."""
    loading, compute = (
        as_number(_kept(slots, f"{part}_share"))
        if f"{part}_share" in slots
        else as_number(mapping(known.get(part)).get("share"))
        for part in ("loading", "compute")
    )
    if loading is None and compute is not None:
        loading = 1 - compute
    if compute is None and loading is not None:
        compute = 1 - loading
    return loading, compute


def _cells(slots: Mapping[str, Slots]) -> Iterator[Given]:
    for task, part in slots.items():
        for key, slot in part.items():
            stamp = key == "time" and not MONITORS.isdisjoint(part)
            if key not in _QUIET and not stamp and (key not in _ROWS or _is_odd(key, slot)):
                yield Given(_label(task, key), as_text(slot.kept), slot.count)


def _is_odd(key: str, slot: Slot) -> bool:
    """Whether the value cannot be drawn in the row that its key has."""
    if key == "progress":
        return pair(slot.kept) is None
    return as_number(slot.kept) is None and not isinstance(slot.kept, DeviceScalar)


def _label(task: str, key: str) -> str:
    plain = task in (DEFAULT_TASK, "main")  # Monitors and single-task scripts need no prefix.
    return clean(key if plain else f"{task}/{key}")
