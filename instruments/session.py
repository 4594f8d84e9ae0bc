"""One traced run: writes its log while the script runs, and its trace when that has ended."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any
from weakref import ref

from overseer import Overseer
from overseer.errors import Problem
from overseer.files import read_json
from overseer.imports import on_import
from overseer.model.catalogue import SHARE, SOURCES, TOTAL, curve
from overseer.recorder import recorder, table
from overseer.recorder import sites as k
from overseer.recorder.log import EVENT, header
from overseer.recorder.values import values
from overseer.rundir.job import MARKER, place
from overseer.rundir.tensorboard import leaves
from overseer.trace.channels import channel, channels, record, stop
from overseer.trace.rows import DETAILED, FOREVER, Made, Part, Progress, make
from overseer.trace.writer import HOST, VALS, Log, LogWriter, this_process, threads_in

from .hooks.profiler import Operators
from .measuring import measuring_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .trace_options import Settings

#: How often the log is written, in seconds: at most this much is lost to a SIGKILL.
TICK = 0.1
MEGABYTE = 1 << 20
#: Channels that voir itself fills.
OWN = (
    "voir", "metrics", "machine", "progress", "steps", "passes", "checkpoints", "modules",
    "operators",
)  # fmt: skip


class _Part:
    """A part of the run that is traced, while that goes on.

    Attributes:
        what: What is kept of it.
        operators: Runs PyTorch's profiler.
    """

    def __init__(self, what: Part, operators: Operators | None) -> None:
        self.what, self.operators = what, operators


class Session:
    """The log of a run.

    Args:
        ov: The run.
        settings: What is wanted.
        path: The trace.
        parts: Whether only parts of the script are traced.

    Raises:
        OSError: The log cannot be made.
    """

    def __init__(self, ov: Overseer, settings: Settings, path: Path, parts: bool) -> None:
        self._ov, self._settings, self._path, self._alone = ov, settings, path, parts
        self._log = path.with_suffix(".log")
        self._writer = LogWriter(
            self._log, self._head(), int(settings.max_mb * MEGABYTE), settings.ring, self._unwritten
        )
        self._measuring = measuring = measuring_of(ov)
        self._parts: dict[int, _Part] = {}
        self._ended, self._judged = deque[Part](), 0
        self._unsaid = deque[tuple[str, Any]]()
        self._levels = set[str]()
        self._sites = 0
        self._known: list[dict[str, Any]] | None = None
        self._rows: dict[str, int] = {}
        self._names: dict[int, tuple[str, Any]] = {}
        self._threads: dict[str, str] = {}
        self._drained: deque[tuple[bytes, bytes, dict[str, Any]]] = deque()
        self._held, self._kept, self._before = b"", False, False
        self._left: tuple[bytes, bytes, dict[str, Any]] | None = None
        self._until: int | None = None
        self._at = recorder.drain(k.VALUES, 0)[1]
        self._lost = sum(header(recorder.header()).lost)
        self._watches = [on_import(name, values.know) for name in ("torch", "numpy")]
        self._watches.append(on_import("asyncio", _tell_tasks_apart))
        self._watches.append(on_import("torch._dynamo", self._uncompiled))
        self._gap = measuring.fold is not None
        if self._gap:
            measuring.catch_up()
        self._count, self._state = self._steps(), self._fold_state()
        record(settings.channels)
        self._figures = Figures(ov)
        if not parts:
            whole = Part(0, FOREVER, settings.steps, settings.every, settings.level)
            self._turn(self._add(whole))
        measuring.read(self._chunk)
        measuring.begin()
        ov.summary["trace"] = {"path": str(path)}
        self._timer = ov.every(TICK, self._tick, first=TICK)
        self._timer.__enter__()

    @classmethod
    def start(cls, ov: Overseer, settings: Settings, parts: bool) -> Session | None:
        """A session; ``None``, and a word about it, when there is nowhere to write."""
        path = None
        try:
            path = _place(ov, settings)
            return cls(ov, settings, path, parts) if path is not None else None
        except OSError as error:
            what = f"there is no trace of this run ({error.strerror or error})"
            remedy = "Name a directory you can write to: --trace-dir DIR."
            who = str(path or settings.directory or "the trace")
            ov.report(Problem("trace-unwritable", who, what, remedy=remedy))
            return None

    def _head(self) -> dict[str, Any]:
        """What a reader must know: who writes, what time it is, what is wanted."""
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
            "method": measuring_of(ov).method,
        }
        return {**head, **_shared_clock(self._path)}

    # What is recorded besides the rings

    def span(self, row: str, label: str, start: int, end: int) -> None:
        """A span of voir's own on a row of its own."""
        key = f"{row}\0{label}"
        if key not in self._rows:
            self._rows[key] = table.add(k.SPAN, label, channel="voir", row=row, always=True)
        site = self._rows[key]
        self._keep(EVENT.pack(start, float("nan"), 0, site, 0, min(end - start, 2**48 - 1)))

    def _keep(self, events: bytes) -> None:
        self._drained.append((VALS, events, {}))

    def script_begins(self) -> None:
        """The script's imports are done; from here on its seconds count."""
        if self._settings.duration is not None:
            self._until = recorder.now() + round(self._settings.duration * 1e9)

    # Parts of the run

    def part(self, level: str, seconds: float | None) -> Callable[[], object]:
        """Trace a part of the script from here on; returns what ends that."""
        self._measuring.catch_up()
        now = recorder.now()
        end = FOREVER if seconds is None else now + round(seconds * 1e9)
        made = self._add(Part(now, end, level=level))
        self._switch(made)

        def over() -> None:
            self._measuring.catch_up()
            if made.operators is not None:
                made.operators.switch(False)
            ended = made.what = made.what._replace(end=min(made.what.end, recorder.now()))
            # A decorated function may have thousands: what is looked at each time are the others.
            if id(made) in self._parts:
                self._ended.append(ended)
                self._unsaid.append(("ended", ended._asdict()))
                del self._parts[id(made)]
            self._modules()

        return over

    def _add(self, what: Part) -> _Part:
        operators = Operators(self._ov, self._keep) if what.level == "op" else None
        made = _Part(what, operators)
        self._parts[id(made)] = made
        self._levels.add(what.level)
        return made

    def _turn(self, run: _Part) -> None:
        """Keep what the window of steps holds, and look again when that changes."""
        turn = run.what.turn(self._steps())
        if turn is not None and run.what.level in DETAILED and recorder.now() <= run.what.end:
            self._measuring.stop_at(turn, None, partial(self._turn, run), once=True)
        self._switch(run)

    def _switch(self, part: _Part) -> None:
        self._modules()
        if part.operators is not None:
            part.operators.switch(part in self._open(("op",)))

    def _modules(self) -> None:
        """Have modules within root modules recorded, or not."""
        recorder.submodules(any(self._open(DETAILED)), self._name)

    def _open(self, levels: tuple[str, ...]) -> Iterator[_Part]:
        count, now = self._steps(), recorder.now()
        for part in list(self._parts.values()):
            if part.what.level in levels and now <= part.what.end and part.what.holds(count):
                yield part

    def _steps(self) -> int:
        fold = self._measuring.fold
        return fold.steps(None) if fold is not None else 0

    def _name(self, module: Any) -> None:
        """A module is called for the first time, on the thread that does: note its name."""
        if threading.get_ident() == threading.main_thread().ident:
            for part in self._open(("op",)):  # PyTorch may not have been there before.
                assert part.operators is not None
                part.operators.switch(True)
        if id(module) not in self._names:
            root = type(module).__name__
            for path, inner in module.named_modules():
                if id(inner) not in self._names:
                    gone = partial(self._gone, id(inner), recorder.identity(inner))
                    name = f"{root}.{path}" if path else root
                    self._names[id(inner)] = name, ref(inner, gone)
        name = self._names[id(module)][0]
        named = recorder.identity(module), recorder.now(), name, type(module).__name__
        self._unsaid.append(("names", named))

    def _uncompiled(self, dynamo: Any) -> None:
        """What is called between graphs is not compiled."""
        from overseer.probes.dynamo import leave_alone

        leave_alone(Session._name)
        leave_alone(Session._open)

    def _gone(self, key: int, identity: int, _: object) -> None:
        self._names.pop(key, None)
        recorder.forget(identity)

    # The log

    def _chunk(self, data: bytes) -> None:
        """Events have been folded; under the fold's lock."""
        state, before = self._state, self._count
        self._count, self._state = self._steps(), self._fold_state()
        now, keep = recorder.now(), not self._alone and not self._levels
        ended, open_ = tuple(self._ended), list(self._parts.values())
        for part in (*ended, *(each.what for each in open_)):
            if not keep and part.end >= now - 10**9:
                keep = part.whole or any(map(part.holds, range(before, self._count + 1)))
        # These events may be from just before a part has ended: the next ones are judged by it too.
        for _ in range(self._judged):
            self._ended.popleft()
        self._judged = len(ended) - self._judged
        if keep:
            if self._gap and self._left is not None:
                self._drained.append(self._left)  # In it the first step begins.
                self._gap = False
            self._drained.append((HOST, data, {**state, "gap": True} if self._gap else state))
            self._kept, self._gap, self._left = True, False, None
        else:
            self._unsaid.extend(("numbers", each) for each in threads_in(data))
            if data:
                self._left = HOST, data, {**state, "gap": True}
            self._gap = True

    def _fold_state(self) -> dict[str, Any]:
        """What a fold must know to go on from here."""
        fold = self._measuring.fold
        if fold is None:
            return {}
        tellers = {n: lane.tellers for n, lane in list(fold.lanes.items())}
        steps = {name: fold.steps(name) for name in list(fold.tasks)}
        return {"made": fold.made, "steps": steps, "tellers": tellers}

    def _tick(self) -> None:
        """Write what has come; on a timer's thread."""
        if self._until is not None and recorder.now() > self._until:
            self._end(self._until)
            self._until = None
        self._know()
        while self._drained:
            self._writer.events(*self._drained.popleft())
        data, self._at, _ = recorder.drain(k.VALUES, self._at)
        # Events of the structure ring come later than these: whether a step is kept may turn out.
        kept, self._kept = self._kept, False
        held, self._held = self._held, data
        self._writer.events(VALS, held if kept or self._before else _always(held), {})
        self._before = kept

    def _end(self, at: int) -> None:
        """Keep nothing more."""
        for part in list(self._parts.values()):
            part.what = part.what._replace(end=min(part.what.end, at))
        recorder.submodules(False)
        stop()

    def _know(self) -> None:
        """Write what events refer to: sites, names of modules and threads, parts."""
        facts: dict[str, Any] = {}
        parts = [part.what._asdict() for part in list(self._parts.values())]
        if parts != self._known:
            facts["parts"] = parts
        unsaid = [self._unsaid.popleft() for _ in range(len(self._unsaid))]
        for key, fact in unsaid:
            facts.setdefault(key, []).append(fact)
        count = len(table.rows)
        if count > self._sites:
            facts["sites"] = table.rows[self._sites : count]
        listed = list(getattr(threading, "_active", {}).values())
        names = {str(tid): one.name for one in listed if (tid := getattr(one, "native_id", None))}
        fresh = {tid: name for tid, name in names.items() if self._threads.get(tid) != name}
        if fresh:
            facts["threads"] = fresh
        if facts and self._writer.rows(facts):
            self._sites, self._known = count, parts
            self._threads |= fresh
        elif facts:
            self._unsaid.extendleft(reversed(unsaid))

    def _unwritten(self, error: OSError) -> None:
        what = f"events are missing from the trace ({error.strerror or error})"
        remedy = "Free the disk or choose another: --trace-dir DIR."
        self._ov.report(Problem("trace-unwritable", str(self._path), what, remedy=remedy))

    # The end

    def close(self) -> None:
        """Write what is left, make the trace, and say what it came to."""
        self._timer.__exit__(None, None, None)
        for watch in self._watches:
            watch.dispose()
        self._figures.close()
        for part in self._parts.values():
            if part.operators is not None:
                part.operators.switch(False)
        recorder.submodules(False)
        stop()
        self._tick()
        self._tick()  # Twice: values are held once.
        lost = sum(header(recorder.header()).lost) - self._lost
        self._writer.rows({"lost": lost, "dropped": self._writer.dropped})
        self._writer.close()
        self._make()

    def _make(self) -> None:
        ov, shown = self._ov, Progress(self._ov.stderr)
        try:
            log = Log(self._log)
            made = make(log, self._path, shown)
            if ov.environ.get("VOIR_KEEP_LOG"):  # For who looks for what is wrong in a figure.
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

    def _profiled(self, made: Made) -> dict[str, object]:
        """How many steps were slowed down by being looked at; the rate of training says so too."""
        run = Part(level=self._settings.level)
        # Of a whole run all were looked at, whatever the log had room for.
        whole = run.level in DETAILED and any(part.what == run for part in self._parts.values())
        steps = self._steps() if whole else made.detailed
        if not steps or "torch" not in sys.modules:
            return {}
        rate = self._ov.summary.get("tasks", {}).get("train", {}).get("rate")
        if rate is not None:
            rate["profiled"] = steps
        return {"level": "op" if "op" in self._levels else "module", "profiled": steps}

    def _complain(self, made: Made) -> None:
        names = [*OWN, *(each.name for each in channels() if each.name not in OWN)]
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
    """Have spans begun and ended by the same task, when several take turns on one thread."""
    recorder.tasks(asyncio._get_running_loop, asyncio.current_task)


