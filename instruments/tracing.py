"""One traced run: its log while the script runs, and its trace when the script has ended."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from overseer import Overseer
from overseer.errors import Problem, VoirError
from overseer.files import read_json
from overseer.imports import on_import
from overseer.recorder import recorder
from overseer.recorder.values import values
from overseer.rundir.job import MARKER, place
from overseer.rundir.steps import step_rows, steps_of
from overseer.trace.capture import LogCapture, ModuleNames
from overseer.trace.channels import channels, record, stop
from overseer.trace.parts import DETAILED, FOREVER, Part, Parts
from overseer.trace.rows import Made, Progress, make
from overseer.trace.writer import LogWriter, TraceLog, this_process

from .hooks.profiler import Operators
from .trace_figures import Figures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from overseer.trace.steprows import StepRow

    from .trace_options import Settings

#: Interval at which the log is written, in seconds: the most that a SIGKILL can lose.
WRITE_SECONDS = 0.1
#: Channels that voir itself fills.
OWN_CHANNELS = (
    "voir", "metrics", "machine", "progress", "steps", "passes", "checkpoints", "modules",
    "operators",
)  # fmt: skip


class Session:
    """Traces a run: connects its fold, the parts that are traced, and the log.

    Args:
        ov: The run.
        settings: The options of the trace.
        path: The trace's file.
        alone: Trace only blocks of ``voir.profile``, not the run.

    Raises:
        OSError: The log cannot be made.
    """

    def __init__(self, ov: Overseer, settings: Settings, path: Path, alone: bool) -> None:
        self._ov, self._settings, self._path = ov, settings, path
        self._log = path.with_suffix(".log")
        size = int(settings.max_mb * 2**20)
        writer = LogWriter(self._log, self._head(), size, settings.ring, self._unwritten)
        self._measuring = measuring = ov.measuring
        if measuring.fold is not None:
            measuring.catch_up()
        fold = measuring.fold
        self._capture = LogCapture(writer, None if fold is None else fold.snapshot())
        self._writer, self._names = writer, ModuleNames(self._capture)
        self._queued = False
        self._until: int | None = None
        self._watches = [on_import(name, values.know) for name in ("torch", "numpy")]
        self._watches.append(on_import("asyncio", _tell_tasks_apart))
        self._watches.append(on_import("torch._dynamo", self._uncompiled))
        self._count = self._steps()
        record(settings.channels)
        self._figures = Figures(ov)
        profiler = partial(Operators, ov, self._capture.values)
        self._parts = Parts(self._steps, measuring.stop_at, profiler, self._called)
        self._alone = alone
        if not alone:
            every, level = settings.every, settings.level
            self._parts.begin(Part(0, FOREVER, settings.steps, every, level))
        measuring.read(self._folded)
        measuring.begin()
        ov.summary["trace"] = {"path": str(path)}
        self._timer = ov.every(WRITE_SECONDS, self._write, first=WRITE_SECONDS)
        self._timer.__enter__()

    @classmethod
    def start(cls, ov: Overseer, settings: Settings, alone: bool) -> Session | None:
        """Make a session; report and return ``None`` if there is no place to write."""
        path = None
        try:
            path = _place(ov, settings)
            return cls(ov, settings, path, alone) if path is not None else None
        except OSError as error:
            what = f"there is no trace of this run ({error.strerror or error})"
            remedy = "Name a directory you can write to: --trace-dir DIR."
            who = str(path or settings.directory or "the trace")
            ov.report(Problem("trace-unwritable", who, what, remedy=remedy))
            return None

    def _head(self) -> dict[str, Any]:
        """The facts about the process, its clocks and the options, for readers of the log."""
        ov, settings = self._ov, self._settings
        assert ov.recording is not None
        rank = ov.recording.directory.rank
        head = {
            **this_process(),
            "boot_id": place().partition(" ")[2],
            "name": ov.recording.title or "script",
            "python": sys.version.split()[0],
            "rank": rank.rank if rank is not None else None,
            "wall_ns": ov.clock.wall_ns(),
            "now_ns": ov.clock.now_ns(),
            "patterns": settings.channels,
            "modules": settings.modules,
            "method": ov.measuring.method,
        }
        return {**head, **_shared_clock(self._path)}

    def span(self, row: str, label: str, start: int, end: int) -> None:
        """Record a span of voir's own in a named row."""
        self._capture.span(row, label, start, end)

    def script_begins(self) -> None:
        """Start the clock of ``--trace-duration``: the script's imports are done."""
        if self._settings.duration is not None:
            self._until = recorder.now() + round(self._settings.duration * 1e9)

    def part(self, level: str, seconds: float | None) -> Callable[[], object]:
        """Trace a part of the script from now on; return the function that ends it."""
        self._measuring.catch_up()
        now = recorder.now()
        end = FOREVER if seconds is None else now + round(seconds * 1e9)
        part = self._parts.begin(Part(now, end, level=level))

        def over() -> None:
            self._measuring.catch_up()
            self._parts.finish(part)

        return over

    def steps(self, n: int) -> None:
        """Trace ``n`` steps with their operators, from the next one that begins."""

        def begin() -> None:
            first = self._steps() + 1
            self._parts.begin(Part(recorder.now(), steps=(first, first + n), level="op"))

        self._measuring.stop_at(0, None, begin, once=True)  # Where steps are counted exactly.

    def _steps(self) -> int:
        fold = self._measuring.fold
        return fold.steps(None) if fold is not None else 0

    def _called(self, module: Any) -> None:
        """Handle the first call of a module, on its thread."""
        if threading.get_ident() == threading.main_thread().ident:
            for part in self._parts.open(("op",)):  # PyTorch may just have been imported.
                part.switch(True)
        self._names.add(module)

    def _uncompiled(self, dynamo: Any) -> None:
        """Keep the functions that run between graphs from being compiled."""
        from overseer.probes.dynamo import never_compile

        for function in (Session._called, ModuleNames.add, Parts.open):
            never_compile(function)

    def _folded(self, data: bytes) -> None:
        """Pass events on that have just been folded; under the fold's lock."""
        fold = self._measuring.fold
        assert fold is not None
        before, self._count = self._count, self._steps()
        self._capture.structure(data, self._parts.hold(before, self._count), fold.snapshot())

    def _write(self) -> None:
        """Write the log, on a timer's thread."""
        if self._until is not None and recorder.now() > self._until:
            self._parts.end(self._until)
            stop()
            self._until = None
        self._note_queue()
        self._capture.write(self._parts)

    def _note_queue(self) -> None:
        """Note that a device is used: collectives end there, after the script's waits for them."""
        if not self._queued:
            with suppress(Exception):
                if sys.modules["torch"].cuda.is_initialized():
                    self._queued = self._writer.rows({"queued": True})

    def _unwritten(self, error: OSError) -> None:
        what = f"events are missing from the trace ({error.strerror or error})"
        remedy = "Free the disk or choose another: --trace-dir DIR."
        self._ov.report(Problem("trace-unwritable", str(self._path), what, remedy=remedy))

    # The end

    def close(self) -> None:
        """Close the log, make the trace, and put its figures into the summary."""
        self._timer.__exit__(None, None, None)
        for watch in self._watches:
            watch.dispose()
        self._figures.close()
        for part in self._parts:
            part.switch(False)
        recorder.submodules(False)
        stop()
        self._note_queue()
        self._capture.close(self._parts)
        self._make()

    def _make(self) -> None:
        ov, shown = self._ov, Progress(self._ov.stderr)
        try:
            log = TraceLog(self._log)
            made = make(log, self._path, shown, self._rows())
            if ov.environ.get("VOIR_KEEP_LOG"):  # For debugging a figure.
                self._log.replace(self._log.with_name("kept.log"))
            log.remove()
        except KeyboardInterrupt:
            what = "it was interrupted while it was made; its log is there"
            remedy = f"Make it later: voir trace export {self._path.parent}"
            ov.report(Problem("trace-unmade", str(self._path), what, remedy=remedy))
        except (OSError, ValueError) as error:
            dropped = self._writer.written + self._writer.dropped
            ov.summary["trace"] = {"path": str(self._path), "events": 0, "dropped": dropped}
            what = f"there is no trace of this run ({getattr(error, 'strerror', None) or error})"
            remedy = "Name a directory you can write to: --trace-dir DIR."
            if self._log.exists():
                remedy = f"Its log is there: voir trace export {self._path.parent}"
            ov.report(Problem("trace-unwritable", str(self._path), what, remedy=remedy))
        else:
            told = {"path": str(self._path), "events": made.events, "dropped": made.dropped}
            ov.summary["trace"] = {**told, **self._profiled(made)}
            self._complain(made)
        finally:
            shown.close()

    def _rows(self) -> Iterator[StepRow] | None:
        """The run's steps from its ``steps.npy``; None unless it has as many as the fold."""
        recording, fold = self._ov.recording, self._measuring.fold
        directory = recording.directory.path if recording is not None else None
        if directory is None or fold is None:
            return None
        try:
            steps = steps_of(directory, self._ov.summary)
        except VoirError:
            return None
        if steps is None or len(steps) != sum(task.steps for task in fold.tasks.values()):
            return None
        return step_rows(steps, {name for name, task in fold.tasks.items() if task.given})

    def _profiled(self, made: Made) -> dict[str, object]:
        """Count the steps that detailed tracing slowed down, also for the rate of training."""
        run = Part(level=self._settings.level)
        # Of a whole run all steps count, even those for which the log had no room.
        every = run.level in DETAILED and any(part.what == run for part in self._parts)
        steps = self._steps() if every else made.detailed
        if not steps or "torch" not in sys.modules:
            return {}
        rate = self._ov.summary.get("tasks", {}).get("train", {}).get("rate")
        if rate is not None:
            rate["profiled"] = steps
        return {"level": "op" if "op" in self._parts.levels else "module", "profiled": steps}

    def _complain(self, made: Made) -> None:
        names = [*OWN_CHANNELS, *(one.name for one in channels() if one.name not in OWN_CHANNELS)]
        for pattern in self._settings.channels:
            if not any(fnmatchcase(name, pattern) for name in names):
                what = f"no channel is called {pattern!r}: there are {', '.join(names[:12])}"
                remedy = "Name those that are to be recorded; * and ? stand for anything."
                self._ov.report(Problem("trace-channels", "--trace-channels", what, remedy=remedy))
        if not self._alone and self._settings.steps is not None and not made.kept:
            first, last = self._settings.steps
            asked = f"{first}:{'' if last is None else last}"
            what = f"the steps {asked} never came: {self._steps()} steps were seen"
            remedy = "Name earlier steps, or see with --verify whether voir sees the steps."
            self._ov.report(Problem("trace-steps", "--trace-steps", what, remedy=remedy))


