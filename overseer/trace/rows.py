"""Makes a trace from a log: rows of steps, and rows of the log's other events.

The steps come first; with them it is known which other events lie in the steps that are kept.
"""

from __future__ import annotations

import json
import math
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from ..clock import perf_counter
from ..files import whole
from ..model.events import RECORD
from ..model.fold import TRAIN
from ..model.stages import Pass, Passes
from ..recorder import sites as k
from ..recorder.log import text_at
from .digest import DDP_WAITS, Digester
from .encoder import LOW, MASK, MAX_DEPTH, TYPE_BEGIN, Encoder, Track, pack
from .parts import DETAILED, FOREVER, Part, part_of
from .steprows import StepRow, refold
from .writer import FOLD_TAG, STRUCTURE_TAG, TraceLog, threads_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

#: Tasks whose steps ``--trace-steps`` counts; without training, those of inference.
COUNTED = (TRAIN, "inference")
#: Channels that are kept outside of the chosen steps too.
ALWAYS = ("checkpoints", "progress", "steps")
# The handling of an event, by its site; spans come first, as the most frequent.
_SPAN, _MODULE, _LOADING, _NOTHING, _VALUE, _INSTANT, _NOTED, _NOTE, _OTHER = range(9)
#: The kind of sites missing from the table; text of notes looks like events of such sites.
_ABSENT = 255
#: Kinds that are not simply shown as spans.
_SPECIAL = {
    k.LOADING: _LOADING, k.MODULE: _MODULE, k.SPAN: _SPAN, k.INSTANT: _INSTANT, k.VALUE: _VALUE,
    k.NOTE: _NOTE, k.COMMUNICATION: _OTHER, k.STAGE: _OTHER,
    **dict.fromkeys((k.ITERATE, k.LOSS, k.LATE, k.DEVICE, k.THREAD), _OTHER),
}  # fmt: skip


class KeptTimes:
    """How much is kept at each moment: 2, all events; 1, those always shown; 0, none.

    Args:
        parts: The parts of the run that are traced.
        steps: The end of each step and its number from 0, in order.
    """

    def __init__(self, parts: list[Part], steps: list[tuple[int, int]]) -> None:
        kept: list[tuple[int, int, int]] = []
        ends = [end for end, _ in steps]
        for part in parts:
            kept.append((part.begin, part.end, 2 if part.whole else 1))
            if part.whole:
                continue
            since, following = part.begin, 0
            for end, number in steps[bisect_right(ends, part.begin) : bisect_right(ends, part.end)]:
                if part.holds(number):
                    kept.append((since, end, 2))
                since, following = end, number + 1
            if part.holds(following):  # The step under way at the end.
                kept.append((since, part.end, 2))
        times = sorted({-1, FOREVER, *(t for since, until, _ in kept for t in (since, until))})
        self._times = times
        self._worth = [0] * len(times)
        for since, until, worth in sorted(kept, key=lambda one: one[2]):
            for at in range(bisect_left(times, since) + 1, bisect_left(times, until) + 1):
                self._worth[at] = worth

    def at(self, time: int) -> tuple[int, int, int]:
        """The interval around ``time`` in which this much is kept, and how much."""
        at = min(max(bisect_left(self._times, time), 1), len(self._times) - 1)
        return self._times[at - 1], self._times[at], self._worth[at]


