"""A probe in its place: who listens, how often it fired, and what inserted code calls.

The fast lane: with one plain listener, the inserted call calls that listener itself, and counting
is one step of a C iterator beside it. Everything else goes through :meth:`PlacedProbe._deliver`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count, repeat
from types import FrameType
from typing import Any

from ..boundary import asked_for, current, name_of, problem
from .hidden import Hidden
from .selectors import END, FOCUS, Capture, Wish
from .stanzas import Entry, Trigger

Event = dict[str, Any]
Listener = Callable[[Event], object]
_MANY = sys.maxsize
#: Unlike giving's own ids, which count from 0 in the same streams.
_pair_ids = count(1 << 40)


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
        where: Where it was set, ``file:line``.
        number: Its number, by which inserted code finds it.
        overridable: Whether :meth:`intercept` may replace the value.
        lost: Events that could not be delivered because the script was at its recursion limit.
        lasting: Hidden names that the script's code may go on calling after the run.
    """

    def __init__(
        self,
        wish: Wish,
        number: int,
        hidden: Hidden,
        changed: Callable[[PlacedProbe], None],
        report: Callable[[Any], None],
        *,
        where: str | None = None,
        overridable: bool = False,
    ) -> None:
        self.selector = wish.text
        self.wish = wish
        self.where = where
        self.number = number
        self.overridable = overridable
        self.lost = 0
        self.lasting: set[str] = set()
        self.active = False
        self.opaque = False
        self._enabled = True
        self._hidden = hidden
        self._changed = changed
        self._report = report
        self._tally = repeat(None, _MANY)
        self._listeners: tuple[Listening, ...] = ()
        self._interceptors: tuple[Listening, ...] = ()
        self._open: dict[int, int] = {}
        self.lanes = [Lane(self, capture, i) for i, capture in enumerate(wish.triggers)]

    @property
    def fired(self) -> int:
        """How many events it delivered."""
        return _MANY - self._tally.__length_hint__()

    @property
    def heard(self) -> bool:
        """Whether anybody listens or intercepts."""
        return bool(self._listeners or self._interceptors)

    def listen(self, fn: Listener, who: str | None = None) -> Listening:
        """Call ``fn(event)`` for each event, at once, on the thread that made it.

        An error of ``fn`` is reported once, and ``fn`` is then left out.
        """
        added = Listening(self, fn, who or current() or name_of(fn))
        self._listeners = (*self._listeners, added)
        self._update()
        return added

    def intercept(self, fn: Listener, who: str | None = None) -> Listening:
        """Let the focus take the value that ``fn(event)`` returns, unless that is ``ABSENT``."""
        added = Listening(self, fn, who or current() or name_of(fn))
        self._interceptors = (*self._interceptors, added)
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
        self._listeners = tuple(one for one in self._listeners if one is not listening)
        self._interceptors = tuple(one for one in self._interceptors if one is not listening)
        self._update()

    def _update(self) -> None:
        self.active = self._enabled and self.heard
        self.refresh()
        self._changed(self)

    def refresh(self) -> None:
        """Put the right callables behind the hidden names."""
        self._hidden.put(f"{self.number} tally", self._tally)
        self._hidden.put(f"{self.number} on", self.active)
        if self.wish.paired:
            self._hidden.put(f"{self.number} leave", self._leave)
        for lane in self.lanes:
            lane.refresh()

    @property
    def simple(self) -> bool:
        """Whether inserted code counts the events itself, and may call a listener directly."""
        return not (self.wish.paired or self.wish.tests)

    def triggers(self, guarded: bool) -> list[Trigger]:
        """What to insert for this probe as things stand.

        Args:
            guarded: Whether the code will stay when nobody listens any more.
        """
        made = [lane.trigger(guarded) for lane in self.lanes]
        self.lasting.update(name for t in made for name in (t.relay, t.leave) if name)
        return made

    def _deliver(self, event: Event) -> None:
        """Hand the event to every listener; what one of them asked for is raised at the end."""
        if any(not test(event.get(key)) for key, test in self.wish.tests.items()):
            return
        next(self._tally)
        self._hand(event)

    def _hand(self, event: Event) -> None:
        asked: BaseException | None = None
        for listening in self._listeners:
            try:
                listening.fn(event)
            except BaseException as error:
                if asked_for(error):
                    asked = error
                else:
                    self._fail(listening, error)
        if asked is not None:
            raise asked

    def _replaced(self, event: Event, value: object) -> object:
        """The value after the interceptors; the last that does not abstain decides."""
        if any(not test(event.get(key)) for key, test in self.wish.tests.items()):
            return value
        if not self._listeners:
            next(self._tally)
        for listening in self._interceptors:
            try:
                wanted = listening.fn(event)
            except BaseException as error:
                if asked_for(error):
                    raise
                self._fail(listening, error)
                continue
            value = value if wanted is ABSENT else wanted
        return value

    def failed(self, error: BaseException) -> bool:
        """What to do about ``error`` from an inserted call: ``True``, let the script have it."""
        if asked_for(error):
            return True
        if isinstance(error, RecursionError) and _own_frame(error):
            self.lost += 1
        elif self.active and self._listeners:
            self._fail(self._listeners[0], error)
        return False

    def _fail(self, listening: Listening, error: BaseException) -> None:
        self._remove(listening)
        who = listening.who
        self._report(problem("subscriber", who, error, f"a subscriber of {self.selector} failed"))

    def _wrap(self, event: Event, step: str, frame: FrameType) -> bool:
        """Mark the event as one end of a pair; ``False``: an end without a beginning."""
        key = id(_function_frame(frame))
        if step == "begin":
            self._open[key] = number = next(_pair_ids)
        else:
            found = self._open.pop(key, None)
            if found is None:
                return False
            number = found
        focus = next(c.key for c in self.wish.captures if c.role == FOCUS)
        event["$wrap"] = {"name": focus, "step": step, "id": number}
        return True

    def _leave(self) -> None:
        self._open.pop(id(sys._getframe(1)), None)


