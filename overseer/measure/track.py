"""What happens on one thread apart from its steps: batches awaited, loops left, pauses declared.

Every step model lane of the thread reads from here what lay between two of its steps.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .evidence import Pair
    from .lane import Lane


class Loads:
    """Waits for batches since the last step: nanoseconds, how many, first begin, last end.

    ``paused`` is what the track's pauses came to at the first begin, and ``last`` when the last
    wait began, and the one before it ended.
    """

    __slots__ = ("begin", "end", "last", "n", "ns", "paused")

    def __init__(self, begin: int, end: int, paused: int) -> None:
        self.begin = begin
        self.end = end
        self.ns = end - begin
        self.n = 1
        self.paused = paused
        self.last = begin, end

    def without_last(self, paused: int) -> tuple[Loads, Loads]:
        """The waits but the last, and that; pauses have come to so much by now."""
        (begin, before), end = self.last, self.end
        rest = Loads(self.begin, before, self.paused)
        rest.ns, rest.n = self.ns - (end - begin), self.n - 1
        return rest, Loads(begin, end, paused)


class Track:
    """One thread's boundaries between steps.

    Attributes:
        paused_ns: Declared pauses so far, and loops that held no step; the last ended at
            ``resumed_at``.
        left_ns: When a loop that held steps was last left; -1 for never.
        left_lane: The evaluation whose steps that loop held; None where they were a training's.
        entered_ns: When a loop was last entered; -1 for never. Pauses came to ``entered_paused``.
        bodies: When loops began their work on a first batch, what pauses had come to, and whether
            each loop's beginning is seen; until a step tells that it was its own, or is past.
        changes: Counts all that is not just another step or another batch.
        closed: Steps closed so far, by all lanes.
        compiled_ns: When something had last been compiled; -1 for never.
        last_lane: The lane that closed the last step, at ``last_end``.
        around: The lane that last began a pair, of those that an evaluation may lie within.
        aside_ns: When the evaluation began whose step was the last; -1 when there was none.
        aside_seen: That is known: it is not the end of its first step.
        lanes: The thread's, by task.
        shown_ns: When the first step of an evaluation began, where that was shown; -1 for never.
        learned: The batches since the last step are no evaluation's.
    """

    __slots__ = (
        "_anew",
        "_aside_paused",
        "_asked_paused",
        "_begun",
        "_group",
        "_loops",
        "_once",
        "_outside",
        "_owners",
        "_pauses",
        "_seam",
        "_shuts",
        "_single",
        "_spent",
        "_spent_source",
        "around",
        "aside_ns",
        "aside_seen",
        "awaited",
        "bodies",
        "changes",
        "closed",
        "compiled_ns",
        "entered_ns",
        "entered_paused",
        "lanes",
        "last_end",
        "last_lane",
        "learned",
        "left_lane",
        "left_ns",
        "loads",
        "own",
        "paused_ns",
        "resumed_at",
        "shown_ns",
    )

    def __init__(self) -> None:
        self.paused_ns = self.entered_paused = 0
        self.left_ns = self.entered_ns = self.compiled_ns = -1
        self.bodies: list[tuple[int, int, bool]] = []
        self.changes = 0
        self.closed = 0
        self.lanes: dict[str, Lane] = {}
        self.last_lane: Lane | None = None
        self.left_lane: Lane | None = None
        self.last_end = self.aside_ns = self.resumed_at = self.shown_ns = -1
        self.around: Lane | None = None
        self.aside_seen = self.learned = False
        self._aside_paused = self._asked_paused = self._group = 0
        self._seam: tuple[int, int, Hashable] | None = None
        self._owners: dict[Hashable, Lane] = {}
        self._single: Hashable = None
        self._anew: tuple[Hashable, int] | None = None
        self._shuts: tuple[Hashable, int] = (None, -1)
        self.loads: dict[Hashable, Loads] = {}
        self.own: frozenset[Hashable] | set[Hashable] = frozenset()
        self.awaited: dict[Hashable, int] = {}
        self._begun: dict[Hashable, tuple[int, int]] = {}
        self._once: set[Hashable] = set()
        self._loops: list[tuple[int, int, int]] = []
        self._pauses: list[tuple[int, int, int]] = []
        self._outside = (-1, 0)
        self._spent = -1
        self._spent_source: Hashable = None

    def begun(self, now: int, source: Hashable) -> None:
        """``source`` begins anew: if it had more batches, its loop was left, by ``break`` or so.

        A loader that begins anew for every step has no loop.
        """
        # One that has fed steps, and was not seen to begin, did so before anyone listened.
        self._single = None
        unseen = 0 if source in self.own else self.closed
        closed, _ = self._begun.pop(source, (unseen, 0))
        self._begun[source] = self.closed, now
        if len(self._begun) > 32:
            del self._begun[next(iter(self._begun))]
        spent = self._spent if self._spent_source in self.own else -1
        self._spent, self._spent_source = -1, None
        if self._seam is not None or self._beside(source):
            return  # It was used up, by a step that goes on.
        if source in self.own and self.closed - closed <= 1 and self.left_ns < self.last_end:
            self._anew = source, now
        if self.left_ns < self.last_end and 0 <= spent < self.last_end:
            # The last step came behind the end of the loop.
            self.left_ns, self.left_lane = self.last_end, None
            self.changes += 1
        if source in self.loads and self._between_loops:
            del self.loads[source]  # It was only looked at before.
        if self.closed - closed > 1 and source in self.own and self.left_ns < self.last_end:
            self.left_ns, self.left_lane = self.last_end, None
            self.changes += 1
            self.loads.pop(source, None)  # No step came of these: an exception, perhaps.

    def other(self, source: Hashable) -> None:
        """What had the name ``source`` is gone, and another has it: nothing is known of this."""
        self.own = self.own - {source}
        self._once.discard(source)
        self._begun.pop(source, None)
        self._owners.pop(source, None)
        if self._spent_source == source:
            self._spent, self._spent_source = -1, None

    def _beside(self, source: Hashable) -> bool:
        """Whether another loader of the steps' has given a batch for the one that goes on."""
        return any(each != source and each in self.own for each in self.loads)

    @property
    def _between_loops(self) -> bool:
        """Whether no step, or an evaluation, or a loop that is over, came last."""
        aside = self.last_lane is None or self.last_lane.evidence.aside
        return aside or self.left_ns >= self.last_end

    def loading(self, now: int, source: Hashable) -> None:
        """The script asks ``source`` for a batch."""
        if self._single is not None and source == self._single:
            self.loads.pop(source, None)  # It was only looked at.
            self._single = None
        if self._anew is not None:
            anew, since = self._anew
            self._anew = None
            if anew == source and since >= self.last_end:
                now = since  # What it takes to begin anew for each step is a wait, too.
        self.awaited[source] = now
        self._asked_paused = self.paused_ns
        if self._seam is not None and (source in self.own or source == self._seam[2]):
            begin, paused, _ = self._seam
            self._seam = None
            self._paused(begin, now, paused)

    def loaded(self, now: int, source: Hashable) -> None:
        """The batch has arrived."""
        begin = max(self.awaited.pop(source, now), self.last_end)
        if self.awaited and self._within(begin):
            return
        seen = self.loads.get(source)
        paused = self.paused_ns - self._asked_paused if self.resumed_at > begin else 0
        if seen is None:
            seen = self.loads[source] = Loads(begin, now, self.paused_ns - paused)
        else:
            seen.ns += now - begin
            seen.n += 1
            seen.last = begin, seen.end
            seen.end = now
        if paused:  # By what makes the batches.
            seen.ns -= min(paused, now - begin)

    def _within(self, begin: int) -> bool:
        """Whether another loader is awaited that uses this one: its wait counts, not this."""
        for source, since in list(self.awaited.items()):
            if since < self.last_end:
                del self.awaited[source]  # An exception ended it.
        return any(since <= begin for since in self.awaited.values())

    def exhausted(self, now: int, source: Hashable) -> None:
        """``source`` has no more batches.

        Batches it gave that no step followed were an evaluation's: a pause; unless they are fewer
        than one takes, or known to be learned from, and wait for more. Otherwise its loop ends
        here, and what follows is between epochs.
        """
        begin = self.awaited.pop(source, now)
        if self.awaited and self._within(begin):
            return
        self.changes += 1
        unused = self.loads.get(source)
        learned, self.learned = self.learned, False
        if unused is not None and (learned or (source in self.own and unused.n < self._group)):
            self._seam = begin, self.paused_ns, source
            self._spent, self._spent_source = begin, source
            return
        self.loads.pop(source, None)
        if source in self.own:
            self._spent, self._spent_source = begin, source
        if unused is not None:
            self._unused(unused.begin, now, unused.paused)
        elif not self._beside(source):
            self._leave(begin, source)

    def shuts(self, now: int, source: Hashable, over: bool) -> None:
        """The workers of ``source`` are being shut down, while no batch is awaited.

        For a loader that begins anew for each step that is a wait, too.
        """
        if not over:
            self._shuts = source, now
            return
        (shut, since), self._shuts = self._shuts, (None, -1)
        last = self.loads.get(source)
        if last is None or shut != source or since < last.end:
            return
        if self._begun.get(source, (-1, 0))[0] == self.closed:
            last.ns += now - since
            last.end = now

    def given_up(self, now: int, source: Hashable) -> None:
        """The loop over ``source``, which feeds steps and has more batches, is left."""
        unused, owner = self.loads.get(source), self._owners.get(source)
        if owner is None or source in self.awaited or source == self._spent_source:
            return
        if self.awaited and self._within(now):
            return  # It is a part of another, whose loop is left when that has no more.
        if unused is not None and (self.learned or unused.n < self._group):
            return  # A step of these batches is to come.
        if unused is not None and self._begun.get(source, (-1, 0))[0] == self.closed:
            self._single = source
            return  # So it is of the only batch taken, unless another iterator goes on.
        if self.left_ns >= self.last_end and owner is self.last_lane:
            return  # That is known.
        self.loads.pop(source, None)
        self.changes += 1
        self._leave(now if unused is None else unused.begin, source)

    def _leave(self, now: int, source: Hashable) -> None:
        """The loop over ``source``, which feeds steps, is over."""
        self.left_ns = now
        owner = self._owners.get(source)
        lane = owner if owner is not None and self._in(source, owner) else self.last_lane
        # What has fed an evaluation's steps may feed the training's, too: these came last.
        aside = lane is not None and lane is self.last_lane and lane.evidence.aside
        self.left_lane = lane if aside else None
        if lane is not None:
            lane.left(now)

    def enter(self, now: int) -> None:
        """A loop begins."""
        self.changes += 1
        self._loops.append((now, self.closed, self.paused_ns))
        self.entered_ns, self.entered_paused = now, self.paused_ns
        del self._loops[:-32]  # A loop left by an exception may never say so.

    def leave(self, now: int) -> None:
        """A loop ends; if no step closed in it, it was a pause of those around it."""
        if not self._loops:
            return
        self.changes += 1
        entered, closed, paused = self._loops.pop()
        if closed == self.closed:
            self._unused(entered, now, paused)
        else:
            self.left_ns, self.left_lane = now, None if self._trained(entered) else self.last_lane
        self.entered_ns = -1

    def _trained(self, since: int) -> bool:
        """Whether other steps than an evaluation's have ended since then."""
        return any(
            lane.last_end is not None and lane.last_end > since and not lane.evidence.aside
            for lane in self.lanes.values()
        )

    def pause(self, now: int) -> None:
        """A declared pause begins."""
        self._pauses.append((now, self.paused_ns, self.outside_ns))
        del self._pauses[:-32]

    def resume(self, now: int) -> None:
        """The innermost declared pause ends."""
        if self._pauses:
            self.changes += 1
            begin, paused, outside = self._pauses.pop()
            self._paused(begin, now, paused)
            self._outside = self.last_end, outside if begin > self.last_end else 0

    @property
    def outside_ns(self) -> int:
        """Pauses since the last step that nobody has declared, behind the end of its loop."""
        since, ns = self._outside
        return ns if since == self.last_end else 0

    @property
    def outer(self) -> Pair | None:
        """The pair that is open, which an evaluation lies within; None if there is none."""
        return next(iter(self.around.pairs.values()), None) if self.around is not None else None

    def aside(self, start: int, end: int) -> None:
        """A step of an evaluation has ended: it is a pause of the step that it lies within."""
        outer = self.outer
        if self.aside_ns < 0:
            self.aside_ns = start if outer is None else max(start, outer.begin)
            self.aside_seen = start < end
            self._aside_paused = self.paused_ns
        if outer is not None:
            self._paused(self.aside_ns, end, self._aside_paused)

    def evaluated(self, ended: int) -> None:
        """The evaluation whose step was the last has gone on until it ``ended``."""
        lane = self.last_lane
        if lane is not None and lane.evidence.aside and self.last_end < ended:
            self.aside(self.last_end, ended)
            self.last_end = ended

    def body(self, began: int, own: bool) -> None:
        """A loop has begun its work on its first batch, perhaps a while ago.

        An evaluation's may be seen by its ``own``, or this is the one loop that is looked at.
        """
        self.bodies.append((began, self.paused_ns if began >= self.resumed_at else 0, own))
        del self.bodies[:-32]

    def compiled(self, now: int) -> None:
        """Something has been compiled, for as long as that took."""
        self.changes += 1
        self.compiled_ns = now

    def _unused(self, begin: int, end: int, before: int) -> None:
        """A loop has ended in which there was no step."""
        paused, outside = self.paused_ns, self.outside_ns
        self._paused(begin, end, before)
        if self.left_ns >= self.last_end:
            self._outside = self.last_end, outside + self.paused_ns - paused

    def _paused(self, begin: int, end: int, before: int) -> None:
        """Add a pause, of which a part may have been added since it began."""
        self.paused_ns = max(self.paused_ns, before + end - begin)
        self.resumed_at = end

    def awaited_ns(self, lane: Lane) -> int:
        """Time waited since the last step for batches that a lane's next may be of."""
        return sum(
            each.ns for source, each in self.loads.items() if not self._of_other(source, lane)
        )

    def take_aside(self, lane: Lane, now: int) -> Loads | None:
        """The waits since the last step but for those of one that an evaluation lies within.

        An evaluation's first step may be told of when its second batch has come: ``now`` it ended.
        """
        own = self.loads_aside(lane)
        kept = {source: each for source, each in self.loads.items() if source not in own}
        for source, each in own.items():
            if each.n > 1 and each.last[0] >= now:
                own[source], kept[source] = each.without_last(self.paused_ns)
        self.loads = own
        taken = self.take(lane)
        self.loads = {**kept, **self.loads}
        return taken

    def loads_aside(self, lane: Lane) -> dict[Hashable, Loads]:
        """Those of an evaluation itself."""
        outer, owners = self.outer, self._owners
        since = -1 if outer is None else outer.begin
        if lane.last_end is not None:
            since = max(since, lane.last_end)  # What its last step has left is not its own.
        others = outer is not None or len(self.loads) > 1
        if not owners and others:
            # The training has had no step yet: the evaluation's loader is what was asked last.
            since = max([since, *(each.begin for each in self.loads.values())])
        return {
            source: each
            for source, each in self.loads.items()
            if each.begin >= since
            and (
                (owner := owners.get(source, lane)) is lane
                or not (others or self._in(source, owner))
            )
        }

    def _in(self, source: Hashable, owner: Lane) -> bool:
        """Whether a lane is in the middle of what this loader gives."""
        _, began = self._begun.get(source, (0, -1))
        return owner.last_end is not None and owner.last_end > began

    def take(self, lane: Lane) -> Loads | None:
        """The waits since the last step, which the step that now ends has used up."""
        loads, self._seam, self._single = self.loads, None, None
        if not loads:
            return None
        kept: dict[Hashable, Loads] = {}
        if len(loads) > 1 and lane.task in loads:
            kept = {source: each for source, each in loads.items() if self._of_other(source, lane)}
            loads = {source: each for source, each in loads.items() if source not in kept}
            self.loads = loads
        if len(loads) == 1:
            ((source, taken),) = loads.items()
            self._group = taken.n
            if source not in self.own or len(self.own) > 1:
                self.own = {source}
                self._owned(lane)
            if self._once:
                self._once = set()
        else:
            if lane.last_end is None:
                self._looked()
            taken = self._take_own(lane)
        self.loads = kept
        return taken

    def _of_other(self, source: Hashable, lane: Lane) -> bool:
        """Whether a loader has the name of another task that is in a step: loops side by side."""
        other = self.lanes.get(source) if isinstance(source, str) else None
        return other is not None and other is not lane and bool(other.pairs)

    def _looked(self) -> None:
        """Leave out loaders that were only looked at before those of the first step began."""
        began = max(self._begun.get(source, (0, -1))[1] for source in self.loads)
        self.loads = {s: each for s, each in self.loads.items() if each.end >= began} or self.loads

    def _owned(self, lane: Lane) -> None:
        """Remember whose steps these loaders feed."""
        if len(self._owners) > 32:
            self._owners.clear()
        self._owners.update(dict.fromkeys(self.own, lane))

    def _take_own(self, lane: Lane) -> Loads:
        """Of several loaders, those that fed the step before too; the others were a pause.

        Those that give a batch for each step, as by zip, feed it from the second step on.
        """
        before, self._once = self._once, {name for name, each in self.loads.items() if each.n == 1}
        own = (self.own | (before & self._once)) & self.loads.keys() or self.loads.keys()
        for source in self.loads.keys() - own:
            self.changes += 1
            other = self.loads[source]
            self._paused(other.begin, other.end, other.paused)
        self.own = set(own)
        self._owned(lane)
        used = [self.loads[source] for source in own]
        first = min(used, key=lambda each: each.begin)
        taken = Loads(first.begin, max(each.end for each in used), first.paused)
        taken.ns = sum(each.ns for each in used)
        return taken
