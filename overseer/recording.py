"""What a run leaves behind: wires the streams to the run directory and to ``DATA_FD``."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from .boundary import Guarded, acting, said
from .errors import Problem
from .launch import current_directory
from .recorder import recorder
from .recorder.log import header
from .sampler import Sampler
from .spare import Spare, make_room
from .version import version

if TYPE_CHECKING:
    from .overseer import Overseer
    from .record.datafd import DataFd
    from .record.directory import RunDirectory
    from .record.metrics import MetricsLog
    from .record.provenance import Provenance
    from .sampler import Event

_T = TypeVar("_T")
#: How often what was given is written, in seconds: at most this much is lost to a SIGKILL.
INTERVAL = 1.0
#: Variables by which a launcher tells a process its rank.
RANKED = {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}


class Recording:
    """The record of one run; a directory is made when there is first something to record.

    Args:
        ov: The run.
        script: As the user named it.

    Raises:
        UsageError: ``--run-dir`` names a directory that holds a run already.
    """

    def __init__(self, ov: Overseer, script: str) -> None:
        self._ov = ov
        self._script = script
        self.started_wall, self.started = ov.clock.wall_ns(), ov.clock.now_ns()
        self._before = ov.account.outside_ns / 1e9
        self._base = os.path.join(current_directory() or os.sep, "voir-runs")
        self._directory: RunDirectory | None = None
        # The script's threads and the timer's may be the first to record at one moment.
        self._making = threading.RLock()
        self._process = os.getpid()
        # A launcher that gave this process a rank may be gone when there is something to record.
        if ov.options.run_dir or RANKED & ov.environ.keys():
            self.directory.check()
        self._data_fd = _data_fd(ov)
        self._metrics: MetricsLog | None = None
        self._provenance: Provenance | None = None
        self._waiting: list[Event] = []
        self._sampler = Sampler(ov.clock)
        self._flushing: Any = None
        self._spare: Spare | None = None
        if not ov.options.no_record:
            make_room()
        ov.log.before = self._begin_aside
        ov._log_stream.listen(self.log, who="the record")
        ov.bus.sampler = Guarded(self.given, "the record", ov.report)

    @property
    def directory(self) -> RunDirectory:
        """Where the run is recorded; what this imports is not paid for by runs without events."""
        if self._directory is None:
            with self._making:
                if self._directory is None:
                    self._directory = self._new_directory()
        return self._directory

    def _new_directory(self) -> RunDirectory:
        from pathlib import Path

        from .record.directory import RunDirectory

        ov, options = self._ov, self._ov.options
        return RunDirectory(
            self._script,
            self._process,
            self.started_wall,
            report=ov.report,
            run_dir=Path(options.run_dir) if options.run_dir else None,
            base=Path(self._base),
            environ=ov.environ,
            enabled=not options.no_record,
        )

    @property
    def made(self) -> bool:
        """Whether there is a run directory."""
        return self._directory is not None and self._directory.made

    # Events

    def log(self, event: Event) -> None:
        """Write an event that leaves the process."""
        if self._data_fd is not None:
            self._data_fd.write(event)
        if "$event" in event and self._waits(event):
            return
        metrics = self._open()
        if metrics is not None:
            metrics.write(event)

    def _begin_aside(self, event: Event) -> None:
        """Begin the record while the streams' lock is free: the script may be waiting for it."""
        if "$event" in event:
            return
        with suppress(Exception):  # It is tried once more when the event is written.
            self._open()
        self._ov.log.before = None

    def _waits(self, event: Event) -> bool:
        """Keep it for later: that a phase has ended is no reason for a directory."""
        if self.made:
            return False
        with self._making:
            if not self.made:
                self._waiting.append(event)
                return True
        return False

    def given(self, event: Event, seen: int) -> bool:
        """Consider a given event, the ``seen``-th of its keys; whether to be asked again."""
        if "$event" in event:
            self._ov.log(event)
            return True
        wants = self._sampler(event, seen)
        if self._flushing is None:
            self._flush_regularly()
        return wants

    def _flush_regularly(self) -> None:
        with self._making:
            if self._flushing is None:
                with acting("the record"):  # Not whoever happened to give something first.
                    self._flushing = self._ov.every(INTERVAL, self.flush, first=INTERVAL)
                self._flushing.__enter__()
                self.save_up()

    def prepare(self) -> None:
        """Import and find out beforehand what a record begins with: its first event is awaited."""
        if not self._ov.options.no_record:
            with suppress(Exception):  # It is told when there is something to record.
                from .record import metrics, runfile  # noqa: F401

                self.beginning()

    def save_up(self) -> None:
        """Hold descriptors back, so that the end has some though the script uses up all others."""
        if self._spare is None and self._ov.status != "finalized":
            self._spare = Spare()

    def spend(self) -> None:
        """Let go of them: they are needed now."""
        spare, self._spare = self._spare, None
        if spare is not None:
            spare.release()

    def flush(self) -> None:
        """Write what was given since the last time; runs on a thread of its own."""
        lines = self._sampler.take()
        self._ov.bus.sample()
        if not lines:
            return
        begins = self._metrics is None
        if begins:
            self.spend()  # The script may have used up all descriptors by now.
        try:
            metrics = self._open()
        except Exception:
            self._sampler.put_back(lines)  # Where the record could not begin, the end tries again.
            raise
        if metrics is not None:
            for line in lines:
                metrics.write(line)
        if begins:
            self.save_up()

    def _open(self) -> MetricsLog | None:
        # A forked child may never be let past the lock, and has nothing to write.
        if self._metrics is None and os.getpid() == self._process:
            with self._making:
                if self._metrics is None:
                    self._begin()
        return self._metrics

    def _begin(self) -> None:
        path = self.directory.path
        if path is None:
            return
        from .record.metrics import MetricsLog

        metrics = MetricsLog(path / "metrics.jsonl", self._ov.report)
        # Not durable: waiting for the disk here would hold the script up.
        self._write(self.beginning(), durable=False)
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            metrics.write(event)
        self._metrics = metrics

    def _write(self, facts: dict[str, Any], durable: bool) -> None:
        from .record.runfile import write_run

        path = self.directory.path
        if path is not None:
            write_run(path / "run.json", facts, self._ov.report, durable=durable)

    # The run's own file

    def beginning(self) -> dict[str, Any]:
        """What is known before the script runs."""
        from .record.redact import redact_arguments
        from .record.runfile import utc

        ov = self._ov
        rank = self.directory.rank
        return {
            "argv": self._part("argv", lambda: redact_arguments(["voir", *ov.argv])),
            "script": self._name(),
            "voirfiles": list(ov.voirfiles),
            "started": utc(self.started_wall),
            "pid": os.getpid(),
            "rank": rank.rank if rank else None,
            "world_size": rank.world_size if rank else None,
            "version": version,
            "app": ov.summary.get("app"),
            "provenance": self._part("provenance", lambda: self._find_provenance().at_start()),
        }

    def _part(self, name: str, find: Callable[[], _T]) -> _T | None:
        """What ``find`` returns; where it fails, for want of memory say, only that is missing."""
        try:
            return find()
        except Exception as error:
            what = f"run.json goes without its {name}: {said(error)}"
            remedy = "All else is recorded. Leave the script's end some memory and open files."
            self._ov.report(Problem("record-incomplete", "the record", what, remedy=remedy))
            return None

    def _name(self) -> str:
        program = self._ov.program
        return (program.file if program is not None else None) or self._script

    def _find_provenance(self) -> Provenance:
        if self._provenance is None:
            from pathlib import Path

            from .record.provenance import Provenance

            ov = self._ov
            origin = ov.program.origin if ov.program is not None else None
            files = [Path(v) for v in ov.voirfiles]
            command = ["voir", *ov.argv]
            self._provenance = Provenance(command, version, ov.environ, files, origin)
        return self._provenance

    def ending(self) -> dict[str, Any]:
        """What is known when the streams are complete."""
        ov = self._ov
        seconds = (ov.clock.now_ns() - self.started) / 1e9
        measured = {"seconds": seconds, **ov.summary}
        diagnosis = self._part("diagnosis", lambda: _diagnosis(measured)) or {}
        return {
            "seconds": seconds,
            "overhead": self._part("overhead", self._overhead),
            "exit_status": ov.exit_status,
            "stopped_early": ov.stopped_early,
            "probes": self._part("probes", ov.probe_verdicts),
            "instruments": self._instruments(),
            "problems": [problem._asdict() for problem in ov.problems],
            **diagnosis,
            **ov.summary,
        }

    def _overhead(self) -> dict[str, float | None] | None:
        """voir's own cost: what recording has taken, and what else was charged."""
        ov = self._ov
        if not ov.events:
            return None
        own = (header(recorder.header()).own + ov.charged_ns) / 1e9
        seconds = (ov.clock.now_ns() - self.started) / 1e9 + self._before
        share = min(1.0, own / seconds) if seconds > 0 else None
        return {"seconds": own, "share": share, "outside": ov.account.outside_ns / 1e9}

    def _instruments(self) -> list[dict[str, Any]]:
        writers = [w for w in (self._data_fd, self._metrics) if w is not None]
        failures = [failure for writer in writers if (failure := writer.failure())]
        return [*self._ov.states.values(), *failures]

    def finish(self) -> dict[str, Any]:
        """Write the last events and ``run.json``, close; returns what ``run.json`` holds."""
        if self._flushing is not None:
            self._flushing.__exit__(None, None, None)
        self.flush()
        if self._ov.summary.get("verify"):  # That nothing was seen is worth a record then.
            self._open()
        if self._data_fd is not None:
            self._data_fd.close()
        with self._making:  # The timer's thread may be at the beginning still.
            if not self.made:
                return {"script": self._name(), **self.ending()}
            run = self._whole()
            self._write(run, durable=True)
            if self._metrics is not None:
                self._metrics.close()
        return {**run, "directory": str(self.directory.path)}

    def _whole(self) -> dict[str, Any]:
        from .record.runfile import utc

        beginning = self.beginning()
        late = self._part("late provenance", lambda: self._find_provenance().at_end())
        return {
            **beginning,
            "provenance": late or beginning["provenance"],
            # Not the time of day now, which may have been set since.
            "ended": utc(self.started_wall + self._ov.clock.now_ns() - self.started),
            **self.ending(),
        }


def _diagnosis(facts: dict[str, Any]) -> dict[str, Any]:
    """What the figures say, when there are any."""
    if not facts.get("tasks"):
        return {}
    from .measure.diagnosis import diagnose

    found = diagnose(facts)
    return {"diagnosis": found.as_facts()} if found is not None else {}


def _data_fd(ov: Overseer) -> DataFd | None:
    """The descriptor that logged events also go to, if one was named and can be written to."""
    if ov.logfile is None and not ov.environ.get("DATA_FD"):
        return None
    from .record.datafd import DataFd, opened

    if ov.logfile is None:
        return DataFd(ov.environ, ov.report)
    return DataFd({"DATA_FD": str(opened(ov.logfile))}, ov.report, owned=True)
