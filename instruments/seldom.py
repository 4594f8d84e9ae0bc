"""Whether a script's steps are shown by pairs more often than by events, or far more seldom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from overseer.errors import Problem

from .untold import BEHIND, EVENTS

if TYPE_CHECKING:
    from overseer import Overseer
    from overseer.engine.bus import Subscription

Event = dict[str, Any]
#: So many pairs and events of a loop are looked at before it is said that they are one for one;
#: so many pairs at the most; after so many events that came behind several pairs it is plain.
SOME, ENOUGH, SURE = 32, 1024, 32
#: Loops, tasks of a thread, that are looked at.
LOOPS = 64


class Shown:
    """What has shown the steps of a task on a thread.

    Attributes:
        pairs: How many pairs around the work of a step have ended.
        steps: How many events have told that a step has ended.
        beside: How many of those came within a pair, or behind one.
        several: How many came behind more than one.
        more: How many came within a pair that had one already.
        early: The first of all was one event.
    """

    __slots__ = (
        "beside",
        "early",
        "more",
        "opened",
        "pairs",
        "several",
        "since",
        "steps",
        "within",
    )

    def __init__(self) -> None:
        self.pairs = self.steps = self.beside = self.several = self.since = 0
        self.more = 0
        self.opened: dict[str, None] = {}
        self.within = self.early = False

    @property
    def ahead(self) -> bool:
        """Whether each pair came behind its event."""
        return self.early and not self.several and self.beside == self.steps - 1

    def step(self) -> None:
        """An event tells that a step has ended."""
        pairs = self.since + bool(self.opened)
        if not self.pairs and not self.opened:
            self.early = not self.steps
        self.steps += 1
        self.beside += pairs > 0
        self.several += pairs > 1
        self.more += self.within
        self.within = bool(self.opened)
        self.since = -1 if self.opened else 0

    def pair(self, name: str, begins: bool) -> None:
        """One end of a pair; of pairs within one another the outermost is the step."""
        if begins:
            self.opened.pop(name, None)
            self.opened[name] = None
            self.within = self.within and len(self.opened) > 1
        elif next(iter(self.opened), None) == name:
            self.opened.clear()
            self.within = False
            self.pairs += 1
            self.since += 1


class Seldom:
    """Hears whether events tell of steps more seldom than pairs do: each pair is a step then.

    So it is where they do so several times within a pair, which may be around an epoch: that is
    said at once. It listens at first only, for where no other listens events have a quicker way.

    Args:
        ov: The run.
        thread: Identifies the calling thread.

    Attributes:
        places: Where it listens.
        left: Whether it listens no more.
    """

    free = True

    def __init__(self, ov: Overseer, thread: Callable[[], int]) -> None:
        from overseer.measure.steps import STEP_PAIRS, without_batch

        self._names, self._without_batch = STEP_PAIRS, without_batch
        self._ov, self._thread = ov, thread
        self._shown: dict[tuple[int, str], Shown] = {}
        self.places: list[Subscription] = []
        self.left = False

    def __call__(self, event: Event) -> None:
        """Hear an event; one that has both keys may come twice."""
        key = (self._thread(), str(event.get("task", "train")))
        shown = self._shown.get(key)
        if shown is None:
            if len(self._shown) >= LOOPS:
                return
            shown = self._shown[key] = Shown()
        wrap = event.get("$wrap")
        if wrap is None:
            shown.step()
        elif (name := wrap.get("name")) in self._names:
            begins = wrap["step"] == "begin"
            if begins or name != "step" or not self._without_batch(event):
                shown.pair(name, begins)
        if shown.pairs + shown.steps >= SOME and not self.left and self._enough(shown):
            self.left = True
            if shown.more >= SURE:
                self._ov.report(_more(key[1], shown))
            elif shown.ahead and shown.pairs:
                self._ov.report(_ahead(key[1]))
            for place in self.places:
                place.leave()

    def _enough(self, shown: Shown) -> bool:
        """Whether the first of a loop have told how it goes on."""
        if shown.more and shown.pairs < ENOUGH:
            return shown.more >= SURE
        if shown.pairs <= shown.steps + 2 or shown.pairs >= ENOUGH or shown.several >= SURE:
            return True
        return not shown.steps and not self._ov.shows("step")

    def tasks(self) -> Iterator[tuple[str, int, int]]:
        """Tasks with clearly more pairs than events, and how many there were of each."""
        for task in dict.fromkeys(task for _, task in self._shown):
            own = [shown for (_, name), shown in self._shown.items() if name == task]
            pairs, steps = sum(each.pairs for each in own), sum(each.steps for each in own)
            beside, several = sum(each.beside for each in own), sum(each.several for each in own)
            if several > 1 and 2 * beside >= steps and pairs > 1.1 * steps + 2:
                yield task, pairs, steps


def _ahead(task: str) -> Problem:
    """That events which end steps come before the work."""
    what = f"each step of {task} comes before its pair: what lies between a pair and the next step,"
    what += " loading say, is in no part of it"
    return Problem("early-step", "step model", what, remedy=BEHIND)


def _more(task: str, shown: Shown) -> Problem:
    """That pairs are fewer than the steps that events tell of."""
    n = shown.pairs + bool(shown.opened)
    within = f"{n:,} pairs" if n > 1 else "pair"
    what = f"each pair is a step of {task}, but events tell of more steps:"
    what += f" {shown.steps:,} beside the first {within}"
    return Problem("fewer-steps", "step model", what, remedy=EVENTS)