class _Rows:
    """Puts the rows of one log into a trace."""

    def __init__(self, log: TraceLog, encoder: Encoder, progress: Callable[[int], object]) -> None:
        self._log, self._encoder, self._progress = log, encoder, progress
        facts = log.facts
        # Damaged or lost records may leave sites undefined.
        absent: list[dict[str, Any]] = [{"kind": _ABSENT}]
        self._table = log.sites + absent * (0x10000 - len(log.sites))
        self._patterns, self._method = facts.get("patterns") or ["*"], facts.get("method")
        self._metrics, self._stepping = self._wanted("metrics"), self._wanted("steps")
        self._modules = facts.get("modules") or "*"
        self._parts = list(map(part_of, log.parts)) or [Part()]
        self._times = sorted({t for part in self._parts for t in (part.begin, part.end)})
        self._during: list[list[Part]] = [[] for _ in range(len(self._times) + 1)]
        for part in self._parts:
            since, until = (bisect_left(self._times, t) for t in (part.begin, part.end))
            for at in range(since + 1, until + 1):
                self._during[at].append(part)
        self.ends, self._begun = array("q"), dict[int, int]()
        self._numbered: list[tuple[int, int]] = []
        self._everything = self._parts == [Part()]
        self._tids = dict(log.numbers)
        self._steps: dict[tuple[str, int], Track] = {}
        self._lasts: dict[Track, int] = {}
        self._sites: list[tuple[int, int, dict[int, Any]]] = []
        self._notes: dict[tuple[int, int], tuple[str, dict[str, Any]]] = {}
        self.kept = self.detailed = 0
        self.digester = Digester()
        timed = any(int(row["kind"]) == k.DEVICE for row in log.sites)
        self.digester.device = timed or bool(facts.get("queued"))
        self._first_step = 0
        self.last = int(facts.get("now_ns", 0))
        self._epochs = self._marked = self._device = 0
        self._passes: dict[int, Passes] = defaultdict(Passes)  # Of stages, by thread.
        self._passed: dict[tuple[int, str], int] = defaultdict(int)

    def _wanted(self, channel: str) -> bool:
        return any(fnmatchcase(channel, pattern) for pattern in self._patterns)

    # Steps

    def steps(self, rows: Iterable[StepRow] | None) -> None:
        """Write the rows of tasks: steps with their parts, and losses.

        Args:
            rows: The run's steps; None: fold the log again.
        """
        events = self._read()
        found = rows if rows is not None else refold(events, self._table, self._method)
        for n, step in enumerate(found):
            with suppress(ValueError):  # Damaged bytes may hold impossible times.
                self._step(step)
            if not n % 1024:
                self._encoder.flush()
        for _ in events:  # The rest, or all of it: for the threads.
            pass
        self._encoder.flush()

    def _read(self) -> Iterator[tuple[bytes, Any]]:
        """The log's events; threads and the last moment are noted on the way."""
        for tag, data in self._log.events():
            if tag == STRUCTURE_TAG:
                for thread, native in threads_in(data):
                    self._tids.setdefault(thread, native)
                if data:
                    self.last = max(self.last, RECORD.unpack_from(data, len(data) - RECORD.size)[0])
            yield tag, data
            if tag != FOLD_TAG:
                self._progress(len(data))

    def _step(self, step: StepRow) -> None:
        train = step.task in COUNTED
        if train:
            self._first_step = self._first_step or step.number
            self.ends.append(step.end)
            if not self._everything:
                self._numbered.append((step.end, step.number - 1))
        if not self._holds(step, train):
            return
        if self._metrics and step.loss == step.loss:
            name = "loss" if step.task == TRAIN else f"loss ({step.task})"
            self._encoder.value(name, "", f"metrics/{name}", "metrics", step.end, step.loss)
        if not self._stepping:
            return
        row = self._row_of(step)
        start, end = max(step.start, self._lasts.get(row, 0)), step.end
        if end <= start:
            return
        self._lasts[row] = end
        arguments: dict[str, object] = {"step": step.number - 1}
        if math.isfinite(step.items):
            arguments["items"] = int(step.items)
        spans, at = [("step", start, end)], start
        for label in ("loading", "compute", "pause"):
            since, at = at, min(at + getattr(step, label), end)
            if since < at and (step.loaded or label == "pause"):  # Else neither part is known.
                spans.append((label, since, at))
        self._nested(row, "steps", spans, arguments)

    def _nested(
        self, row: Track, channel: str, spans: list[tuple[str, int, int]],
        arguments: dict[str, object] | None = None,
    ) -> None:  # fmt: skip
        for label, start, end in spans:
            self.digester.took(label, channel)(end - start)
        self._encoder.nested(row, channel, spans, arguments)

    def _holds(self, step: StepRow, counted: bool) -> bool:
        """Whether a step is kept; of tasks that are not counted, all in traced parts are."""
        if self._everything:
            self.kept += counted
            return True
        holding = [
            part
            for part in self._during[bisect_left(self._times, step.end)]
            if part.whole or not counted or part.holds(step.number - 1)
        ]
        if counted and holding:
            self.kept += 1
            self.detailed += any(part.level in DETAILED for part in holding)
        return bool(holding)

    def _row_of(self, step: StepRow) -> Track:
        key = step.task, step.thread
        if key not in self._steps:
            others = sum(task == step.task for task, _ in self._steps)
            name = f"{step.task} steps" + (f" {others + 1}" if others else "")
            self._steps[key] = self._encoder.row(name, first=True)
        return self._steps[key]

    # Everything else

    def events(self) -> None:
        """Write the rows of threads, hooks and counters."""
        self._kept_times = KeptTimes(self._parts, sorted(self._numbered))
        self._sites = [self._site(row) for row in self._log.sites]
        nothing: tuple[int, int, dict[int, Any]] = (_NOTHING, 0, {})
        self._sites += [nothing] * (len(self._table) - len(self._sites))
        for tag, data in self._log.events():
            if tag != FOLD_TAG:
                with suppress(Exception):
                    self._encode(data)
                self._written(data)

    def _written(self, data: bytes) -> None:
        self._encoder.flush()
        self.digester.flush()
        self._progress(len(data))

    def _site(self, row: dict[str, Any]) -> tuple[int, int, dict[int, Any]]:
        """The handling of a site's events, the least worth of their moment, and packet pieces."""
        kind, channel = int(row["kind"]) or k.THREAD, str(row.get("channel", ""))
        known = k.KINDS.get(kind)
        do = _SPECIAL.get(kind, _SPAN if known is not None and known.row else _NOTHING)
        if kind in (k.SPAN, k.INSTANT) and channel and not row.get("label"):
            do = _NOTED
        elif kind == k.VALUE and not channel and len(row.get("keys") or ()) != 1:
            do = _NOTHING
        channel = channel or (known.channel if known is not None else "")
        if do != _NOTE and channel and not self._wanted(channel):
            do = _NOTHING
        always = row.get("always") or channel in ALWAYS
        worth = 0 if channel == "voir" else 1 if always else 2
        return do, worth, {}

    def _encode(self, data: bytes) -> None:
        """Write the packets of events; the frequent kinds are handled inline."""
        encoder, sites, offset = self._encoder, self._sites, self._encoder.offset
        low, mask, highs, extend = LOW, MASK, encoder.highs, encoder.parts.extend
        since, until, worth = 0, 0, 0
        spans, reading = 0, self._begun
        for at, (start, value, what, site, thread, short, long, _, flags) in enumerate(
            RECORD.iter_unpack(data)
        ):
            do, least, pieces = sites[site]
            end = start + short + (long << 32) if long else start + short
            if not since < end <= until:
                since, until, worth = self._kept_times.at(end)
            if worth < least:
                continue
            if do <= _LOADING:
                if do == _MODULE:
                    key = what << 24 | (flags & 16) << 16 | thread
                else:
                    key = (flags & 19) << 16 | thread
                piece = pieces.get(key)
                if piece is None:
                    piece = self._piece(site, pieces, key, start, what, thread, flags)
                if piece:
                    stack, begin, begun, over, ended, _, took = piece
                    place = inner = len(stack)
                    height = 1
                    while inner and stack[inner - 1][0] > start:
                        inner -= 1
                        if stack[inner][2] >= height:
                            height = stack[inner][2] + 1
                    if height > MAX_DEPTH or (
                        inner and (stack[inner - 1][1] > start or stack[inner - 1][0] == start)
                    ):
                        self._span(piece, start, end)
                    else:
                        if inner < place:
                            del stack[inner:]
                        stack.append((start, end, height))
                        first, last = start + offset, end + offset
                        extend((
                            begin, low[first & mask], low[first >> 14 & mask],
                            highs[first >> 28], begun,
                            over, low[last & mask], low[last >> 14 & mask],
                            highs[last >> 28], ended,
                        ))  # fmt: skip
                        took(end - start)
                        spans += 1
                if do == _LOADING:
                    if flags & k.ENDED:
                        self._ended(what, end)
                    elif what not in reading:
                        reading[what] = start
            elif do == _VALUE:
                if flags & k.LATER:
                    continue
                piece = pieces.get(0) or self._counter(site, pieces)
                if value - value != 0:
                    encoder.instant(None, start, piece[3], f"{piece[2]}: {value}")
                    continue
                first = start + offset
                extend((
                    piece[0], low[first & mask], low[first >> 14 & mask], highs[first >> 28],
                    piece[1], pack(value),
                ))  # fmt: skip
                encoder.events += 1
            elif do != _NOTHING:
                self._rare(do, at, data, start, end, value, what, site, thread, flags)
        encoder.events += 2 * spans

    def _thread(self, number: int) -> Track:
        """The row of a thread."""
        tid = self._tids.get(number, 0)
        name = self._log.threads.get(tid) or (
            "MainThread" if tid == self._log.facts.get("pid") else f"thread {tid or number}"
        )
        return self._encoder.row(name, tid)

    def _piece(
        self, site: int, pieces: dict[int, Any], key: int, start: int, what: int, thread: int,
        flags: int,
    ) -> Any:  # fmt: skip
        """The pieces of a span for the hot loop; False if it is not shown."""
        row = self._table[site]
        kind, label, arguments = k.KINDS[int(row["kind"])], str(row.get("label")), {}
        if kind.number == k.MODULE:
            return self._named(pieces, key, start, what, thread, flags)
        channel = str(row.get("channel") or kind.channel)
        if kind.row:
            name, label = kind.row, kind.label
            if kind.number == k.FORWARD and k.call(flags) == k.EVALUATION:
                name, label = "evaluation", "eval"
            place = self._seen(name, thread)
        else:
            place = self._place(row, thread)
        if flags & k.FAILED:
            arguments = {"failed": True}
        made = pieces[key] = self._made(place, channel, label, arguments)
        return made

    def _seen(self, name: str, thread: int) -> Track:
        """A hook's row; the main thread's has the plain name."""
        row = self._thread(thread)
        return self._encoder.row(name if row.name == "MainThread" else f"{name} ({row.name})")

    def _place(self, row: dict[str, Any], thread: int) -> Track:
        named = row.get("row")
        return self._encoder.row(named) if named else self._thread(thread)

    def _made(self, row: Track, channel: str, label: str, arguments: dict[str, Any]) -> Any:
        encoder = self._encoder

        def begin(row: Track) -> tuple[bytes, bytes]:
            return encoder.named(TYPE_BEGIN, row.number, channel, label, arguments)

        took = self.digester.took(label, channel)
        return row.stack, *begin(row), *row.end, (row, begin), took

    def _span(self, piece: Any, start: int, end: int) -> None:
        row, begin = piece[5]
        piece[6](end - start)
        self._encoder.span(row, begin, start, end)

    def _named(
        self, pieces: dict[int, Any], key: int, start: int, what: int, thread: int, flags: int
    ) -> Any:
        """The pieces of a module's span; several modules may use one address in turn."""
        known = self._log.names.get(what, ())
        _, name, kind = next(
            (one for one in reversed(known) if one[0] <= start), known[0] if known else (0, "", "")
        )
        made: Any = False
        if fnmatchcase(name, self._modules) or fnmatchcase(kind, self._modules):
            more = {"failed": True} if flags & k.FAILED else {}
            arguments = {"module": kind, **more}
            made = self._made(self._thread(thread), "modules", name or "a module", arguments)
        if len(known) < 2:
            pieces[key] = made
        return made

    def _ended(self, iterator: int, at: int) -> None:
        """Mark the end of an epoch: a loader ends, and steps were made while it was read."""
        steps = bisect_left(self.ends, at)
        fed = steps > bisect_left(self.ends, self._begun.pop(iterator, 0))
        if fed and steps > self._marked and self._wanted("progress"):
            label, n = f"epoch {self._epochs} end", steps - self._marked
            epochs = self._encoder.row("epochs", first=True)
            self._encoder.instant(epochs, at, "progress", label, {"steps": n})
            self._epochs, self._marked = self._epochs + 1, steps

    def _counter(self, site: int, pieces: dict[int, Any]) -> Any:
        name, unit, group, channel = _counter_of(self._table[site])
        made = pieces[0] = (*self._encoder.counter(name, unit, group), name, channel)
        return made

    def _rare(
        self, do: int, at: int, data: bytes, start: int, end: int, value: float, what: int,
        site: int, thread: int, flags: int,
    ) -> None:  # fmt: skip
        """Handle an event of the rarer kinds."""
        encoder, row = self._encoder, self._table[site]
        kind, channel = int(row["kind"]), str(row.get("channel") or "given")
        if do == _NOTE:
            self._notes[thread, start] = _text(data, at, what)
        elif do == _NOTED:
            label, arguments = self._notes.pop((thread, start), ("(its label is lost)", {}))
            place = self._place(row, thread)
            if kind == k.INSTANT:
                encoder.instant(place, start, channel, label, arguments)
            else:
                self._span(self._made(place, channel, label, arguments), start, end)
        elif do == _INSTANT:
            encoder.instant(self._place(row, thread), start, channel, str(row.get("label")))
        elif kind == 0:  # A thread begins; it may reuse the number of one that has ended.
            if self._tids.get(thread) != int(value):
                self._tids[thread] = int(value)
                for _, _, pieces in self._sites:
                    pieces.clear()
        elif kind == k.ITERATE:
            if value == value:
                self._begun.pop(int(value), None)
            of = k.KINDS[kind]
            made = self._made(self._seen(of.row, thread), of.channel, of.label, {})
            self._span(made, start, end)
        elif kind == k.STAGE:
            self._pass(self._passes[thread].mark(row, start))
            if "stages" in row:  # A run begins.
                self._passed.clear()
        elif kind == k.COMMUNICATION:
            if self._passes:
                depth = RECORD.unpack_from(data, at * RECORD.size)[7]
                self._pass(self._passes[thread].communication(start, end - start, depth))
            self._communicated(row, start, end, value, what, thread, flags)
        elif kind in (k.LOSS, k.LATE) and not flags & k.LATER:
            counted = row if kind == k.LOSS else self._table[what]
            if counted["kind"] in (k.LOSS, k.VALUE):
                name, unit, group, channel = _counter_of(counted)
                encoder.value(name, unit, group, channel, start, value)
        elif kind == k.DEVICE and what and end > start:
            begin = max(start, self._device)  # Only its duration is known.
            self._device = begin + end - start
            of = k.KINDS[kind]
            self._nested(encoder.row(of.row), of.channel, [(of.label, begin, self._device)])

    def _pass(self, one: Pass | None) -> None:
        """Write a pass of a stage, with the number of its micro-batch from 0."""
        if one is not None:
            place = self._encoder.row(f"stage {one.stage}")
            of = {"micro-batch": self._passed[one.stage, one.name]}
            self._passed[one.stage, one.name] += 1
            made = self._made(place, k.KINDS[k.STAGE].channel, one.name, of)
            self._span(made, one.start, one.end)

    def _communicated(
        self, row: dict[str, Any], start: int, end: int, value: float, what: int, thread: int,
        flags: int,
    ) -> None:  # fmt: skip
        """Write a collective, or a wait for one, with what is known of it."""
        of = k.KINDS[k.COMMUNICATION]
        arguments: dict[str, Any] = {}
        if row.get("group"):
            arguments["group"] = str(row["group"])
        if what:
            arguments["number"] = what
        if math.isfinite(value):
            arguments["bytes"] = int(value)
        if flags & k.FAILED:
            arguments["failed"] = True
        label = str(row.get("label") or of.label).rpartition(".")[2]
        self._span(self._made(self._seen(of.row, thread), of.channel, label, arguments), start, end)
        group = str(row.get("group") or "")
        if label == DDP_WAITS:
            self.digester.moment(DDP_WAITS, self._first_step + bisect_left(self.ends, end), end)
        else:
            self.digester.communicated(label, group, what, thread, start, end)


