"""Working off many steps at once, where all goes as it went before.

A loop's boundaries come in rounds: asked for a batch, got it, begin, end, step. Where a stretch of
them has nothing else in it (no pause, no other task, nothing far from the usual), what
:class:`.lane.Lane` would make of it one by one is worked out here column by column, which costs a
tenth. Anything out of the ordinary is left to the lane; a test holds both to the same results.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf
from operator import eq, gt, sub
from typing import TYPE_CHECKING, Any, NamedTuple

from .columns import Columns, Steps
from .lane import SIZES
from .notes import FEW, IDENT, ITEMS, MARK, NOW, THREAD, WIDTH, Notes, What
from .step import Step
from .threads import BEGIN, END, LOADED, LOADING, STEP, Threads
from .typical import FLOOR_NS

if TYPE_CHECKING:
    from .evidence import Evidence
    from .lane import Lane
    from .threads import Thread
    from .track import Track

#: Rounds looked at together, at most; from :data:`.notes.FEW` up where all goes as before.
MANY = 4096
#: With fewer, it does not pay.
LEAST = 4
#: In place of a loader's name where there are several.
_SEVERAL = object()
_LOAD, _PAIR, _STEP = bytes((LOADING, LOADED)), bytes((BEGIN, END)), bytes((STEP,))
_AROUND = bytes((BEGIN, STEP, END))
_WORK = (_STEP, _PAIR, _PAIR + _STEP, _AROUND)
PATTERNS = tuple(load + work for load in (b"", _LOAD) for work in _WORK)
_LONGEST = max(map(len, PATTERNS))


class _Rounds(NamedTuple):
    """A stretch of notes in which the same boundaries come over and over.

    Attributes:
        pattern: The kinds of boundary in a round.
        whats: What the notes of a round say happened.
        notes: The notes, with what may stand before and after the stretch.
        start: Where in them the stretch begins.
        stop: Where it ends.
        since: How much later on the timeline than on the host's clock all of it is.
    """

    pattern: bytes
    whats: list[What]
    notes: list[Any]
    start: int
    stop: int
    since: int

    @property
    def n(self) -> int:
        """How many rounds there are."""
        return (self.stop - self.start) // WIDTH // len(self.pattern)

    def first(self, n: int) -> _Rounds:
        """The first so many of the rounds."""
        return self._replace(stop=self.start + n * WIDTH * len(self.pattern))

    def column(self, of: int, kind: int) -> list[Any]:
        """One of the values of the notes, for one kind of boundary."""
        start = self.start + self.pattern.index(kind) * WIDTH + of
        return self.notes[start : self.stop : len(self.pattern) * WIDTH]

    def last(self, of: int, kind: int) -> Any:
        """The last of such a column."""
        return self.notes[self.stop + (self.pattern.index(kind) - len(self.pattern)) * WIDTH + of]

    def at(self, kind: int) -> list[int]:
        """The times of one kind of boundary, on the timeline."""
        times, since = self.column(NOW, kind), self.since
        return [ns + since for ns in times] if since else times

    def name(self, kind: int) -> Hashable:
        """The name that comes with one kind of boundary."""
        return self.whats[self.pattern.index(kind)][2]


def take_rounds(notes: Notes, threads: Threads, steps: Steps) -> int:
    """Take rounds off the notes, their steps into ``steps``; how many notes were taken.

    None are taken unless the lane that they belong to is between two steps and saw such a round
    before.
    """
    if len(notes.taken) - notes.at < LEAST * WIDTH:
        return 0
    what, now, thread, *_ = notes.first()
    at = threads.known(thread)
    lane = at.lanes.get(what[1]) if at is not None else None
    if at is None or lane is None or not _settled(lane, at.track):
        return 0
    if now - at.timeline.host_ns > _limit(lane, what[0]):
        return 0  # A pause, most likely; to see that from the columns would be more work.
    found = _find(notes, lane, at)
    used = None if found is None else _steps_of(found, lane, at.track, steps)
    if used is None:
        notes.reach = FEW
        return 0
    notes.reach = min(MANY, 4 * notes.reach) if used is found else FEW
    at.timeline.unmarked(used.notes[used.stop - WIDTH + NOW])
    return (used.stop - used.start) // WIDTH


def _limit(lane: Lane, kind: int) -> float:
    """How long it may be until the first boundary of a round before that is a pause."""
    usual = {BEGIN: lane.evidence.gaps, STEP: lane.evidence.work}.get(kind)
    return inf if usual is None else usual.limit


def _settled(lane: Lane, track: Track) -> bool:
    """Whether the lane stands between two steps, with nothing on its mind."""
    evidence = lane.evidence
    return not (
        lane.pairs
        or lane.far
        or lane.slow
        or lane.part
        or track.loads
        or track.awaited
        or lane.last_end is None
        or track.last_lane is not lane
        or lane.changes != track.changes
        or evidence.paused != track.paused_ns
        or track.left_ns >= lane.last_end
        or len(lane.pending) != 1
        or evidence.restarted >= lane.last_end
    )


def _find(notes: Notes, lane: Lane, at: Thread) -> _Rounds | None:
    """The rounds that the notes begin with; None without, or if it is not plain when they were."""
    taken, start = notes.taken, notes.at
    whats: list[What] = taken[start : start + notes.reach * _LONGEST * WIDTH : WIDTH]
    kinds = bytes([what[0] for what in whats[: LEAST * _LONGEST]])
    pattern = next((each for each in PATTERNS if kinds.startswith(each * LEAST)), None)
    if pattern is None or any(task != lane.task for _, task, _ in whats[: len(pattern)]):
        return None
    rounds = _alike(whats, len(pattern), notes.reach)
    if rounds < LEAST:
        return None
    n = rounds * len(pattern)
    stop = start + n * WIDTH
    threads, marks = taken[start + THREAD : stop : WIDTH], taken[start + MARK : stop : WIDTH]
    if threads.count(lane.thread) != n or marks.count(None) != n:
        return None
    nows, line = taken[start + NOW : stop : WIDTH], at.timeline
    if nows[0] < line.host_ns or nows != sorted(nows):
        return None
    return _Rounds(pattern, whats[: len(pattern)], taken, start, stop, line.ns - line.host_ns)


def _alike(whats: list[What], width: int, most: int) -> int:
    """How many rounds are as the first."""
    first, known, unknown = whats[:width], 1, min(len(whats) // width, most) + 1
    rounds = unknown - 1  # Mostly all of them are.
    while unknown - known > 1:
        if whats[known * width : rounds * width] == first * (rounds - known):
            known = rounds
        else:
            unknown = rounds
        rounds = (known + unknown) // 2
    return known


def _steps_of(found: _Rounds, lane: Lane, track: Track, steps: Steps) -> _Rounds | None:
    """Add the steps that are known now; returns the rounds they are of, None if all is not as ever.

    Those are fewer than were found if something is far from the usual.
    """
    pattern = found.pattern
    paired, stepped, fed = BEGIN in pattern, pattern[-1] == STEP, LOADING in pattern
    if fed != lane.fed or (not paired and lane.unmatched):
        return None
    n = found.n
    ends = found.at(STEP if stepped else END)
    lasts: list[int] = [lane.last_end, *ends[:-1]]  # type: ignore[list-item]
    busy = list(map(sub, ends, lasts))
    loading = _loading(found, lasts, track) if fed else None
    if fed and loading is None:
        return None
    ready: Sequence[int | None] = found.at(LOADED) if fed else [None] * n
    gaps: list[int] | None = None
    compute: list[int] | None = None
    tails: list[int] = []
    if paired:
        if not _pairs_as_ever(found, lane):
            return None
        ready, done = found.at(BEGIN), found.at(END)
        gaps, compute = list(map(sub, ready, lasts)), list(map(sub, done, ready))
        shown = gaps if loading is None else loading
        gaps = gaps if loading is None else list(map(sub, gaps, loading))
        tails = list(map(sub, ends, done)) if stepped else []
        if any(map(gt, tails, (4 * ns for ns in compute))):
            return None  # Another loop's step, perhaps.
        if tails and max(tails) > FLOOR_NS:
            return None  # A pause, perhaps.
        loading = shown
    elif loading is not None:
        compute = list(map(sub, busy, loading))
    usual = _usual(lane, busy, gaps, busy if compute is None else compute)
    if not usual:
        return None
    for ns in tails[:usual]:
        lane.evidence.tails(ns)
    used = found if usual == n else found.first(usual)
    end = ends[usual - 1]
    if fed and not paired:
        lasts, ends = _until_asked(lane, lasts, used.at(LOADING), ends)
        busy = list(map(sub, ends, lasts))
        compute = list(map(sub, busy, loading))  # type: ignore[arg-type]
    made: list[Any] = [
        [lane.task] * n, _items(found), [lane.units] * n,
        lasts, ready, ends, loading or [None] * n, compute or [None] * n, busy,
        [0] * n, [lane.thread] * n, [False] * n,
    ]  # fmt: skip
    made = [column[:usual] for column in made] if usual < n else made
    lane.sizes.extend(made[1][-SIZES:])
    steps.add(_shifted(lane, made, range(lane.count[0], lane.count[0] + usual)))
    _advance(lane, track, end, used)
    return used


def _until_asked(
    lane: Lane, lasts: list[int], asked: list[int], ends: list[int]
) -> tuple[list[int], list[int]]:
    """When steps begin and end that last until the next batch is asked for; but for the last."""
    starts = list(map(max, asked, lasts))
    lane.lengthen(starts[0] - lasts[0])
    rests = list(map(sub, starts, lasts))
    lane.rests.extend(rests[:-1])
    lane.rest = rests[-1]
    return starts, [*starts[1:], ends[len(starts) - 1]]


def _loading(found: _Rounds, lasts: list[int], track: Track) -> list[int] | None:
    """Waits for batches, all of the one loader that fed the lane before."""
    name = _loader(found, LOADING)
    if name is _SEVERAL or name != _loader(found, LOADED) or track.own != {name}:
        return None
    return list(map(sub, found.at(LOADED), map(max, found.at(LOADING), lasts)))


def _loader(found: _Rounds, kind: int) -> Hashable:
    """The one loader that one kind of boundary names."""
    idents: list[Hashable] = found.column(IDENT, kind)
    if idents.count(idents[0]) != len(idents):
        return _SEVERAL
    return found.name(kind) if idents[0] is None else idents[0]


def _pairs_as_ever(found: _Rounds, lane: Lane) -> bool:
    """Whether the pairs are of one name, each closed by its own end, in calls as before."""
    begun, ended = found.column(IDENT, BEGIN), found.column(IDENT, END)
    alike = found.name(BEGIN) == found.name(END) and begun == ended
    return alike and _calls_as_ever(begun, lane)


def _calls_as_ever(idents: Sequence[Hashable], lane: Lane) -> bool:
    """Whether the pairs are all of the call that the last one was in, or each of its own."""
    evidence = lane.evidence
    if idents[0] == evidence.ident:
        return idents.count(idents[0]) == len(idents)
    return not evidence.calls_repeat and not any(map(eq, idents, idents[1:]))


def _usual(lane: Lane, busy: list[int], gaps: list[int] | None, work: list[int]) -> int:
    """How many steps go by before one that is not within the usual, which is then known better."""
    evidence, n, at = lane.evidence, len(busy), 0
    while at < n:
        stop = min(n, at + evidence.room(gaps is not None))
        limits = (evidence.work.limit, evidence.work.limit if gaps is None else evidence.gaps.limit)
        if max(limits) == inf:
            return at
        # No part of a step is longer than the step.
        far = None if max(busy[at:stop]) <= min(limits) else _far(work, gaps, limits, at, stop)
        stop = stop if far is None else far
        if (lasts := _lasts(evidence, work[at:stop], gaps and gaps[at:stop])) < stop - at:
            stop, far = at + lasts, None
        evidence.work.extend(work[at:stop])
        if gaps is not None:
            evidence.gaps.extend(gaps[at:stop])
        at = stop
        if far is not None:
            return at
    return n


def _lasts(evidence: Evidence, work: list[int], gaps: list[int] | None) -> int:
    """How many of these go by before one shows that what was usual is so no more."""
    lasts = evidence.work.lasts(work)
    return lasts if gaps is None else evidence.gaps.lasts(gaps[:lasts])


def _far(
    work: list[int], gaps: list[int] | None, limits: tuple[float, float], at: int, stop: int
) -> int | None:
    """The first step from ``at`` on that is far from the usual; None if none is before ``stop``."""
    for i in range(at, stop):
        if work[i] > limits[0] or (gaps is not None and gaps[i] > limits[1]):
            return i
    return None


def _items(found: _Rounds) -> list[int | None]:
    """The items of each step: those that come with the pair's end, else with the step."""
    columns = [found.column(ITEMS, kind) for kind in (END, STEP) if kind in found.pattern]
    if len(columns) == 1 or None not in columns[0]:
        return columns[0]
    return [own if own is not None else other for own, other in zip(*columns, strict=True)]


