"""One trace of a run: its file, what is recorded into it, and when."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from overseer import Overseer, StopProgram
from overseer.clock import Clock
from overseer.errors import Problem
from overseer.imports import on_import
from overseer.record.directory import safe_name, stamp
from overseer.trace.emit import channel, channels, tell_tasks_apart
from overseer.trace.process import this_process
from overseer.trace.recorder import INSTANT, recorder
from overseer.trace.writer import Writer

from .figures import Figures
from .marks import Checkpoints, Epochs
from .phases import PhaseRow
from .settings import LEVELS, Settings
from .steps import StepRows
from .window import TRAIN, Part, Window

if TYPE_CHECKING:
    from overseer.measure.step import Step

#: How often what was recorded is written, in seconds: at most this much is lost to a SIGKILL.
INTERVAL = 0.25
MEGABYTE = 1 << 20
#: Levels at which looking takes so long that rates are not those of the script by itself.
DETAILED = ("module", "op")
#: Events that are recorded to learn what one costs; how much more it is where the script's own work
#: has filled the caches.
PUTS, COLD = 500, 2.5
#: Parts of the script whose last steps may still be on their way.
PARTS = 1000


class Session:
    """A trace while it is written.

    Args:
        ov: The run.
        settings: What is wanted.
        path: The file.

    Attributes:
        phases: The row of the run's phases.
        only_profiles: Nothing but parts of the script are traced.

    Raises:
        OSError: The file cannot be made.
    """

    def __init__(self, ov: Overseer, settings: Settings, path: str) -> None:
        self._ov, self._settings = ov, settings
        name = ov.options.SCRIPT or ov.options.MODULE or "script"
        directory = ov.recording.directory if ov.recording is not None else None
        rank = directory.rank.rank if directory is not None and directory.rank else None
        process = this_process(name, ov.clock, rank)
        most = int(settings.max_mb * MEGABYTE)
        self._writer = Writer(path, process, recorder, most, ov.report, settings.ring)
        recorder.start(settings.channels)
        self._own = channel("voir", always=True)
        self.phases = PhaseRow(self._own, ov.clock)
        self.only_profiles = False
        self._over = False
        self._parts: list[Part] = []
        self._profiled: list[tuple[str, Window]] = []
        self._operators: Any = None
        self._modules: Any = None
        figures = Figures(ov)  # Before the window: a step's loss comes with its end.
        self._end_watch = self._watch(settings)
        self._rows = StepRows(ov, self._wanted, lambda: self._window.open and not self._over)
        self._shown: tuple[Figures, Epochs, Checkpoints] = (
            figures,
            Epochs(ov, self._rows.mark),
            Checkpoints(ov),
        )
        self._asyncio = on_import("asyncio", tell_tasks_apart)
        self._until: int | None = None
        self._timer = ov.every(INTERVAL, self._tick, first=INTERVAL)
        self._timer.__enter__()

    @classmethod
    def start(cls, ov: Overseer, settings: Settings) -> Session | None:
        """A session; ``None``, and a word about it, when there is nowhere to write."""
        path = ""
        try:
            path = _place(ov, settings)
            return cls(ov, settings, path) if path else None
        except OSError as error:
            place = path or settings.directory or "the trace"
            what = f"there is no trace of this run ({error.strerror or error})"
            remedy = "Name a directory you can write to: --trace-dir DIR."
            ov.report(Problem("trace-unwritable", str(place), what, remedy=remedy))
            return None

    def script_begins(self) -> None:
        """The script's imports are done; from here on its seconds count."""
        self._until = _deadline(self._ov, self._settings)

    def _watch(self, settings: Settings) -> Callable[[], None]:
        """Record the steps that ``settings`` want, in their detail; returns what ends that."""
        self._window = Window(settings.steps, settings.every, self._gate)
        detailed = settings.level in DETAILED
        if detailed:
            self._profiled.append((settings.level, self._window))
        part = Part(self._window, self._ov.clock.now_ns())
        self._parts = [*self._parts[-PARTS:], part]
        ends: list[Callable[[], object]] = []
        if settings.level == "op":
            from .operators import Operators

            self._operators = Operators(self._ov)
            self._window.insistent = True  # PyTorch may not be there yet when the first begins.
        if not self._window.everything or detailed:
            ends.append(self._ov.listen(self._window.hear).dispose)
        if detailed and self._modules is None:
            from .modules import Modules

            self._modules = Modules(self._ov, settings.modules, self._forward)
            ends.append(self._close_modules)
        self._gate(self._window.open)

        def end() -> None:
            if self._operators is not None:
                self._operators.switch(False)
            part.end = min(part.end, self._ov.clock.now_ns())
            for each in ends:
                each()

        return end

    def _close_modules(self) -> None:
        if self._modules is not None:
            self._modules.close()
            self._modules = None

    def _forward(self) -> None:
        """A model is called: PyTorch is there, which it may not have been when the step began."""
        if self._operators is not None and self._window.open and not self._over:
            self._operators.switch(True)

    def _wanted(self, step: Step) -> bool:
        return any(part.holds(step) for part in self._parts)

    def _gate(self, opened: bool) -> None:
        """The step that begins is recorded, or not."""
        recorder.gate(opened and not self._over)
        if self._operators is not None:
            self._operators.switch(opened and not self._over)

    def _tick(self) -> None:
        self._writer.flush()
        if self._until is not None and self._ov.clock.now_ns() > self._until:
            self.finish()

    def finish(self) -> None:
        """Record nothing more but the ends of what has begun."""
        self._over = True
        for part in self._parts:
            part.end = min(part.end, self._ov.clock.now_ns())
        recorder.gate(False, everything=True)

    # Parts of the script

    def profile(self, wanted: Settings, alone: bool) -> Callable[[], object]:
        """Record what follows; returns what ends that.

        Args:
            wanted: The level, the steps and the duration of this part.
            alone: What is between such parts is not recorded.
        """
        self.only_profiles = alone
        if alone:
            self._parts[0].end = self._parts[0].begin
        before = self._window, self._operators, self._until
        self._over, self._operators = False, None
        self._until = _deadline(self._ov, wanted)
        end_watch = self._watch(wanted)

        def end() -> None:
            end_watch()
            self._window, self._operators, self._until = before
            self._over = alone
            self._gate(self._window.open)

        return end

    # The end

    def failed(self, error: BaseException) -> None:
        """What ended the script, if that was an error."""
        meant = isinstance(error, SystemExit) and error.code in (None, 0)
        if not meant and not isinstance(error, StopProgram):
            self.mark("error", type=type(error).__name__, message=str(error))

    def mark(self, label: str, **arguments: str) -> None:
        """Mark this moment of the run."""
        self._own.instant(label, **arguments)

    def close(self) -> None:
        """Write what is left, and say what it came to."""
        self._timer.__exit__(None, None, None)
        self._asyncio.dispose()
        for each in self._shown:
            each.close()
        self._rows.close()
        self._end_watch()
        self._writer.flush()  # Makes room for what must not be missing.
        self.phases.end()
        self._writer.close()
        self._ov.charge(round(self._writer.recorded * _put_ns(self._ov.clock)))
        recorder.stop()
        self._complain()
        writer = self._writer
        gone = not os.path.exists(writer.path)  # Somebody has deleted it, or unplugged the disk.
        self._ov.summary["trace"] = {
            "path": writer.path,
            "events": 0 if gone else writer.events,
            "dropped": writer.recorded if gone else writer.dropped,
            **self._mark_rates(),
        }

    def _mark_rates(self) -> dict[str, object]:
        """Say of the rates of training how many of their steps were slowed down by being looked at.

        Returns:
            The same for the trace: that number, and the level.
        """
        steps = sum(window.recorded for _, window in self._profiled)
        if not steps or "torch" not in sys.modules:
            return {}
        levels = {level for level, _ in self._profiled}
        rate = self._ov.summary.get("tasks", {}).get(TRAIN, {}).get("rate")
        if rate is not None:
            rate["profiled"] = steps
        return {"level": max(levels, key=LEVELS.index), "profiled": steps}

    def _complain(self) -> None:
        names = [each.name for each in channels()]
        for pattern in self._settings.channels:
            if not any(fnmatchcase(name, pattern) for name in names):
                what = f"no channel is called {pattern!r}: there are {', '.join(names[:12])}"
                remedy = "Name those that are to be recorded; * and ? stand for anything."
                self._ov.report(Problem("trace-channels", "--trace-channels", what, remedy=remedy))
        if not self._window.reached:
            first, last = self._settings.steps or (0, None)
            asked = f"{first}:{'' if last is None else last}"
            what = f"the steps {asked} never came: {self._window.count} steps were seen"
            remedy = "Name earlier steps, or see with --verify whether voir sees the steps."
            self._ov.report(Problem("trace-steps", "--trace-steps", what, remedy=remedy))