def _tell_tasks_apart(asyncio: Any) -> None:
    """Match begins and ends of spans by task where asyncio's tasks share a thread."""
    recorder.tasks(asyncio._get_running_loop, asyncio.current_task)


def _place(ov: Overseer, settings: Settings) -> Path | None:
    """The trace's path; None, and a report, if there is no directory for it."""
    assert ov.recording is not None
    if settings.directory is not None:
        from overseer.rundir.directory import safe_name, stamp

        directory = Path(os.path.abspath(os.path.expanduser(settings.directory)))
        directory.mkdir(parents=True, exist_ok=True)
        name = safe_name(ov.recording.title)
        return directory / f"{stamp(ov.clock.wall_ns())}-{name}-{os.getpid()}.pftrace"
    found = ov.recording.directory.path
    if found is None and ov.options.no_record:
        what = "there is no run directory to write the trace into"
        remedy = "Leave out --no-record, or name a place: --trace-dir DIR."
        ov.report(Problem("trace-nowhere", "--trace", what, remedy=remedy))
    return None if found is None else found / "trace.pftrace"


def _shared_clock(path: Path) -> dict[str, int]:
    """The clocks' anchor that the first rank on this machine has published."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        anchor = read_json(path.parent.parent / MARKER)["anchor"]
        if anchor["place"] == place():
            return {"wall_ns": int(anchor["epoch"]), "now_ns": int(anchor["monotonic"])}
    return {}
