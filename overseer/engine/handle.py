"""The object that instruments receive: a run's streams, probes, options and record."""

from __future__ import annotations

import os
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import cached_property, partial

from ..boundary import Guarded, StopProgram, current, here, name_of
from ..clock import Clock, Overhead, monotonic, time_ns
from ..context import VERSION, Context, Own
from ..errors import Problem, UsageError
from ..launch import Program
from ..recorder.sites import STOP_NOW, WORD_STOP
from ..timers import Timer
from .bus import Bus, Subscription
from .ending import RunEnding, Stopping, reason_of
from .options import OptionParser, add_options
from .phases import Scheduler

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from types import FrameType
    from typing import Any, NoReturn, TextIO

    from ..measure.measuring import Measuring
    from ..probes import Engine
    from ..rundir.recording import Recording
    from .operators import Given
    from .phases import Instrument
    from .probe import Probe, Probing

#: Seconds that an instrument may block the script before that is reported.
SLOW_SECONDS = 30.0
#: Interval at which a rank looks whether another one asks to stop, in seconds.
AGREE_SECONDS = 1.0
#: Why a run was stopped early, in its record.
BY_COMMAND = "by voir stop"
PHASES = ["init", "parse_args", "load_script", "run_script", "finalize"]


class LogStream:
    """``ov.log``: call it with an event to send it out, or use giving's operators on it."""

    def __init__(self, stream: Bus) -> None:
        self._stream = stream

    def __call__(self, data: dict[str, Any]) -> None:
        """Send an event to the record, to ``DATA_FD`` and to the dashboard."""
        self._stream.push(data)

    @cached_property
    def _operators(self) -> Given:
        from .operators import Given, giving_give

        return Given(self._stream, giving_give.produce)  # Its ``.give()`` gives to the run.

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "on_next":
            raise AttributeError(name)
        return getattr(self._operators, name)

    def __rshift__(self, subscriber: Any) -> Any:
        return self._operators >> subscriber

    def __getitem__(self, key: Any) -> Any:
        return self._operators[key]

    def __or__(self, other: Any) -> Any:
        return self._operators | other


