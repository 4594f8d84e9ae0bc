"""The Overseer: takes a script through its phases, owns the streams, wires the rooms."""

from __future__ import annotations

import os
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from functools import partial
from importlib import import_module

from .. import __version__ as version
from ..boundary import (
    Guarded,
    OverseerAbort,
    StopProgram,
    asked_for,
    current,
    here,
    name_of,
    on_stop,
    said,
)
from ..boundary import problem as problem_of
from ..clock import Clock, monotonic, process_start, time_ns
from ..errors import Problem, UsageError, VoirError
from ..files import bounded
from ..launch import Program, Target, current_directory, exit_status, in_child, locate
from ..model.overhead import Overhead
from ..recorder import recorder
from ..timers import Timer
from .bus import Bus, Log, Own, Subscription
from .options import HelpAsked, OptionParser, add_options, target_of
from .phases import Phase, Scheduler
from .settings import configurations
from .stopping import TIMES, Alarm, Stopping

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from types import FrameType
    from typing import Any, NoReturn, TextIO

    from ..probes import Engine
    from ..record.recording import Recording
    from .operators import Given
    from .phases import Instrument
    from .probe import Probe

#: How long an instrument may hold the script up before that is said, in seconds.
PATIENCE = 30.0
#: How many characters of what a script's exception says are kept.
LONGEST = 500
#: How many events wait at most to be read: 2 and 4 MiB, touched as they are used.
STRUCTURE_RING, VALUE_RING = 1 << 16, 1 << 17
#: The same where there is no memory for these.
LEAST_RING = 1 << 8
#: What a selector has that captures steps.
STEP_KEYS = (" as step", "compute_start", "compute_end")
PHASES = ["init", "parse_args", "load_script", "run_script", "finalize"]

current_overseer: ContextVar[Overseer | None] = ContextVar("current_overseer", default=None)
_active: Overseer | None = None


def active() -> Overseer | None:
    """The overseer of the run in progress, on any thread; ``None`` outside of one."""
    return _active


class Giving:
    """What has a stream of events, which instruments listen to and give to.

    Attributes:
        bus: The stream.
    """

    bus: Bus
    _given: Given | None = None

    @property
    def given(self) -> Given:
        """The stream of events, with all of giving's operators."""
        if self._given is None:
            from .operators import Given

            self._given = Given(self.bus)
        return self._given

    def give(self, **event: Any) -> None:
        """Put an event into the given stream; from any thread, delivered before this returns."""
        self.bus.give(event)

    def queue(self, **event: Any) -> None:
        """The same as :meth:`give`, the event marked with the time under ``$queued``."""
        self.bus.give({**event, "$queued": time_ns() / 1e9})


