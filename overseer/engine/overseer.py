"""The Overseer: runs a script through its phases."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from importlib import import_module

from ..boundary import StopProgram, on_stop
from ..boundary import problem as problem_of
from ..clock import process_start
from ..context import REPLACED, maybe_rank
from ..errors import Problem, UsageError, VoirError
from ..files import bounded
from ..launch import current_directory, end_script_limit, exit_status, locate
from ..recorder import recorder, table
from .handle import Handle
from .options import HelpAsked, target_of
from .settings import configurations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ..launch import Target
    from ..rundir.recording import Recording
    from .phases import Phase

#: Capacity of the rings in events: 2 and 4 MiB, touched as they are used.
STRUCTURE_RING, VALUE_RING = 1 << 16, 1 << 17
#: The capacity if there is too little memory for these.
LEAST_RING = 1 << 8

#: Options of a process that another run has started: that run shows and checks both, and tells
#: their end.
OF_PARENT = {
    "quiet": True, "dash": False, "strict": False, "tensorboard": None,
    "run_dir": None, "run_dir_chosen": False, "on_end": None,
}  # fmt: skip

current_overseer: ContextVar[Overseer | None] = ContextVar("current_overseer", default=None)
_active: Overseer | None = None


def active() -> Overseer | None:
    """The overseer of the run in progress, on any thread; ``None`` if there is none."""
    return _active


@contextmanager
def _in_progress(ov: Overseer) -> Iterator[None]:
    global _active
    before, _active = _active, ov
    token = current_overseer.set(ov)
    try:
        yield
    finally:
        current_overseer.reset(token)
        _active = before


class Overseer(Handle):
    """Runs a script under instruments: call it with a command line.

    Attributes:
        own: voir's options as they were typed, without the script.

    A run can also be started and ended by two calls, ``begin`` and ``finish``. The script is then
    run by :meth:`run_script`, or is the code of a process that was already running.
    """

    own: Sequence[str] = ()
    _target: Target | None = None
    _modules: Mapping[str, Any] = {}

    def __call__(self, argv: Iterable[str]) -> object:
        """Run ``argv``: voir's options, the script, the script's arguments.

        Returns:
            The value returned by the function of ``-m module:function``, else ``None``.

        Raises:
            BaseException: The exception that ended the script, unless it was a stop.
            UsageError: The options are wrong; none of the script has run.
        """

        def run() -> object:
            self.begin(argv)
            return self.run_script()

        value, error = self.ending.outcome(run)
        # Not in an except block: a script's excepthook must not find the exception being handled.
        self.finish(error)
        return value

    def begin(self, argv: Iterable[str]) -> None:
        """Start the instruments, read the options, execute the script's leading definitions.

        Pass what this raises to :meth:`finish`.

        Args:
            argv: voir's options, the script, the script's arguments.
        """
        phases, argv = self.phases, list(argv)
        # Closed when the run is over, and when the script has been left.
        self._inside, self._listening = ExitStack(), ExitStack()
        self._inside.enter_context(_in_progress(self))
        self._open_recorder()
        self._listening.enter_context(on_stop(self.stopping.raising, self.stopping.put_off))
        early: list[tuple[dict[str, Any], int]] = []
        given: list[tuple[dict[str, Any], int]] = []
        now = self.clock.now_ns
        keeping = self.listen_log(lambda event: early.append((event, now())))

        def keep(event: dict[str, Any], seen: int) -> None:
            given.append((event, seen))

        self.bus.samplers.append(keep)
        self._log_phase(phases.init)
        self.start_instruments()
        self.end(phases.init)
        self.argv[:] = self.argv or argv
        self._log_phase(phases.parse_args)
        self._target = self._parse(argv)
        recording = self._connect()
        keeping.dispose()
        self.bus.samplers.remove(keep)
        for event, at in early:
            recording.log(event, at)
        for event, seen in given:
            self.bus.keep(event, seen)
        self.end(phases.parse_args)
        self.status = "running"
        self._phase(phases.load_script, self._load)

    def run_script(self) -> object:
        """Run the script; return its value, which only ``-m module:function`` has."""
        return self._phase(self.phases.run_script, self._run_script)

    def finish(self, error: BaseException | None = None) -> None:
        """End the run.

        Args:
            error: The exception that ended the script, if any.

        Raises:
            BaseException: ``error``, unless it is a stop; or the exception of a failing reduction.
        """
        self._listening.close()
        try:
            self._left(error)
            if error is not None and not isinstance(error, StopProgram):
                failed = self.status == "running" and exit_status(error) != 0
                if failed or isinstance(error, VoirError):
                    self.log_error("error", error)
                raise error
        finally:
            self.finalize()
            self._inside.close()
        if self.ending.late is not None:
            raise self.ending.late

    @property
    def records_end(self) -> bool:
        """Whether a process that is killed is recorded even if nothing else was."""
        return True

    @property
    def target(self) -> Target | None:
        """The program that the command line names."""
        return self._target

    def end_by_signal(self, signum: int) -> None:
        """End the run before a signal ends the process, on top of the script's frames."""
        end_script_limit()
        self.context.outcome.exit_status = -signum
        if self.recording is not None and self.records_end:
            self.recording.begin()  # A script that lets no other thread run has no record yet.
            self.context.outcome.idle = self.recording.placed(self.recording.idle())
        self.finalize()

    def end_by_exec(self) -> bool:
        """End the run before another program replaces the process; return whether it went on."""
        end_script_limit()
        if self.status == "finalized" or self.recording is None:
            return False
        self.context.outcome.ended_by = REPLACED
        self.finalize()
        return True

    # Phases

    def _open_recorder(self) -> None:
        self.context.first_site = len(table.rows)
        anchors = process_start(os.getpid()), self.clock.wall_ns()
        try:
            recorder.open(STRUCTURE_RING, VALUE_RING, *anchors)
        except MemoryError:  # The script itself may need less.
            recorder.open(LEAST_RING, LEAST_RING, *anchors)
            what = f"memory for only {LEAST_RING} events at a time is left: further ones are lost"
            remedy = "Leave voir some memory: ulimit -v limits it."
            self.report(Problem("record-incomplete", "the recorder", what, remedy=remedy))

    def _log_phase(self, phase: Phase) -> None:
        self.log({"$event": "phase", "$data": {"name": phase.name}})

    def _phase(self, phase: Phase, body: Callable[[], object]) -> object:
        self._log_phase(phase)
        value, error = self.ending.outcome(body)
        run_script = self.phases.run_script
        if error is not None or phase is run_script:
            self._left(error)  # This waits for the script's threads: their events belong to it.
        # sys.exit(0) is a normal end.
        thrown = None if exit_status(error) == 0 else error
        for one in (phase,) if error is None else (phase, run_script):
            # The child of a fork also leaves the script here; the run is not its own.
            if one.pending and not self.is_inherited:
                self.end(one, value, thrown)
        if error is not None:
            raise error
        return value

    def _parse(self, argv: list[str]) -> Target | None:
        parser = self.argparser
        own, rest = parser.split(argv)
        self.own = own
        for found in configurations(own, self.environ, current_directory(), self.report):
            parser.add_config(*found)
        if asked := {"-h", "--help", "--help-all"} & set(own):
            from .help import help_text

            raise HelpAsked(help_text(parser, "--help-all" in asked, self.environ))
        if "--version" in own:
            raise HelpAsked(f"voir {self.version}")
        options = self.options = self.context.options = parser.resolve(own)
        if options.completion is not None:
            from .help import completion

            raise HelpAsked(completion(parser, options.completion))
        if self.context.joins:
            vars(options).update(OF_PARENT)
        for problem in parser.misspelt:
            self.report(problem)
        target = target_of(rest)
        options.SCRIPT = options.MODULE = None
        options.ARGV = list(target.argv if target else ())
        if target is not None:
            setattr(options, "SCRIPT" if target.kind == "script" else "MODULE", target.name)
        return target

    def _connect(self) -> Recording:
        """Open the run's record and connect ``giving.give`` to the run."""
        from ..imports import on_failure, on_import

        operators = f"{__package__}.operators"
        recording = self.record(self._target.title if self._target else "")

        def connect(module: Any) -> None:
            self.exit.enter_context(module.connected(self.bus))

        def failed(name: str, error: Exception) -> None:
            self.report(problem_of("import", f"import {name}", error, "its import callback failed"))

        self.exit.callback(on_failure(failed).dispose)
        self.exit.callback(on_import("giving", lambda module: import_module(operators)).dispose)
        self.exit.callback(on_import(operators, connect).dispose)
        return recording

    def _load(self) -> None:
        if self._target is None:
            usage = "Usage: voir [VOIR OPTIONS] SCRIPT [OPTIONS]"
            raise UsageError("no-script", "no script was given", usage)
        program = self.program = locate(self._target)
        self.context.located, self.context.file = True, lambda: program.file
        if self.on_source:
            program.adapt = lambda tree: _call_each(self.on_source, tree)
        program.ready = lambda: _call_each(self.on_ready)
        if self.recording is not None:
            self.recording.expect()
        with self.overhead.script():
            program.load(self._instrument)
        self._script_loaded()

    def _run_script(self) -> object:
        assert self.program is not None and self.recording is not None
        # Without probes, the record is prepared when there is something to write.
        self.recording.prepare(self._probing is not None)
        if maybe_rank(self.environ) and self.recording.several:
            self.join_job()
        # A copy: voir's threads may import meanwhile.
        self._modules = {n: one for n, one in dict(sys.modules).items() if n != "__main__"}
        with self.overhead.script():
            return self.program.run()

    # The end

    def _left(self, error: BaseException | None) -> None:
        if self.status != "running":
            return
        if isinstance(error, KeyboardInterrupt) and self.recording is not None:
            outcome = self.context.outcome
            outcome.idle = self.recording.idle()
            self.ending.script_left(error, self._restore_modules)
            outcome.idle = self.recording.placed(outcome.idle, error)
            return
        self.ending.script_left(error, self._restore_modules)
        if isinstance(error, Exception) and self.recording is not None:
            self.context.outcome.error_at = self.recording.place_of(error)

    def finalize(self) -> None:
        """Close the run, once: complete the streams, end ``finalize``, close the record."""
        if self.status == "finalized" or self.is_inherited:
            return
        self.status, self.context.outcome.over = "finalized", True
        self._restore_modules()
        # If nothing ran, reductions have no input.
        finalize = self.phases.finalize
        probes = self._probing.complete() if self._probing is not None else []
        ran = [*probes, self.bus.complete] if self.context.located else []
        with bounded():  # Files are written here, also by Python for imported modules.
            self.ending.run_all(
                self._close_open_phases,
                *ran,
                lambda: self._log_phase(finalize),
                lambda: self.end(finalize),
                self.close,
                self._close_probes,
                self.close_record,
                self.log_bus.complete,
                self.exit.close,
            )
        self.bus.clear()
        self.log_bus.clear()
        recorder.close()

    def _close_open_phases(self) -> None:
        # A signal can end the run inside a phase.
        phases = self.phases
        for phase in (phases.load_script, phases.run_script):
            if phase.pending and phases.parse_args.done:
                self.end(phase)

    def _restore_modules(self) -> None:
        """Restore what the script removed from ``sys.modules``: the end of the run imports."""
        for name, module in self._modules.items():
            sys.modules.setdefault(name, module)
        self._modules = {}


def _call_each(calls: list[Callable[..., object]], *args: object) -> None:
    for call in calls:
        call(*args)