class Lane:
    """The way from one trigger of a probe to those who listen."""

    def __init__(self, placed: PlacedProbe, capture: Capture, index: int) -> None:
        self._placed = placed
        self._capture = capture
        self._label = f"{placed.number}" + (f".{index}" if index else "")
        self._step = "end" if capture.role == END else "begin"
        self.entries = _entries(placed.wish, capture)
        self._own = capture.key

    @property
    def overrides(self) -> bool:
        """Whether this trigger's value may be replaced."""
        return self._placed.overridable and self._capture.role == FOCUS

    def trigger(self, guarded: bool) -> Trigger:
        """What to insert for this lane as things stand."""
        placed, name = self._placed, self._placed._hidden.name
        # Code at the top level stays as it is, and torch.compile never sees it.
        counts = placed.simple and (guarded or not placed.opaque)
        return Trigger(
            self._capture.name,
            self.entries,
            placed.number,
            name(f"{self._label} lane" if counts else f"{self._label} counting lane"),
            name(f"{self._label} relay"),
            (name("next"), name(f"{placed.number} tally")) if counts else (),
            name(f"{placed.number} leave") if placed.wish.paired else "",
            self.overrides,
            name(f"{placed.number} on") if guarded else "",
        )

    def refresh(self) -> None:
        """Put the right callables behind this lane's names."""
        put, label = self._placed._hidden.put, self._label
        put(f"{label} lane", self._uncounted() if self._placed.active else callable)
        put(f"{label} counting lane", self._counting() if self._placed.active else callable)
        put(f"{label} relay", self._relay())

    def _uncounted(self) -> Listener:
        listeners = self._placed._listeners
        return listeners[0].fn if len(listeners) == 1 else self._placed._hand

    def _counting(self) -> Listener:
        deliver, wrap, step = self._placed._deliver, self._placed._wrap, self._step
        if not self._placed.wish.paired:
            # A function of its own: torch.compile knows functions, not bound methods.
            def plain(event: Event) -> None:
                deliver(event)

            return plain

        def lane(event: Event) -> None:
            if wrap(event, step, sys._getframe(1)):
                deliver(event)

        return lane

    def _relay(self) -> Callable[..., object]:
        placed, own = self._placed, self._own

        def relay(value: object, others: Event | None = None) -> object:
            if not placed.active:
                return value
            frame = sys._getframe(1)
            event = self._composed(value, others, frame)
            if placed.wish.paired and not placed._wrap(event, self._step, frame):
                return value
            if placed._listeners:
                placed._deliver(event)
            return placed._replaced(event, value) if self.overrides else value

        relay.__voir_own__ = own  # type: ignore[attr-defined]
        return relay

    def _composed(self, value: object, others: Event | None, frame: FrameType) -> Event:
        event: Event = {}
        for key, name in self.entries:
            if name is None:
                event[key] = value
            elif not name:
                event[key] = True
            elif others is not None:
                event[key] = others[key]
            else:
                _look_up(event, key, name, frame)
        return event


def _entries(wish: Wish, trigger: Capture) -> tuple[Entry, ...]:
    """What the event of ``trigger`` carries; an end does not come with a beginning."""
    entries: list[Entry] = []
    for capture in wish.captures:
        if capture is trigger:
            entries.append((capture.key, None))
        elif capture.role != END:
            entries.append((capture.key, "" if capture.is_marker else capture.name))
    return tuple(entries)


def _look_up(event: Event, key: str, name: str, frame: FrameType) -> None:
    """Add a variable of the function that ``frame`` is part of, if it has a value."""
    frame = _function_frame(frame)
    values = frame.f_locals
    if name.startswith("__") and not name.endswith("__"):
        # Inside a class, the compiler put the name of the class before it.
        name = next((n for n in values if n.startswith("_") and n.endswith(name)), name)
    for space in (values, frame.f_globals):
        if name in space:
            event[key] = space[name]
            return


def _function_frame(frame: FrameType) -> FrameType:
    """The frame of the function that a comprehension's frame stands in."""
    while frame.f_code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"):
        if frame.f_back is None:
            break
        frame = frame.f_back
    return frame


def _own_frame(error: BaseException) -> bool:
    """Whether the error was raised by the inserted code itself, not by what it called."""
    return error.__traceback__ is None or error.__traceback__.tb_next is None


__all__ = ["ABSENT", "Event", "Lane", "Listening", "PlacedProbe"]
