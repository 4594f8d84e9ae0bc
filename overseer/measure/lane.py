"""The steps of one task on one thread, derived from whatever boundaries the script shows.

A step is held back until the next has ended, for only then is it plain whether it was long
because of a pause (:mod:`.evidence`) or because the script has become slower.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from .evidence import Before, Evidence, Pair
from .step import BY_LENGTH, COMPILED, Step
from .track import Loads, Track
from .typical import FLOOR_NS

#: Builds a step without the checks of its constructor, which would cost as much again.
_step = tuple.__new__

#: So many outliers in a row are no pauses.
_ROW = 3
#: Work is far too long where it is so many times the usual above that.
LONGER = 4
#: An evaluation's first step is known in part where the next takes so many times as long.
PART = 1.05
#: So many steps tell how long the work behind a step's end may be.
RESTS = 64
#: The items of so many steps tell how many are usual.
SIZES = 64
#: Pairs that may be open at once: those that exceptions left never end; and several coroutines'.
OPEN, APART = 16, 4096


class Lane:
    """Turns one task's boundaries on one thread into steps, each known once the next one ends.

    Args:
        task: The task's name.
        units: What its items are.
        thread: The thread's identity.
        track: What else happens on the thread.
        count: One counter of steps for all lanes of the task, in a list.
    """

    def __init__(self, task: str, units: str, thread: int, track: Track, count: list[int]) -> None:
        self.task = task
        self.units = units
        self.thread = thread
        self._track = track
        self.count = count
        self.pairs: dict[tuple[Hashable, Hashable], Pair] = {}
        self.evidence = Evidence(self, track)
        self.last_end: int | None = None
        self.changes = -1
        self.unmatched = self.fed = self._paired = False
        self._beside = self._apart = self.part = False
        self._events = 0  # That came before the ends of their pairs, of several coroutines.
        self._stepped: tuple[int, int | None] = 0, None
        self._nested: bool | None = None  # Not known.
        self._told = 0
        self.pending: list[Step] = []
        self.far: dict[int, tuple[int, int]] = {}
        self.slow = False
        self.rest: int | None = None
        self.rests: deque[int] = deque(maxlen=RESTS)
        self.behind = self._rest_behind = self._first_rest = 0
        self._left_at = -1
        self.sizes: deque[int | None] = deque(maxlen=SIZES)

    def restart(self, now: int) -> None:
        """The task's progress is at 0 of n: a loop of its own begins now."""
        self.evidence.restarted = now
        self._track.changes += 1

    def flush(self) -> list[Step]:
        """The last steps, which no other will follow.

        A pair that is still open, of which a step event told that the step has ended, is one of
        them: the script was stopped right there.
        """
        steps = []
        if self._events > 0 and self.pairs:  # Of one of these: which one nobody knows.
            first = next(iter(self.pairs.values()))
            first.stepped_ns, first.items = self._stepped
        for (name, ident), pair in list(self.pairs.items()):
            if pair.stepped_ns >= max(pair.begin, self.last_end or 0):
                steps += self.end(pair.stepped_ns, name, ident, None)
        steps += self._give(None, None)
        track, paused = self._track, 0
        if self.behind > FLOOR_NS:
            paused = self.behind  # A checkpoint in the loop's last iteration.
            if steps and self._rest_behind:
                steps[-1] = _longer(steps[-1], self._rest_behind)
        if track.last_lane is self:
            behind = track.resumed_at - track.last_end
            behind = min(track.paused_ns - self.evidence.paused, behind) - track.outside_ns
            paused += max(0, behind)
        if steps and paused:
            steps[-1] = _paused(steps[-1], paused)
        return steps

    def begin(self, now: int, name: Hashable, ident: Hashable, whose: int | None = None) -> None:
        """A pair begins; within one of another name it is that one's work.

        So it is within one of its own name where such pairs have been found to lie in one another.

        Args:
            now: When.
            name: Its name.
            ident: What it and its end have alike, and no other that is open.
            whose: The coroutine that is in it, if any: it lies in no pair of another's.
        """
        pairs = self.pairs
        outer = None
        if pairs:
            if whose is not None and not self._apart:
                self._apart = any(pair.whose not in (None, whose) for pair in pairs.values())
            self._end_left(name)
            outer = self._outer(name, whose)
            pairs.pop((name, ident), None)
            self._beside = True
            if len(pairs) >= (APART if self._apart else OPEN):
                del pairs[next(iter(pairs))]
        track = self._track
        awaited = track.awaited_ns(self) if track.loads else 0
        pair = pairs[name, ident] = Pair(now, awaited, track.paused_ns, outer, whose)
        if not self.evidence.aside:
            track.around = self
        elif awaited:
            pair.awaited = sum(each.ns for each in track.loads_aside(self).values())

    def _end_left(self, name: Hashable) -> None:
        """End the pairs of this name that an exception left behind the end of their step."""
        for key, pair in list(self.pairs.items()):
            if key[0] == name and pair.stepped_ns >= max(pair.begin, self.last_end or 0):
                self.pending = [*self.end(pair.stepped_ns, *key, None), *self.pending]

    def _outer(self, name: Hashable, whose: int | None) -> Pair | None:
        """The open pair around one that begins, unless an exception left it."""
        for (other, _), pair in self.pairs.items():
            there = self._apart or pair.begin >= (self.last_end or 0)
            known = pair.whose is None or pair.whose == whose  # Not another coroutine's.
            if (other != name or self._nested) and known and there:
                return pair
        return None

    def abandon(self, name: Hashable, ident: Hashable) -> None:
        """A pair ended without a batch: the iterator had no more."""
        pair = self.pairs.pop((name, ident), None)
        if pair is not None:
            self._track.left_ns, self._track.left_lane = pair.begin, None
            self._track.changes += 1

    def end(self, now: int, name: Hashable, ident: Hashable, items: int | None) -> list[Step]:
        """A pair ends: a step, unless it lies within another pair, or around several."""
        around = self._around(name, ident) if self._beside else None
        pair = self.pairs.pop((name, ident), None)
        if pair is None:
            return []  # It began before anyone listened.
        if pair.outer is not None and self._lies_within(now, name, pair, items):
            return []
        if around is not None and self._lies_around(now, ident, pair, around, items):
            return []
        self._paired = True
        self._events -= self._apart
        self.unmatched = pair.items is None
        items = pair.known if items is None else items
        last = self.last_end
        if (
            self.evidence.called_again(ident)
            or last is None
            or pair.begin < last
            or pair.inner_ns is not None
            or self._track.changes != self.changes
            or len(self._track.loads) > 1
        ):
            return self._close_pair(now, pair, items)
        return self._close_next_pair(now, last, pair, items)

    def _around(self, name: Hashable, ident: Hashable) -> list[Pair]:
        """The open pairs of a name that began before one of them, which ends now.

        One that began later, and ends later too, overlaps with it: two coroutines.
        """
        own = self.pairs.get((name, ident))
        if own is None:
            return []
        if own.crossed:
            self._nested = False
        those = (None, own.whose)
        open_ = self.pairs.items()
        alike = [pair for (other, _), pair in open_ if other == name and pair.whose in those]
        at = alike.index(own)
        for later in alike[at + 1 :]:
            later.crossed = True
        return alike[:at]

    def _lies_within(self, now: int, name: Hashable, pair: Pair, items: int | None) -> bool:
        """Let a pair that ends be a part of the one around it; False where that is over."""
        for key, outer in self.pairs.items():
            if outer is pair.outer:
                if key[0] == name:
                    outer.absorb(pair.items)
                    outer.batch = pair.known if items is None else items
                    outer.stepped_ns = now
                else:
                    outer.absorb(items if items is not None else pair.items)
                    outer.inner_ns = (outer.inner_ns or 0) + now - pair.begin
                return True
        return False

    def _lies_around(
        self, now: int, ident: Hashable, pair: Pair, around: list[Pair], items: int | None
    ) -> bool:
        """Whether a pair that ends is around others of its name, and so no step beside them.

        Else it is the next step, which lies in the pairs ``around`` it.
        """
        if pair.inner and self._nested is not False:
            if len(pair.inner) > 1:
                return True  # It is around an epoch, say.
            if self.pending and self.pending[-1].number == pair.inner[0]:
                self._surround(now, ident, pair, items)
                return True
        for each in around:
            each.inner = (*each.inner[:1], self.count[0])
        return False

    def _surround(self, now: int, ident: Hashable, pair: Pair, items: int | None) -> None:
        """Let the last step, of a pair within one of its own name, be as long as that one.

        A pair that never ends must not hide those behind it, so that one lies within another is
        known when the outer ends; from then on the inner ones are no steps.
        """
        self._nested = True
        self.evidence.called_again(ident)
        held = self.pending[-1]
        begin = held.ready_ns if held.ready_ns is not None else held.end_ns
        since = pair.begin if held.busy_ns is None else max(pair.begin, held.start_ns)
        front, tail = max(0, begin - since), now - held.end_ns
        paused = self._paused_since(held.end_ns, tail)
        tail -= paused
        loading, busy = held.loading_ns, held.busy_ns
        if loading is not None and not self.fed:
            loading = max(0, loading - front)
        busy = None if busy is None else busy + tail
        compute = (held.compute_ns or 0) + front + tail
        items = pair.known if items is None else items
        self.pending[-1] = held._replace(
            items=held.items if items is None else items,
            start_ns=min(held.start_ns, since),
            ready_ns=begin - front,
            end_ns=now,
            loading_ns=loading,
            compute_ns=compute if busy is None else min(compute, busy - (loading or 0)),
            busy_ns=busy,
            pause_ns=held.pause_ns + paused,
        )
        self.unmatched = self.unmatched and pair.items is None
        if self.evidence.aside:
            self._track.aside(held.end_ns, now)
        self._ended(now, again=True)

    def step(self, now: int, items: int | None) -> list[Step]:
        """A step ends; beside a pair for the same loop it only adds what the pair lacks."""
        if self.pairs:
            pair = next(reversed(self.pairs.values()))
            pair.absorb(items)
            if self._apart:
                self._events += 1
                self._stepped = now, items  # It may be another's.
            else:
                pair.stepped_ns = now
            return []
        if (self.unmatched and self._extend(now, items)) or (self._apart and self._paired):
            return []
        track = self._track
        if self.last_end is None or track.changes != self.changes or len(track.loads) > 1:
            return self._close_end(now, items)
        return self._close_next(now, items)

    def _extend(self, now: int, items: int | None) -> bool:
        """Let the last pair's step last until now: its step event comes after it.

        How long after tells only where several pairs came since an event: where one followed its
        pair alone, or soon, each does.
        """
        self.unmatched = False
        since, self._told = self.evidence.closed - self._told, self.evidence.closed
        if not self.pending or self._is_left(self.pending[-1].end_ns):
            return False
        step = self.pending[-1]
        later = now - step.end_ns
        paused = self._paused_since(step.end_ns, later)
        later -= paused
        followed = since == 1 or self.evidence.tails.median is not None
        if later > 4 * (step.compute_ns or 0) and not followed:
            self._told += 1  # It is a step by itself: of another loop, which has no pair.
            return False
        far = self.evidence.far_tail(later)
        later -= far
        self.pending[-1] = step._replace(
            items=items if step.items is None else step.items,
            end_ns=now,
            busy_ns=None if step.busy_ns is None else step.busy_ns + later,
            pause_ns=step.pause_ns + paused + far,
            estimated=step.estimated or (BY_LENGTH if far else False),
        )
        self._ended(now, again=True)
        return True

    def _is_left(self, since: int) -> bool:
        """Whether its own loop has been left since then, and not only an evaluation's."""
        track = self._track
        return track.left_ns >= since and track.left_lane in (None, self)

    def _paused_since(self, since: int, ns: int) -> int:
        """What of so long a time since the last pair were pauses: declared, or an evaluation."""
        track = self._track
        paused = max(0, track.paused_ns - self.evidence.paused)
        if track.last_lane is not self and track.aside_ns >= since:
            paused += track.last_end - track.aside_ns
        return min(paused, ns)

    def left(self, now: int) -> None:
        """The loop is left: its loader is asked in vain."""
        track, last = self._track, self.last_end
        if last is None or not self.fed or self._paired or not self.pending:
            return
        if now < last:
            return  # The loader was asked within the last step: nothing lies between.
        self._rest_behind = 0
        if track.last_lane is not self:
            if last <= track.aside_ns:  # An evaluation was in the last iteration.
                self._rest_behind = self._rest_of_last(track.aside_ns - last)
                self.behind = now - last - self._rest_behind
            return
        declared = min(track.paused_ns - self.evidence.paused, now - last)
        held = self.pending[-1]
        self.pending[-1] = _paused(held, declared)
        rest = self._rest_of_last(now - last - declared)
        self.lengthen(rest)
        self.last_end = self._left_at = track.last_end = last + declared + rest
        if self.evidence.aside:
            track.aside(last, self.last_end)
        self.behind = now - self.last_end
        self.evidence.paused = track.paused_ns

    def _rest_of_last(self, ns: int) -> int:
        """What of the time behind the last step in a loop is the step's: as much as of others."""
        usual, work = self.rest, self.evidence.work.median
        if usual is not None:
            return ns if ns <= 2 * max((usual, *self.rests)) else usual
        return ns if work is None or ns <= work else 0

    def lengthen(self, ns: int) -> None:
        """Let the last step have what came between its end and the wait for the next batch.

        A step ends where the script says so, say with the optimizer's, but its loop's body may do
        more for it: take its loss, log it.
        """
        if self.rest is not None:  # What compiles is over with the first.
            self.rests.append(self.rest)
        self.rest = ns
        self.pending[-1] = _longer(self.pending[-1], ns)
        if self.evidence.closed == 1:
            self._first_rest = ns if ns > FLOOR_NS else 0
        elif self._first_rest:
            self._judge_first(ns)

    def _judge_first(self, rest: int) -> None:
        """Find out, when the second step is known, whether a checkpoint followed the first.

        Before that nothing is usual, but what compiles is over when the work on a batch is.
        """
        far, self._first_rest = self._first_rest - rest, 0
        usual = self.pending[-1].compute_ns
        if len(self.pending) == 2 and usual is not None and far > 4 * usual:
            self.evidence.work.drop()
            first, second = self.pending
            paused = second.pause_ns + far
            self.pending = [
                _longer(first, -far),
                second._replace(pause_ns=paused, estimated=BY_LENGTH),
            ]

    def _close_next(self, now: int, items: int | None) -> list[Step]:
        """A step right after another: at most a wait for its batch lies between. The hot path."""
        last: int = self.last_end  # type: ignore[assignment]
        work = busy = now - last
        if self.part:
            self._leave_part(busy, items)
        loading = compute = ready = None
        taken = None
        if self.fed or self._track.loads:
            taken = self._take(now)
            loading = 0
            if taken is not None:
                loading, ready = taken.ns, taken.end
            work = compute = max(0, busy - loading)
        far, rest = self.evidence.far_work(work), 0
        if taken is not None and compute is not None and self.pending:
            rest = _of_the_last(max(0, min(taken.begin - last, compute)), compute, far)
            self.lengthen(rest)
            compute -= rest
        step = _step(Step, (
            self.task, self.count[0], items, self.units, last + rest, ready, now,
            loading, compute, busy - rest, 0, self.thread, False,
        ))  # fmt: skip
        return self._close(step, 0, far)

    def _close_next_pair(self, now: int, last: int, pair: Pair, items: int | None) -> list[Step]:
        """As :meth:`_close_next`, for a pair."""
        begin = pair.begin
        loading = gap = begin - last
        compute = now - begin
        if self.fed or self._track.loads:
            taken = self._take(now)
            loading = taken.ns if taken is not None else 0
            awaited = min(pair.awaited, loading, gap)
            gap -= awaited
            compute = max(0, compute - loading + awaited)
        step = _step(Step, (
            self.task, self.count[0], items, self.units, last, begin, now,
            loading, compute, now - last, 0, self.thread, False,
        ))  # fmt: skip
        return self._close(step, self.evidence.far_gap(gap), self.evidence.far_work(compute))

    def _close_pair(self, now: int, pair: Pair, items: int | None) -> list[Step]:
        track, last, begin = self._track, self.last_end, pair.begin
        if last is not None and begin < last:
            begin = last  # Two pairs that overlap share the time: it is counted once.
        taken = self._take(now)
        self._has_begun()
        paused = track.paused_ns - max(pair.paused, self.evidence.paused)
        before = self.evidence.before(last, begin, taken, pair, self.fed)
        span = max(0, now - begin - paused)
        inside = min(span, max(0, taken.ns - pair.awaited)) if taken is not None else 0
        compute = span - inside if pair.inner_ns is None else min(pair.inner_ns, span - inside)
        loading = before.rest
        if self.fed:
            loading = inside + min(pair.awaited, before.rest or 0)
        elif pair.inner_ns is not None:
            loading = (before.rest or 0) + span - compute
        busy = None if before.rest is None else before.rest + span
        # A loader used up in here may have been asked before: its pause reaches back into the gap.
        since = begin - (before.rest or 0) if last is None else last
        pause = max(0, min(before.pause + paused, now - since - (busy or 0)))
        step = Step(
            self.task, self.count[0], items, self.units, begin - (before.rest or 0), begin, now,
            loading, compute, busy, pause, self.thread, before.estimated,
        )  # fmt: skip
        if paused and track.last_lane is not self and self.evidence.unseen(compute):
            return self._close(step._replace(loading_ns=None, compute_ns=None, busy_ns=None), 0, 0)
        if track.compiled_ns > begin:
            return self._close(step._replace(estimated=COMPILED), 0, 0)
        return self._close(step, before.far, self.evidence.far_work(compute))

    def _close_end(self, now: int, items: int | None) -> list[Step]:
        taken = self._take(now)
        compiled = self._track.compiled_ns
        before = self.evidence.until(self.last_end, now, taken, compiled > (self.last_end or 0))
        busy, pause = before.rest, before.pause
        if before.whole and taken is not None and busy is not None and self.pending:
            rest = self._before_asked(taken, before)
            self.lengthen(rest)
            busy -= rest
        elif before.around:
            if taken is not None and busy is not None and taken.begin > self._track.aside_ns:
                # What came before the evaluation is the last step's.
                work = busy - taken.ns
                rest = _of_the_last(max(0, busy - (now - self._track.last_end)), work, before.far)
                self.lengthen(rest)
                busy -= rest
        elif self.rest is not None and 0 < self._until_aside <= pause:
            rest = self._rest_of_last(self._until_aside)
            self.lengthen(rest)  # Then came an evaluation.
            pause -= rest
        self.part = before.part
        start = now - (busy or 0)
        if self.last_end is None and busy is not None:
            start -= pause  # It lies in the first step.
        loading = compute = None
        if busy is not None and self.fed:
            loading = min(taken.ns, busy) if taken is not None else 0
            compute = busy - loading
        elif busy is None and (opening := self._opening(now)) is not None:
            # The first step of all: how long its batch was waited for is not known.
            start, pause = opening
            compute = now - start - pause
        self._has_begun()
        step = Step(
            self.task, self.count[0], items, self.units, start,
            taken.end if taken is not None else None, now, loading, compute, busy,
            pause, self.thread, before.estimated,
        )  # fmt: skip
        if compiled > step.start_ns:
            return self._close(step._replace(estimated=COMPILED), 0, 0)
        return self._close(step, 0, before.far)

    def _leave_part(self, turn: int, items: int | None) -> None:
        """Whether the turn behind an evaluation's first step shows that this is not all of its own.

        Without a loader its beginning is that of its forward pass; what the script does for each
        before or behind that shows in the turns that follow.
        """
        self.part = False
        first = self.pending[-1] if self.pending else None
        if first is None or first.busy_ns is None:
            return
        usual = first.busy_ns
        if first.items and items:
            usual = usual * items // first.items
        if turn > PART * usual:
            self.pending[-1] = first._replace(loading_ns=None, compute_ns=None, busy_ns=None)

    @property
    def _until_aside(self) -> int:
        """From the last step to an evaluation in its turn; 0 where its loop was left before."""
        last = self.last_end or 0
        return 0 if self._left_at == last else self._track.aside_ns - last

    def _before_asked(self, taken: Loads, before: Before) -> int:
        """What came between the last step and the wait for the next batch, but for pauses."""
        last: int = self.last_end  # type: ignore[assignment]
        paused = min(max(0, taken.paused - self.evidence.paused), before.pause)
        work = max(0, (before.rest or 0) - taken.ns)
        return _of_the_last(min(max(0, taken.begin - last - paused), work), work, before.far)

    def _opening(self, now: int) -> tuple[int, int] | None:
        """Where the work on the first batch began, and what of the time since then is a pause.

        An evaluation before the training, or within its first step, has a loop of its own.
        """
        track = self._track
        if not track.bodies:
            return None
        began, paused, own = track.bodies.pop()
        start, pause = min(began, now), track.paused_ns - paused
        if self.evidence.aside:
            return (start, min(pause, now - start)) if own else None
        if start <= track.aside_ns:
            pause += track.last_end - track.aside_ns
        return start, min(pause, now - start)

    def _has_begun(self) -> None:
        """There was a step: where the first one began says nothing of another task's."""
        if not self.evidence.aside:
            self._track.bodies.clear()

    def _take(self, now: int) -> Loads | None:
        track = self._track
        taken = track.take_aside(self, now) if self.evidence.aside else track.take(self)
        if taken is not None:
            self.fed = True
        return taken

    def _close(self, step: Step, gap_far: int, work_far: int) -> list[Step]:
        self.count[0] += 1
        self.evidence.closed += 1
        if self.evidence.aside:
            self._track.aside(step.start_ns, step.end_ns)
        self._ended(step.end_ns)
        if (gap_far or work_far) and self.pending and self.pending[-1].number + 1 < step.number:
            gap_far = work_far = 0  # Other threads' steps were made meanwhile: it waited its turn.
        if work_far:
            work_far = self._beyond_size(step, work_far)
        self.sizes.append(step.items)
        if gap_far or work_far or self.far or self.slow:
            return self._give(step, (gap_far, work_far) if gap_far or work_far else None)
        if self._first_rest and self.evidence.closed == 2:
            self.pending.append(step)
            return []
        given, self.pending = self.pending, [step]
        return given

    def _beyond_size(self, step: Step, far: int) -> int:
        """What of a step's work is far above the usual for as many items as it has."""
        sizes, work = sorted(size for size in self.sizes if size), self.evidence.work
        usual = sizes[len(sizes) // 2] if sizes else 0
        if not usual or not step.items or step.items <= usual or work.median is None:
            return far
        times = step.items / usual
        took = far + work.median
        return 0 if took <= work.limit * times else took - round(work.median * times)

    def _ended(self, now: int, again: bool = False) -> None:
        """A step has ended; or the same ``again``, that is longer than it seemed."""
        track = self._track
        if track.last_lane is not self:
            track.last_lane = self
            track.changes += 1
            if not self.evidence.aside:
                track.aside_ns = -1
        track.closed += not again
        self.last_end = track.last_end = now
        self.behind = 0
        self.evidence.paused = track.paused_ns
        self.changes = track.changes

    def _give(self, step: Step | None, far: tuple[int, int] | None) -> list[Step]:
        """Hold outliers back until a normal step shows that they were pauses.

        Three in a row are the script getting slower, and so are those after them.
        """
        held, self.pending = self.pending, [] if step is None else [step]
        if far is None:
            given = [_without(each, *self.far.pop(each.number, (0, 0)), self.fed) for each in held]
            self.far.clear()
            self.slow = False
            return given
        if step is not None and not self.slow:
            self.far[step.number] = far
            if len(self.far) < _ROW:
                normal = [each for each in held if each.number not in self.far]
                self.pending = [*held[len(normal) :], step]
                return normal
        self.far.clear()
        self.slow = True
        return held


def _longer(step: Step, ns: int) -> Step:
    """The step, ending so much later: that is work on its batch."""
    busy, compute = step.busy_ns, step.compute_ns
    return step._replace(
        end_ns=step.end_ns + ns,
        compute_ns=None if compute is None else compute + ns,
        busy_ns=None if busy is None else busy + ns,
    )


def _paused(step: Step, ns: int) -> Step:
    """The step, with a pause behind it that is its loop's still."""
    return step._replace(pause_ns=step.pause_ns + ns, end_ns=step.end_ns + ns)


def _of_the_last(ns: int, work: int, far: int) -> int:
    """What of the ``ns`` between the end of a step and the wait for a batch is the step's.

    All but what of all ``work`` is ``far`` above the usual: a checkpoint lies in there, unless
    what came behind it is far too long by itself.
    """
    return ns if far - ns > LONGER * (work - far) else max(0, ns - far)


def _without(step: Step, gap_ns: int, work_ns: int, fed: bool) -> Step:
    """The step without what was far too long in its gap or its work: a pause."""
    if not gap_ns and not work_ns:
        return step
    loading, compute, busy = step.loading_ns, step.compute_ns, step.busy_ns
    return step._replace(
        loading_ns=loading if loading is None or fed else loading - gap_ns,
        compute_ns=None if compute is None else compute - work_ns,
        busy_ns=None if busy is None else busy - gap_ns - work_ns,
        start_ns=step.start_ns + gap_ns + work_ns,
        pause_ns=step.pause_ns + gap_ns + work_ns,
        estimated=BY_LENGTH,
    )
