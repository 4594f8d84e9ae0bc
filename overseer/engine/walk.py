"""The walk through the phases: a call begins it, a call ends it, and the script is in between."""

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
from ..errors import Problem, UsageError, VoirError
from ..files import bounded
from ..launch import current_directory, exit_status, in_child, locate
from ..recorder import recorder
from .options import HelpAsked, target_of
from .settings import configurations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ..launch import Target
    from ..record.recording import Recording
    from .overseer import Overseer
    from .phases import Phase

#: How many events wait at most to be read: 2 and 4 MiB, touched as they are used.
STRUCTURE_RING, VALUE_RING = 1 << 16, 1 << 17
#: The same where there is no memory for these.
LEAST_RING = 1 << 8

current_overseer: ContextVar[Overseer | None] = ContextVar("current_overseer", default=None)
_active: Overseer | None = None


def active() -> Overseer | None:
    """The overseer of the run in progress, on any thread; ``None`` outside of one."""
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


class Walk:
    """Takes a run through its phases: ``begin``, then the script, then ``end``.

    The script is what :meth:`run` runs, or the code of a process that was running before.

    Args:
        ov: The run.
    """

    def __init__(self, ov: Overseer) -> None:
        self._ov = ov
        self._target: Target | None = None
        # What is undone when the run is over, and when the script has been left.
        self._run, self._listening = ExitStack(), ExitStack()
        self._modules: dict[str, Any] = {}

    def begin(self, argv: Iterable[str]) -> None:
        """Start instruments, read options, load the script as far as its definitions.

        What this raises is for :meth:`end`.

        Args:
            argv: voir's options, the script, the script's arguments.
        """
        ov, phases, argv = self._ov, self._ov.phases, list(argv)
        self._run.enter_context(_in_progress(ov))
        self._open_recorder()
        self._listening.enter_context(on_stop(ov.stopping.raises))
        early: list[tuple[dict[str, Any], int]] = []
        given: list[tuple[dict[str, Any], int]] = []
        now = ov.clock.now_ns
        keeping = ov.listen_log(lambda event: early.append((event, now())))

        def keep(event: dict[str, Any], seen: int) -> None:
            given.append((event, seen))

        ov.bus.samplers.append(keep)
        self._log_phase(phases.init)
        ov.start_instruments()
        ov.end(phases.init)
        ov.argv[:] = ov.argv or argv
        self._log_phase(phases.parse_args)
        self._target = self._parse(argv)
        recording = self._connect()
        keeping.dispose()
        ov.bus.samplers.remove(keep)
        for event, at in early:
            recording.log(event, at)
        for event, seen in given:
            ov.bus.keep(event, seen)
        ov.end(phases.parse_args)
        ov.status = "running"
        self._phase(phases.load_script, self._load)

    def run(self) -> object:
        """Run the script; its value, which only ``-m module:function`` has."""
        return self._phase(self._ov.phases.run_script, self._run_script)

    def end(self, error: BaseException | None = None) -> None:
        """End the run, which ``error`` has ended; None: the script has come to its end.

        Raises:
            BaseException: The error, unless it is a stop; or what a reduction failed the run by.
        """
        ov = self._ov
        self._listening.close()
        try:
            self._left(error)
            if error is not None and not isinstance(error, StopProgram):
                failed = ov.status == "running" and exit_status(error) != 0
                if failed or isinstance(error, VoirError):
                    ov.log_error("error", error)
                raise error
        finally:
            self.finalize()
            self._run.close()
        if ov.ending.late is not None:
            raise ov.ending.late

    # The phases

    def _open_recorder(self) -> None:
        ov = self._ov
        anchors = process_start(os.getpid()), ov.clock.wall_ns()
        try:
            recorder.open(STRUCTURE_RING, VALUE_RING, *anchors)
        except MemoryError:  # The script may do with what there is.
            recorder.open(LEAST_RING, LEAST_RING, *anchors)
            what = f"there is memory for {LEAST_RING} events at a time: those above are lost"
            remedy = "Leave voir some memory: ulimit -v limits it."
            ov.report(Problem("record-incomplete", "the recorder", what, remedy=remedy))

    def _log_phase(self, phase: Phase) -> None:
        self._ov.log({"$event": "phase", "$data": {"name": phase.name}})

    def _phase(self, phase: Phase, body: Callable[[], object]) -> object:
        ov = self._ov
        self._log_phase(phase)
        value, error = ov.ending.outcome(body)
        run_script = ov.phases.run_script
        if error is not None or phase is run_script:
            self._left(error)  # This waits for the script's threads: their events are part of it.
        # A script that ended well by saying so, sys.exit(0), ended well.
        thrown = None if exit_status(error) == 0 else error
        for one in (phase,) if error is None else (phase, run_script):
            # The child of a fork leaves the script through here as well; the run is not its own.
            if one.pending and not in_child():
                ov.end(one, value, thrown)
        if error is not None:
            raise error
        return value

    def _parse(self, argv: list[str]) -> Target | None:
        ov, parser = self._ov, self._ov.argparser
        own, rest = parser.split(argv)
        for found in configurations(own, ov.environ, current_directory(), ov.report):
            parser.add_config(*found)
        if asked := {"-h", "--help", "--help-all"} & set(own):
            from .help import help_text

            raise HelpAsked(help_text(parser, "--help-all" in asked, ov.environ))
        if "--version" in own:
            raise HelpAsked(f"voir {ov.version}")
        options = ov.options = ov.context.options = parser.resolve(own)
        if options.completion is not None:
            from .help import completion

            raise HelpAsked(completion(parser, options.completion))
        for problem in parser.misspelt:
            ov.report(problem)
        target = target_of(rest)
        options.SCRIPT = options.MODULE = None
        options.ARGV = list(target.argv if target else ())
        if target is not None:
            setattr(options, "SCRIPT" if target.kind == "script" else "MODULE", target.name)
        return target

    def _connect(self) -> Recording:
        """Open what the run writes to, and let ``giving.give`` reach the run."""
        from ..imports import on_import, tell_failures

        ov, operators = self._ov, f"{__package__}.operators"
        recording = ov.record(self._target.title if self._target else "")

        def connect(module: Any) -> None:
            ov.exit.enter_context(module.connected(ov.bus))

        def failed(name: str, error: Exception) -> None:
            ov.report(problem_of("import", f"import {name}", error, "what waited for it failed"))

        ov.exit.callback(tell_failures(failed).dispose)
        ov.exit.callback(on_import("giving", lambda module: import_module(operators)).dispose)
        ov.exit.callback(on_import(operators, connect).dispose)
        return recording

    def _load(self) -> None:
        ov = self._ov
        if self._target is None:
            usage = "Usage: voir [VOIR OPTIONS] SCRIPT [OPTIONS]"
            raise UsageError("no-script", "no script was given", usage)
        program = ov.program = locate(self._target)
        ov.context.located, ov.context.file = True, lambda: program.file
        if ov.on_source:
            program.adapt = lambda tree: _call_each(ov.on_source, tree)
        program.ready = lambda: _call_each(ov.on_ready)
        with ov.overhead.script():
            program.load(ov.probing.instrument)
        ov.probing.loaded()

    def _run_script(self) -> object:
        ov = self._ov
        assert ov.program is not None and ov.recording is not None
        # Without probes it is soon enough when there is something to record.
        ov.recording.prepare(ov.probing.any)
        # Of a copy: a thread of ours may be importing.
        self._modules = {n: one for n, one in dict(sys.modules).items() if n != "__main__"}
        with ov.overhead.script():
            return ov.program.run()

    # The end

    def _left(self, error: BaseException | None) -> None:
        if self._ov.status == "running":
            self._ov.ending.left(error, self._restore_modules)

    def finalize(self) -> None:
        """Close the run, once: streams complete, ``finalize`` ends, the record is closed."""
        ov = self._ov
        if ov.status == "finalized" or in_child():
            return
        ov.status, ov.context.outcome.over = "finalized", True
        self._restore_modules()
        # If nothing ran, there is nothing to reduce.
        ran = [*ov.probing.complete(), ov.bus.complete] if ov.context.located else []
        finalize = ov.phases.finalize
        with bounded():  # It writes files, python too: those of modules that are imported.
            ov.ending.last(
                self._close_open_phases,
                *ran,
                lambda: self._log_phase(finalize),
                lambda: ov.end(finalize),
                ov.close,
                ov.probing.close,
                ov.close_record,
                ov.log_bus.complete,
                ov.exit.close,
            )
        ov.bus.clear()
        ov.log_bus.clear()
        recorder.close()

    def _close_open_phases(self) -> None:
        # A signal can end the run in the middle of a phase.
        phases = self._ov.phases
        for phase in (phases.load_script, phases.run_script):
            if phase.pending and phases.parse_args.done:
                self._ov.end(phase)

    def _restore_modules(self) -> None:
        """Put back what the script took out of ``sys.modules``: voir's last acts import."""
        for name, module in self._modules.items():
            sys.modules.setdefault(name, module)
        self._modules = {}


def _call_each(calls: list[Callable[..., object]], *args: object) -> None:
    for call in calls:
        call(*args)
