"""The Overseer: takes a script through its phases, owns the streams, wires the rooms."""

from __future__ import annotations

import os
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from time import sleep
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn, TextIO
from weakref import WeakSet

from .boundary import (
    Guarded,
    OverseerAbort,
    StopProgram,
    asked_for,
    current,
    in_library,
    name_of,
    wished,
)
from .boundary import problem as problem_of
from .clock import Clock
from .commandline import LONGEST_STEP, HelpAsked, add_options, target_of
from .deadline import Deadline
from .engine.bus import Bus, Subscription
from .engine.values import Own
from .errors import Problem, UsageError, VoirError
from .insist import Insistence, due_to, insisting
from .launch import Program, Target, current_directory, exit_status, in_child, locate
from .log import Log
from .options import OptionParser, configurations
from .phases import Phase
from .recorder import recorder
from .scheduler import Instrument, Scheduler
from .timers import Timer
from .version import version
from .weighing import Account

if TYPE_CHECKING:
    from logging import LogRecord

    from .engine.operators import Given
    from .engine.probe import Probe
    from .probes import Engine
    from .recording import Recording
    from .script import Iteration

#: Milliseconds to wait for the script to come out of what is not its own code, to end it there.
REACHING = 1000
#: How many events wait at most to be read: 2 and 4 MiB, touched as they are used.
STRUCTURE_RING, VALUE_RING = 1 << 16, 1 << 17
#: What a selector has that captures steps.
STEP_KEYS = (" as step", "compute_start", "compute_end")
PHASES = ["init", "parse_args", "load_script", "run_script", "finalize"]

current_overseer: ContextVar[Overseer | None] = ContextVar("current_overseer", default=None)
_active: Overseer | None = None


def active() -> Overseer | None:
    """The overseer of the run in progress, on any thread; ``None`` outside of one."""
    return _active