class Overseer(Giving, Scheduler):
    """Runs a script under instruments; what instruments receive as their first argument.

    Args:
        instruments: Required before the first phase.
        logfile: Where events of ``ov.log`` also go as JSON lines: a path or a file descriptor.
        environ: The environment that options are read from.
        stderr: Where voir may write; never the script's stdout.
        tell: Shows a problem to the user when it happens.
        since_ns: What this thread had used of the processor when voir began; now, when not given.

    Attributes:
        charge: Counts processor nanoseconds that voir used as voir's own cost.
        stopping: What the run was asked to end by.
        alarm: Calls who waits for steps.
        error: The exception that ended the script, as the last line of its traceback has it.
        labels: The ``name`` and the ``tags`` of the run.
        dashed: Whether a dashboard has shown the figures on a terminal.
        figures: The ``tasks`` of ``run.json`` as of now; whether they are final.
        on_source: Changes the syntax tree of a script in place.
        ready: Called right before the script's first code runs.
        version: Of voir.
        profiler: Begins to trace a part of the script, returns what ends that; None: nothing does.
    """

    version = version

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
        self.problems: list[Problem] = []
        # Any thread may report, or set a probe.
        self._deciding = threading.RLock()
        self._tell = tell or self._write
        super().__init__(PHASES, args=(self,))
        self.bus, self._log_stream = Bus(self.report, records=True), Bus(self.report)
        self.log = Log(self._log_stream)
        self._engine: Engine | None = None
        self._parts: list[tuple[Any, str, str]] = []
        self._probes: list[Probe] = []
        self._given_at: dict[str, str] = {}
        self._misread: list[dict[str, Any]] = []
        self._verdicts: list[dict[str, Any]] | None = None
        self.run: dict[str, Any] = {}
        self._loaded = False
        self._instruments = list(instruments)
        self.logfile = logfile
        self.argv: list[str] = []
        self.voirfiles: list[str] = []
        self.argparser = OptionParser(environ=self.environ)
        self.options = Namespace()
        self.program: Program | None = None
        self._modules: dict[str, Any] = {}
        self.summary: dict[str, Any] = {}
        self.overhead = Overhead(self.clock.cpu_ns, since_ns)
        self.charge = self.overhead.charge
        self.status = "init"
        self.exit_status: int | None = None
        self.stopped_early: str | None = None
        self.error: str | None = None
        self.dashed = False
        self.labels: dict[str, Any] = {}
        self.on_source: Callable[[ast.Module], object] | None = None
        self.ready: Callable[[], object] = bool
        self.profiler: Callable[..., Callable[[], object]] | None = None
        self.alarm = Alarm()
        self.stopping = Stopping(self.alarm)
        self.late: BaseException | None = None
        self.failed_checks = 0
        self.announce: Callable[[BaseException | None], int] = exit_status
        self.recording: Recording | None = None
        self.figures: Callable[[bool], dict[str, Any]] = lambda final: {}
        self._exit = ExitStack()
        add_options(self.argparser)

    # What instruments use

    def publish(self, **event: Any) -> None:
        """Give what voir itself has found: strict operators pass over what lacks their key."""
        self.bus.give(Own(event))

    def listen(self, fn: Callable[[dict[str, Any]], object], *keys: str) -> Subscription:
        """Call ``fn(event)`` for each given event that has all of ``keys``."""
        return self.bus.listen(fn, *keys)

    def listen_log(self, fn: Callable[[dict[str, Any]], object], *keys: str) -> Subscription:
        """Call ``fn(event)`` for each event that leaves the process."""
        return self._log_stream.listen(fn, *keys)

    def every(self, seconds: float, fn: Callable[[], object], first: float = 0.2) -> Timer:
        """A context manager that calls ``fn`` every ``seconds`` on a thread of its own."""
        guarded = Guarded(fn, current() or name_of(fn), self.report)
        return Timer(seconds, guarded, first, self.charge, self.stopping.ask)

    def watch_instruments(self) -> None:
        """Say which instrument holds the script up, once it has done so for half a minute."""

        def say_busy() -> None:
            busy = self.busy
            if busy is not None and monotonic() - busy[1] >= PATIENCE / 2:
                frame = sys._current_frames().get(threading.main_thread().ident or 0)
                what = f"it holds the script up: it has not come back for {PATIENCE:g} s"
                remedy = "It goes on; Ctrl-C ends the run."
                self.report(Problem("instrument-slow", busy[0], what, here(frame), remedy))

        self._exit.enter_context(self.every(PATIENCE, say_busy, first=PATIENCE))

    def app(self, *objects: Mapping[str, Any], **values: Any) -> None:
        """Show data of your own with the run: in the summary, and in ``run.json`` under ``app``.

        Args:
            objects: Mappings; of the same key, the last value stands.
            values: More of them.
        """
        from ..encode import simplify

        shown: dict[str, Any] = self.summary.setdefault("app", {})
        for one in (*objects, values):
            if isinstance(one, Mapping):
                shown.update({str(key): simplify(value) for key, value in one.items()})
            else:
                what = f"it was given {one!r:.60}, which is no mapping"
                self.report(Problem("app-object", "app", what, remedy="Give names: app(size=3)."))

    def probe(self, selector: Any, *, overridable: bool = False, **kwargs: Any) -> Probe:
        """Set a probe on the script's code: ``ov.probe("//train_epoch > loss")``.

        A selector that cannot be read is reported, and the probe then never fires; the
        instrument goes on. The same holds for code that does not exist.

        Args:
            selector: In ptera's language; ``//f > x`` is ``x`` in ``f`` of the script.
            overridable: Whether ``override`` may replace the variable's value.
            kwargs: ``raw``, ``probe_type`` and ``env``, as ptera has them.
        """
        from ..probes import ABSENT
        from .probe import Nowhere, Probe

        kwargs = {**_written(sys._getframe(1)), **kwargs}
        where: str = kwargs["where"]
        placed: Any = Nowhere(str(selector))
        try:
            _check_selector(selector)
            late = not self.phases.run_script.pending
            placed = self.probes.probe(selector, overridable=overridable, late=late, **kwargs)
        except VoirError as error:
            who = f"probe {selector}"
            self.report(Problem(error.slug, who, error.what, where, error.remedy))
            verdict = {"selector": str(selector), "where": where, "state": "unresolved"}
            self._misread.append({**verdict, "fired": 0, "hint": error.what})
        giving = partial(self._giving, str(selector), where)
        probe = Probe(placed, self.bus, self.report, ABSENT, giving)
        self._probes.append(probe)
        return probe

    def _giving(self, selector: str, where: str) -> None:
        """All events of a probe are given; those that are steps should be so once."""
        key = " ".join(selector.split())
        if key in self._given_at and any(word in key for word in STEP_KEYS):
            what = f"it gives what that at {self._given_at[key]} gives: each step counts twice"
            remedy = "Remove one of the two; voirfiles of parent directories are loaded as well."
            self.report(Problem("given-twice", f"probe {selector}", what, where, remedy))
        self._given_at.setdefault(key, where)

    def span(self, selector: str, label: str | None = None, *, channel: Any = None) -> Probe:
        """Show calls of a function, or turns of a loop, as spans in the trace.

        Args:
            selector: ``//train_epoch``; ``//main > #loop_epoch`` for the body of a loop.
            label: ``"epoch {epoch}"``, with the function's own variables; else its name.
            channel: The trace's channel, or its name.
        """
        from .marking import channel_of, paired, spans

        probe = self.probe(paired(selector, label), **_written(sys._getframe(1)))
        probe.subscribe(spans(selector, label, channel_of(channel)))
        return probe

    @property
    def required(self) -> list[Instrument]:
        """Every instrument of the run, in the order in which they were started."""
        return list(self._required.values())

    def facts(self) -> dict[str, Any]:
        """What ``run.json`` is going to say, as far as it is known by now."""
        return self.recording.ending() if self.recording is not None else dict(self.summary)

    @property
    def probes(self) -> Engine:
        """The engine that places probes."""
        with self._deciding:
            if self._engine is None:
                from ..probes import Engine

                self._engine = Engine(self.report, self.debug)
                for part in self._parts:
                    self._engine.instrument(*part)
                if self._loaded:
                    self._engine.main_loaded()
            return self._engine

    def stop(self, value: object = None) -> NoReturn:
        """End the script here, in good order, with exit status 0.

        On another thread than the script's main one, that is interrupted as by Ctrl-C.
        """
        stop = StopProgram(value)
        self.stopping.raises(stop)
        raise stop

    def report(self, problem: Problem) -> None:
        """Tell the user about ``problem``, once, and keep it in the run's record."""
        if in_child():
            return
        with self._deciding:
            if problem in self.problems:
                return
            self.problems.append(problem)
        if problem.slug != "instrument-slow":
            super().report(problem)
        self._tell(problem)

    def debug(self, line: str) -> None:
        """Say ``line`` on stderr when ``--debug`` is on."""
        if getattr(self.options, "debug", False):
            self._write(line)

    def _write(self, text: object) -> None:
        with suppress(OSError, ValueError):  # A closed stderr has nobody to tell.
            self.stderr.write(f"voir: {text}\n")
            self.stderr.flush()

    # The walk through the phases

    def add_instruments(self, instruments: Iterable[Instrument]) -> None:
        """Have more instruments required before the first phase."""
        self._instruments.extend(instruments)

    def __call__(self, argv: Iterable[str]) -> object:
        """Run ``argv``: voir's options, the script, the script's arguments.

        Returns:
            The script's value: what ``-m module:function`` returned, else ``None``.

        Raises:
            BaseException: What ended the script, but for an early stop; after ``finalize``.
            UsageError: The options are wrong; nothing of the script has run.
        """
        global _active
        before, _active = _active, self
        self._open_recorder()
        token = current_overseer.set(self)
        try:
            with on_stop(self.stopping.raises):
                value, error = self._outcome(lambda: self._walk(list(argv)))
            # Out here, because a script's excepthook must not find us handling its exception.
            self._ended(error)
            if error is not None and not isinstance(error, StopProgram):
                failed = self.status == "running" and exit_status(error) != 0
                if failed or isinstance(error, VoirError):
                    self._log_error("error", error)
                raise error
        finally:
            self.finalize()
            current_overseer.reset(token)
            _active = before
        if self.late is not None:
            raise self.late
        return value

    def _open_recorder(self) -> None:
        anchors = process_start(os.getpid()), self.clock.wall_ns()
        try:
            recorder.open(STRUCTURE_RING, VALUE_RING, *anchors)
        except MemoryError:  # The script may do with what there is.
            recorder.open(LEAST_RING, LEAST_RING, *anchors)
            what = f"there is memory for {LEAST_RING} events at a time: those above are lost"
            remedy = "Leave voir some memory: ulimit -v limits it."
            self.report(Problem("record-incomplete", "the recorder", what, remedy=remedy))

    def _outcome(self, body: Callable[[], object]) -> tuple[object, BaseException | None]:
        """What ``body`` returns, and what it ended by: what was asked for, if that is it."""
        try:
            return body(), None
        except BaseException as error:
            return None, self.stopping.meant(error)

    def _ended(self, error: BaseException | None) -> None:
        """Announce how the script ended, once, while the streams are still open."""
        if self.status != "running" or self.exit_status is not None:
            return
        wish = self.stopping.wish
        if isinstance(error, StopProgram):
            self.stopped_early = self.stopped_early or _reason(error)
            error = None
        elif isinstance(wish, StopProgram):
            self._say_caught(wish)
        self.stopping.leaving = True
        self.exit_status = self.announce(error)
        self.error = _raised(error)
        self._restore_modules()
        self.stopping.over = True
        self.alarm.off()
        wish = self.stopping.wish
        if isinstance(wish, OverseerAbort) and not self.stopping.raised:
            self._fails(wish)  # It has reached other threads only.

    def _say_caught(self, stop: StopProgram) -> None:
        """The script has caught the stop: it has cleaned up, or gone on."""
        self.stopped_early = self.stopped_early or _reason(stop)
        if place := self.stopping.caught:
            self.stopped_early += f", caught at {place}"
        if self.stopping.left <= 0:
            what = f"the script has swallowed the stop {TIMES} times, and went on to its end"
            remedy = "Let StopProgram pass: catch Exception instead of everything."
            self.report(Problem("stop-swallowed", "stop", what, place or None, remedy))

    def _walk(self, argv: list[str]) -> object:
        early: list[dict[str, Any]] = []
        given: list[tuple[dict[str, Any], int]] = []
        keeping = self._log_stream.listen(early.append, who="the record")
        self.bus.sampler = lambda event, seen: given.append((event, seen))
        self._begin(self.phases.init)
        self.require(*self._instruments)
        self.end(self.phases.init)
        self.argv = self.argv or argv
        self._begin(self.phases.parse_args)
        target = self._parse(argv)
        recording = self._connect(target)
        keeping.dispose()
        for event in early:
            recording.log(event)
        if self.bus.sampler is not None:
            for each in given:
                self.bus.sampler(*each)
        self.end(self.phases.parse_args)
        self.status = "running"
        self._phase(self.phases.load_script, lambda: self._load(target))
        return self._phase(self.phases.run_script, self._run)

    def _begin(self, phase: Phase) -> None:
        self.log({"$event": "phase", "$data": {"name": phase.name}})

    def _failing(self, who: str, error: BaseException) -> None:
        self._log_error("overseer_error", error)
        super()._failing(who, error)

    def _log_error(self, event: str, error: BaseException) -> None:
        known, message = getattr(error, "system_error", None) or error, ""
        with suppress(Exception):  # The script's own class may fail to say what it is about.
            message = str(known)
        self.log({"$event": event, "$data": {"type": type(known).__name__, "message": message}})

    def _phase(self, phase: Phase, body: Callable[[], object]) -> object:
        self._begin(phase)
        value, error = self._outcome(body)
        run_script = self.phases.run_script
        if error is not None or phase is run_script:
            self._ended(error)  # This waits for the script's threads: their events are part of it.
        # A script that ended well by saying so, sys.exit(0), ended well.
        thrown = None if exit_status(error) == 0 else error
        for one in (phase,) if error is None else (phase, run_script):
            # The child of a fork leaves the script through here as well; the run is not its own.
            if one.pending and not in_child():
                self.end(one, value, thrown)
        if error is not None:
            raise error
        return value

    def _parse(self, argv: list[str]) -> Target | None:
        parser = self.argparser
        own, rest = parser.split(argv)
        for found in configurations(own, self.environ, current_directory(), self.report):
            parser.add_config(*found)
        if asked := {"-h", "--help", "--help-all"} & set(own):
            from .help import help_text

            raise HelpAsked(help_text(parser, "--help-all" in asked, self.environ))
        if "--version" in own:
            raise HelpAsked(f"voir {self.version}")
        options = self.options = parser.resolve(own)
        if options.completion is not None:
            from .help import completion

            raise HelpAsked(completion(parser, options.completion))
        for problem in parser.misspelt:
            self.report(problem)
        target = target_of(rest)
        options.SCRIPT, options.MODULE, options.ARGV = (
            None,
            None,
            list(target.argv if target else ()),
        )
        if target is not None:
            setattr(options, "SCRIPT" if target.kind == "script" else "MODULE", target.name)
        return target

    def _connect(self, target: Target | None) -> Recording:
        """Open what the run writes to, and let ``giving.give`` reach the run."""
        from ..imports import on_import, tell_failures
        from ..record.recording import Recording

        self.recording = Recording(self, target.title if target else "")
        operators = f"{__package__}.operators"

        def connect(module: Any) -> None:
            self._exit.enter_context(module.connected(self.bus))

        self._exit.callback(tell_failures(self._report_import).dispose)
        self._exit.callback(on_import("giving", lambda module: import_module(operators)).dispose)
        self._exit.callback(on_import(operators, connect).dispose)
        return self.recording

    def _report_import(self, name: str, error: Exception) -> None:
        self.report(problem_of("import", f"import {name}", error, "what waited for it failed"))

    def _load(self, target: Target | None) -> None:
        if target is None:
            usage = "Usage: voir [VOIR OPTIONS] SCRIPT [OPTIONS]"
            raise UsageError("no-script", "no script was given", usage)
        self.program = locate(target)
        self.program.adapt, self.program.ready = self.on_source, self.ready
        with self.overhead.script():
            self.program.load(self._instrument)
        self._loaded = True
        if self._engine is not None:
            self._engine.main_loaded()

    def _instrument(self, tree: Any, module: str, filename: str) -> Any:
        with self._deciding:
            if self._engine is None:
                self._parts.append((tree, module, filename))  # A probe set later needs it.
                return tree
        begun = self.clock.cpu_ns()
        try:
            return self._engine.instrument(tree, module, filename)
        finally:
            self.charge(self.clock.cpu_ns() - begun)

    def _run(self) -> object:
        assert self.program is not None and self.recording is not None
        # Without probes it is soon enough when there is something to record.
        self.recording.prepare(self._engine is not None)
        # Of a copy: a thread of ours may be importing.
        self._modules = {n: one for n, one in dict(sys.modules).items() if n != "__main__"}
        with self.overhead.script():
            return self.program.run()

    # The end

    def finalize(self) -> None:
        """End the run, once: streams complete, ``finalize`` ends, the record is closed."""
        if self.status == "finalized" or in_child():
            return
        self.status = "finalized"
        self._restore_modules()
        # If nothing ran, there is nothing to reduce.
        ran = [*(probe._exit for probe in self._probes), self.bus.complete]
        with bounded():  # It writes files, python too: those of modules that are imported.
            self._last(
                self._close_open_phases,
                *(ran if self.program is not None else ()),
                lambda: self._begin(self.phases.finalize),
                lambda: self.end(self.phases.finalize),
                self.close,
                self._close_probes,
                self._finish_recording,
                self._log_stream.complete,
                self._exit.close,
            )
        self.bus.clear()
        self._log_stream.clear()
        recorder.close()

    def _restore_modules(self) -> None:
        """Put back what the script took out of ``sys.modules``: voir's last acts import."""
        for name, module in self._modules.items():
            sys.modules.setdefault(name, module)
        self._modules = {}

    def _close_probes(self) -> None:
        self._verdicts = self.probe_verdicts()
        if self._engine is not None:
            self._engine.close()

    def probe_verdicts(self) -> list[dict[str, Any]]:
        """What became of each probe that somebody set, as ``run.json`` has it."""
        if self._verdicts is not None:
            return self._verdicts
        found = self._engine.verdicts() if self._engine is not None else []
        # Those without a place are instruments' own affair.
        return [*(verdict for verdict in found if "where" in verdict), *self._misread]

    def _finish_recording(self) -> None:
        if self.recording is not None:
            self.run = self.recording.finish()

    def _close_open_phases(self) -> None:
        # A signal can end the run in the middle of a phase.
        for phase in (self.phases.load_script, self.phases.run_script):
            if phase.pending and self.phases.parse_args.done:
                self.end(phase)

    def _last(self, *acts: Callable[[], object]) -> None:
        """Do ``acts``; whatever one raises, those after it are done too."""
        for act in acts:
            try:
                act()
            except BaseException as error:
                # By a stop the script has ended already.
                if not isinstance(error, StopProgram) and not self._fails(error):
                    self.report(problem_of("finalize", "the end of the run", error))

    def _fails(self, error: BaseException) -> bool:
        """Whether what a reduction raised at the end is to fail the run: ``.fail()``, ``abort``."""
        if not asked_for(error):
            return False
        if not self.exit_status:
            self.late = self.stopping.meant(error)
            self.exit_status = exit_status(self.late)
        return True


def _written(frame: FrameType) -> dict[str, Any]:
    """Where a selector is written, and the names that it may use there."""
    env = {**frame.f_globals, **frame.f_locals}
    return {"env": env, "where": f"{frame.f_code.co_filename}:{frame.f_lineno}"}


def _check_selector(selector: object) -> None:
    if not isinstance(selector, str) and not hasattr(selector, "encode"):
        name = getattr(selector, "__qualname__", "f")
        raise VoirError(
            "selector",
            f"a selector is a string, not {selector!r:.60}",
            f'Name the function and what to watch in it: ov.probe("//{name} > x")',
        )


def _raised(error: BaseException | None) -> str | None:
    """The exception that failed the script; None where it said with what status it ends."""
    if error is None or isinstance(error, SystemExit) or exit_status(error) < 0:
        return None
    return said(error)[:LONGEST]


def _reason(stop: StopProgram) -> str:
    value = stop.args[0] if stop.args else None
    return "ov.stop()" if value is None else f"ov.stop({value!r:.60})"


__all__ = ["Overseer", "active", "current_overseer", "version"]
