"""Working off many steps at once, where all goes as it went before.

A loop's boundaries come in rounds: asked for a batch, got it, begin, end, step. Where a stretch of
them has nothing else in it (no pause, no other task, nothing far from the usual), what
:class:`.lane.Lane` would make of it one by one is worked out here column by column, which costs a
fifth. Anything out of the ordinary is left to the lane; a test holds both to the same results.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from itertools import count, repeat
from operator import eq, gt, le, sub
from typing import TYPE_CHECKING, Any, NamedTuple

from .step import Step
from .threads import BEGIN, END, LOADED, LOADING, STEP, Threads

if TYPE_CHECKING:
    from .lane import Lane
    from .threads import Thread
    from .track import Track

#: Rounds taken at once: what is usual is looked at anew after each such stretch.
MOST = 256
#: With fewer, it does not pay.
LEAST = 4
_LOAD, _PAIR, _STEP = bytes((LOADING, LOADED)), bytes((BEGIN, END)), bytes((STEP,))
_AROUND = bytes((BEGIN, STEP, END))
_WORK = (_STEP, _PAIR, _PAIR + _STEP, _AROUND)
PATTERNS = tuple(load + work for load in (b"", _LOAD) for work in _WORK)
_LONGEST = max(map(len, PATTERNS))


class _Rounds(NamedTuple):
    """The boundaries of a stretch, one column for each of a round; times on the timeline."""

    pattern: bytes
    nows: list[list[int]]
    items: list[Sequence[int | None]]
    names: Sequence[Hashable]
    idents: Sequence[Hashable]

    def at(self, kind: int) -> list[int]:
        """The times of one kind of boundary."""
        return self.nows[self.pattern.index(kind)]

    def of(self, column: Sequence[Any], kind: int) -> Sequence[Any]:
        """The part of a column of notes that belongs to one kind of boundary."""
        return column[self.pattern.index(kind) :: len(self.pattern)]


def take_rounds(queue: deque[Any], threads: Threads, steps: list[Step]) -> int:
    """Take rounds off the queue, their steps into ``steps``; how many boundaries were taken.

    None are taken unless the lane that they belong to is between two steps and saw such a round
    before.
    """
    if len(queue) < LEAST:
        return 0
    thread, task = queue[0][2], queue[0][3]
    at = threads.known(thread)
    lane = at.lanes.get(task) if at is not None else None
    if at is None or lane is None or not _settled(lane, at.track):
        return 0
    # Taken and put back: a queue that another thread adds to cannot be iterated over.
    stretch = [queue.popleft() for _ in range(min(len(queue), MOST * _LONGEST))]
    taken = _take(stretch, lane, at, thread, task, steps)
    queue.extendleft(reversed(stretch[taken:]))
    return taken


def _take(
    stretch: list[Any], lane: Lane, at: Thread, thread: int, task: str, steps: list[Step]
) -> int:
    kinds = bytes([note[0] for note in stretch])
    for pattern in PATTERNS:
        rounds = _common(kinds, pattern, lane.evidence.room(BEGIN in pattern))
        if rounds >= LEAST:
            break
    else:
        return 0
    taken = rounds * len(pattern)
    found = _columns(pattern, stretch[:taken], at, thread, task)
    made = None if found is None else _steps_of(found, lane, at.track)
    if made is None:
        return 0
    steps += made
    at.timeline.unmarked(stretch[taken - 1][1])
    return taken


def _settled(lane: Lane, track: Track) -> bool:
    """Whether the lane stands between two steps, with nothing on its mind."""
    evidence = lane.evidence
    return not (
        lane.pairs
        or lane.far
        or lane.slow
        or track.loads
        or track.awaited
        or lane.last_end is None
        or track.last_lane is not lane
        or lane.changes != track.changes
        or evidence.paused != track.paused_ns
        or track.left_ns >= lane.last_end
        or not lane.pending
        or evidence.restarted >= lane.last_end
    )


def _common(kinds: bytes, pattern: bytes, most: int) -> int:
    """How many rounds of the pattern the boundaries begin with, nearly."""
    rounds = min(len(kinds) // len(pattern), most)
    if not kinds.startswith(pattern * LEAST):
        return 0
    while kinds[: rounds * len(pattern)] != pattern * rounds:
        rounds //= 2
    return rounds


def _columns(
    pattern: bytes, stretch: list[Any], at: Thread, thread: int, task: str
) -> _Rounds | None:
    """The stretch in columns; None when it is not one thread's, one task's, or not in order."""
    _, nows, of, tasks, items, names, idents, marks = zip(*stretch, strict=True)
    n = len(stretch)
    if of.count(thread) != n or tasks.count(task) != n or marks.count(None) != n:
        return None
    if nows[0] < at.timeline.host_ns or not all(map(le, nows, nows[1:])):
        return None
    since = at.timeline.ns - at.timeline.host_ns
    width = len(pattern)
    times = [[now + since for now in nows[i::width]] for i in range(width)]
    return _Rounds(pattern, times, [items[i::width] for i in range(width)], names, idents)


def _steps_of(found: _Rounds, lane: Lane, track: Track) -> list[Step] | None:
    """The steps that are known now; None when something is not as it was before."""
    pattern = found.pattern
    paired, stepped, fed = BEGIN in pattern, pattern[-1] == STEP, LOADING in pattern
    if fed != lane.fed or (not paired and lane.unmatched):
        return None
    ends = found.at(STEP if stepped else END)
    lasts: list[int] = [lane.last_end, *ends[:-1]]  # type: ignore[list-item]
    busy = list(map(sub, ends, lasts))
    loading = _loading(found, lasts, track) if fed else None
    if fed and loading is None:
        return None
    ready: Sequence[int | None] = found.at(LOADED) if fed else [None] * len(ends)
    gaps: list[int] | None = None
    compute: list[int] | None = None
    if paired:
        if not _pairs_as_ever(found, lane):
            return None
        ready, done = found.at(BEGIN), found.at(END)
        gaps, compute = list(map(sub, ready, lasts)), list(map(sub, done, ready))
        shown = gaps if loading is None else loading
        gaps = gaps if loading is None else list(map(sub, gaps, loading))
        if stepped and any(map(gt, map(sub, ends, done), (4 * ns for ns in compute))):
            return None  # Another loop's step, perhaps.
        loading = shown
    elif loading is not None:
        compute = list(map(sub, busy, loading))
    work = busy if compute is None else compute
    if not _usual(lane, gaps, work):
        return None
    n = len(ends)
    made = list(
        map(
            _new,
            zip(
                repeat(lane.task, n), count(lane.count[0]), _items(found), repeat(lane.units),
                lasts, ready, ends, loading or repeat(None), compute or repeat(None), busy,
                repeat(0), repeat(lane.thread), repeat(False),
            ),
        )
    )  # fmt: skip
    return _advance(lane, track, made, found)


def _new(fields: tuple[Any, ...]) -> Step:
    return tuple.__new__(Step, fields)


def _loading(found: _Rounds, lasts: list[int], track: Track) -> list[int] | None:
    """Waits for batches, all of the one loader that fed the lane before."""
    names = (*found.of(found.names, LOADING), *found.of(found.names, LOADED))
    if names.count(names[0]) != len(names) or track.own != {names[0]}:
        return None
    return list(map(sub, found.at(LOADED), map(max, found.at(LOADING), lasts)))


def _pairs_as_ever(found: _Rounds, lane: Lane) -> bool:
    """Whether the pairs are of one name, each closed by its own end, in calls as before."""
    names = (*found.of(found.names, BEGIN), *found.of(found.names, END))
    begun, ended = found.of(found.idents, BEGIN), found.of(found.idents, END)
    return names.count(names[0]) == len(names) and begun == ended and _calls_as_ever(begun, lane)


def _calls_as_ever(idents: Sequence[Hashable], lane: Lane) -> bool:
    """Whether the pairs are all of the call that the last one was in, or each of its own."""
    evidence = lane.evidence
    if idents[0] == evidence.ident:
        return idents.count(idents[0]) == len(idents)
    return not evidence.calls_repeat and not any(map(eq, idents, idents[1:]))


def _usual(lane: Lane, gaps: list[int] | None, work: list[int]) -> bool:
    """Whether all is within the usual, which is then known better."""
    evidence = lane.evidence
    if not evidence.work.allows(work) or (gaps is not None and not evidence.gaps.allows(gaps)):
        return False
    evidence.work.extend(work)
    if gaps is not None:
        evidence.gaps.extend(gaps)
    return True


def _items(found: _Rounds) -> Sequence[int | None]:
    """The items of each step: those that come with the pair's end, else with the step."""
    columns = [found.items[found.pattern.index(k)] for k in (END, STEP) if k in found.pattern]
    if len(columns) == 1 or None not in columns[0]:
        return columns[0]
    return [own if own is not None else other for own, other in zip(*columns, strict=True)]


def _advance(lane: Lane, track: Track, made: list[Step], found: _Rounds) -> list[Step]:
    """Leave lane and track as they are after these steps; returns those that are known."""
    n, end = len(made), made[-1].end_ns
    lane.count[0] += n
    lane.evidence.closed += n
    paired, stepped = BEGIN in found.pattern, found.pattern[-1] == STEP
    if paired:
        ident = found.of(found.idents, END)[-1]
        lane.evidence.calls_repeat |= ident == lane.evidence.ident
        lane.evidence.ident = ident
        within = found.items[found.pattern.index(STEP)] if STEP in found.pattern else [None]
        lane.unmatched = not stepped and within[-1] is None
    track.closed += n * (2 if paired and stepped else 1)
    lane.last_end = track.last_end = end
    known = [*lane.pending, *made[:-1]]
    lane.pending = [made[-1]]
    return known