class Overseer(Scheduler):
    """Runs a script under instruments; what instruments receive as their first argument.

    Args:
        instruments: Required before the first phase.
        logfile: Where events of ``ov.log`` also go as JSON lines: a path or a file descriptor.
        environ: The environment that options are read from.
        clock: Where time is read.
        stderr: Where voir may write; never the script's stdout.
        tell: Shows a problem to the user when it happens.
        longest_step: How long an instrument may hold the script up, in seconds, until the options
            are known.
        since_ns: What this thread had used of the processor when voir began; now, when not given.

    Attributes:
        waits: When the script, in ``voir.iterate``, asks for a batch, and when that has come: an
            event with ``source``, and then also ``exhausted``, whether there was none left.
        expects_stop: Somebody may end the script at an event: those are told at once.
        stopped_on: The thread, and the coroutine, if any, in which so many steps as were asked for
            have been counted.
        iterations: What ``voir.iterate`` has returned and the script still has.
    """

    def __init__(
        self,
        instruments: Iterable[Instrument] = (),
        logfile: str | int | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        stderr: TextIO | None = None,
        tell: Callable[[Problem], object] | None = None,
        longest_step: float = LONGEST_STEP,
        since_ns: int | None = None,
    ) -> None:
        self.environ = os.environ if environ is None else environ
        self.clock = clock or Clock()
        self.stderr = stderr if stderr is not None else sys.stderr
        self.problems: list[Problem] = []
        self._told: set[Problem] = set()
        # Any thread may report, set a probe, or wish to end the script.
        self._deciding = threading.RLock()
        self._tell = tell or self._write
        self._deadline = Deadline(longest_step)
        super().__init__(PHASES, args=(self,), report=self.report, deadline=self._deadline)
        self.bus, self._log_stream = Bus(self.report, records=True), Bus(self.report)
        self.waits = Bus(self.report)
        self.log = Log(self._log_stream)
        self._given: Given | None = None
        self._engine: Engine | None = None
        self._parts: list[tuple[Any, str, str]] = []
        self._probes: list[Probe] = []
        self._given_at: dict[str, str] = {}
        self.misread: list[dict[str, Any]] = []
        self._verdicts: list[dict[str, Any]] = []
        self.run: dict[str, Any] = {}
        self._loaded = self._heard = self._judged = self._leaving = False
        self._instruments = list(instruments)
        self.logfile = logfile
        self.argv: list[str] = []
        self.voirfiles: list[str] = []
        self.argparser = OptionParser(environ=self.environ)
        self.options = Namespace()
        self.program: Program | None = None
        self.summary: dict[str, Any] = {}
        self.account = Account(self.clock, since_ns)
        self.status = "init"
        self.exit_status: int | None = None
        self.stopped_early: str | None = None
        self.stopped_on: tuple[int, int | None] | None = None
        self.iterations: WeakSet[Iteration[Any]] = WeakSet()
        self.expects_stop = False
        self._insistence: Insistence | None = None
        self._to_tell: list[Callable[[], object]] = []
        self.late: BaseException | None = None
        self.failed_checks = 0
        self.announce: Callable[[BaseException | None], int] = exit_status
        self.recording: Recording | None = None
        self._exit = ExitStack()
        add_options(self.argparser)

    # What instruments use

    @property
    def given(self) -> Given:
        """The stream of events, with all of giving's operators."""
        if self._given is None:
            from .engine.operators import Given

            self._given = Given(self.bus)
        return self._given

    def give(self, **event: Any) -> None:
        """Put an event into the given stream; from any thread, delivered before this returns."""
        self.bus.give(event)

    def publish(self, **event: Any) -> None:
        """The same for what voir itself finds: strict operators pass over what lacks their key."""
        self.bus.give(Own(event))

    def queue(self, **event: Any) -> None:
        """The same as :meth:`give`, the event marked with the time under ``$queued``."""
        event["$queued"] = self.clock.wall_ns() / 1e9
        self.bus.give(event)

    def listen(self, fn: Callable[[dict[str, Any]], object], *keys: str) -> Subscription:
        """Call ``fn(event)`` for each given event that has all of ``keys``."""
        return self.bus.listen(fn, *keys)

    def at_stop(self, fn: Callable[[], object]) -> None:
        """Call ``fn`` once when a stop has been raised.

        It is called before the stop passes through the script, perhaps by a signal's handler.
        """
        self._to_tell.append(fn)

    @property
    def undisturbed(self) -> AbstractContextManager[object]:
        """Within, events of other threads wait: to begin something once, and hear all of it."""
        lock: AbstractContextManager[object] = self.bus.lock
        return lock

    def listen_log(self, fn: Callable[[dict[str, Any]], object], *keys: str) -> Subscription:
        """Call ``fn(event)`` for each event that leaves the process."""
        return self._log_stream.listen(fn, *keys)

    def every(self, seconds: float, fn: Callable[[], object], first: float = 0.2) -> Timer:
        """A context manager that calls ``fn`` every ``seconds`` on a thread of its own."""
        guarded = Guarded(fn, current() or name_of(fn), self.report)
        return Timer(seconds, guarded, first, self.charge, self._wished_elsewhere)

    def _wished_elsewhere(self, wish: BaseException) -> None:
        """What another thread raised to end the script reaches it where it is now."""
        attempts = 0
        while not self._reached(wish, late=attempts > REACHING):
            attempts += 1
            sleep(0.001)

    def _reached(self, wish: BaseException, late: bool) -> bool:
        """Raise it in the script, if that is where it may be raised, or it is ``late``."""
        with self._deciding:  # The script does not end in between.
            if self._leaving or self.status == "finalized":
                if not isinstance(wish, StopProgram):
                    self._fails(wish)
                elif self.status == "running" and self.exit_status is None:
                    self.stopped_early = self.stopped_early or _reason(wish)
                return True
            insistence = self._insistence
            assert insistence is not None  # Whatever may end a script began under one.
            if insistence.stop is not None and isinstance(wish, StopProgram):
                return True
            # Half-way into a lock of the standard library's, the lock would stay closed for ever.
            if not late and in_library(_main_frame()):
                insistence.take_up(wish)
                return False
            _raise_in_main(_thrown_as(wish))
            insistence.watch()
            return True

    def _stops(self) -> None:
        """A stop is about to pass through the script."""
        self._quieten()
        told, self._to_tell = self._to_tell, []
        for each in told:
            each()

    def _quieten(self) -> None:
        """Threads and tasks that end by what ends the script do so without a word."""
        log = sys.modules.get("asyncio.log")
        if log is not None:
            log.logger.addFilter(_worth_saying)  # For good: some tasks are freed after the run.
        hook = threading.excepthook
        if getattr(hook, "quiet", False):
            return

        def quietly(args: threading.ExceptHookArgs) -> None:
            if not due_to(args.exc_value):
                hook(args)

        quietly.quiet = True  # type: ignore[attr-defined]
        threading.excepthook = quietly
        self._exit.callback(setattr, threading, "excepthook", hook)

    def charge(self, nanoseconds: int) -> None:
        """Count processor time that voir used as voir's own cost."""
        self.account.charge(nanoseconds)

    @property
    def charged_ns(self) -> int:
        """Processor time that is known to be voir's own so far."""
        return self.account.charged_ns

    @property
    def events(self) -> int:
        """How many events there have been so far."""
        fired = self._engine.fired.values() if self._engine is not None else ()
        return self.bus.events + sum(fired)

    def app(self, *objects: Mapping[str, Any], **values: Any) -> None:
        """Show data of your own with the run: in the summary, and in ``run.json`` under ``app``.

        Args:
            objects: Mappings; of the same key, the last value stands.
            values: More of them.
        """
        from .record.encode import simplify

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
        from .engine.probe import Nowhere, Probe
        from .probes import ABSENT

        frame = sys._getframe(1)
        kwargs.setdefault("env", {**frame.f_globals, **frame.f_locals})
        where = kwargs.pop("where", None) or f"{frame.f_code.co_filename}:{frame.f_lineno}"
        placed: Any
        try:
            _check_selector(selector)
            late = not self.phases.run_script.pending
            placed = self.probes.probe(
                selector, overridable=overridable, where=where, late=late, **kwargs
            )
        except VoirError as error:
            self._misread(Problem(error.slug, f"probe {selector}", error.what, where, error.remedy))
            placed = Nowhere(str(selector))
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

        frame = sys._getframe(1)
        env = {**frame.f_globals, **frame.f_locals}
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        probe = self.probe(paired(selector, label), env=env, where=where)
        probe.subscribe(spans(selector, label, channel_of(channel)))
        return probe

    def _misread(self, problem: Problem) -> None:
        """A selector that cannot be read: told at once, and with the verdicts at the end."""
        self.report(problem)
        self.misread.append(
            {
                "selector": problem.who.removeprefix("probe "),
                "where": problem.where,
                "state": "unresolved",
                "fired": 0,
                "hint": problem.what,
            }
        )

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
        if self._engine is None:
            from .probes import Engine

            with self._deciding:
                if self._engine is None:
                    self._engine = self._new_engine(Engine(self.report, self.debug))
        return self._engine

    def shows(self, key: str) -> bool:
        """Whether a probe has been set whose events carry ``key``."""
        return self._engine is not None and self._engine.shows(key)

    def _new_engine(self, engine: Engine) -> Engine:
        for part in self._parts:
            engine.instrument(*part)
        if self._loaded:
            engine.main_loaded()
        return engine

    def expect_stop(self) -> None:
        """To be called on the main thread: :meth:`stop` may be called on another.

        The main one is then reached also where it waits for a lock or for events, by a signal that
        python ignores otherwise (``SIGURG``).
        """
        self.expects_stop = True
        if self._insistence is not None:
            self._insistence.expect()

    def stop(self, value: object = None) -> None:
        """End the script here, in good order, with exit status 0.

        On another thread than the script's, the script is stopped at its next instruction.
        """
        stop = StopProgram(value)
        if threading.get_ident() == threading.main_thread().ident:
            self._stops()
            raise stop
        self._wished_elsewhere(stop)

    def goes_on(self) -> None:
        """The script swallows every stop and is let go: if it has not ended, it was not stopped."""
        with self._deciding:
            if not self._leaving:
                self.stopped_early = None

    def abort(self, exc: BaseException) -> NoReturn:
        """Fail the run with ``exc``, as if the script had raised it."""
        raise OverseerAbort(exc)

    def report(self, problem: Problem) -> None:
        """Tell the user about ``problem``, once, and keep it in the run's record."""
        if in_child():
            return
        with self._deciding:
            if problem in self._told:
                return
            self._told.add(problem)
            self.problems.append(problem)
        entry = self.states.get(problem.who)
        if entry is not None:
            entry.update(state="failed", error=problem.what)
            entry.setdefault("failed_at", problem.where)
        self._tell(problem)

    def debug(self, line: str) -> None:
        """Say ``line`` on stderr when ``--debug`` is on."""
        if getattr(self.options, "debug", False):
            self._write(line)

    def _write(self, text: object) -> None:
        try:
            self.stderr.write(f"voir: {text}\n")
            self.stderr.flush()
        except (OSError, ValueError):
            pass  # A closed stderr has nobody to tell.

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
        recorder.open(STRUCTURE_RING, VALUE_RING)
        token = current_overseer.set(self)
        try:
            value = self._guarded_walk(list(argv))
        finally:
            self.finalize()
            current_overseer.reset(token)
            _active = before
        if self.late is not None:
            raise self.late
        return value

    def _guarded_walk(self, argv: list[str]) -> object:
        value, error = None, None
        try:
            value = self._insistent_walk(argv)
        except VoirError as refused:
            self._log_error("error", refused)
            raise  # voir's own refusal: the script has not run.
        except BaseException as caught:
            error = caught
        # Out here, because a script's excepthook must not find us handling its exception.
        self._ended(error)
        if error is None or isinstance(error, StopProgram):
            return value
        if self.status == "running" and exit_status(_meant(error)) != 0:
            self._log_error("error", _meant(error))
        raise _meant(error)

    def _insistent_walk(self, argv: list[str]) -> object:
        """Walk; an early stop arrives here whatever the script does with it."""
        with insisting(self._reached, self._stops) as insistence:
            self._insistence = insistence
            try:
                value = self._walk(argv)
            except BaseException as error:
                aborted = isinstance(error, OverseerAbort)
                if insistence.stop is not None and due_to(error) and not aborted:
                    raise insistence.stop from None
                raise
            if insistence.stop is not None:
                raise insistence.stop
            return value

    def _ended(self, error: BaseException | None) -> None:
        """Announce how the script ended, once, while the streams are still open."""
        if self.status != "running" or self.exit_status is not None:
            return
        if isinstance(error, StopProgram):
            self.stopped_early = self.stopped_early or _reason(error)
            error = None
        with self._deciding:
            self._leaving = True
            if self._insistence is not None:
                self._insistence.over = True
        status = self.announce(_meant(error) if error is not None else None)
        with self._deciding:
            # An abort in one of its threads, for which the script has waited, may have set it.
            self.exit_status = status or self.exit_status or 0

    def _walk(self, argv: list[str]) -> object:
        early: list[dict[str, Any]] = []
        keeping = self._log_stream.listen(early.append, who="the record")
        self._begin(self.phases.init)
        self.require(*self._instruments)
        self.end(self.phases.init)
        self.argv = self.argv or argv
        self._begin(self.phases.parse_args)
        target = self._parse(argv)
        self._connect(target)
        keeping.dispose()
        if self.recording is not None:
            for event in early:
                self.recording.log(event)
        self.end(self.phases.parse_args)
        self.status = "running"
        self._phase(self.phases.load_script, lambda: self._load(target))
        return self._phase(self.phases.run_script, self._run)

    def require(self, *instruments: Instrument) -> object:
        """Start instruments, each once; the state of the only one, or a list of states."""
        states = [super(Overseer, self).require(instrument) for instrument in instruments]
        return states[0] if len(states) == 1 else states

    def _begin(self, phase: Phase) -> None:
        self.log({"$event": "phase", "$data": {"name": phase.name}})

    @contextmanager
    def run_phase(self, phase: Phase) -> Iterator[Callable[[object], None]]:
        """Log that ``phase`` begins; the body is the phase, as :meth:`Scheduler.run_phase` has it.

        For phases of subclasses: the overseer runs its own.
        """
        self._begin(phase)
        with super().run_phase(phase) as set_value:
            yield set_value

    def _failing(self, who: str, error: BaseException) -> None:
        self._log_error("overseer_error", error)
        super()._failing(who, error)

    def _log_error(self, event: str, error: BaseException) -> None:
        known = getattr(error, "system_error", None) or error
        try:
            message = str(known)
        except Exception:  # The script's own class may fail to say what it is about.
            message = ""
        self.log({"$event": event, "$data": {"type": type(known).__name__, "message": message}})

    def _phase(self, phase: Phase, body: Callable[[], object]) -> object:
        self._begin(phase)
        value, error = None, None
        try:
            value = body()
        except BaseException as caught:
            error = caught
        if error is not None or phase is self.phases.run_script:
            self._ended(error)  # This waits for the script's threads: their events are part of it.
        if error is not None:
            self._end_all(phase, error)
            raise error
        self.end(phase, value)
        return value

    def _end_all(self, phase: Phase, error: BaseException) -> None:
        """End ``phase`` by ``error``, and run_script too, so that nobody waits in vain."""
        # The child of a fork leaves the script through here as well; the run is not its own.
        if in_child():
            return
        # A script that ended well by saying so, sys.exit(0), ended well.
        thrown = None if exit_status(error) == 0 else _meant(error)
        for one in (phase, self.phases.run_script):
            if one.pending:
                self.end(one, exception=thrown)

    def _parse(self, argv: list[str]) -> Target | None:
        parser = self.argparser
        if argv[:1] == ["--completion"]:
            raise HelpAsked(_completion(parser, argv[1:]))
        own, rest = parser.split(argv)
        for found in configurations(own, self.environ, current_directory(), self.report):
            parser.add_config(*found)
        if {"-h", "--help"} & set(own):
            raise HelpAsked(parser.format_help())
        if "--version" in own:
            raise HelpAsked(f"voir {version}")
        self.options = parser.resolve(own)
        if self.options.completion is not None:
            raise HelpAsked(_completion(parser, [self.options.completion]))
        for problem in parser.misspelt:
            self.report(problem)
        self._deadline.seconds = self.options.instrument_timeout
        target = target_of(rest)
        self.options.SCRIPT = target.name if target and target.kind == "script" else None
        self.options.MODULE = target.name if target and target.kind != "script" else None
        self.options.ARGV = list(target.argv) if target else []
        return target

    def _connect(self, target: Target | None) -> None:
        """Open what the run writes to, and let ``giving.give`` reach the run."""
        from .imports import on_import, tell_failures
        from .recording import Recording

        self.recording = Recording(self, target.name if target else "")
        self._exit.callback(tell_failures(self._import_failed).dispose)
        # The second, because the first comes too early when it is our side that imports giving.
        for module in ("giving", f"{__package__}.engine.operators"):
            self._exit.callback(on_import(module, self._hear_giving).dispose)

    def _import_failed(self, name: str, error: Exception) -> None:
        self.report(problem_of("import", f"import {name}", error, "what waited for it failed"))

    def _hear_giving(self, module: object) -> None:
        """Let ``giving.give`` reach the run, once giving and our side of it are there."""
        from .engine import operators

        if not self._heard and hasattr(operators, "connected"):
            self._heard = True
            self._exit.enter_context(operators.connected(self.bus))

    def _load(self, target: Target | None) -> None:
        if target is None:
            raise UsageError(
                "no-script", "no script was given", "Usage: voir [VOIR OPTIONS] SCRIPT [OPTIONS]"
            )
        self.program = locate(target)
        with self.account.script():
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
        if self._engine is not None:  # Else it is soon enough when there is something to record.
            self.recording.prepare()
            self.recording.save_up()
        with self.account.script():
            try:
                value = self.program.run()
            except SystemExit as error:
                if exit_status(error) == 0:
                    self._leave_iterations()
                raise
            self._leave_iterations()
            return value

    def _leave_iterations(self) -> None:
        """The script has ended well: so have the last turns of what it iterates over by hand."""
        for iteration in () if in_child() else list(self.iterations):
            iteration.script_ends()

    # The end

    def finalize(self) -> None:
        """End the run, once: streams complete, ``finalize`` ends, the record is closed."""
        if self.status == "finalized" or in_child():
            return
        self.status = "finalized"
        if self.recording is not None:
            self._last(self.recording.spend)
        self._last(self._close_open_phases)
        if self.program is not None:  # Else nothing ran, and there is nothing to reduce.
            for probe in self._probes:
                self._last(probe._exit)
            self._last(self.bus.complete)
        self._last(lambda: self._begin(self.phases.finalize))
        self._last(lambda: self.end(self.phases.finalize))
        self._last(self.close)
        self._last(self._close_probes)
        self._last(self._finish_recording)
        self._last(self._log_stream.complete)
        self._last(self._exit.close)
        self.bus.clear()
        self._log_stream.clear()
        recorder.close()

    def _close_probes(self) -> None:
        if self._engine is not None:
            self._verdicts, self._judged = self._find_verdicts(), True
            self._engine.close()

    def probe_verdicts(self) -> list[dict[str, Any]]:
        """What became of each probe, as ``run.json`` has it."""
        if not self._judged:
            self._verdicts = self._find_verdicts()
        return [*self._verdicts, *self.misread]

    def _find_verdicts(self) -> list[dict[str, Any]]:
        """Of the probes somebody set; those without a place are instruments' own affair."""
        found = self._engine.verdicts() if self._engine is not None else []
        return [verdict for verdict in found if "where" in verdict]

    def _finish_recording(self) -> None:
        if self.recording is not None:
            self.run = self.recording.finish()

    def _close_open_phases(self) -> None:
        # A signal can end the run in the middle of a phase.
        for phase in (self.phases.load_script, self.phases.run_script):
            if phase.pending and self.phases.parse_args.done:
                self.end(phase)

    def _last(self, act: Callable[[], object]) -> None:
        """Do ``act``; whatever it raises, what comes after it is done too."""
        try:
            act()
        except BaseException as error:
            if isinstance(error, StopProgram) or self._fails(error):
                return  # The script has ended already.
            self.report(problem_of("finalize", "the end of the run", error))

    def _fails(self, error: BaseException) -> bool:
        """Whether what a reduction raised at the end is to fail the run: ``.fail()``, ``abort``."""
        if not asked_for(error):
            return False
        if not self.exit_status:
            self.late = _meant(error)
            self.exit_status = exit_status(self.late)
        return True