def _advance(lane: Lane, track: Track, end: int, used: _Rounds) -> None:
    """Leave lane and track as they are after these steps, of which the last one's end is given."""
    pattern, n = used.pattern, used.n
    lane.count[0] += n
    lane.evidence.closed += n
    paired, stepped = BEGIN in pattern, pattern[-1] == STEP
    if paired:
        lane.evidence.calls_repeat |= used.column(IDENT, BEGIN)[0] == lane.evidence.ident
        lane.evidence.ident = used.last(IDENT, END)
        within = STEP in pattern and used.last(ITEMS, STEP) is not None
        lane.unmatched = not stepped and not within
    track.closed += n * (2 if paired and stepped else 1)
    lane.last_end = track.last_end = end
    if lane.evidence.aside:
        track.aside(end, end)
        lane.evidence.paused = track.paused_ns


def _shifted(lane: Lane, made: list[Any], numbers: range) -> Columns:
    """The steps that are known now: the one held back before, and these but for the last."""
    held = lane.pending[0]
    made.insert(1, list(numbers) if held.number + 1 != numbers.start else numbers)
    last = []
    for i, (column, value) in enumerate(zip(made, held, strict=True)):
        if type(column) is range:
            last.append(column[-1])
            made[i] = range(column.start - 1, column.stop - 1)
        else:
            column.insert(0, value)
            last.append(column.pop())
    lane.pending = [Step._make(last)]
    return Columns._make(made)
