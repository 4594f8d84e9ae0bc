"""Records a run: connects the streams to the run directory and to ``DATA_FD``."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property

from ..boundary import acting, said
from ..clock import Clock, time_ns
from ..context import maybe_rank
from ..errors import Problem
from ..recorder import recorder
from ..recorder.sites import HEADS, OVERHEAD_WORD, WORD_BEAT, WORD_STACKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeVar

    from ..context import Context
    from .datafd import DataFd
    from .directory import RunDirectory
    from .hangs import HangWatch
    from .metrics import MetricsLog
    from .provenance import Provenance
    from .scores import Scores

    _T = TypeVar("_T")
    Event = dict[str, Any]

#: Up to so many ns after it was last seen, a hang is what a signal has ended.
JUST_NOW_NS = 15_000_000_000
#: Interval between writes, in seconds: the most that a SIGKILL can lose.
INTERVAL = 1.0
#: The first write of a rank, in seconds: other ranks see that it has started.
RANK_BEGINS = 0.05
#: Interval between writes of ``run.json``: this multiple of the last one's processor time, at most
#: this number of seconds.
WRITE_REST, MAX_WRITE_SECONDS = 400, 10.0
#: Values per queued line; queued lines.
SURE, WAITING_LINES = 10_000, 10_000
#: Killed runs checked at the beginning of a record.
DEAD = 50
#: Events per combination of keys before sampling begins; combinations. Further combinations get one
#: event per flush.
WHOLE, COMBINATIONS = 100, 1000
#: Events with one of these keys and no task belong to training, as in the fold.
OF_TRAINING = frozenset({"step", "loss", "batch", "batch_size"})
#: The remedy for a request that failed.
RETRY = "The run goes on; ask again once the disk has room."
PLAIN_TYPES = frozenset({int, float, str, bool, type(None)})


class Recording:
    """The record of one run; its directory is created with the first record.

    A timer writes once a second, and at the end; the script's threads only queue lines.

    Args:
        run: The run.
        title: The script as the user named it, ``-m`` included.
        sample: Requests the next event of each probe.
        logfile: A path or descriptor that logged events also go to; None: that of ``DATA_FD``.

    Raises:
        UsageError: ``--run-dir`` names a directory that holds a run already.

    Attributes:
        started: The monotonic clock at the start; ``started_wall`` is wall time.
        title: As given.
        events: Count of given events.
    """

    def __init__(
        self,
        run: Context,
        title: str,
        sample: Callable[[], object],
        logfile: str | int | None = None,
    ) -> None:
        self._run, self.title, self._sample, options = run, title, sample, run.options
        self.started_wall, self.started = run.clock.wall_ns(), run.clock.now_ns()
        self.events: Callable[[], int] = int
        self._before = run.overhead.outside_ns
        # Absolute from the start: the script may change its directory.
        self._place = _absolute(options.run_dir or "voir-runs")
        self._above = existing(self._place)
        self._chosen = bool(getattr(options, "run_dir_chosen", False))
        self._directory: RunDirectory | None = None
        # Threads of the script and the timer may record first at the same moment.
        self._making = threading.RLock()
        self._process = os.getpid()
        # The ranks of a job tell by their records which of them there are.
        self._in_job = maybe_rank(run.environ) and self.several
        self._always = (bool(options.run_dir) or self._in_job) and not options.no_record
        if self._chosen:
            self.directory.check()
        self._data_fd = _data_fd(run, logfile)
        self._metrics: MetricsLog | None = None
        self._scores: Scores | None = None
        self._header, self._due = "", 0
        self._idle: dict[str, Any] = {}
        self._watch: HangWatch | None = None
        self._lines: deque[Event] = deque()
        self._sampler = Sampler(run.clock, self.started_wall - self.started)
        self._timer: Any = None
        run.controls[WORD_STACKS] = self._write_stacks

    @property
    def directory(self) -> RunDirectory:
        """The run's directory, imported late: runs without events do not pay for it."""
        with self._making:
            if self._directory is None:
                from .directory import RunDirectory

                run = self._run
                self._directory = RunDirectory(
                    self.title,
                    self._process,
                    self.started_wall,
                    report=run.report,
                    parent=self._place,
                    above=self._above,
                    chosen=self._place if self._chosen else "",
                    environ=run.environ,
                    enabled=not run.options.no_record,
                    made=self.begin,
                    joins=run.joins,
                    known=lambda: run.rank,
                )
            return self._directory

    @property
    def several(self) -> bool:
        """Whether this process is one of several ranks."""
        rank = self.directory.rank
        return rank is not None and rank.world_size != 1

    @property
    def made(self) -> bool:
        """Whether there is a run directory."""
        return self._directory is not None and self._directory.made

    @property
    def joined(self) -> bool:
        """Whether a process that this one has started has recorded something."""
        return self._directory is not None and self._directory.joined

    @property
    def begun(self) -> bool:
        """Whether there is something to record."""
        return self._timer is not None

    # Events

    def log(self, event: Event, at: int | None = None) -> None:
        """Record a logged event; it goes to ``DATA_FD`` at once.

        Args:
            event: The event.
            at: Its time by the run's clock; None: now.
        """
        if self._data_fd is not None:
            self._data_fd.write(event)
        if self._run.options.no_record:
            return
        line = self._sampler.begun(event, at)
        if "$event" in event:  # The begin of a phase does not create a directory.
            self._lines.append({**line, **event})
            return
        from ..recorder.encode import snapshot
        from ..recorder.values import values

        line["$logged"] = True
        self._lines.append(named(line, snapshot(event, values.later)))
        self.begin()

    def given(self, event: Event, seen: int) -> None:
        """Sample a given event, the ``seen``-th with its keys."""
        line = self._sampler(event, seen)
        if line is not None:
            self._lines.append(line)
            self.begin()

    def begin(self) -> None:
        """Start to write once a second."""
        if self._timer is not None or os.getpid() != self._process:
            return
        with self._making:
            if self._timer is None and not self._run.outcome.over:
                with acting("the record"):  # Not on the thread of the first event.
                    soon = self._in_job or self._run.joins
                    first = RANK_BEGINS if soon else INTERVAL
                    self._timer = self._run.every(INTERVAL, self.flush, first=first)
                self._timer.__enter__()

    def idle(self) -> dict[str, Any] | None:
        """How long the script has made no step, and what it was doing a second ago: ``idle``.

        Peers that die, and signals, end what it was doing before this can be called.
        """
        before, found = self._idle, self._part("idle", lambda: self._look(at_end=True))
        if found is None or before.get("step", found["step"]) != found["step"]:
            return found
        when, hung = (self._watch.hung if self._watch is not None else None) or (0, {})
        if hung.get("step") == found["step"] and recorder.now() - when < JUST_NOW_NS:
            return {**hung, "seconds": found["seconds"]}  # What ended the run has moved it.
        if "still" in before:  # It was seen where it was.
            return {**before, "seconds": found["seconds"]}
        return {**found, "doing": before.get("doing", found["doing"])}

    def placed(
        self, idle: dict[str, Any] | None, error: BaseException | None = None
    ) -> dict[str, Any] | None:
        """``idle`` with the place of the main thread; it may take some milliseconds.

        Args:
            idle: The result of :meth:`idle`.
            error: The exception that has left the script, if any.
        """
        if idle is None or "still" in idle:
            return idle

        def place() -> dict[str, Any]:
            from .hangs import placed
            from .stacks import main_stack, unwound

            stack = unwound(error) if error is not None else main_stack()
            return {**idle, **placed(stack, idle["doing"])}

        return self._part("place", place) or idle

    def place_of(self, error: BaseException) -> dict[str, Any]:
        """Where the user's code has raised an exception, and when: ``error_at``."""
        from .runfile import utc
        from .stacks import place_of, unwound

        found = self._part("error_at", lambda: place_of(unwound(error))) or {}
        kept: dict[str, Any] = {
            key: found[key] for key in ("file", "line", "function") if key in found
        }
        return {"at": utc(time_ns()), **kept}

    def _look(self, at_end: bool = False) -> dict[str, Any]:
        """The ``idle`` of now; once there was no step for a while, with the place."""
        from ..recorder.log import header
        from . import killed

        found, now = header(recorder.header()), recorder.now()
        idle = killed.idle_of(found, now)
        seconds = idle.get("seconds", (now - found.monotonic) / 1e9)
        if at_end:
            return idle or {"seconds": seconds, "step": 0, "doing": killed.OTHER_CODE}
        if seconds < killed.IDLE_SECONDS:
            return idle
        if self._watch is None:
            from .hangs import HangWatch

            run = self._run
            self._watch = HangWatch(
                lambda: self._now("tasks"), run.report, self._in_job, self._tell, bool(run.joins)
            )
        idle = self._watch.look(found, now, self.directory.path if self.made else None)
        if self._watch.fresh:
            self._due, self._watch.fresh = 0, False
        return idle

    def _tell(self, line: str) -> None:
        with suppress(OSError, ValueError):  # stderr may be closed.
            self._run.stderr.write(f"voir: {line}\n")
            self._run.stderr.flush()

    def prepare(self, probed: bool) -> None:
        """Prepare for the script's start.

        Args:
            probed: There will be events: import the modules and collect the provenance now.
        """
        if probed and not self._run.options.no_record:
            with suppress(Exception):  # Reported with the first record.
                from ..recorder import (
                    encode,  # noqa: F401
                    log,  # noqa: F401
                )
                from . import killed, metrics, redact, runfile, scores  # noqa: F401

                self.beginning()
        self.expect()

    def expect(self) -> None:
        """Start to write if there is a record in any case: an import may hang before any event."""
        if self._always:
            self.begin()

    def flush(self) -> None:
        """Write new lines, and the figures so far."""
        with self._making:
            if os.getpid() != self._process:  # A forked child: the run is the parent's.
                return
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            self._sampler.flushed()
            self._sample()
            try:
                if self._begun():
                    self._append(lines)
                    lines = []
            finally:
                # Tried again if the record could not begin, or no descriptor was free.
                self._lines.extendleft(reversed(lines[-WAITING_LINES:]))
            recorder.control(WORD_BEAT, recorder.now())
            if not self._run.outcome.over:
                self._idle = self._part("idle", self._look) or {}
            if self._metrics is not None and self._run.clock.now_ns() >= self._due:
                self._rewrite()
        self._obey()

    def _obey(self) -> None:
        """Do what other programs ask by the header's control words."""
        for word, does in tuple(self._run.controls.items()):
            asked = recorder.control(word)
            if asked and not self._run.outcome.over:
                try:
                    does(asked)
                except Exception as error:  # The record goes on.
                    what = f"what another program asked for failed: {said(error)}"
                    self._run.report(Problem("no-answer", "the record", what, remedy=RETRY))
                recorder.control(word, 0)  # Whoever asks is told that it was seen.

    def _write_stacks(self, asked: int) -> None:
        from .stacks import write_stacks

        if self.directory.path is not None:
            write_stacks(self.directory.path)

    def _begun(self) -> bool:
        """Begin the record if necessary; whether there is one."""
        if self.directory.undecided and not self._run.outcome.over:
            return False
        path = self.directory.path
        if path is not None and self._metrics is None:
            from .metrics import MetricsLog

            self._write(self.beginning())
            self._metrics = MetricsLog(path / "metrics.jsonl", self._run.report)
            self._publish(str(path))
        return path is not None

    def _append(self, lines: list[Event]) -> None:
        from ..recorder.encode import encode

        if self._scores is None:
            from .scores import Scores

            self._scores = Scores()
        for line in lines:
            self._scores.add(line)
        assert self._metrics is not None
        self._metrics.append([encode(line, most=SURE) for line in lines])

    def _publish(self, path: str) -> None:
        """Publish this process's header; remove those of dead processes."""
        from ..recorder.log import publish, remove_dead
        from .killed import finished

        with suppress(OSError, ValueError):  # Other processes then cannot see what this one does.
            self._header = publish(path)
        with suppress(OSError):
            remove_dead(frozenset(filter(finished, remove_dead()[:DEAD])))

    def _rewrite(self) -> None:
        """Write ``run.json`` with the figures so far."""
        clock = self._run.clock
        begun, used = clock.now_ns(), clock.cpu_ns()
        self._write(
            {
                **self.beginning(),
                "seconds": (begun - self.started) / 1e9,
                "tasks": self._now("tasks") or None,
                "pipeline": self._now("pipeline"),
                "steps": self._now("steps"),
                "progress": self._run.summary.get("progress"),
                "values": self._values(),
                "problems": self._problems(),
                "idle": self._idle if "still" in self._idle else None,
                "control": self._control() if "still" in self._idle else None,
            }
        )
        took = (clock.cpu_ns() - used) / 1e9
        # Timers are rarely early: half an interval separates two flushes.
        self._due = begun + round(
            (min(max(WRITE_REST * took, INTERVAL), MAX_WRITE_SECONDS) - INTERVAL / 2) * 1e9
        )

    def _write_diff(self) -> None:
        path = self.directory.path
        if path is not None:
            from ..files import whole
            from .provenance import DIFF_FILE

            with whole(path / DIFF_FILE, durable=False) as file:
                file.write(self._provenance.diff.encode("utf-8", "replace"))

    def _write(self, facts: dict[str, Any], durable: bool = False) -> None:
        # Not durable while the script runs: waiting for the disk would slow it down.
        from .runfile import write_run

        path = self.directory.path
        if path is not None:
            write_run(path / "run.json", facts, self._run.report, durable=durable)

    # run.json

    def beginning(self) -> dict[str, Any]:
        """The facts known before the script runs."""
        from .job import place
        from .redact import redact_arguments
        from .runfile import SCHEMA, utc

        run = self._run
        return {
            "schema": SCHEMA,
            **run.labels,
            "argv": self._part("argv", lambda: redact_arguments(["voir", *run.argv])),
            "script": self._name(),
            "voirfiles": list(run.voirfiles),
            "started": utc(self.started_wall),
            "pid": self._process,
            **self._ranked(),
            "parallel": run.parallel,
            "attempt": self.directory.attempt,
            "place": place(),
            "version": run.version,
            "app": run.summary.get("app"),
            "provenance": self._part("provenance", lambda: self._provenance.at_start()),
        }

    def _part(self, name: str, find: Callable[[], _T]) -> _T | None:
        """The result of ``find``; None if it fails, for lack of memory for example."""
        try:
            return find()
        except Exception as error:
            what = f"run.json goes without its {name}: {said(error)}"
            remedy = "All else is recorded. Leave the script's end some memory and open files."
            self._run.report(Problem("record-incomplete", "the record", what, remedy=remedy))
            return None

    def _now(self, key: str) -> Any:
        """The current state of a section of ``run.json``."""
        compute = self._run.live.get(key)
        return self._part(key, compute) if compute is not None else None

    def _name(self) -> str:
        """The script's file, or the module as the user typed it."""
        return (None if self._run.options.MODULE else self._run.file()) or self.title

    @cached_property
    def _provenance(self) -> Provenance:
        from pathlib import Path

        from .provenance import Provenance

        run, file = self._run, self._run.file()
        origin = None if file is None else Path(file)
        files = [Path(v) for v in run.voirfiles]
        return Provenance(["voir", *run.argv], run.version, run.environ, files, origin)

    def ending(self, provenance: Mapping[str, object] | None = None) -> dict[str, Any]:
        """The facts known when the streams are complete; the verdict uses ``provenance`` too."""
        run, outcome = self._run, self._run.outcome
        seconds = (run.clock.now_ns() - self.started) / 1e9
        ranked = self._ranked()
        measured = {"seconds": seconds, "provenance": provenance, **ranked, **run.summary}
        return {
            **ranked,
            "seconds": seconds,
            "overhead": self._part("overhead", self._overhead),
            "exit_status": outcome.exit_status,
            "error": self._part("error", self._error),
            "ended_by": outcome.ended_by,
            "error_at": outcome.error_at,
            "idle": outcome.idle,
            "control": self._control(),
            "stopped_early": outcome.stopped_early,
            "probes": self._now("probes"),
            "instruments": self._instruments(),
            "problems": self._problems(),
            "values": self._values(),
            "pipeline": self._now("pipeline"),
            "diagnosis": self._part("diagnosis", lambda: _diagnosis(measured, outcome.idle)),
            **run.summary,
        }

    def _ranked(self) -> dict[str, int | None]:
        """The rank of this process; empty if it is no rank."""
        known = maybe_rank(self._run.environ) or self._directory is not None
        rank = self.directory.rank if known or self._run.rank is not None else None
        names = ("rank", "local_rank", "world_size")
        return {name: getattr(rank, name) for name in names} if rank is not None else {}

    def _problems(self) -> list[dict[str, Any]]:
        return [problem.as_facts() for problem in tuple(self._run.problems)]

    def _values(self) -> dict[str, dict[str, float]] | None:
        return self._scores.section() if self._scores is not None else None

    def _control(self) -> dict[str, Any] | None:
        """What a rank of several did last, which the others must do too."""
        if self._ranked().get("rank") is None:
            return None
        control: dict[str, Any] | None = self._now("control")
        return control

    def _error(self) -> str | None:
        if self._run.outcome.error is None or self._run.options.no_record:
            return self._run.outcome.error
        from .redact import redact

        return redact(self._run.outcome.error)

    def _overhead(self) -> dict[str, Any] | None:
        seen, run = memoryview(recorder.header())[:128].cast("Q"), self._run
        given = self.events() or any(probe["fired"] for probe in self._now("probes") or ())
        if not given and sum(seen[HEADS]) < 2:  # The first problem names the thread.
            return None
        lasted: int = run.clock.now_ns() - self.started + self._before
        return {**run.overhead.section(seen[OVERHEAD_WORD], lasted), "recorder": recorder.NAME}

    def _instruments(self) -> list[dict[str, Any]]:
        writers = [w for w in (self._data_fd, self._metrics) if w is not None]
        failures = [failure for writer in writers if (failure := writer.failure())]
        return [*(self._now("instruments") or ()), *failures]

    def finish(self) -> dict[str, Any]:
        """Write the last events and ``run.json``, and close; return the facts."""
        run = self._run
        if self._timer is not None:
            self._timer.__exit__(None, None, None)
        self._due = 1 << 63  # run.json is written below.
        # --verify records a run without events too, unless nothing has run.
        wanted = run.located and (self._always or "verify" in run.summary)
        wanted |= self.joined
        if wanted or self._timer is not None or self.made:
            self._part("last events", self.flush)
        if self._data_fd is not None:
            self._data_fd.close()
        with self._making:  # The timer's thread may still be starting.
            beginning = self.beginning() if self._metrics is not None else {}
            if not beginning:
                return {"script": self._name(), **self.ending()}
            late = self._part("late provenance", lambda: self._provenance.at_end())
            from .runfile import utc

            facts = {
                **beginning,
                "provenance": late or beginning["provenance"],
                # Not the wall clock, which may have been set.
                "ended": utc(self.started_wall + run.clock.now_ns() - self.started),
                **self.ending(late),
            }
            if self._provenance.diff and not facts.get("rank"):  # The ranks have the same code.
                self._part("changes", self._write_diff)
            self._write(facts, durable=True)
            if self._header:
                with suppress(OSError):
                    os.unlink(self._header)
        return {**facts, "directory": str(self.directory.path)}