def _check_selector(selector: object) -> None:
    if not isinstance(selector, str) and not hasattr(selector, "encode"):
        name = getattr(selector, "__qualname__", "f")
        raise VoirError(
            "selector",
            f"a selector is a string, not {selector!r:.60}",
            f'Name the function and what to watch in it: ov.probe("//{name} > x")',
        )


def _completion(parser: OptionParser, words: list[str]) -> str:
    """What ``--completion`` asks for: a shell's script, or what may come next."""
    from .completion import SHELLS, WORDS, candidates, script

    if words[:1] == [WORDS]:
        return "\n".join(candidates(parser, words[1:]))
    if words[:1] and words[0] in SHELLS:
        return script(words[0])
    example = f"Name one: voir --completion {SHELLS[0]}"
    raise UsageError("option-value", f"--completion needs a shell: {' or '.join(SHELLS)}", example)


def _meant(error: BaseException) -> BaseException:
    """What the script is to end by: the error that an instrument aborted with, else its own."""
    return error.args[0] if isinstance(error, OverseerAbort) else error


def _reason(stop: StopProgram) -> str:
    value = stop.args[0] if stop.args else None
    return "ov.stop()" if value is None else f"ov.stop({value!r:.60})"


def _thrown_as(wish: BaseException) -> type[BaseException]:
    """The class of which python makes ``wish`` anew in another thread: it takes no instances."""
    stop = isinstance(wish, StopProgram)
    kind: type[BaseException] = StopProgram if stop else OverseerAbort
    value = wish.args if stop else (_meant(wish),)

    def begin(self: BaseException) -> None:
        kind.__init__(self, *value)
        wished(self)  # It is insisted on there too.

    return type(kind.__name__, (kind,), {"__init__": begin})


def _worth_saying(record: LogRecord) -> bool:
    """Whether asyncio is to say that a task has failed: not by what ends the script."""
    return not (record.exc_info and due_to(record.exc_info[1]))


def _main_frame() -> FrameType | None:
    return sys._current_frames().get(threading.main_thread().ident or 0)


def _raise_in_main(kind: type[BaseException]) -> None:
    import ctypes

    ident = threading.main_thread().ident
    assert ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(kind))


__all__ = ["Overseer", "active", "current_overseer"]
