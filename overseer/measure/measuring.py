"""What an instrument asks of the measuring of a run; measuring begins with the first events."""

from __future__ import annotations

from _thread import allocate_lock
from functools import partial

from ..errors import Problem
from ..recorder import recorder, table
from .alarm import Alarm, StepAlarm
from .doings import Doings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..context import Context
    from ..model.fold import Fold
    from ..model.steps import Step
    from ..rundir.recording import Recording
    from ..rundir.stepsfile import StepsFile
    from ..timers import Timer
    from .pipeline import Pipeline
    from .publishing import Publisher
    from .windows import RateRequest

#: Seconds between two ticks of the pipeline.
TICK_SECONDS = 0.1


class Measuring:
    """The measuring of one run: ``ov.measuring``.

    Args:
        context: The run.
        bus: The stream of given events.
        log: Sends an event out of the process.
        recording: Returns the record, once there is one.
        is_stopping: Returns whether the run has been asked to end.

    Attributes:
        alarm: The recorder's alarm.
        given_skip: Left out at the beginning of each task if ``--skip`` is not given.
        given_method: What a voirfile takes for steps, like :attr:`method`.
        requests: Windows that voirfiles request.
    """

    def __init__(
        self,
        context: Context,
        bus: Publisher,
        log: Callable[[dict[str, Any]], object],
        recording: Callable[[], Recording | None],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._context, self._bus, self._log = context, bus, log
        self._recording, self._is_stopping = recording, is_stopping
        self.alarm = Alarm()
        self.given_skip: str | float | None = None
        self.given_method: str | None = None
        self.requests: list[RateRequest] = []
        self._sinks: list[Callable[[list[Step]], object]] = []
        self.doings = Doings(table.rows)
        self._readers: list[Callable[[bytes], object]] = [self.doings]
        self._stops = StepAlarm(self.alarm, self._caught_up)
        self._due = False
        self._beginning = allocate_lock()
        self._pipeline: Pipeline | None = None
        self._timer: Timer | None = None
        context.live |= {"tasks": self.facts, "control": self.doings.facts}

    @property
    def method(self) -> str | None:
        """``step``: pairs do not count as steps; ``wrap``: only pairs do; None: both."""
        return self.given_method or getattr(self._context.options, "metric", None)

    @property
    def multiplier(self) -> int:
        """Items of a step count this many times."""
        return getattr(self._context.options, "items_per_step", 1)

    # Requests

    def also(self, sink: Callable[[list[Step]], object]) -> None:
        """Call ``sink`` with the steps that finished since the last tick, on a timer's thread."""
        self._sinks.append(sink)

    def read(self, reader: Callable[[bytes], object]) -> None:
        """Call ``reader`` with the structure ring's events, after the fold and under its lock."""
        self._readers.append(reader)

    def stop_at(
        self, n: int, task: str | None, reached: Callable[[], object], once: bool = False
    ) -> None:
        """Call ``reached`` on the script's thread at step ``n``.

        Args:
            n: Number of steps.
            task: Count this task's; None: those of training, or of all tasks if nothing learns.
            reached: May raise what ends the script.
            once: Call it once; otherwise at every step from there on.
        """
        self._stops.add(n, task, reached, once)
        if self.fold is not None:
            self._stops.arm(self.fold)
        self.begin()

    # Figures

    @property
    def fold(self) -> Fold | None:
        """The fold; None while nothing has been recorded that it could read."""
        pipeline = self._pipeline
        return None if pipeline is None else pipeline.fold

    def stepped(self) -> tuple[float, float] | None:
        """When the main task's first step ended, and its last, in seconds; None: no step yet."""
        return None if self._pipeline is None else self._pipeline.stepped()

    def facts(self, final: bool = False) -> dict[str, Any]:
        """The ``tasks`` of ``run.json``, as of now."""
        return {} if self._pipeline is None else self._pipeline.facts(final)

    def catch_up(self) -> None:
        """Fold all events so far."""
        if self._pipeline is not None:
            self._pipeline.catch_up()

    def _caught_up(self) -> Fold | None:
        self.catch_up()
        return self.fold

    # Begin and end

    def begin(self) -> None:
        """Measure from here on; until the run is configured, events wait in the ring."""
        self._due = True
        if self._context.configured and self._pipeline is None:
            self._begin()

    def begin_if_due(self) -> None:
        """Begin if :meth:`begin` was called before the run was configured."""
        if self._due:
            self.begin()

    def close(self) -> bool:
        """Fold what is left and write the figures into the summary; False: nothing to measure."""
        pipeline, timer = self._pipeline, self._timer
        self._stops.off()
        if pipeline is None or timer is None:
            return False
        self._timer = None
        timer.__exit__(None, None, None)
        self._context.summary.update(pipeline.finish())
        return True

    def raise_request(self) -> None:
        """Raise a stop that a subscriber requested at the end."""
        if self._pipeline is not None:
            self._pipeline.raise_request()

    def _begin(self) -> None:
        with self._beginning:
            if self._pipeline is not None:
                return
            pipeline = self._pipeline = self._made()
        self._stops.arm(pipeline.fold)
        recorder.when_full(pipeline.spill)
        self._timer = self._context.every(TICK_SECONDS, pipeline.tick, first=TICK_SECONDS)
        self._timer.__enter__()

    def _made(self) -> Pipeline:
        # Imported here: a run without events does not pay for it.
        from ..model.spans import parse_span
        from ..model.summary import Summary
        from ..recorder.device import Marks
        from .draining import Draining
        from .pipeline import Pipeline
        from .publishing import Delivery, Publishing
        from .windows import RateRequest, RateWindows, logged_rates

        options = self._context.options
        skip = self.given_skip if options.skip is None else options.skip
        skipped = None if skip is None else parse_span(skip, "--skip")
        interval = parse_span(options.interval or "1s", "--interval", least=1)
        logged, given = logged_rates(options), not self.requests
        if logged or given:
            self.requests.append(RateRequest(interval, skipped, logged, given))
        draining = Draining(self.method, self._context.first_site, self._readers)
        fold, deliver = draining.fold, Delivery(self._is_stopping)
        give, log = partial(deliver, self._bus.push), partial(deliver, self._log)
        return Pipeline(
            Marks(self._untimed),
            draining,
            Summary(fold, skipped, self.multiplier),
            self._steps_file(skip),
            RateWindows(self.requests, self.multiplier, fold, give, log),
            self._sinks,
            Publishing(fold, self._bus, deliver),
        )

    def _steps_file(self, skip: str | float | None) -> StepsFile | None:
        """Writes the steps of a run that has a record."""
        context, recording = self._context, self._recording()
        megabytes = context.options.steps_max_mb
        if recording is None or context.options.no_record or not megabytes:
            return None
        from ..rundir.stepsfile import StepsFile

        file = StepsFile(
            lambda: recording.directory.path,
            context.report,
            megabytes,
            recording.started,
            self.multiplier,
            skip,
        )
        context.live["steps"] = file.section
        return file

    def _untimed(self, what: str) -> None:
        """Report that the script uses a device whose clock is left alone."""
        self._context.report(Problem("device-clock", "step model", what))