def _deadline(ov: Overseer, settings: Settings) -> int | None:
    if settings.duration is None:
        return None
    return ov.clock.now_ns() + round(settings.duration * 1e9)


def _place(ov: Overseer, settings: Settings) -> str:
    """Where the file goes; empty when there is nowhere, which is told."""
    assert ov.recording is not None
    if settings.directory is not None:
        directory = os.path.abspath(os.path.expanduser(settings.directory))
        os.makedirs(directory, exist_ok=True)
        name = safe_name(ov.options.SCRIPT or ov.options.MODULE or "script")
        made = f"{stamp(ov.clock.wall_ns())}-{name}-{os.getpid()}.pftrace"
        return os.path.join(directory, made)
    found = ov.recording.directory.path
    if found is not None:
        return str(found / "trace.pftrace")
    if ov.options.no_record:
        what = "there is no run directory to write the trace into"
        remedy = "Leave out --no-record, or name a place: --trace-dir DIR."
        ov.report(Problem("trace-nowhere", "--trace", what, remedy=remedy))
    return ""


def _put_ns(clock: Clock) -> float:
    """What an event costs whoever records it; to write it is charged to the timer that does."""
    buffer: list[Any] = []
    begun = clock.now_ns()
    for _ in range(PUTS):
        buffer.extend((clock.now_ns(), INSTANT, None, "", "", None))
    return (clock.now_ns() - begun) / PUTS * COLD
