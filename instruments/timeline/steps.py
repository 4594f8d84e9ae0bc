"""One span a step, with loading and compute inside, pauses between; forward, backward and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from overseer import Overseer
from overseer.trace.emit import channel
from overseer.trace.recorder import BEGIN, END, INSTANT
from overseer.trace.tracks import Track

from ..auto.phases import phases_of
from ..meter import measuring_of

if TYPE_CHECKING:
    from overseer.measure.step import Step

#: Rows of the phases that the automatic hooks tell of; what has none is the step model's to show.
ROWS = {
    "loading": "data loader",
    "transfer": "passes",
    "forward": "passes",
    "backward": "passes",
    "optimizer": "optimizer",
    "eval": "evaluation",
}
#: Tasks that have a row of their own.
TASKS = 32
#: The clock of steps where no device has one.
HOST = "perf_counter"


class StepRows:
    """Records steps as the step model judges them, one late; a row for each task and thread.

    Args:
        ov: The run.
        wanted: Whether a step of training is recorded.
        open: Whether what happens now is.
    """

    def __init__(
        self, ov: Overseer, wanted: Callable[[Step], bool], open: Callable[[], bool]
    ) -> None:
        self._wanted, self._open, self._now = wanted, open, ov.clock.now_ns
        self._channel = channel("steps", always=True)
        self._passes = channel("passes")
        self._tracks: dict[tuple[str, int], Track] = {}
        self._ends: dict[Track, int] = {}
        self._rows: dict[str, Track] = {}
        self._on = True
        self._meter = measuring_of(ov).begin()
        self._meter.also(self.add)
        self._leave = phases_of(ov).listen(self.phase)

    def close(self) -> None:
        """Record no more."""
        self._on = False
        self._leave()

    def add(self, steps: list[Step]) -> None:
        """Steps that have been judged."""
        for step in steps:
            if self._on and (step.task != "train" or self._wanted(step)):
                self._add(step)

    def _add(self, step: Step) -> None:
        track = self._track(step.task, step.thread)
        lasted, ended = self._channel.lasted, self._ends.get(track, 0)
        start, end = max(step.start_ns, ended), step.end_ns
        if end < start:
            return
        if step.pause_ns > 0 and ended and start > ended:
            lasted(ended, start, track, "pause")
        arguments = {"step": step.number}
        if step.items is not None:
            arguments["items"] = step.items
        self._channel.at(start, BEGIN, track, "step", arguments)
        at = start
        if step.loading_ns:
            at = min(start + step.loading_ns, end)
            lasted(start, at, track, "loading")
        if step.compute_ns is not None:
            begin = min(max(step.ready_ns or at, at), end)
            done = min(begin + step.compute_ns, end)
            lasted(begin, done, track, "compute")
            if self.on_device:
                self._executed(step, begin, done)
        self._channel.at(end, END, track, "step")
        self._ends[track] = end

    @property
    def on_device(self) -> bool:
        """Whether a device's clock times the steps."""
        return self._meter.clock_name != HOST

    def _executed(self, step: Step, start: int, end: int) -> None:
        """Show when the device worked on ``step``, on a row that all tasks share."""
        track = self._rows.get("device")
        if track is None:
            track = self._rows["device"] = Track(f"device ({self._meter.clock_name})")
        start = max(start, self._ends.get(track, 0))
        if start < end:
            arguments = {"step": step.number, "task": step.task}
            self._channel.lasted(start, end, track, "execution", arguments)
            self._ends[track] = end

    def mark(self, number: int) -> None:
        """The script says that a step has ended: marked where its device's own clock times it."""
        if self.on_device and self._on and self._open():
            track = self._rows.get("marks")
            if track is None:
                track = self._rows["marks"] = Track("step marks")
            self._channel.at(self._now(), INSTANT, track, "step", {"step": number})

    def _track(self, task: str, thread: int) -> Track:
        key = task, thread
        if key not in self._tracks:
            if len(self._tracks) >= TASKS:
                return next(reversed(self._tracks.values()))
            others = sum(known == task for known, _ in self._tracks)
            self._tracks[key] = Track(f"{task} steps" + (f" {others + 1}" if others else ""))
        return self._tracks[key]

    def phase(self, name: str, start_ns: int, end_ns: int) -> None:
        """A part of a step has ended, as the automatic hooks tell; the script waits for this."""
        row = ROWS.get(name)
        if row is None:
            return
        track = self._rows.get(row)
        # On another thread it may overlap: one row has one at a time.
        if track is None or start_ns < self._ends.get(track, 0):
            track = self._rows[row] = Track(row)
        self._passes.lasted(start_ns, end_ns, track, name)
        self._ends[track] = end_ns