class Handle(Scheduler):
    """The first argument of instruments; the subclass Overseer runs it to its end.

    Args:
        instruments: Required before the first phase.
        logfile: Path or descriptor of a file that also gets the events of ``ov.log`` as JSON.
        environ: The environment that options are read from.
        stderr: Stream for voir's messages; never the script's stdout.
        tell: Shows a problem to the user when it occurs.
        since_ns: Processor time of this thread when voir started; default: now.

    Attributes:
        context: The run as the rooms below the engine see it.
        bus: The stream of given events.
        log_bus: The stream of events that leave the process.
        stopping: The stop or abort that was requested, if any.
        ending: Determines how the run ends.
        measured: The value of ``measuring``; None until it is first used.
        exit: Closed when the run is over.
        on_source: Called with the syntax tree of the script, which they may change in place.
        on_ready: Called just before the script's first code runs.
        placed: Functions that remove what is placed in libraries; called in a child of a fork that
            begins a run of its own.
        unrecorded: Python programs that the script has started and that are not recorded.
        profilers: Start tracing a part of the script; each returns the function that ends it.
        failed_checks: Number of checks that failed under ``--verify``.
        dashed: True if a dashboard has shown the figures on a terminal.
        version: voir's version.
    """

    version = VERSION
    recording: Recording | None = None
    measured: Measuring | None = None
    program: Program | None = None
    _loaded = False
    _given: Given | None = None

    def __init__(
        self,
        instruments: Iterable[Instrument] = (),
        logfile: str | int | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        stderr: TextIO | None = None,
        tell: Callable[[Problem], object] | None = None,
        since_ns: int | None = None,
    ) -> None:
        self.environ = os.environ if environ is None else environ
        self.clock = Clock()
        self.stderr = stderr if stderr is not None else sys.stderr
        self.overhead = Overhead(self.clock.cpu_ns, since_ns)
        self.charge = self.overhead.charge
        self.context = Context(
            self.environ, self.clock, self.overhead, self.stderr, self.report, self.every
        )
        self.argv, self.voirfiles = self.context.argv, self.context.voirfiles
        self.problems, self.summary = self.context.problems, self.context.summary
        # Any thread may report, or be the first to need the measuring or the probes.
        self._reporting, self._making = threading.RLock(), threading.RLock()
        self._tell, self._process = tell or self._write, os.getpid()
        super().__init__(PHASES, args=(self,))
        self.bus, self.log_bus = Bus(self.report, records=True), Bus(self.report)
        self.log = LogStream(self.log_bus)
        self.bus.on_steps.append(self._measure)
        self._probing: Probing | None = None
        self._compiled: list[tuple[ast.Module, str, str]] = []
        self._instruments = list(instruments)
        self.logfile = logfile
        self.argparser = OptionParser(environ=self.environ)
        self.options = Namespace()
        self.run: dict[str, Any] = {}
        self.status = "init"
        self.dashed = False
        self.failed_checks = 0
        self.on_source: list[Callable[[ast.Module], object]] = []
        self.on_ready: list[Callable[[], object]] = []
        self.unrecorded: list[str] = []
        self.placed: list[Callable[[], object]] = []
        self.profilers: list[Callable[..., Callable[[], object]]] = []
        self.stopping = Stopping(lambda: self.measuring.alarm)
        self.ending = RunEnding(self.context, self.stopping, self._disarm)
        self.context.controls[WORD_STOP] = self._asked_to_stop
        self.exit = ExitStack()
        add_options(self.argparser)

    @property
    def is_inherited(self) -> bool:
        """Whether this is a child of a fork, whose parent the run belongs to."""
        return os.getpid() != self._process

    # For instruments

    @property
    def given(self) -> Given:
        """The stream of events, with all of giving's operators."""
        if self._given is None:
            from .operators import Given

            self._given = Given(self.bus)
        return self._given

    def give(self, **event: Any) -> None:
        """Give an event; it is delivered on this thread before the call returns."""
        self.bus.give(event)

    def queue(self, **event: Any) -> None:
        """As :meth:`give`, with the time under the key ``$queued``."""
        self.bus.give({**event, "$queued": time_ns() / 1e9})

    def publish(self, **event: Any) -> None:
        """Give one of voir's own events; strict operators skip it if it lacks their key."""
        self.bus.give(Own(event))

    def listen(self, fn: Callable[[dict[str, Any]], object], *keys: str) -> Subscription:
        """Call ``fn(event)`` for each given event that has all of ``keys``."""
        return self.bus.listen(fn, *keys)

    def listen_log(self, fn: Callable[[dict[str, Any]], object], *keys: str) -> Subscription:
        """Call ``fn(event)`` for each event that leaves the process."""
        return self.log_bus.listen(fn, *keys)

    def every(self, seconds: float, fn: Callable[[], object], first: float = 0.2) -> Timer:
        """A context manager that calls ``fn`` every ``seconds`` on voir's own thread."""
        guarded = Guarded(fn, current() or name_of(fn), self.report)
        return Timer(seconds, guarded, first, self.charge, self.stopping.request)

    def watch_instruments(self) -> None:
        """Report an instrument that blocks the script for half a minute."""

        def say_busy() -> None:
            busy = self.busy
            if busy is not None and monotonic() - busy[1] >= SLOW_SECONDS / 2:
                frame = sys._current_frames().get(threading.main_thread().ident or 0)
                what = f"it blocks the script: it has not returned for {SLOW_SECONDS:g} s"
                remedy = "It continues; Ctrl-C ends the run."
                self.report(Problem("instrument-slow", busy[0], what, here(frame), remedy))

        self.exit.enter_context(self.every(SLOW_SECONDS, say_busy, first=SLOW_SECONDS))

    def app(self, *objects: Mapping[str, Any], **values: Any) -> None:
        """Show your own data with the run: in the summary, and in ``run.json`` under ``app``.

        Args:
            objects: Mappings; a later value of a key replaces an earlier one.
            values: Further keys and their values.
        """
        from ..recorder.encode import simplify

        shown: dict[str, Any] = self.summary.setdefault("app", {})
        for one in (*objects, values):
            if isinstance(one, Mapping):
                shown.update({str(key): simplify(value) for key, value in one.items()})
            else:
                what = f"it was given {one!r:.60}, which is not a mapping"
                self.report(Problem("app-object", "app", what, remedy="Give names: app(size=3)."))

    def probe(self, selector: Any, *, overridable: bool = False, **kwargs: Any) -> Probe:
        """Set a probe on the script's code: ``ov.probe("//train_epoch > loss")``.

        An invalid selector, or one for code that does not exist, is reported; the probe then
        never fires, and the instrument continues.

        Args:
            selector: A selector of ptera; ``//f > x`` is ``x`` in ``f`` of the script.
            overridable: Allow ``override`` to replace the variable's value.
            kwargs: ``raw``, ``probe_type`` and ``env``, as in ptera.
        """
        kwargs = {**_written(sys._getframe(1)), **kwargs}
        late = not self.phases.run_script.pending
        return self._probes().set(selector, overridable=overridable, late=late, **kwargs)

    def span(self, selector: str, label: str | None = None, *, channel: Any = None) -> Probe:
        """Show the calls of a function, or the iterations of a loop, as spans in the trace.

        Args:
            selector: ``//train_epoch``; ``//main > #loop_epoch`` for the body of a loop.
            label: ``"epoch {epoch}"``, with variables of the function; default: its name.
            channel: The trace's channel, or its name.
        """
        from .marking import channel_of, paired, spans

        probe = self.probe(paired(selector, label), **_written(sys._getframe(1)))
        probe.subscribe(spans(selector, label, channel_of(channel)))
        return probe

    @property
    def measuring(self) -> Measuring:
        """The run's steps: sinks for them, their figures, and stops at one of them."""
        with self._making:
            if self.measured is None:
                from ..measure.measuring import Measuring

                stopping = self.stopping
                self.measured = Measuring(
                    self.context,
                    self.bus,
                    self.log,
                    lambda: self.recording,
                    lambda: stopping.requested is not None,
                )
            return self.measured

    def _measure(self) -> None:
        self.measuring.begin()

    def _disarm(self) -> None:
        if self.measured is not None:
            self.measured.alarm.off()

    @property
    def required(self) -> list[Instrument]:
        """All instruments of the run, in the order in which they were started."""
        return list(self._required.values())

    def facts(self) -> dict[str, Any]:
        """The content of ``run.json`` so far."""
        return self.recording.ending() if self.recording is not None else dict(self.summary)

    def data_parallel(self, index: int, size: int) -> None:
        """Say that this rank sees batch ``index`` of ``size`` different ones.

        The rates of ranks with different batches add up; ranks with the same ``index`` count once.

        Raises:
            UsageError: ``index`` is not from 0 to ``size - 1``.
        """
        _check_place("data-parallel", "batch", index, size)
        self.context.parallel = {"data": [index, size], "by": "voirfile"}

    def pipeline(self, stage: int, stages: int, micro_batches: int | None = None) -> None:
        """Say that this rank runs a stage of a pipeline; what a library tells counts more.

        Args:
            stage: Its number, from 0.
            stages: How many there are.
            micro_batches: How many a step passes through the stages.

        Raises:
            UsageError: ``stage`` is not from 0 to ``stages - 1``.
        """
        _check_place("pipeline", "stage", stage, stages)
        told = {"by": "voirfile", "stage": stage, "stages": stages}
        if micro_batches is not None:
            told["micro_batches"] = micro_batches
        before = self.context.live.get("pipeline")
        self.context.live["pipeline"] = lambda: (before() if before is not None else None) or told

    def same_on_ranks(self, selector: Any) -> Probe:
        """Keep the latest values of variables that are to be the same on all ranks of a job.

        If the job hangs or fails, the first value that differs is named.

        Args:
            selector: As for :meth:`probe`.
        """
        late = not self.phases.run_script.pending
        written = _written(sys._getframe(1))
        probe = self._probes().set(selector, overridable=False, late=late, **written)
        where = here() or ""
        probe.subscribe(lambda event: self.measuring.doings.same(event, where))
        return probe

    @property
    def exit_status(self) -> int | None:
        """The script's exit status once it has ended; minus the signal that killed it."""
        return self.context.outcome.exit_status

    @property
    def stopped_early(self) -> str | None:
        """Reason why the script was stopped early; None if it was not."""
        return self.context.outcome.stopped_early

    @stopped_early.setter
    def stopped_early(self, why: str | None) -> None:
        self.context.outcome.stopped_early = why

    @property
    def probes(self) -> Engine:
        """The engine that places probes."""
        return self._probes().engine

    def _probes(self) -> Probing:
        """The run's probes, created when the first one is set."""
        with self._making:
            if self._probing is None:
                from .probe import Probing

                made = Probing(self.bus, self.report, self.debug, self.charge, self.clock.cpu_ns)
                for part in self._compiled:
                    made.engine.instrument(*part)
                if self._loaded:
                    made.engine.main_loaded()
                self._probing = made
            return self._probing

    def _instrument(self, tree: ast.Module, module: str, filename: str) -> Any:
        """Return the syntax tree to compile in place of ``tree``."""
        with self._making:
            if self._probing is None:
                self._compiled.append((tree, module, filename))  # A probe set later needs it.
                return tree
        return self._probing.instrument(tree, module, filename)

    def _script_loaded(self) -> None:
        """Resolve the probes in the script's definitions, which have been executed."""
        with self._making:
            self._loaded, probing = True, self._probing
        if probing is not None:
            probing.engine.main_loaded()

    def _close_probes(self) -> None:
        if self._probing is not None:
            self._probing.close()

    def probe_verdicts(self) -> list[dict[str, Any]]:
        """The state of each probe that the user set, as ``run.json`` stores it."""
        return self._probing.verdicts() if self._probing is not None else []

    def stop(self, value: object = None, *, agreed: bool = False) -> NoReturn:
        """End the script here, cleanly, with exit status 0.

        On another thread than the main one, the main thread is interrupted as by Ctrl-C. A
        subscriber in one of several ranks ends all of them, at a later step that is the same for
        all.

        Args:
            value: The reason.
            agreed: All ranks call this at the same step.
        """
        stop = StopProgram(value)
        stop.agreed = agreed
        if agreed or self.stopping.agreement is None:  # Otherwise where the subscriber was called.
            self.stopping.raising(stop)
        raise stop

    def _asked_to_stop(self, step: int) -> None:
        """Stop as ``voir stop`` asks, on voir's thread: at once, or at a step."""
        asked = StopProgram(None)

        def reached() -> None:
            self.stopped_early = BY_COMMAND
            if not self.stopping.put_off(asked):
                self.stopping.raising(asked)
                raise asked

        if step == STOP_NOW:
            self.stopped_early = BY_COMMAND
            self.stopping.request(asked)
        else:
            # On the script's thread, which knows how many steps there are.
            due = partial(self.measuring.stop_at, step, None, reached, once=True)
            self.measuring.stop_at(0, None, due, once=True)

    def join_job(self) -> None:
        """Stop together with the other ranks of the job, once this process is known as a rank."""
        if self.stopping.agreement is not None or self.options.no_record:
            return
        from ..job.stopping import Agreement

        def stop(reason: str) -> None:
            self.stopped_early = reason
            self.stop(agreed=True)

        agreement = Agreement(lambda: self.recording, lambda: self.measuring, stop)

        def ask(stop: StopProgram) -> bool:
            asked = agreement.ask(self.stopped_early or reason_of(stop))
            if asked:
                self.stopped_early = None  # It goes on for some steps.
            return asked

        self.stopping.agreement = ask
        self.exit.enter_context(self.every(AGREE_SECONDS, agreement.poll, first=AGREE_SECONDS))

    def report(self, problem: Problem) -> None:
        """Show ``problem`` to the user, once, and keep it in the run's record."""
        if self.is_inherited:
            return
        with self._reporting:
            if problem in self.problems:
                return
            self.problems.append(problem)
        if problem.slug != "instrument-slow":
            super().report(problem)
        self._tell(problem)

    def debug(self, line: str) -> None:
        """Write ``line`` to stderr if ``--debug`` is on."""
        if getattr(self.options, "debug", False):
            self._write(line)

    def _write(self, text: object) -> None:
        with suppress(OSError, ValueError):  # stderr may be closed.
            self.stderr.write(f"voir: {text}\n")
            self.stderr.flush()

    # The run

    def add_instruments(self, instruments: Iterable[Instrument]) -> None:
        """Add instruments, to be required before the first phase."""
        self._instruments.extend(instruments)

    def start_instruments(self) -> None:
        """Require the run's first instruments."""
        self.require(*self._instruments)

    def record(self, title: str) -> Recording:
        """Open the run's record.

        Args:
            title: The script as the user named it.
        """
        from ..rundir.recording import Recording

        recording = Recording(self.context, title, self.bus.sample, self.logfile)
        recording.events = lambda: self.bus.events
        self.log_bus.listen(recording.log, who="the record")
        self.context.live["probes"] = self.probe_verdicts
        self.context.live["instruments"] = lambda: list(self.states.values())

        def given(event: dict[str, Any], seen: int) -> None:
            if "$event" in event:
                self.log(event)
            else:
                recording.given(event, seen)

        if not self.options.no_record:
            self.bus.samplers.append(Guarded(given, "the record", self.report))
        self.recording = recording
        return recording

    def close_record(self) -> None:
        """Complete the record."""
        if self.recording is not None:
            self.run = self.recording.finish()

    def log_error(self, event: str, error: BaseException) -> None:
        """Log the failure of the script or of an instrument."""
        known, message = getattr(error, "system_error", None) or error, ""
        with suppress(Exception):  # The exception's own class may raise.
            message = str(known)
        self.log({"$event": event, "$data": {"type": type(known).__name__, "message": message}})

    def _failing(self, who: str, error: BaseException) -> None:
        self.log_error("overseer_error", error)
        super()._failing(who, error)


def _written(frame: FrameType) -> dict[str, Any]:
    """Where a selector is written, and the names that it may use there."""
    env = {**frame.f_globals, **frame.f_locals}
    return {"env": env, "where": f"{frame.f_code.co_filename}:{frame.f_lineno}"}


def _check_place(slug: str, what: str, at: int, of: int) -> None:
    """Raise the error of a method that was told to be number ``at`` of ``of``, from 0."""
    if not 0 <= at < of:
        called = f"{slug.replace('-', '_')}({at!r}, {of!r})"
        remedy = "The first number counts from 0: it is less than the second one."
        raise UsageError(slug, f"{called}: there is no {what} {at!r} of {of!r}", remedy)
