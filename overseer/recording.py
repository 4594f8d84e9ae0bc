"""What a run leaves behind: wires the streams to the run directory and to ``DATA_FD``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .record.datafd import DataFd
from .record.directory import RunDirectory
from .record.encode import describe
from .record.metrics import MetricsLog
from .record.provenance import Provenance
from .record.redact import redact_arguments
from .record.runfile import utc, write_run
from .sampler import Sampler
from .stream import Event
from .version import version

if TYPE_CHECKING:
    from .overseer import Overseer

#: How often what was given is written, in seconds: at most this much is lost to a SIGKILL.
INTERVAL = 1.0


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
        options = ov.options
        self.directory = RunDirectory(
            script,
            os.getpid(),
            self.started_wall,
            report=ov.report,
            run_dir=options.run_dir,
            environ=ov.environ,
            enabled=not options.no_record,
        )
        self.directory.check()
        self._data_fd = DataFd(_descriptors(ov), ov.report)
        self._metrics: MetricsLog | None = None
        self._waiting: list[Event] = []
        self._sampler = Sampler(ov.clock, describe)
        self._flushing: Any = None
        ov._log_stream.listen(self._log, who="the record")
        ov._given_stream.listen(self._given, who="the record")

    # Events

    def _log(self, event: Event) -> None:
        if self._data_fd.enabled:
            self._data_fd.write(event)
        if "$event" in event and not self.directory.made:
            self._waiting.append(event)  # That a phase has ended is no reason for a directory.
        elif (metrics := self._open()) is not None:
            metrics.write(event)

    def _given(self, event: Event) -> None:
        if "$event" in event:
            self._ov.log(event)
            return
        self._sampler(event)
        if self._flushing is None:
            self._flushing = self._ov.every(INTERVAL, self.flush, first=INTERVAL)
            self._flushing.__enter__()

    def flush(self) -> None:
        """Write what was given since the last time; runs on a thread of its own."""
        lines = self._sampler.take()
        metrics = self._open() if lines else None
        if metrics is not None:
            for line in lines:
                metrics.write(line)

    def _open(self) -> MetricsLog | None:
        if self._metrics is None:
            path = self.directory.path
            if path is None:
                return None
            self._metrics = MetricsLog(path / "metrics.jsonl", self._ov.report)
            # Not durable: waiting for the disk here would hold the script up.
            self._write(self.beginning(), durable=False)
            waiting, self._waiting = self._waiting, []
            for event in waiting:
                self._metrics.write(event)
        return self._metrics

    def _write(self, facts: dict[str, Any], durable: bool) -> None:
        path = self.directory.path
        if path is not None:
            write_run(path / "run.json", facts, self._ov.report, durable=durable)

    # The run's own file

    def beginning(self) -> dict[str, Any]:
        """What is known before the script runs."""
        ov, rank = self._ov, self.directory.rank
        origin = ov.program.origin if ov.program is not None else None
        self._provenance = Provenance(
            ov.argv, version, ov.environ, [Path(v) for v in ov.voirfiles], origin
        )
        return {
            "argv": redact_arguments(ov.argv),
            "script": str(origin) if origin is not None else self._script,
            "voirfiles": list(ov.voirfiles),
            "started": utc(self.started_wall),
            "pid": os.getpid(),
            "rank": rank.rank if rank else None,
            "world_size": rank.world_size if rank else None,
            "version": version,
            "provenance": self._provenance.at_start(),
        }

    def ending(self) -> dict[str, Any]:
        """What is known when the streams are complete."""
        ov = self._ov
        return {
            "ended": utc(ov.clock.wall_ns()),
            "seconds": (ov.clock.now_ns() - self.started) / 1e9,
            "exit_status": ov.exit_status,
            "stopped_early": ov.stopped_early,
            "probes": ov.probe_verdicts(),
            "instruments": self._instruments(),
            "problems": [vars(problem) for problem in ov.problems],
            **ov.summary,
        }

    def _instruments(self) -> list[dict[str, Any]]:
        writers = [self._data_fd, *([self._metrics] if self._metrics else [])]
        failures = [failure for writer in writers if (failure := writer.failure())]
        return [*self._ov.states.values(), *failures]

    def finish(self) -> dict[str, Any]:
        """Write the last events and ``run.json``, close; returns what ``run.json`` holds."""
        if self._flushing is not None:
            self._flushing.__exit__(None, None, None)
        self.flush()
        run = self.beginning()
        if self.directory.made:
            run["provenance"] = self._provenance.at_end()
        run.update(self.ending())
        if self.directory.made:
            self._write(run, durable=True)
            run["directory"] = str(self.directory.path)
        if self._metrics is not None:
            self._metrics.close()
        return run


def _descriptors(ov: Overseer) -> dict[str, str]:
    if ov.logfile is not None and isinstance(ov.logfile, int):
        return {"DATA_FD": str(ov.logfile)}
    return dict(ov.environ)