class Sampler:
    """Chooses the given events that are recorded, and copies their values.

    For each combination of keys these are the first hundred, then one per flush with the count so
    far. Events that must all be recorded are logged with ``ov.log``.

    Args:
        clock: Returns the events' times.
        epoch: The clock's value at the epoch, ns below 0.
    """

    def __init__(self, clock: Clock, epoch: int = 0) -> None:
        self._clock, self._epoch = clock, epoch
        self._kept: dict[tuple[str, ...], int] = {}
        self._taken: set[tuple[str, ...]] = set()

    def __call__(self, event: Event, seen: int) -> Event | None:
        """The line of an event; None if it is not recorded.

        Args:
            event: The event.
            seen: Count of events with its keys, this one included.
        """
        keys = tuple(event)
        kept = self._kept.get(keys, WHOLE if len(self._kept) >= COMBINATIONS else 0)
        # By recorded events: two threads may count and record in opposite order.
        if kept < WHOLE and (kept or seen <= WHOLE):
            self._kept[keys] = kept + 1
        elif keys in self._taken:
            return None
        else:
            self._taken.add(keys)
        line = self.begun(event)
        if seen > WHOLE:
            line["n"] = seen
        plain = {k: v if type(v) in PLAIN_TYPES else _taken(v) for k, v in event.items()}
        return named(line, plain)

    def begun(self, event: Event, at: int | None = None) -> Event:
        """The first fields of an event's line: time, task, step.

        Args:
            event: The event; its own fields take precedence.
            at: Its time by the clock; None: now.
        """
        now = self._clock.now_ns() if at is None else at
        line: Event = {"t": round((self._epoch + now) / 1e9, 6)}
        if not OF_TRAINING.isdisjoint(event) and "task" not in event:
            line["task"] = "train"
        step = getattr(event, "of_step", None)
        if step is not None:
            line["step"] = step
        return line

    def flushed(self) -> None:
        """Allow one more event of each combination."""
        self._taken.clear()