def _counter_of(row: dict[str, Any]) -> tuple[str, str, str, str]:
    """A counter's name, unit, group and channel; a number given alone is a counter too."""
    name, channel = str(row.get("label") or "loss"), str(row.get("channel") or "metrics")
    if "channel" not in row and row.get("task") not in (None, TRAIN):
        name = f"{name} ({row['task']})"
    group = str(row.get("group") or f"{channel}/{name}")
    return name, str(row.get("unit") or ""), group, channel


def _text(data: bytes, at: int, size: int) -> tuple[str, dict[str, Any]]:
    """A note's label and arguments, from the text in the slots after it."""
    try:
        label, arguments = json.loads(text_at(data, at * RECORD.size, size))
        return str(label), dict(arguments)
    except (ValueError, TypeError):
        return "(its label is cut off)", {}


# A trace of a log


class Progress:
    """Shows progress on a stream once making a trace takes more than a second.

    Args:
        stream: The stream, a terminal or not.
    """

    def __init__(self, stream: Any) -> None:
        self._stream, self._begun, self._shown = stream, perf_counter(), ""
        self._tty = bool(getattr(stream, "isatty", lambda: False)())

    def __call__(self, share: float) -> None:
        """Show the share that is done."""
        text = f"voir: making trace.pftrace, {int(share * 100)} %"
        if text != self._shown and perf_counter() - self._begun > 1:
            plain = "" if self._shown else f"{text.partition(',')[0]} ...\n"
            self._say(f"\r{text}" if self._tty else plain)
            self._shown = text

    def close(self) -> None:
        """Clear the line."""
        if self._shown and self._tty:
            self._say("\r" + " " * len(self._shown) + "\r")

    def _say(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


class Made(NamedTuple):
    """A trace that was made.

    Attributes:
        path: The file.
        events: Count of begins, ends, instants and values in it.
        dropped: Count of events missing from it.
        steps: Count of steps seen; ``kept`` of them are in the trace.
        detailed: Count of kept steps at a level that slows them down.
    """

    path: Path
    events: int
    dropped: int
    steps: int
    kept: int
    detailed: int


def make(
    log: TraceLog,
    to: Path,
    progress: Callable[[float], object] = lambda share: None,
    steps: Iterable[StepRow] | None = None,
) -> Made:
    """Write the trace of a log.

    Args:
        log: The log.
        to: The trace, which replaces an older one when it is complete.
        progress: Called now and then with the share that is done.
        steps: All steps of the run in order; None: they are found in the log.

    Raises:
        OSError: The trace cannot be written, or the log cannot be read.
    """
    facts, total, done = log.facts, max(2 * log.size, 1), 0
    offset = int(facts.get("wall_ns", 0)) - int(facts.get("now_ns", 0))

    def told(size: int) -> None:
        nonlocal done
        done += size
        progress(min(done / total, 1.0))

    with whole(to, durable=False) as file:
        rank = facts.get("rank")
        name = str(facts.get("name", ""))
        named = name if rank is None else f"rank {rank}: {name}"
        encoder = Encoder(file.write, {**facts, "name": named}, offset)
        known = ("host", "boot_id", "pid", "python", "rank")
        clocks = {"realtime_ns": facts.get("wall_ns"), "monotonic_ns": facts.get("now_ns")}
        notes = {key: facts[key] for key in known if facts.get(key) is not None} | clocks
        encoder.notice(int(facts.get("now_ns", 0)), "clocks", notes)
        rows = _Rows(log, encoder, told)
        rows.steps(steps)
        rows.events()
        dropped = int(facts.get("dropped", 0)) + int(facts.get("lost", 0))
        if dropped:
            encoder.notice(rows.last, f"{dropped} events dropped", {"dropped": dropped})
        encoder.flush()
        begin, end = encoder.extent or (int(facts.get("wall_ns", 0)),) * 2
        digest = rows.digester.digest(
            offset,
            rank=rank or 0,
            name=named,
            host=str(facts.get("host") or ""),
            boot=str(facts.get("boot_id") or ""),
            anchor=offset,
            begin=begin,
            end=end,
            events=encoder.events,
            dropped=dropped,
            rows=encoder.rows,
        )
        file.write(digest.packet())
    progress(1.0)
    counts = len(rows.ends), rows.kept, rows.detailed
    return Made(to, encoder.events, dropped, *counts)


def finished(path: Path, progress: Callable[[float], object]) -> Path | None:
    """Make the trace of a log, and delete the log unless its process is alive.

    Args:
        path: The log.
        progress: Called with the share that is done.

    Returns:
        The trace; None if the file is not a log of this version.

    Raises:
        OSError: The trace cannot be written.
    """
    try:
        log = TraceLog(path)
    except ValueError:
        return None
    made = make(log, path.with_suffix(".pftrace"), progress)
    if not log.open:
        log.remove()
    return made.path
