"""Takes events from the ring through the fold to all that reads steps, ten times a second."""

from __future__ import annotations

from ..model.alike import each
from ..recorder import recorder
from ..recorder.sites import WORD_BEAT, WORD_STEPPED, WORD_STEPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..model.steps import Step
    from ..model.summary import Summary
    from ..recorder.device import Marks
    from ..rundir.stepsfile import StepsFile
    from .draining import Draining
    from .publishing import Publishing
    from .windows import RateWindows


class Pipeline:
    """Drains, folds, and hands finished steps out, on the thread of a timer.

    Args:
        marks: Reads the device's clock.
        draining: Feeds the fold.
        summary: Adds steps to the figures of their task.
        file: Writes ``steps.npy``; None: the run has no record.
        windows: Cuts steps into windows.
        sinks: Called with lists of steps, in order.
        publishing: Gives steps as events.

    Attributes:
        fold: Makes steps of events.
    """

    def __init__(
        self,
        marks: Marks,
        draining: Draining,
        summary: Summary,
        file: StepsFile | None,
        windows: RateWindows,
        sinks: list[Callable[[list[Step]], object]],
        publishing: Publishing,
    ) -> None:
        self._marks, self._draining, self.fold = marks, draining, draining.fold
        self._summary, self._file, self._windows = summary, file, windows
        self._sinks, self._publishing = sinks, publishing

    def stepped(self) -> tuple[float, float] | None:
        """When the main task's first step ended, and its last; in seconds."""
        return self._summary.stepped

    def facts(self, final: bool) -> dict[str, Any]:
        """The ``tasks`` of ``run.json``."""
        with self._draining.lock:
            return self._summary.section(self._marks.clock, final)

    def catch_up(self) -> None:
        """Fold all events so far."""
        self._draining.feed()

    def spill(self) -> None:
        """Empty the ring, which is nearly full."""
        self._draining.spill()

    def tick(self) -> None:
        """Fold new events for a moment, hand out steps, and write the heartbeat.

        Raises:
            BaseException: A stop that a subscriber requested.
        """
        self._marks.tick()
        self._draining.feed_briefly()
        self._hand_out()
        if self._file is not None:
            self._file.tick(recorder.now())
        self._beat()
        self.raise_request()

    def finish(self) -> dict[str, Any]:
        """Fold what is left, close the windows and the file; the final sections of ``run.json``."""
        self._marks.finish()
        self._draining.feed()
        with self._draining.lock:
            self.fold.finish()
        self._hand_out()
        self._windows.finish()
        sections: dict[str, Any] = {"tasks": self.facts(final=True)}
        if self._file is not None:
            self._file.flush()
            sections["steps"] = self._file.section()
        return sections

    def raise_request(self) -> None:
        """Raise a stop that a subscriber requested since the last tick."""
        self._publishing.deliver.raise_request()

    def _hand_out(self) -> None:
        finished = self._draining.finished
        with self._draining.lock:
            steps = finished[:]
            finished.clear()
            if steps:
                self._summary.add(steps)
        if not steps or self.fold.lost:
            return
        if self._file is not None:
            self._file.add(steps)
        self._windows.add(steps)
        if self._sinks:
            single = each(steps)
            for sink in self._sinks:
                sink(single)
        self._publishing.add(steps)

    def _beat(self) -> None:
        """Write how far the run is into the recorder's header, which outlives a SIGKILL."""
        main = self._summary.main
        if main is not None:
            recorder.control(WORD_STEPS, self.fold.tasks[main].steps)
            recorder.control(WORD_STEPPED, self.fold.tasks[main].end)
        recorder.control(WORD_BEAT, recorder.now())