def _always(data: bytes) -> bytes:
    """Of events of the value ring, those of channels that always record."""
    rows, kept, before = table.rows, [], False
    for at in range(0, len(data), EVENT.size):
        site = int.from_bytes(data[at + 20 : at + 22], "little")
        before = before if site == 0xFFFF else bool(site < len(rows) and rows[site].get("always"))
        if before:
            kept.append(data[at : at + EVENT.size])
    return b"".join(kept)


def _place(ov: Overseer, settings: Settings) -> Path | None:
    """Where the file goes; None when there is nowhere, which is told."""
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
    """What time it was when, as the first rank of this machine saw it."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        anchor = read_json(path.parent.parent / MARKER)["anchor"]
        if anchor["place"] == place():
            return {"wall_ns": int(anchor["epoch"]), "now_ns": int(anchor["monotonic"])}
    return {}


# Figures that are given to the run

Event = dict[str, Any]
#: What monitors give; the machine's memory is in ``cpudata`` too.
MONITORS = {key: source.name for key, source in SOURCES.items() if key != "memdata"}
#: Progress of so many turns is marked turn by turn; longer ones are loops of steps.
TURNS = 1000


class Figures:
    """Records rates, progress, and what monitors give, which no site does.

    Args:
        ov: The run.
    """

    def __init__(self, ov: Overseer) -> None:
        self._metrics, self._machine = channel("metrics"), channel("machine", always=True)
        self._marks = channel("progress", always=True)
        self._totals: dict[str, tuple[int, float]] = {}
        heard = {"rate": self._rate, "progress": self._progress, "accuracy": self._accuracy}
        heard |= dict.fromkeys(MONITORS, self._sampled)
        self._listening = [ov.listen(listener, key) for key, listener in heard.items()]

    def close(self) -> None:
        """Listen no longer."""
        for listening in self._listening:
            listening.dispose()

    def _accuracy(self, event: Event) -> None:
        if len(event) > 1:  # By itself it is recorded where it is given.
            self._metrics.counter(_of_task("accuracy", event)).add(event["accuracy"])

    def _rate(self, event: Event) -> None:
        unit = str(event.get("units", "items/s"))
        self._metrics.counter(_of_task("rate", event), unit).add(event["rate"])

    def _progress(self, event: Event) -> None:
        progress = event["progress"]
        if isinstance(progress, tuple | list) and len(progress) == 2 and progress[0]:
            done, total = progress
            if isinstance(total, int) and total <= TURNS:
                self._marks.instant(f"{event.get('task', 'train')} {done} of {total}")

    def _sampled(self, event: Event) -> None:
        for key, name in MONITORS.items():
            for path, value in leaves(name, event.get(key)):
                metric = curve(key, path.rpartition(".")[2])
                if metric.kind == TOTAL:
                    self._flow(path, value, f"{metric.unit}/s")
                elif metric.kind == SHARE:
                    self._machine.counter(path, "%").add(value * 100)
                else:
                    self._machine.counter(path, metric.unit).add(value)

    def _flow(self, path: str, total: float, unit: str) -> None:
        """How much a second, of a total that grows."""
        now = recorder.now()
        since, before = self._totals.get(path, (now, total))
        self._totals[path] = now, total
        if now > since:
            self._machine.counter(path, unit).add((total - before) / (now - since) * 1e9)


def _of_task(name: str, event: Event) -> str:
    task = event.get("task", "train")
    return name if task == "train" else f"{name} ({task})"
