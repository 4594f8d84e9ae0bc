"""A probe in its place: who listens, how often it fired, and what inserted code calls.

The fast lane: with one plain listener, the inserted call calls that listener itself, and counting
is one step of a C iterator beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import repeat
from typing import Any

from ..boundary import current, name_of, problem, wished
from ..latest import Latest
from ..ways import Open
from .hidden import Hidden
from .lanes import Event, Lane, Listener, leaving
from .selectors import Asked, Wish
from .stanzas import Trigger

_MANY = 1 << 43


class _Absent:
    """What an interceptor returns to leave a value alone."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


class Listening:
    """A listener in its place; ``dispose`` takes it out."""

    __slots__ = ("_placed", "fn", "who")

    def __init__(self, placed: PlacedProbe, fn: Listener, who: str) -> None:
        self._placed = placed
        self.fn = fn
        self.who = who

    def dispose(self) -> None:
        """Stop listening; harmless when done twice."""
        self._placed._remove(self)


class PlacedProbe:
    """A probe: it listens to its code while somebody listens to it.

    Attributes:
        selector: Its text.
        wish: What the selector asks for.
        asked: The selector as it was given.
        where: Where it was set, ``file:line``.
        number: Its number, by which inserted code finds it.
        overridable: Whether :meth:`intercept` may replace the value.
        late: Whether it was set when the script had ended.
        lost: Events that could not be delivered, mostly for want of stack.
        hidden: Where the names that inserted code calls are kept.
        tally: Counts the events: each takes one step.
        open: The pairs that calls are in.
        active: Whether events are delivered now.
        opaque: Whether the code may be compiled by torch, which must not look into it.
        unseen: Whether some of its places are inside a graph of torch's, where it is not seen.
    """

    def __init__(
        self,
        wish: Wish,
        asked: Asked,
        number: int,
        hidden: Hidden,
        changed: Callable[[PlacedProbe], None],
        report: Callable[[Any], None],
        *,
        where: str | None = None,
        overridable: bool = False,
        late: bool = False,
    ) -> None:
        self.selector = wish.text
        self.wish = wish
        self.asked = asked
        self.where = where
        self.number = number
        self.overridable = overridable
        self.late = late
        self.lost = 0
        self.active = False
        self.opaque = False
        self.unseen = False
        self._enabled = True
        self.hidden = hidden
        self._changed = changed
        self._report = report
        first = number + 1 << 44
        # Where there are pairs, the tally numbers them: so that is one thing less to do.
        self.tally: Any = iter(range(first, first + _MANY)) if wish.paired else repeat(None, _MANY)
        # Threads add and remove in one step of the interpreter; the tuples follow.
        self._listening: list[Listening] = []
        self._intercepting: list[Listening] = []
        self._listeners: tuple[Listening, ...] = ()
        self._interceptors: tuple[Listening, ...] = ()
        self._deaf_since: int | None = 0
        self._deaf = 0
        self._renewed = Latest(self._renew)
        self.open = Open({}, {})
        self._leave = leaving(self.open)
        self.lanes = [Lane(self, capture, i) for i, capture in enumerate(wish.triggers)]

    @property
    def fired(self) -> int:
        """How many events it delivered, or would have."""
        left: int = self.tally.__length_hint__()
        return _MANY - left

    @property
    def unheard(self) -> int:
        """How many of them nobody heard: code that runs while a listener leaves counts on."""
        since = self._deaf_since
        return self._deaf + (0 if since is None else self.fired - since)

    @property
    def heard(self) -> bool:
        """Whether anybody listens or intercepts."""
        return bool(self._listeners or self._interceptors)

    def listen(self, fn: Listener, who: str | None = None) -> Listening:
        """Call ``fn(event)`` for each event, at once, on the thread that made it.

        An error of ``fn`` is reported once, and ``fn`` is then left out.
        """
        added = Listening(self, fn, who or current() or name_of(fn))
        self._listening.append(added)
        self._update()
        return added

    def intercept(self, fn: Listener, who: str | None = None) -> Listening:
        """Let the focus take the value that ``fn(event)`` returns, unless that is ``ABSENT``."""
        added = Listening(self, fn, who or current() or name_of(fn))
        self._intercepting.append(added)
        self._update()
        return added

    def activate(self) -> None:
        """Deliver events again."""
        self._enabled = True
        self._update()

    def deactivate(self) -> None:
        """Deliver no events until activated; the code is as if there was no probe."""
        self._enabled = False
        self._update()

    def _remove(self, listening: Listening) -> None:
        for all_of_them in (self._listening, self._intercepting):
            with suppress(ValueError):
                all_of_them.remove(listening)
        self._update()

    def _update(self) -> None:
        self.refresh()
        self._changed(self)

    def silence(self) -> None:
        """Deliver nothing any more; the code stays as it is."""
        self._enabled = False
        self.refresh()

    def refresh(self) -> None:
        """Put the right callables behind the hidden names."""
        self._renewed()

    def _renew(self) -> None:
        self._listeners, self._interceptors = tuple(self._listening), tuple(self._intercepting)
        self.active = self._enabled and self.heard
        if self.active == (self._deaf_since is not None):
            self._turn_deaf(not self.active)
        self.hidden.put(f"{self.number} tally", self.tally)
        self.hidden.put(f"{self.number} step", self.tally.__next__)
        self.hidden.put(f"{self.number} on", self.active)
        if self.wish.paired:
            self.hidden.put(f"{self.number} leave", self._leave)
        for lane in self.lanes:
            lane.refresh()

    def _turn_deaf(self, deaf: bool) -> None:
        """Nobody listens from here on; or somebody does again."""
        since, self._deaf_since = self._deaf_since, self.fired if deaf else None
        if since is not None:
            self._deaf += self.fired - since

    @property
    def simple(self) -> bool:
        """Whether inserted code counts the events itself, and may call a listener directly."""
        return not (self.wish.paired or self.wish.tests)

    def triggers(self, guarded: bool) -> list[Trigger]:
        """What to insert for this probe as things stand.

        Args:
            guarded: Whether the code will stay when nobody listens any more.
        """
        return [lane.trigger(guarded) for lane in self.lanes]

    @property
    def sink(self) -> Listener:
        """What takes an event whose failure the inserted code sees to."""
        listeners = self._listeners
        return listeners[0].fn if len(listeners) == 1 else self.hand

    @property
    def heard_plainly(self) -> bool:
        """Whether anybody listens without intercepting."""
        return bool(self._listeners)

    def hand(self, event: Event) -> None:
        """Hand the event to every listener; what one of them asked for is raised at the end."""
        asked: BaseException | None = None
        for listening in self._listeners:
            try:
                listening.fn(event)
            except BaseException as error:
                if wished(error):
                    asked = error
                else:
                    self._fail(listening, error)
        if asked is not None:
            raise asked

    def replaced(self, event: Event, value: object) -> object:
        """The value after the interceptors; the last that does not abstain decides."""
        if any(not test(event.get(key)) for key, test in self.wish.tests.items()):
            return value
        if not self._listeners:
            next(self.tally)
        for listening in self._interceptors:
            try:
                wanted = listening.fn(event)
            except BaseException as error:
                if wished(error):
                    raise
                self._fail(listening, error)
                continue
            value = value if wanted is ABSENT else wanted
        return value

    def go_opaque(self) -> None:
        """Keep ``torch.compile`` from looking into what inserted code calls."""
        from .compiling import Known, is_compiling, opaque

        self.opaque = True
        opaque(self._leave, Known(False, lambda: None))
        self.hidden.put("compiling", is_compiling())
        for lane in self.lanes:
            lane.hide_from_dynamo()
        self.refresh()

    def retire(self) -> None:
        """Nothing of this probe is used any more."""
        self._enabled = self.active = False
        if self.opaque:
            from .compiling import forget

            forget(self._leave)
            for lane in self.lanes:
                lane.forgotten_by_dynamo()

    def note_unseen(self) -> None:
        """A place of this probe is part of a graph, where it will not be seen."""
        self.unseen = True

    def failed(self, error: BaseException) -> bool:
        """What to do about ``error`` from an inserted call: ``True``, let the script have it."""
        if wished(error):
            return True
        if isinstance(error, (RecursionError, NameError)) and _own_frame(error):
            self.lost += 1
        elif self.active and (listeners := self._listeners):
            self._fail(listeners[0], error)
        return False

    def _fail(self, listening: Listening, error: BaseException) -> None:
        self._remove(listening)
        who = listening.who
        self._report(problem("subscriber", who, error, f"a subscriber of {self.selector} failed"))


def _own_frame(error: BaseException) -> bool:
    """Whether the error was raised by the inserted code itself, not by what it called."""
    return error.__traceback__ is None or error.__traceback__.tb_next is None


__all__ = ["ABSENT", "Listening", "PlacedProbe"]
