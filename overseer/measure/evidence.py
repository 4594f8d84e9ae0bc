"""What tells a pause from the rest of the time between two steps.

The evidence, strongest first:

1. What is declared: a pause, a loop left and entered again, a loader used up, steps of another
   task. These have boundaries, so the pause is measured.
2. Another call of the function that holds the pair (its ``$wrap`` id has changed): a pause
   without a boundary of its own. The step gets the usual time, the pause the rest.
3. Size alone: a duration far above the usual (:mod:`.typical`) between normal ones is a pause,
   treated as in 2. Three in a row are the script getting slower, and no pause.

What is left of a gap before a pair is waiting for the batch, unless the loader was watched.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from .track import Loads, Track
from .typical import Typical

#: Tasks that are an evaluation's.
EVALUATIONS = frozenset({"eval", "evaluation", "valid", "validation", "val", "test"})
#: Tasks that no other lies within: what came between two of their steps is not theirs.
ASIDE = EVALUATIONS | {"inference"}
#: A step that took so much of the usual time behind an evaluation may have begun there; one that
#: took no more than so much, what was before the evaluation included, before. Of one that took more
#: than about the usual, the rest may be the evaluation's.
_MOST_OF, _ABOUT, _NOT_MORE = 0.75, 1.05, 1.25
#: One that took less than so much of it is none that was seen.
_LEAST_OF = 0.125
_NO_BOUNDARY = -1
_NO_PAUSE = -2


class Pair:
    """A step, or the work in it, that has begun and not ended.

    Attributes:
        batch: The items of a pair of the same name within, which tells of the same step.
        crossed: One of the same name that began before it has ended.
        inner: The numbers of the steps that such pairs within have been, before that was known.
        whose: The coroutine that is in it; None: the thread, with all that run on it.
    """

    __slots__ = (
        "awaited",
        "batch",
        "begin",
        "crossed",
        "inner",
        "inner_ns",
        "items",
        "outer",
        "paused",
        "stepped_ns",
        "whose",
    )

    def __init__(
        self, begin: int, awaited: int, paused: int, outer: Pair | None, whose: int | None = None
    ) -> None:
        self.begin = begin
        self.awaited = awaited
        self.paused = paused
        self.items: int | None = None
        self.inner_ns: int | None = None
        self.batch: int | None = None
        self.inner: tuple[int, ...] = ()
        self.crossed = False
        self.outer = outer
        self.whose = whose
        self.stepped_ns = -1

    def absorb(self, items: int | None) -> None:
        """Take in the items of what happened within: a step event, or a pair of another name."""
        if items is not None:
            self.items = (self.items or 0) + items

    @property
    def known(self) -> int | None:
        """How many items it has, by what happened within."""
        return self.batch if self.items is None else self.items


class Before(NamedTuple):
    """What came before a step's work.

    Attributes:
        rest: The part that belongs to the step; None when its beginning was not seen.
        pause: The part that does not.
        estimated: The pause had no boundary.
        far: How much the rest exceeds the usual, when it is far above it.
        whole: It is all the time since the last step.
        around: An evaluation, the pause, lies within it.
        part: Of an evaluation's first turn only the forward pass was seen, perhaps.
    """

    rest: int | None
    pause: int = 0
    estimated: bool = False
    far: int = 0
    whole: bool = False
    around: bool = False
    part: bool = False


class Evidence:
    """Judges what lies before each step of one lane.

    Args:
        lane: The lane itself, to tell its steps from those of others on the thread.
        track: What else happens on the thread.

    Attributes:
        gaps: What is usual between two pairs.
        work: What is usual for a step's work; without pairs, for all of it but loading.
        tails: What is usual between the end of a pair and that of its step, told by an event.
        paused: The track's pauses when the last step ended.
        restarted: When the task's progress was last at 0.
        closed: Steps so far.
        aside: Its steps are an evaluation's, which may lie within a step of another task.
    """

    def __init__(self, lane: object, track: Track) -> None:
        self._lane = lane
        self._track = track
        self.gaps = Typical()
        self.work = Typical()
        self.tails = Typical()
        self.paused = 0
        self.restarted = -1
        self.closed = 0
        self._foreign = 0
        self.aside = getattr(lane, "task", None) in ASIDE
        self.ident: Hashable = None
        self.calls_repeat = self._called = False

    def before(
        self, last: int | None, begin: int, taken: Loads | None, pair: Pair, fed: bool
    ) -> Before:
        """Judge the gap between the end of the last step and the beginning of a pair.

        Args:
            last: When the last step ended; None before the first.
            begin: When the pair began.
            taken: The waits for batches since the last step.
            pair: The pair.
            fed: Whether the lane's loader is watched.
        """
        track = self._track
        within = taken is not None and not pair.awaited
        taken = taken if pair.awaited else None
        if self._first_within(last):
            return self._after_outer(last, begin, taken, within or fed)
        if last is None:
            whole = pair.inner_ns is not None or (taken is None and fed)
            start = taken.begin if taken is not None else begin if whole else self._entered()
            return Before(begin - start if 0 <= start <= begin else None)
        foreign, aside = track.last_end if track.last_lane is not self._lane else -1, 0
        if taken is not None and taken.begin < track.aside_ns < foreign <= begin:
            # The evaluation lies between the batch and the work on it.
            foreign, aside = -1, track.last_end - track.aside_ns
        resumed = self._resumed(last, begin, taken, foreign)
        if resumed == _NO_PAUSE and self._called and not aside:
            resumed = taken.begin if taken is not None else _NO_BOUNDARY
        if resumed >= 0:
            # After an evaluation, say, a checkpoint is saved before the loader is asked again.
            watched = within or taken is not None
            asked = begin if within else taken.begin if taken is not None else resumed
            if self.aside and not watched and self.gaps.median is not None:
                # Before an evaluation's step, the other task's may have gone on behind its end.
                asked = begin - self.gaps.median
            if not watched and not self.aside and resumed == foreign:
                rest = self._rest_around(last, begin)
                if rest is not None:
                    return Before(rest, begin - last - rest)
            resumed = max(resumed, asked)
            far = 0 if watched else self._beyond(begin - resumed)
            return Before(begin - resumed - far - aside, resumed - last + far + aside, far > 0)
        declared = min(max(0, pair.paused - self.paused) + aside, begin - last)
        gap = begin - last - declared
        if resumed == _NO_BOUNDARY:
            return _shared(gap, self.gaps.median, declared)
        other = gap - pair.awaited if fed else gap
        return Before(gap, declared, False, self.far_gap(other))

    def until(
        self, last: int | None, now: int, taken: Loads | None, compiled: bool = False
    ) -> Before:
        """Judge all the time since the last step, when only ends of steps are seen.

        Where something was ``compiled`` meanwhile, its length tells nothing.
        """
        track = self._track
        if self.aside and taken is None and max(0, track.last_end) <= track.shown_ns:
            rest = now - track.shown_ns
            pause = 0 if last is None else track.shown_ns - last
            far = 0 if compiled else self.far_work(rest)
            return Before(rest, pause, False, far, part=True)
        if last is None:
            start = taken.begin if taken is not None else self._entered()
            if taken is not None and start < track.aside_ns:  # An evaluation lies within it.
                aside = track.last_end - track.aside_ns
                return Before(now - start - aside, aside)
            if start < 0:
                return Before(None)
            before = taken.paused if taken is not None else track.entered_paused
            declared = min(track.paused_ns - before, now - start)
            return Before(now - start - declared, declared)
        if self._first_within(last):
            if taken is None:
                return _shared(now - last, self.work.median, 0)
            return Before(now - taken.begin, taken.begin - last)
        if taken is not None and taken.begin < track.aside_ns:
            # The evaluation lies within the step, whose batch was there before.
            return self._around(last, now, taken, compiled)
        foreign = self._foreign_end(last)
        if foreign < 0 and self._evaluated(last):
            return self._around(last, now, taken, compiled)  # So it does in most steps.
        resumed = self._resumed(last, now, taken, foreign)
        if resumed == foreign and last <= track.aside_ns <= resumed and taken is None:
            around = self._around_aside(last, now, resumed)
            if around is not None:
                self.work.others += 1
                return around
        if resumed >= 0:
            # Before an evaluation's step, the other task's may have gone on behind its end.
            if taken is not None and (self.aside or resumed == foreign):
                resumed = max(resumed, taken.begin)
            elif self.aside and self.work.median is not None and resumed != self.restarted:
                resumed = max(resumed, now - self.work.median)
            # After an evaluation, say, a checkpoint is saved: that is no part of the step either.
            self.work.others += 1
            work = now - max(resumed, taken.end if taken is not None else 0)
            asked = taken.begin if taken is not None else foreign
            if asked < foreign and not self.aside and self.unseen(work):
                return Before(None)  # It was done before the evaluation, which began any time.
            far = work - (self.work.median or 0) if work > self.work.limit and not compiled else 0
            return Before(now - resumed - far, resumed - last + far, far > 0)
        declared = min(track.paused_ns - self.paused, now - last)  # It may hold our last step.
        span = now - last - declared
        if resumed == _NO_BOUNDARY:
            return _shared(span, self.work.median, declared)
        work = span - taken.ns if taken is not None else span
        return Before(span, declared, False, 0 if compiled else self.far_work(work), True)

    def _evaluated(self, last: int) -> bool:
        """Whether an evaluation has come since the last step, of which is known when it began."""
        track = self._track
        evaluates = track.last_lane is not None and track.last_lane.task in EVALUATIONS
        return evaluates and track.aside_seen and last < track.aside_ns

    def _around(self, last: int, now: int, taken: Loads | None, compiled: bool) -> Before:
        """All since the last step but an evaluation, which has boundaries."""
        track = self._track
        room = track.aside_ns - last
        if track.resumed_at > track.last_end:
            room += now - track.last_end  # A pause has ended behind it, too.
        declared = min(track.paused_ns - self.paused, room)
        pause = declared + track.last_end - track.aside_ns
        rest = now - last - pause
        work = rest - taken.ns if taken is not None else rest
        far = 0 if compiled else self.far_work(work)
        return Before(rest, pause, False, far, around=True)

    def _around_aside(self, last: int, now: int, resumed: int) -> Before | None:
        """The step around an evaluation that lasted until ``resumed``; None if it is behind that.

        Of the time before the evaluation nothing tells but its length whether it is the step's own,
        or a checkpoint, say: together they may be as long as is usual. Where all of that time was
        taken for the evaluation's first step, so may a part of this. Of the time behind it as much
        may be the evaluation's last turn, if nothing shows where that ends.
        """
        usual, track = self.work.median, self._track
        declared = min(track.paused_ns - self.paused, now - last)
        behind = now - resumed - (declared if track.resumed_at > resumed else 0)
        if usual is None or self.aside:
            return None
        whole = now - last - (resumed - track.aside_ns) - declared
        before = whole - behind
        if whole <= _NOT_MORE * usual and abs(whole - usual) < abs(behind - usual):
            return Before(whole, now - last - whole)
        closer = track.aside_seen and abs(before - usual) < abs(behind - usual)
        if closer and _MOST_OF * usual <= before <= _NOT_MORE * usual:
            return Before(before, now - last - before, True)  # A checkpoint, say, is behind it.
        if _ABOUT * usual < behind <= usual + self._unseen():
            return Before(usual, now - last - usual, True)
        if behind >= _MOST_OF * usual:
            return None
        seen = whole if track.aside_ns > last else now - last - declared
        rest = min(seen, max(behind, usual))
        return Before(rest, now - last - rest, True)

    def _rest_around(self, last: int, begin: int) -> int | None:
        """What of a gap is before an evaluation and behind it, if as much as that is usual.

        The batch that comes behind the evaluation was awaited before; None where it was not.
        """
        track, usual = self._track, self.gaps.median
        if usual is None or not last < track.aside_ns <= track.last_end:
            return None
        behind = begin - track.last_end
        rest = behind + track.aside_ns - last
        return rest if abs(rest - usual) < abs(behind - usual) else None

    def _unseen(self) -> int:
        """How long the last turn may have gone on behind the last pass of an evaluation."""
        track, lane = self._track, self._track.last_lane
        if lane is None or lane.fed or lane.task not in EVALUATIONS:
            return 0
        if lane.last_end != track.last_end:
            return 0  # It is known.
        return lane.evidence.work.median or 0

    def _after_outer(
        self, last: int | None, begin: int, taken: Loads | None, whole: bool
    ) -> Before:
        """As :meth:`before`, for the first step of an evaluation within a step of another task.

        It is ``whole`` where waiting for its batch would be seen.
        """
        if taken is None and not whole:
            return _shared(begin - (last or 0), self.gaps.median, 0)
        start = begin if taken is None else taken.begin
        return Before(begin - start, 0 if last is None else start - last)

    def _entered(self) -> int:
        """When the first step began, of which only is known when the loop was entered; -1 if not.

        The loop of an evaluation may lie within another task's, which has had steps by then.
        """
        track = self._track
        other = track.last_lane
        if track.entered_ns >= 0 and other is not None and (self.aside or other.evidence.aside):
            return max(track.entered_ns, track.last_end)
        return track.entered_ns

    def _first_within(self, last: int | None) -> bool:
        """Whether a step is the first of an evaluation within a step of another task."""
        outer = self._track.outer if self.aside else None
        return outer is not None and (last is None or last < outer.begin)

    def room(self, paired: bool) -> int:
        """How many steps may be judged by what is usual now."""
        return min(self.work.room, self.gaps.room) if paired else self.work.room

    def unseen(self, work: int) -> bool:
        """Whether so little is known of a step's work that it is none that was seen.

        An evaluation in it may have begun any time.
        """
        return work < _LEAST_OF * (self.work.median or 0)

    def far_gap(self, ns: int) -> int:
        """How much a gap exceeds the usual, when it is far above it and worth two steps; else 0."""
        if self.gaps(ns) and ns > 2 * (self.work.median or 0):
            return ns - (self.gaps.median or 0)
        return 0

    def far_tail(self, ns: int) -> int:
        """As :meth:`far_gap`, of the time from the end of a pair to the step's."""
        if self.tails(ns) and ns > 2 * (self.work.median or 0):
            return ns - (self.tails.median or 0)
        return 0

    def _beyond(self, ns: int) -> int:
        """As :meth:`far_gap`, of a gap that tells nothing of what is usual."""
        if ns > max(self.gaps.limit, 2 * (self.work.median or 0)):
            return ns - (self.gaps.median or 0)
        return 0

    def far_work(self, ns: int) -> int:
        """How much a step's work exceeds the usual, when it is far above it; else 0."""
        return ns - (self.work.median or 0) if self.work(ns) else 0

    def _resumed(self, last: int, until: int, taken: Loads | None, foreign: int) -> int:
        """When the step's own time began after a pause that left a trace; see the module."""
        track = self._track
        if last <= self.restarted <= until:
            return self.restarted
        if not last < foreign <= until:
            foreign = _NO_PAUSE
        if last <= track.left_ns <= until and track.left_lane in (None, self._lane):
            if track.left_ns <= track.entered_ns <= until:
                return track.entered_ns
            if taken is not None:
                return taken.begin
            return foreign if foreign >= 0 else _NO_BOUNDARY
        return foreign

    def _foreign_end(self, last: int) -> int:
        """Where another task's last step ended, unless that is so between most of our steps.

        Then the other task lies within ours (batches of an epoch), or takes turns with it.
        """
        track = self._track
        if track.last_lane is self._lane or track.last_end <= last:
            return -1
        self._foreign += 1
        if self.aside or self._foreign * 2 <= self.closed:
            return track.last_end
        return -1

    def called_again(self, ident: Hashable) -> bool:
        """Whether the pair is in another call than the one before; only where calls repeat."""
        self._called = ident != self.ident and self.calls_repeat
        if ident == self.ident:
            self.calls_repeat = True
        self.ident = ident
        return self._called


def _shared(ns: int, usual: int | None, declared: int) -> Before:
    """A pause without a boundary: the step gets what is usual, the pause the rest."""
    if usual is None:
        return Before(None)
    rest = min(ns, usual)
    return Before(rest, declared + ns - rest, True)
