"""Working off many steps at once, where all goes as it went before.

A loop's boundaries come in rounds: asked for a batch, got it, begin, end, step. Where a stretch of
them has nothing else in it (no pause, no other task, nothing far from the usual), what
:class:`.lane.Lane` would make of it one by one is worked out here column by column, which costs a
tenth. Anything out of the ordinary is left to the lane; a test holds both to the same results.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import eq, gt, sub
from typing import TYPE_CHECKING, Any, NamedTuple

from .columns import Columns, Steps
from .notes import IDENT, ITEMS, MARK, NOW, THREAD, WIDTH, Notes, What
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
    """A stretch of notes in which the same boundaries come over and over.

    Attributes:
        pattern: The kinds of boundary in a round.
        whats: What the notes of a round say happened.
        notes: All notes of the stretch.
        since: How much later on the timeline than on the host's clock all of it is.
    """

    pattern: bytes
    whats: list[What]
    notes: list[Any]
    since: int

    def column(self, of: int, kind: int) -> list[Any]:
        """One of the values of the notes, for one kind of boundary."""
        return self.notes[self.pattern.index(kind) * WIDTH + of :: len(self.pattern) * WIDTH]

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
    what, _, thread, *_ = notes.first()
    at = threads.known(thread)
    lane = at.lanes.get(what[1]) if at is not None else None
    if at is None or lane is None or not _settled(lane, at.track):
        return 0
    found = _find(notes, lane, at)
    if found is None or not _steps_of(found, lane, at.track, steps):
        return 0
    at.timeline.unmarked(found.notes[NOW - WIDTH])
    return len(found.notes) // WIDTH


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
        or len(lane.pending) != 1
        or evidence.restarted >= lane.last_end
    )


def _find(notes: Notes, lane: Lane, at: Thread) -> _Rounds | None:
    """The rounds that the notes begin with; None without, or if it is not plain when they were."""
    taken, start = notes.taken, notes.at
    whats: list[What] = taken[start : start + MOST * _LONGEST * WIDTH : WIDTH]
    kinds = bytes([what[0] for what in whats[: LEAST * _LONGEST]])
    pattern = next((each for each in PATTERNS if kinds.startswith(each * LEAST)), None)
    if pattern is None or any(task != lane.task for _, task, _ in whats[: len(pattern)]):
        return None
    rounds = _alike(whats, len(pattern), lane.evidence.room(BEGIN in pattern))
    if rounds < LEAST:
        return None
    n = rounds * len(pattern)
    stretch = taken[start : start + n * WIDTH]
    nows = stretch[NOW::WIDTH]
    if stretch[THREAD::WIDTH].count(lane.thread) != n or stretch[MARK::WIDTH].count(None) != n:
        return None
    line = at.timeline
    if nows[0] < line.host_ns or nows != sorted(nows):
        return None
    return _Rounds(pattern, whats[: len(pattern)], stretch, line.ns - line.host_ns)


def _alike(whats: list[What], width: int, most: int) -> int:
    """How many rounds are as the first, nearly."""
    rounds = min(len(whats) // width, most)
    while whats[: rounds * width] != whats[:width] * rounds:
        rounds //= 2
    return rounds


def _steps_of(found: _Rounds, lane: Lane, track: Track, steps: Steps) -> bool:
    """Add the steps that are known now; False when something is not as it was before."""
    pattern = found.pattern
    paired, stepped, fed = BEGIN in pattern, pattern[-1] == STEP, LOADING in pattern
    if fed != lane.fed or (not paired and lane.unmatched):
        return False
    ends = found.at(STEP if stepped else END)
    lasts: list[int] = [lane.last_end, *ends[:-1]]  # type: ignore[list-item]
    busy = list(map(sub, ends, lasts))
    loading = _loading(found, lasts, track) if fed else None
    if fed and loading is None:
        return False
    n = len(ends)
    ready: Sequence[int | None] = found.at(LOADED) if fed else [None] * n
    gaps: list[int] | None = None
    compute: list[int] | None = None
    if paired:
        if not _pairs_as_ever(found, lane):
            return False
        ready, done = found.at(BEGIN), found.at(END)
        gaps, compute = list(map(sub, ready, lasts)), list(map(sub, done, ready))
        shown = gaps if loading is None else loading
        gaps = gaps if loading is None else list(map(sub, gaps, loading))
        if stepped and any(map(gt, map(sub, ends, done), (4 * ns for ns in compute))):
            return False  # Another loop's step, perhaps.
        loading = shown
    elif loading is not None:
        compute = list(map(sub, busy, loading))
    if not _usual(lane, gaps, busy if compute is None else compute):
        return False
    number = lane.count[0]
    made = Columns(
        [lane.task] * n, list(range(number, number + n)), _items(found), [lane.units] * n,
        lasts, ready, ends, loading or [None] * n, compute or [None] * n, busy,
        [0] * n, [lane.thread] * n, [False] * n,
    )  # fmt: skip
    _advance(lane, track, ends[-1], found)
    steps.add(_shifted(lane, made))
    return True


def _loading(found: _Rounds, lasts: list[int], track: Track) -> list[int] | None:
    """Waits for batches, all of the one loader that fed the lane before."""
    name = found.name(LOADING)
    if name != found.name(LOADED) or track.own != {name}:
        return None
    return list(map(sub, found.at(LOADED), map(max, found.at(LOADING), lasts)))


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


def _usual(lane: Lane, gaps: list[int] | None, work: list[int]) -> bool:
    """Whether all is within the usual, which is then known better."""
    evidence = lane.evidence
    if not evidence.work.allows(work) or (gaps is not None and not evidence.gaps.allows(gaps)):
        return False
    evidence.work.extend(work)
    if gaps is not None:
        evidence.gaps.extend(gaps)
    return True


def _items(found: _Rounds) -> list[int | None]:
    """The items of each step: those that come with the pair's end, else with the step."""
    columns = [found.column(ITEMS, kind) for kind in (END, STEP) if kind in found.pattern]
    if len(columns) == 1 or None not in columns[0]:
        return columns[0]
    return [own if own is not None else other for own, other in zip(*columns, strict=True)]


def _advance(lane: Lane, track: Track, end: int, found: _Rounds) -> None:
    """Leave lane and track as they are after these steps, of which the last one's end is given."""
    pattern, n = found.pattern, len(found.notes) // WIDTH // len(found.pattern)
    lane.count[0] += n
    lane.evidence.closed += n
    paired, stepped = BEGIN in pattern, pattern[-1] == STEP
    if paired:
        ident = found.column(IDENT, END)[-1]
        lane.evidence.calls_repeat |= ident == lane.evidence.ident
        lane.evidence.ident = ident
        within = STEP in pattern and found.column(ITEMS, STEP)[-1] is not None
        lane.unmatched = not stepped and not within
    track.closed += n * (2 if paired and stepped else 1)
    lane.last_end = track.last_end = end


def _shifted(lane: Lane, made: Columns) -> Columns:
    """The steps that are known now: the one held back before, and these but for the last."""
    held = lane.pending[0]
    for column, value in zip(made, held, strict=True):
        column.insert(0, value)  # type: ignore[attr-defined]
    lane.pending = [Step._make(column.pop() for column in made)]  # type: ignore[union-attr]
    return made
