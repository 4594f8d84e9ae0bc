"""The recorder in Python, for machines without a compiler and for free-threaded builds.

Has the interface of ``_recorder.c``, which explains each part. An event takes some 4 us here
instead of 60 ns, wrapped callables appear in tracebacks, and the header's counts are updated only
when events are read.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import threading
from collections import deque
from contextlib import suppress
from functools import update_wrapper
from itertools import count, repeat, starmap
from math import nan

from ..clock import now_ns as now
from . import sites as k
from .log import (
    DIRECTORY_AT,
    EVENT,
    HEAD,
    HEADER_MAGIC,
    LONGEST_NS,
    NOTE_PIECE,
    PAGE,
    THREAD_STRUCT,
    THREADS_AT,
)
from .sites import FORMAT
from .sizes import bytes_of, length, model_rows, module_flags, read_number, readers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

NAME = "Python"
_SHOWN_THREADS, _CONTROL_WORDS, _SAMPLE, _OPEN_PAIRS, _MOST_TASKS = 16, 8, 251, 1024, 1000
_MOST_GROUPS = 256
_ENTERED = 1 << 31  #: Added to a site's number to tell open loops from open pairs.
_OPEN = struct.Struct("<BBQ")
_HEADS, _OWN, _CONTROL = 8 * k.HEADS.start, 8 * k.OVERHEAD_WORD, 80
_INSIDE, _LONG = k.IN_OPTIMIZER << 56, 1_000_000
_MISSING = object()
_NO_RECORD = 0, 0, k.VALUES, -1, k.NOTHING


class _Thread:
    """A thread's number, open pairs and nesting depth."""

    __slots__ = (
        "busy", "depth", "endings", "id", "models", "open", "optimizers", "shown", "zeroed",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.open: list[list[Any]] = []
        self.endings: list[_Ending] = []
        self.id, self.shown = number, number - 1 if number <= _SHOWN_THREADS else -1
        self.depth = self.models = self.optimizers = self.busy = 0
        self.zeroed = False


class _Here(threading.local):
    """The current thread's state, created at its first event."""

    def __init__(self) -> None:
        self.thread = _begin()


class _Ring:
    """The latest ``size`` unread events."""

    __slots__ = ("events", "lost", "size")

    def __init__(self, size: int) -> None:
        self.events: deque[bytes] = deque()
        self.size, self.lost = size, 0

    def trim(self) -> None:
        """Drop the oldest events beyond ``size``."""
        dropped: list[object] = []
        with suppress(IndexError):  # Another thread may be reading.
            dropped.extend(starmap(self.events.popleft, repeat((), len(self.events) - self.size)))
        self.lost += len(dropped)


class _RecorderState:
    """The module's state: rings, header, callbacks."""

    def __init__(self) -> None:
        self.rings: list[_Ring] = []
        self.header: Any = bytearray(PAGE)
        self.here: Any = None
        self.own = 0
        self.muted = self.submodules = self.due = False
        self.name: Callable[[Any], object] | None = None
        self.named: set[int] = set()
        self.threads: dict[int, int] = {}
        self.armed_kinds = self.armed_left = self.marked_kinds = self.calls = 0
        self.marker: Callable[..., object] | None = None
        self.queue: Callable[[Any], object] | None = None
        self.reducing = 0
        self.group: Callable[[int, str], int] | None = None
        self.numbers: dict[str, int] = {}
        self.endings: list[_Ending] = []
        self.armed: Callable[[], object] | None = None
        self.size_of: Callable[[Any], float] | None = None
        self.inherited: Any = None
        self.full: Callable[[], object] | None = None
        self.running_loop: Callable[[], Any] | None = None
        self.current_task: Any = None
        self.pairs = count(1)


_g = _RecorderState()


def identity(value: object) -> int:
    """The low bits of an object's address."""
    return id(value) >> 4 & 0xFFFFFFFF


def _here() -> _Thread:
    thread: _Thread = _g.here.thread
    return thread


def _shown_at(thread: _Thread) -> int:
    """Offset in the header of a thread's entry."""
    return THREADS_AT + thread.shown * THREAD_STRUCT.size


def _begin() -> _Thread:
    """Assign the calling thread a number; numbers of ended threads are reused."""
    me, alive = threading.get_ident(), {one.ident for one in threading.enumerate()}
    for number_, ident in list(_g.threads.items()):
        if ident not in alive or ident == me:  # Thread ids are reused, too.
            _g.threads.pop(number_, None)
    thread = _Thread(next(n for n in count(1) if n not in _g.threads))
    _g.threads[thread.id] = me
    native = threading.get_native_id()
    if thread.shown >= 0:
        THREAD_STRUCT.pack_into(_g.header, _shown_at(thread), native, thread.id, 0, 0, 0, 0, 0)
    _put(thread, k.STRUCTURE, k.THREAD, 0, now(), 0, float(native), 0, 0)
    return thread


def _put(
    thread: _Thread,
    ring: int,
    kind: int,
    site: int,
    start: int,
    ns: int,
    value: float,
    object_: int,
    flags: int,
) -> None:
    if not _g.rings:
        return
    rest = thread.depth << 48 | flags << 56 | (ns if 0 <= ns <= LONGEST_NS else LONGEST_NS)
    if thread.optimizers:
        rest |= _INSIDE
    to = _g.rings[ring]
    to.events.append(EVENT.pack(start, value, object_, site, thread.id, rest))
    if len(to.events) > to.size + _SAMPLE:
        to.trim()
    if ring == k.STRUCTURE and len(to.events) == to.size // 4 * 3 and _g.full is not None:
        _g.full()
    if ring == k.STRUCTURE and _g.armed_left and _g.armed_kinds >> kind & 1:
        _g.armed_left -= 1
        _g.due = not _g.armed_left


def _reached() -> None:
    _g.due, _g.armed_kinds = False, 0
    if _g.armed is not None:
        _g.armed()


def _timed(thread: _Thread) -> int:
    _g.calls += 1
    return 0 if _g.calls % _SAMPLE or thread.busy else now()


def _cost(begun: int) -> None:
    if begun:
        took = now() - begun
        _spend(took * _SAMPLE if took < _LONG else took)  # A long call was preempted: no sample.


def _mark(
    thread: _Thread, kind: int, edge: int, start: int, at: int, depth: int, plain: bool = True
) -> bool:
    """Mark a boundary on the device; True if marked. ``plain`` is False outside STRUCTURE."""
    if not (plain and _g.marked_kinds >> kind & 1) or thread.busy or _g.marker is None:
        return False
    since = now()
    thread.busy += 1
    try:
        return _g.marker(thread.id, start, at, edge, depth) is True
    except Exception:
        return False
    finally:
        thread.busy -= 1
        _spend(now() - since)


def _task() -> int:
    loop = _g.running_loop() if _g.running_loop is not None else None
    return id(_g.current_task(loop)) if loop is not None else 0


def _enter(thread: _Thread, kind: int) -> int:
    start = now()
    if not thread.depth and thread.shown >= 0:
        _OPEN.pack_into(_g.header, _shown_at(thread) + 6, kind, 0, start)
    if thread.depth < 255:
        thread.depth += 1
    thread.optimizers += kind == k.OPTIMIZER
    return start


def _leave(thread: _Thread, kind: int, depth: int) -> None:
    thread.depth = depth
    if kind == k.OPTIMIZER and thread.optimizers:
        thread.optimizers -= 1
    if not depth and thread.shown >= 0:
        _g.header[_shown_at(thread) + 6] = 0


def _push(thread: _Thread, *entry: Any) -> list[Any]:
    """Open a pair.

    An entry is ``[pair, object, task, start, value, id, depth, optimizers, structural, marked,
    handled]``; ``handled`` is the identity of the exception being handled.
    """
    if len(thread.open) >= _OPEN_PAIRS:
        del thread.open[0]
    thread.open.append(list(entry))
    return thread.open[-1]


def _find(thread: _Thread, pair: int, object_: int, task: int) -> int:
    opened = thread.open
    for at in range(len(opened) - 1, -1, -1):
        if opened[at][:3] == [pair, object_, task]:
            return at
    return -1


def _read(read: int, found: Any, site: int, start: int) -> tuple[float, int]:
    """Read a number from a value; flags are LATER, or FAILED if it cannot be read."""
    if found is None and read != k.NUMBER:
        return nan, 0
    if read == k.NUMBER:
        value, flags = read_number(found, site, start)
        if flags & k.FAILED:
            readers.note(0, found)
        return value, flags
    if read != k.LENGTH:
        return nan, 0
    size = length(found) if _g.size_of is None else _g.size_of(found)
    if size != size:
        readers.note(1, found)
    return size, 0


def _handled() -> int:
    return id(sys.exception()) if sys.exception() is not None else 0


class Site:
    """Callables for inserted code and hooks: plain functions, which Dynamo requires."""

    def __init__(
        self,
        number: int = 0,
        kind: int = 0,
        ring: int = k.STRUCTURE,
        keys: tuple[str, ...] = (),
        focus: int = 0,
        role: int = k.PLAIN,
        pair: int = 0,
        name: str | None = None,
    ) -> None:
        if ring not in (0, 1) or (keys and not 0 <= focus < len(keys)) or len(keys) > 254:
            raise ValueError("ring is 0 or 1, and focus the index of one of at most 254 keys")
        self.number, self.kind, self.ring, self.keys, self.focus = number, kind, ring, keys, focus
        self.role, self.pair, self.name = role, pair, name
        self.hand = self.silent = self.fired = 0  #: ``hand``: events left for ``bus``; -1: all.
        self.bus: Callable[[dict[str, Any]], object] | None = None
        self.intercept: Callable[[dict[str, Any], Any], Any] | None = None
        self.records: list[tuple[int, int, int, int, int]] = []
        self.tasked: Callable[[str], tuple[int, ...]] | None = None
        self.last = 0
        self._tasks: dict[str, tuple[int, ...]] = {}
        self._entered = False
        # Functions, not methods: torch.compile accepts only functions as logging functions.
        self.event = _event(self)
        self.relay = lambda *values: self._relay(values)
        self.enter_loop = lambda: self._enter_loop()

    def record(self, site: int, kind: int, ring: int, index: int, read: int) -> None:
        """Record an event of ``site`` for each call, with the value of key ``index``."""
        if len(self.records) == 6 or ring not in (0, 1) or not -1 <= index <= 254:
            raise ValueError("a site records 6 events at most, in ring 0 or 1")
        self.records.append((site, kind, ring, index, read))

    def _given(self, values: Any, index: int, default: Any = None) -> Any:
        if isinstance(values, dict):
            return values.get(self.keys[index], default) if index >= 0 else default
        if len(values) == len(self.keys):
            return values[index] if 0 <= index < len(values) else default
        return values[0] if values and index == self.focus else default

    def _sites(self, values: Any) -> tuple[int, ...]:
        """Sites of the records for the event's task."""
        sites = tuple(record[0] for record in self.records)
        if self.tasked is None:
            return sites
        task = self._given(values, self.keys.index("task")) if "task" in self.keys else None
        if task is None and _g.inherited is not None:
            task = _g.inherited.get({}).get("task")
        if type(task) is not str:
            return sites
        if task not in self._tasks and len(self._tasks) < _MOST_TASKS:
            self._tasks[task] = self.tasked(task)
        return self._tasks.get(task, sites)

    def _leaves(self, before: int) -> int:
        """FAILED if an exception other than ``before`` is leaving the loop or call."""
        return k.FAILED if self.last and _handled() not in (0, before) else 0

    def _enter_loop(self) -> None:
        """Record the start of a loop or call that contains the site's events."""
        if _g.muted or self.silent:
            return
        thread, start = _here(), now()
        for site, (_, kind, _, _, _) in zip(self._sites(()), self.records, strict=True):
            if kind in (k.ENTERS, k.WAITS):
                marked = _mark(thread, kind, k.PLAIN, start, start, thread.depth)
                _put(thread, k.STRUCTURE, kind, site, start, 0, nan, 0, k.MARKED if marked else 0)
        if self.role == k.PLAIN and self.last:
            self._entered = True
            task = _task()
            at = _find(thread, _ENTERED | self.number, 0, task)
            if at >= 0:
                del thread.open[at]
            opened = _ENTERED | self.number, 0, task, start, nan, 0, 0, 0, False, False
            _push(thread, *opened, _handled())

    def _record(self, thread: _Thread, values: Any) -> int | None:
        """Record the events; returns a pair's number, None for an end without a beginning."""
        start, sites = now(), self._sites(values)
        if self.role == k.PLAIN:
            left = 0
            at = _find(thread, _ENTERED | self.number, 0, _task()) if self._entered else -1
            if at >= 0:
                left = self._leaves(thread.open[at][10])
            for site, (_, kind, ring, index, read) in zip(sites, self.records, strict=True):
                found = self._given(values, index, _MISSING)
                if kind == k.ENTERS or (found is _MISSING and kind == k.LOSS):
                    continue  # The variable is not bound yet.
                value, flags = _read(read, None if found is _MISSING else found, site, start)
                if kind != k.LOSS:
                    flags &= ~k.FAILED
                if _mark(thread, kind, k.PLAIN, start, start, thread.depth, not ring):
                    flags |= k.MARKED
                flags |= left if kind == k.STEP else 0
                _put(thread, ring, kind, site, start, 0, value, 0, flags)
            return 0
        _, kind, ring, index, read = self.records[0] if self.records else _NO_RECORD
        task, value = _task(), nan
        if read:
            value = _read(read, self._given(values, index), 0, 0)[0]
        entry: list[Any] | None = None
        if self.role == k.ENDS:
            found = _find(thread, self.pair, 0, task)
            if found < 0:
                return None
            entry = thread.open.pop(found)
        wanted = not ring and (entry is None or entry[9])
        marked = _mark(thread, kind, k.PLAIN, start, start, thread.depth, wanted)
        flags = k.MARKED if marked else 0
        if entry is None:
            number_ = next(_g.pairs)
            opened = (self.pair, 0, task, start, value, number_, 0, 0, False, marked)
            _push(thread, *opened, _handled())
            if self.records and not ring:
                _put(thread, ring, kind, sites[0], start, 0, value, 0, flags)
            return number_
        if self.records:
            value = entry[4] if value != value else value
            flags |= self._leaves(entry[10])
            _put(thread, ring, kind, sites[0], entry[3], start - entry[3], value, 0, flags)
        return int(entry[5])

    def _made(self, values: Any, number_: int) -> dict[str, Any]:
        whole = len(values) == len(self.keys)
        event = dict(zip(self.keys, values, strict=True)) if whole else {}
        if not whole and values:
            event[self.keys[self.focus]] = values[0]
        if self.role != k.PLAIN:
            step = "begin" if self.role == k.BEGINS else "end"
            event["$wrap"] = {"name": self.name, "step": step, "id": number_}
        return event

    def _fire(self, values: Any) -> None:
        thread, took = _here(), 0
        begun = _timed(thread)
        self.fired += 1
        number_ = self._record(thread, values) if self.records or self.role else 0
        if self.hand and self.bus is not None and number_ is not None:
            if self.hand > 0:
                self.hand = self.hand - 1
            event = values if isinstance(values, dict) else self._made(values, number_)
            since = now()
            thread.busy += 1
            try:
                self.bus(event)
            finally:
                thread.busy -= 1
                took = now() - since
                if not thread.busy:
                    _spend(took)
        if begun:
            _cost(begun + took)
        if _g.due:
            _reached()

    def given(self, event: dict[str, Any]) -> None:
        """Like ``event``, for an event that is already a dictionary."""
        if type(event) is not dict and not isinstance(event, dict):
            raise TypeError("an event is a dictionary")
        if not (_g.muted or self.silent):
            self._fire(event)

    def _relay(self, values: tuple[Any, ...]) -> Any:
        if not values or _g.muted or self.silent:
            return values[0] if values else None
        value, ordered = values[0], values[:1]
        if self.keys and len(values) == len(self.keys):
            others = values[1:]
            ordered = (*others[: self.focus], value, *others[self.focus :])
        self._fire(ordered)
        if self.intercept is not None:
            value = self.intercept(self._made(ordered, 0), value)
        return value

    def value(self, value: Any) -> None:
        """Record an event of the site's kind, with a number."""
        if _g.muted or self.silent:
            return
        thread, start = _here(), now()
        begun = _timed(thread)
        self.fired += 1
        found, flags = read_number(value, self.number, start)
        _put(thread, self.ring, self.kind, self.number, start, 0, found, 0, flags & k.LATER)
        _cost(begun)
        if _g.due:
            _reached()

    def mark(self) -> None:
        """Record an event of the site's kind, without a number."""
        self.value(None)

    def enter(self, *objects: Any) -> None:
        """Begin a span, as in a hook before an optimizer's step."""
        if _g.muted or self.silent:
            return
        thread = _here()
        begun, opened, depth = _timed(thread), thread.open, thread.depth
        while opened and opened[-1][8] and opened[-1][6] > depth:
            opened.pop()
        who = identity(objects[0]) if objects else 0
        again = _find(thread, self.number, who, 0)
        if again >= 0:  # An exception left it open.
            self._close(thread, again)
            depth = thread.depth
        before = thread.optimizers
        entry = _push(thread, self.number, who, 0, 0, nan, 0, depth, before, True, False, 0)
        _cost(begun)
        start = entry[3] = _enter(thread, self.kind)
        try:
            entry[9] = _mark(thread, self.kind, k.BEGINS, start, start, depth, not self.ring)
        except BaseException:
            _leave(thread, self.kind, depth)
            opened.remove(entry)
            raise

    def _close(self, thread: _Thread, at: int) -> list[Any]:
        entry = thread.open[at]
        thread.optimizers = entry[7] + (self.kind == k.OPTIMIZER)
        _leave(thread, self.kind, entry[6])
        thread.open[at:] = [other for other in thread.open[at + 1 :] if not other[8]]
        return entry

    def leave(self, *objects: Any) -> None:
        """End a span; nested spans left open by an exception are closed."""
        if _g.muted or self.silent:
            return
        end, thread = now(), _here()
        at = _find(thread, self.number, identity(objects[0]) if objects else 0, 0)
        if at < 0:
            return
        begun = _timed(thread)
        entry = self._close(thread, at)
        start, flags = entry[3], k.MARKED if entry[9] else 0
        _put(thread, self.ring, self.kind, self.number, start, end - start, nan, entry[1], flags)
        _cost(begun)
        _mark(thread, self.kind, k.ENDS, start, end, entry[6], entry[9])
        if _g.due:
            _reached()

    def __enter__(self) -> Site:
        if not (_g.muted or self.silent):
            who, thread, start = identity(self), _here(), now()
            marked = _mark(thread, self.kind, k.PLAIN, start, start, thread.depth, not self.ring)
            _push(thread, self.number, who, _task(), start, nan, 0, 0, 0, False, marked, 0)
            for site, kind, ring, _, _ in self.records:
                _put(thread, ring, kind, site, start, 0, nan, 0, k.MARKED if marked else 0)
        return self

    def __exit__(self, *error: object) -> None:
        end = now()
        if _g.muted or self.silent:
            return
        thread = _here()
        at = _find(thread, self.number, identity(self), _task())
        if at >= 0:
            entry, self.fired = thread.open.pop(at), self.fired + 1
            start, flags = entry[3], k.FAILED if error and error[0] is not None else 0
            if _mark(thread, self.kind, k.PLAIN, end, end, thread.depth, entry[9]):
                flags |= k.MARKED
            _put(thread, self.ring, self.kind, self.number, start, end - start, nan, 0, flags)
            if _g.due:
                _reached()


def _event(of: Site) -> Callable[..., None]:
    """Create a site's ``event`` function."""

    def event(value: Any = _MISSING, *others: Any) -> None:
        if not (_g.muted or of.silent):
            of._fire(() if value is _MISSING else (value, *others))

    return event


def span(
    site: int,
    kind: int,
    callable: Callable[..., Any],
    read: int = 0,
    argument: int = -1,
    inner_site: int = 0,
) -> Callable[..., Any]:
    """Wrap ``callable`` so that each call is recorded."""
    model = kind in (k.FORWARD, k.BACKWARD, k.COMPILE)
    groups: dict[str, int] = {}

    def call(*args: Any, **kwargs: Any) -> Any:
        if _g.muted or not _g.rings:
            return callable(*args, **kwargs)
        thread = _g.here.thread
        object_ = identity(args[argument]) if 0 <= argument < len(args) else 0
        if kind == k.FORWARD and thread.models:
            if not _g.submodules:
                return callable(*args, **kwargs)
            return submodule(thread, args, kwargs)
        if kind == k.ZERO_GRAD:
            thread.zeroed = True
            return callable(*args, **kwargs)
        begun, flags, value, depth, start = _timed(thread), 0, nan, thread.depth, 0
        if read and not (kind == k.BACKWARD and "grad_tensors" in kwargs):  # No loss is given.
            start = now()  # A LATE event refers to this time.
            flags, value = asked(args, kwargs, start)
        of = site
        if read >= k.COLLECTIVE:
            of, object_ = collective(args)
        if read == k.MODULE_CALL and not flags & k.MODEL:
            return submodule(thread, args, kwargs) if _g.submodules else callable(*args, **kwargs)
        if _g.submodules and kind == k.FORWARD:
            _name(args)
        if kind == k.BACKWARD and thread.zeroed:
            flags, thread.zeroed = flags | k.ZEROED, False
        if begun:
            _cost(begun)
        thread.models += model
        entered, marked, ending = _enter(thread, kind), False, None
        start = start if flags & k.LATER else entered
        try:
            if _g.marked_kinds:
                marked = _mark(thread, kind, k.BEGINS, start, start, depth)
            if kind == k.BACKWARD and _g.queue is not None:
                ending = _Ending(thread)
            result = callable(*args, **kwargs)
            end = now()
        except BaseException as error:
            end = now()
            flags |= k.ENDED if isinstance(error, StopIteration) else k.FAILED
            raise
        finally:
            if ending is not None:
                ending.ends(end, flags & k.FAILED)
            _leave(thread, kind, depth)
            thread.models -= model
            if read == k.RESULT and not flags & (k.ENDED | k.FAILED):
                readers.ambiguous = False
                value = length(result)
                flags |= k.AMBIGUOUS if readers.ambiguous else 0
            elif read == k.IDENTITY and not flags & (k.ENDED | k.FAILED):
                value = float(identity(result))
            flags |= k.MARKED if marked else 0
            _put(thread, k.STRUCTURE, kind, of, start, end - start, value, object_, flags)
            if _g.submodules and kind == k.FORWARD:  # The root module is also a MODULE span.
                failed = flags & k.FAILED
                _put(thread, 1, k.MODULE, inner_site, start, end - start, nan, object_, failed)
            if begun:
                _cost(end)
            if marked:
                _mark(thread, kind, k.ENDS, start, end, depth)
        if _g.due:
            _reached()
        return result

    def submodule(thread: _Thread, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        _name(args)
        object_, start, flags = identity(args[0]) if args else 0, now(), k.FAILED
        try:
            result = callable(*args, **kwargs)
            flags = 0
        finally:
            _put(thread, 1, k.MODULE, inner_site, start, now() - start, nan, object_, flags)
        return result

    def asked(args: tuple[Any, ...], kwargs: dict[str, Any], at: int) -> tuple[int, float]:
        """Flags and value of a call, read from its arguments."""
        every, flags, value = [*args, *kwargs.values()], 0, nan
        if read == k.MODULE_CALL and args:
            flags = module_flags(args[0])
            value = model_rows(every[1]) if flags & k.MODEL and len(every) > 1 else nan
        elif read == k.NUMBER and every:
            value, flags = read_number(every[max(argument, 0)], site, at)
            flags &= k.LATER
        elif read >= k.COLLECTIVE:
            value = max((n for n in map(bytes_of, args[:3]) if n == n), default=nan)
        return flags, value

    def collective(args: tuple[Any, ...]) -> tuple[int, int]:
        """The site of a collective's group, and its number in the group."""
        found = args[argument] if args else None
        name = found if type(found) is str else getattr(found, "group_name", None)
        if type(name) is not str or _g.group is None:
            return site, 0
        if name not in groups and len(groups) < _MOST_GROUPS:
            groups[name] = _g.group(site, name)
        if read == k.COLLECTIVE:
            _g.numbers[name] = _g.numbers.get(name, 0) + 1
        return groups.get(name, site), _g.numbers[name] if read == k.COLLECTIVE else 0

    call.__voir_span__ = True  # type: ignore[attr-defined]
    return update_wrapper(call, callable)


def _name(args: tuple[Any, ...]) -> None:
    """Call the naming callback for a module's first call."""
    if args and _g.name is not None and identity(args[0]) not in _g.named:
        _g.named.add(identity(args[0]))
        with suppress(Exception):
            _g.name(args[0])


class _Ending:
    """An open call of backward, once a DDP was made; ``_recorder.c`` explains it."""

    __slots__ = ("_marked", "at", "depth", "queued", "thread")

    def __init__(self, thread: _Thread) -> None:
        self.thread, self.depth, self.at = thread, thread.depth, 0
        self._marked = self.queued = False
        thread.endings.append(self)
        _g.endings.append(self)

    def begins(self) -> None:
        """All gradients of this rank are done."""
        self.at, thread = now(), self.thread
        if _here() is thread and thread.depth == self.depth:  # Other callbacks may communicate.
            _enter(thread, k.COMMUNICATION)
        self._marked = _mark(thread, k.COMMUNICATION, k.BEGINS, self.at, self.at, self.depth)

    def ends(self, end: int, failed: int) -> None:
        """Record what backward waited for, before its span is left."""
        thread, at = self.thread, self.at
        thread.endings.remove(self)
        _g.endings.remove(self)
        if not at:
            return
        thread.depth, flags = self.depth, failed | (k.MARKED if self._marked else 0)
        _put(thread, 0, k.COMMUNICATION, _g.reducing, at, end - at, nan, 0, flags)
        if self._marked:
            _mark(thread, k.COMMUNICATION, k.ENDS, at, end, self.depth)


def _ending() -> _Ending | None:
    """The call of backward that this thread works for; on a GPU it may be another thread's."""
    own = _here().endings
    if own:
        return own[-1]
    return _g.endings[0] if len(_g.endings) == 1 else None


def _at_end() -> None:
    """The callback of the engine."""
    ending = _ending()
    if ending is not None and not ending.at:
        ending.begins()


def gradient(gradients: object) -> None:
    """The hook before a gradient."""
    ending = _ending() if _g.queue is not None else None
    if ending is not None and not ending.queued and _g.queue is not None:
        ending.queued = True
        _g.queue(_at_end)


def asks(site: int, object_: int = 0) -> None:
    """Record that a loop requests its next item."""
    if _g.muted or not _g.rings:
        return
    thread, at = _here(), now()
    flags = k.LATER if _mark(thread, k.LOOP, k.PLAIN, at, at, thread.depth) else 0
    _put(thread, k.STRUCTURE, k.LOOP, site, at, 0, nan, object_, flags)


def came(site: int, item: Any = _MISSING, object_: int = 0) -> None:
    """Record that a loop received ``item``, or without one, that it ended."""
    if _g.muted or not _g.rings:
        return
    thread, at = _here(), now()
    flags, value = k.CAME | k.ENDED, nan
    if item is not _MISSING:
        flags, value = k.CAME, length(item)
    if _mark(thread, k.LOOP, k.PLAIN, at, at, thread.depth):
        flags |= k.LATER
    _put(thread, k.STRUCTURE, k.LOOP, site, at, 0, value, object_, flags)
    if _g.due and item is not _MISSING:
        _reached()


class _Loop:
    """An iterator that records when an item is requested and when it is received."""

    __slots__ = ("_iterator", "_object", "_site")

    def __init__(self, site: int, iterable: Any) -> None:
        self._iterator, self._site = iter(iterable), site
        self._object = identity(self._iterator)

    def __iter__(self) -> _Loop:
        return self

    def __next__(self) -> Any:
        asks(self._site, self._object)
        try:
            result = next(self._iterator)
        except BaseException:
            came(self._site, object_=self._object)
            raise
        came(self._site, result, self._object)
        return result


#: Iterating over numbers and containers involves no waiting.
_CONTAINERS: tuple[Any, ...] = (range(1), [], (), {}, {}.values(), {}.items())
_NEVER_WAIT = tuple(type(iter(one)) for one in _CONTAINERS)


def loop(site: int, iterable: Any) -> Any:
    """Wrap a ``for`` loop's iterable so that each wait for an item is recorded."""
    iterator = iter(iterable)
    recorded = hasattr(getattr(type(iterator), "__next__", None), "__voir_span__")
    return iterator if recorded or isinstance(iterator, _NEVER_WAIT) else _Loop(site, iterator)


def open(structure: int, values: int, started: int = 0, epoch: int = 0) -> None:
    """Create the rings; sizes are numbers of events, powers of two."""
    if any(n <= 0 or n & (n - 1) for n in (structure, values)):
        raise ValueError("a ring has room for a power of two events")
    close()
    _g.rings, _g.header, _g.own = [_Ring(structure), _Ring(values)], bytearray(PAGE), 0
    own = (HEADER_MAGIC, FORMAT, os.getpid(), started, now(), epoch)
    HEAD.pack_into(_g.header, 0, *own, *[0] * 13)
    _g.threads.clear()
    _g.muted, _g.here = False, _Here()


def close() -> None:
    """Stop recording."""
    if isinstance(_g.header, mmap.mmap):
        _g.header.close()
    _g.rings, _g.header = [], bytearray(PAGE)
    _g.here = _Here()
    _g.armed, _g.armed_left, _g.armed_kinds, _g.due = None, 0, 0, False
    _g.marker, _g.marked_kinds, _g.queue, _g.group = None, 0, None, None
    _g.size_of = _g.inherited = _g.full = None
    readers.unread = ["", ""]


def publish(path: str, directory: str) -> None:
    """Move the header to a file that other processes can read."""
    if not _g.rings:
        raise ValueError("the recorder is not open")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(path, flags, 0o600)
    try:
        os.write(fd, bytes(_g.header))
        made = mmap.mmap(fd, PAGE)
    except OSError:
        os.unlink(path)
        raise
    finally:
        os.close(fd)
    text = directory.encode()[: PAGE - DIRECTORY_AT - 1]
    made[DIRECTORY_AT : DIRECTORY_AT + len(text)] = text
    _g.header = made


def drain(ring: int, position: int) -> tuple[bytes, int, int]:
    """Take the events since the last call; returns them, the next position, and the number lost.

    Args:
        ring: The ring's index.
        position: The position returned by the last call; 0 at first.
    """
    if not _g.rings or ring not in (0, 1):
        raise ValueError("there is no such ring: the recorder is not open")
    from_, packed = _g.rings[ring], []
    from_.trim()
    with suppress(IndexError):
        for _ in range(len(from_.events)):
            packed.append(from_.events.popleft())
    lost, from_.lost = from_.lost, 0
    position += lost + len(packed)
    at = _HEADS + 8 * ring
    before = struct.unpack_from("<Q", _g.header, at + 16)[0]
    struct.pack_into("<Q", _g.header, at, position)
    struct.pack_into("<Q", _g.header, at + 16, before + lost)
    struct.pack_into("<Q", _g.header, _OWN, _g.own)
    return b"".join(packed), position, lost


def header() -> bytes:
    """Copy the header."""
    struct.pack_into("<Q", _g.header, _OWN, _g.own)
    return bytes(_g.header[:PAGE])


def control(word: int, value: int | None = None) -> int:
    """Return a control word's value, then set it to ``value`` if given."""
    if not 0 <= word < _CONTROL_WORDS:
        raise ValueError(f"there are {_CONTROL_WORDS} control words")
    at = _CONTROL + 8 * word
    before: int = struct.unpack_from("<Q", _g.header, at)[0]
    if value is not None:
        struct.pack_into("<Q", _g.header, at, value)
    return before


def put(
    ring: int, kind: int, site: int, start: int, ns: int, value: float, object_: int, flags: int
) -> None:
    """Record an event with given fields."""
    if ring not in (0, 1):
        raise ValueError("there are rings 0 and 1")
    if not _g.muted:
        _put(_here(), ring, kind, site, start, ns, value, object_, flags)


def number(value: Any) -> float:
    """Read a number; NaN for other values."""
    return read_number(value)[0]


def note(kind: int, site: int, start: int, text: bytes) -> None:
    """Record text in further slots after the event."""
    if _g.muted or not _g.rings:
        return
    _put(_here(), k.VALUES, kind, site, start or now(), 0, nan, len(text), 0)
    for at in range(0, len(text), NOTE_PIECE):
        piece = text[at : at + NOTE_PIECE].ljust(NOTE_PIECE, b"\0")
        _g.rings[1].events.append(piece[:20] + b"\xff\xff" + piece[20:])


def arm(kinds: int, n: int, callback: Callable[[], object] | None) -> int:
    """Call ``callback`` after ``n`` more events of these kinds (a bit mask).

    Returns:
        Number of events that the previous alarm still waited for.
    """
    left = _g.armed_left
    _g.armed, _g.armed_kinds, _g.armed_left, _g.due = callback, kinds if n else 0, n, False
    return left


def marker(kinds: int, callback: Callable[..., object] | None) -> None:
    """Call ``callback`` at the boundaries of these kinds (a bit mask), in their thread.

    Its arguments are the thread's number, the event's start, the time, the edge (``BEGINS`` or
    ``ENDS`` of a span, ``PLAIN`` for a mark) and the depth. It returns True if device times will
    follow; otherwise it is not called for the end of a span.
    """
    _g.marker, _g.marked_kinds = callback, kinds if callback is not None else 0


def reducer(site: int, queue: Callable[[Any], object] | None) -> None:
    """Record what backward waits for at its end, as events of ``site``.

    Args:
        site: The site's number.
        queue: The autograd engine's ``queue_callback``; None records no more.
    """
    _g.reducing, _g.queue = site, queue


def groups(site_of: Callable[[int, str], int] | None) -> None:
    """Set a function from a site and a process group's name to the site of its collectives."""
    _g.group, _g.numbers = site_of, {}


def waiting() -> tuple[dict[str, int], bool]:
    """Count of collectives issued in each process group; whether backward waits for DDP's."""
    return dict(_g.numbers), any(ending.at for ending in _g.endings)


def tensors(
    types: dict[type, int], dtypes: dict[Any, str], grad_enabled: Any, hold: Any, *modes: Any
) -> None:
    """Register the exact tensor types that can be read, and how."""
    readers.set(types, dtypes, grad_enabled, hold, *modes)


def tasks(running_loop: Any, current_task: Any) -> None:
    """Set asyncio's functions for the running loop and the current task."""
    _g.running_loop, _g.current_task = running_loop, current_task


def sizes(size_of: Callable[[Any], float] | None) -> None:
    """Set a function from a given batch to its items; None to read them from the batch."""
    _g.size_of = size_of


def unread() -> tuple[str, str]:
    """Names of the first type of a given loss, and of a given batch, that cannot be read."""
    return readers.unread[0], readers.unread[1]


def when_full(callback: Callable[[], object] | None) -> None:
    """Call ``callback`` once three quarters of the structure ring are unread."""
    _g.full = callback


def inherit(variable: Any) -> None:
    """Set the context variable with keys that events inherit; None for none."""
    _g.inherited = variable


def method(callable: Callable[..., Any]) -> Callable[..., Any]:
    """Make ``callable`` bind like a function, also under Dynamo."""
    return callable


def submodules(on: bool, name: Callable[[Any], object] | None = None) -> None:
    """Record modules within root modules; ``name`` is called with each new one."""
    if _g.name is None or name is None:
        _g.named.clear()
    _g.submodules, _g.name = on, name


def forget(identity_: int) -> None:
    """Forget a named module that no longer exists."""
    _g.named.discard(identity_)


def _forked() -> None:
    """Mute the recorder in the child of a fork."""
    _g.muted = True


def _spend(ns: int) -> None:
    """Add to voir's overhead."""
    _g.own += ns


_g.here = _Here()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