def named(line: Event, event: Event) -> Event:
    """A line's fields from an event; its own ``t`` becomes ``$t``."""
    if "t" in event:
        event = {"$t" if key == "t" else key: value for key, value in event.items()}
    line.update(event)
    return line


def _taken(value: Any) -> Any:
    from ..recorder.encode import snapshot
    from ..recorder.values import values  # Imported only for such values.

    return snapshot(value, values.later, sample=True)


def _absolute(place: str) -> str:
    """An absolute path; empty if the current directory has been deleted."""
    try:
        return os.path.abspath(os.path.expanduser(place))
    except OSError:
        return ""


def existing(place: str) -> str:
    """The deepest existing directory at or above ``place``."""
    while place and not os.path.isdir(place) and place != os.path.dirname(place):
        place = os.path.dirname(place)
    return place


def _diagnosis(facts: dict[str, Any], idle: dict[str, Any] | None) -> dict[str, Any] | None:
    """The diagnosis of the figures, if any; a hang that a signal has ended comes first."""
    if idle and "hangs" in idle:
        from ..model.hangs import hang_of

        hangs = hang_of({"idle": idle})
        return hangs.as_facts() if hangs is not None else None
    if not facts.get("tasks"):
        return None
    from ..model.diagnosis import diagnose

    found = diagnose(facts)
    return found.as_facts() if found is not None else None


def _data_fd(run: Context, logfile: str | int | None) -> DataFd | None:
    """The descriptor that logged events also go to, if any."""
    if run.joins:  # It is that of the run that has started this process.
        return None
    if logfile is None and not run.environ.get("DATA_FD"):
        return None
    from .datafd import DataFd, opened

    if logfile is None:
        return DataFd(run.environ, run.report)
    return DataFd({"DATA_FD": str(opened(logfile))}, run.report, owned=True)
