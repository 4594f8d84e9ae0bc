"""Pairs that plain events show: one with ``compute_start``, and the next with ``compute_end``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ..ways import Event
from .hearing import BEGAN, TASK

if TYPE_CHECKING:
    from .counts import Counts
    from .steps import StepModel

#: Keys of such events.
START, OVER = "compute_start", "compute_end"
#: The number of all these pairs; no probe's has it.
PLAIN = -1
#: So many of them may be open at once, by thread and task.
OPEN = 1024


class Heard(Protocol):
    """What a listener hears."""

    def leave(self) -> object:
        """Hear no more, but what is on its way."""

    def dispose(self) -> object:
        """Hear no more."""


class Opened:
    """A pair of plain events that has begun.

    Args:
        at: When.
        items: How many items its event told of.
        told: Whether its beginning has been given.

    Attributes:
        steps: How many steps have ended in it.
        starts: How many such pairs have begun in a row of which none ended.
    """

    __slots__ = ("at", "items", "starts", "steps", "told")

    def __init__(self, at: int, items: int | None, told: bool) -> None:
        self.at, self.items, self.told = at, items, told
        self.steps, self.starts = 0, 1


class PlainPairs:
    """Makes pairs of plain events: one with ``compute_start``, and the next with ``compute_end``.

    It gives the ends of such pairs as those of any other, so whoever hears pairs hears these. That
    they surround the work of one step is not known before the first is over, which is given late:
    a pair with several steps in it is around an epoch, say, and nothing is made of it.

    Args:
        model: Whom it tells apart events that are no steps.
        counts: Counts the items of a batch, once.
        give: Gives an event.
        listen: Has events with a key heard.

    Attributes:
        places: Where it listens to events with ``compute_start``.
    """

    def __init__(
        self,
        model: StepModel,
        counts: Counts,
        give: Callable[..., object],
        listen: Callable[..., Heard],
    ) -> None:
        self._model, self._counts = model, counts
        self._give, self._listen = give, listen
        self._open: dict[tuple[int, str], Opened] = {}
        self._steps: Heard | None = None
        self._ends: Heard | None = None
        self._sure = self._none = False
        self.places: list[Heard] = []
        model.plain = self.shows

    def shows(self, event: Event) -> bool:
        """Whether an event is one end of such a pair, and therefore no step by itself."""
        begins, ends = _says(event, START), _says(event, OVER)
        return begins is not ends and not self._none and (begins or self._ends is not None)

    def __call__(self, event: Event) -> None:
        """Hear an event that may begin a pair."""
        if "$wrap" in event:
            # A probe's pairs have a quicker way where no other listens.
            for place in self.places if self._ends is None else ():
                place.leave()
            return
        if self._none or not _says(event, START) or _says(event, OVER):
            return
        if self._ends is None:
            self._steps = self._listen(self._step, "step")
            self._ends = self._listen(self._end, OVER)
        task = _task(event)
        key = (self._model.thread(), task)
        before = self._open.get(key)
        if before is None and len(self._open) >= OPEN:
            return
        now, items = self._model.now(), self._counts(event, task)
        opened = self._open[key] = Opened(now, items, self._sure)
        if self._sure:
            self._tell(event, "begin", {})
        elif before is not None:
            opened.starts = before.starts + 1
            if opened.starts > 2:
                self._give_up()

    def _step(self, event: Event) -> None:
        """Count the steps in a pair that may be around several."""
        opened = self._open.get((self._model.thread(), _task(event)))
        if opened is not None and "$wrap" not in event:
            opened.steps += 1
            if opened.steps > 1:
                self._give_up()

    def _end(self, event: Event) -> None:
        """End the pair, if it has begun."""
        if "$wrap" in event or not _says(event, OVER) or _says(event, START):
            return
        task = _task(event)
        opened = self._open.pop((self._model.thread(), task), None)
        if opened is None:
            return
        if not self._sure:
            self._sure = True
            if self._steps is not None:
                self._steps.dispose()
        if not opened.told:
            if opened.steps:
                return  # Of this one has been told.
            self._tell(event, "begin", {BEGAN: opened.at})
        items = self._counts(event, task)
        items = opened.items if items is None else items
        if items is None:
            self._tell(event, "end", {})
        else:
            self._tell(event, "end", {"batch_size": items, "units": self._counts.units(task)})

    def _tell(self, event: Event, edge: str, more: Event) -> None:
        """Give one end of the pair that the event is."""
        task = {"task": event["task"]} if "task" in event else {}
        self._give(**{"$wrap": {"name": START, "step": edge, "id": PLAIN}}, **task, **more)

    def _give_up(self) -> None:
        """These are no pairs around the work of a step."""
        self._none = True
        self._open.clear()
        for each in (*self.places, self._steps, self._ends):
            if each is not None:
                each.dispose()


def _says(event: Event, key: str) -> bool:
    """Whether an event says that something begins, or ends; not: that it doesn't."""
    value = event.get(key)
    return value is not None and value is not False


def _task(event: Event) -> str:
    task = event.get("task", TASK)
    return task if type(task) is str else str(task)
