"""The callables that stand behind hidden names: from inserted code to those who listen.

Each trigger of a probe has a *lane*, which takes the event that inserted code has made, and a
*relay*, which takes a value and passes it on, for places that have no room for a statement. They
are made anew whenever listeners change, with everything they need in their closures: a lane is on
the hot path of the script.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..latest import Latest
from ..ways import Event, Keys, Listener, Open, Pair, Source, Taker, composer
from .quick import Noting, Quick
from .selectors import END, FOCUS, LOOPS, TIMES, Capture, Wish
from .stanzas import Entry, Trigger

if TYPE_CHECKING:
    from .placed import PlacedProbe

Tests = dict[str, Callable[[object], bool]]

#: Unlike giving's own ids, which count from 0 in the same streams, and those of tallies.
_pair_ids = count(1 << 40)
#: Takes any number of values, and does nothing.
_DEAF = "".format
#: What stands behind a lane's names, in order.
_KINDS = ("lane", "counting lane", "values lane", "relay", "reader")
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")


class Lane:
    """The way from one trigger of a probe to those who listen to it.

    Attributes:
        entries: What its events carry.
    """

    def __init__(self, placed: PlacedProbe, capture: Capture, index: int) -> None:
        self._placed = placed
        self._capture = capture
        label = f"{placed.number}.{index}" if index else f"{placed.number}"
        self._names = tuple(placed.hidden.name(f"{label} {kind}") for kind in _KINDS)
        self._wish = placed.wish
        self.entries = _entries(placed.wish, capture)
        self._weighing: Weighing | None = None
        tally = placed.hidden.name(f"{placed.number} tally")
        #: Whether inserted code notes events by itself.
        self.quick = Quick(placed.hidden, label, tally, lambda: placed.fired)
        #: Puts the right callables behind this lane's names.
        self.refresh = Latest(self._renew)
        self._relay = self._make_relay()
        self._steady = self._make_steady()
        self._reader = self._make_reader()

    @property
    def overrides(self) -> bool:
        """Whether this trigger's value may be replaced."""
        return self._placed.overridable and self._capture.role == FOCUS

    def trigger(self, guarded: bool) -> Trigger:
        """What to insert for this lane as things stand."""
        placed, name = self._placed, self._placed.hidden.name
        # Code at the top level stays as it is, and torch.compile never sees it.
        seen = placed.opaque and not guarded
        values = self._takes_values() and not seen
        counts = placed.simple and not seen and not values
        lane, counting, taking, relay, reader = self._names
        return Trigger(
            self._capture.name,
            self.entries,
            placed.number,
            taking if values else lane if counts else counting,
            relay,
            reader,
            values,
            _tally(placed) if counts else (),
            name(f"{placed.number} leave") if self._wish.paired else "",
            self.overrides,
            name(f"{placed.number} on") if guarded else "",
            name("compiling") if seen else "",
            self._noting() if values else None,
        )

    def _noting(self) -> Noting | None:
        """How inserted code may note events by itself."""
        form = getattr(self._placed.sink, "form", None)
        keys, begins = self._keys(), self._capture.role != END if self._wish.paired else None
        code = "" if form is None else form(keys, begins)
        return self.quick.noting(code, keys) if code else None

    def weigh(self, now: Callable[[], int], took: Callable[[int, int], int | None]) -> None:
        """Tell ``took`` when events begin and end at their listeners, until that is enough."""
        if self._placed.active and not self._placed.opaque:
            self._weighing = Weighing(now, took, self._weighed)
            self.refresh()

    def _weighed(self, done: Weighing) -> None:
        if self._weighing is done:
            self._weighing = None
        self.refresh()

    def _renew(self) -> None:
        # Each is read once: other threads may change it meanwhile.
        active, weighing = self._placed.active, self._weighing
        self.quick.withdraw()
        sink: Listener = self._sink() if active else callable
        if weighing is not None and active:
            sink = _timing(sink, weighing)
        lane, counting, taking, relay, reader = self._names
        put = self._placed.hidden.store
        put(lane, sink)
        if self._placed.opaque:
            put(counting, self._steady)
        else:
            put(counting, self._counting(sink, 1) if active else callable)
        put(taking, self._values(sink, weighing) if active else _DEAF)
        # Of a value that is passed on the frame is one further when the relay is timed.
        if weighing is not None and active:
            put(relay, _timing(self._make_relay(2), weighing))
        else:
            put(relay, self._relay)
        put(reader, self._reader)

    def _sink(self) -> Listener:
        """What takes the event, in its own way where it has one for events of these keys."""
        sink = self._placed.sink
        choose = getattr(sink, "for_keys", None)
        if choose is None:
            return sink
        chosen: Listener = choose(self._keys(("$wrap",) if self._wish.paired else ()))
        return chosen

    def _takes_values(self) -> bool:
        """Whether inserted code hands over values, for what listens makes events itself."""
        sink = self._placed.sink
        alike = len(self._keys()) < len(self.entries)
        return hasattr(sink, "for_values") and not (alike or self._wish.tests)

    def _values(self, sink: Listener, weighing: Weighing | None) -> Taker:
        """What takes the values of events, and makes those where it must."""
        choose = getattr(self._placed.sink, "for_values", None)
        own: Taker | None = None
        if choose is not None and not self._wish.tests:
            depth = 1 if weighing is None else 2
            quick = self.quick if weighing is None else None
            own = choose(self._keys(), Source(self._placed.tally, depth, self._pair(), quick))
        if own is None:
            return composer(self._keys())(self._counting(sink, 2))
        return own if weighing is None else _timing(own, weighing)

    def _pair(self) -> Pair | None:
        if not self._wish.paired:
            return None
        return Pair(_focus(self._wish), self._capture.role != END, self._placed.open)

    def _keys(self, more: Keys = ()) -> Keys:
        """The keys of this lane's events."""
        return tuple(dict.fromkeys((*(key for key, _ in self.entries), *more)))

    def _counting(self, sink: Listener, depth: int) -> Listener:
        """``sink``, with all that the probe wants of an event; inserted code is so far away."""
        placed, tests = self._placed, self._wish.tests
        if not self._wish.paired:
            return _counted(placed.tally, sink, tests)
        if tests:
            ends = _ends(self._wish, self._capture, placed.open, sink, depth + 1)
            return _counted(placed.tally, ends, tests)
        mark = _ending if self._capture.role == END else _beginning
        return mark(_focus(self._wish), placed.open, placed.tally, sink, depth)

    def hide_from_dynamo(self) -> None:
        """Let ``torch.compile`` leave lane and relay out of its graphs, from now on."""
        from .compiling import Known, opaque

        timed = self._wish.paired or self._capture.name in TIMES
        timed = timed or self._capture.name.startswith(LOOPS)
        unseen = self._placed.note_unseen
        opaque(self._steady, Known(False, unseen if timed else None))
        opaque(self._reader, Known(False, unseen))
        opaque(self._relay, Known(True, unseen if timed or self.overrides else None))

    def forgotten_by_dynamo(self) -> None:
        """Undo :meth:`hide_from_dynamo`."""
        from .compiling import forget

        forget(self._steady)
        forget(self._relay)
        forget(self._reader)

    def _make_steady(self) -> Any:
        """A lane that stays the same whoever listens: compiled code is guarded on it."""
        placed, wish, capture = self._placed, self._wish, self._capture
        deliver = _counted(placed.tally, placed.hand, wish.tests)
        focus, step = _focus(wish), _step(capture)

        def steady(event: Event) -> None:
            if not placed.active:
                return
            if wish.paired and not _marked(event, focus, step, placed.open, sys._getframe(1)):
                return
            deliver(event)

        return steady

    def _make_reader(self) -> Any:
        """For a variable that the function only reads: its value when a call begins, if any."""
        placed, name = self._placed, self._capture.name
        deliver = _counted(placed.tally, placed.hand, self._wish.tests)

        def reader() -> None:
            if not placed.active:
                return
            found: Event = {}
            frame = sys._getframe(1)
            _look_up(found, "value", name, frame)
            if found:
                deliver(_composed(self.entries, found["value"], None, frame))

        return reader

    def _make_relay(self, depth: int = 1) -> Any:
        placed, wish, entries = self._placed, self._wish, self.entries
        deliver = _counted(placed.tally, placed.hand, wish.tests)
        replace = placed.replaced if self.overrides else None
        step = _step(self._capture) if wish.paired else None
        focus = _focus(wish)

        def relay(value: object, others: Event | None = None) -> object:
            if not placed.active:
                return value
            frame = sys._getframe(depth)
            event = _composed(entries, value, others, frame)
            if step and not _marked(event, focus, step, placed.open, _function_frame(frame)):
                return value
            if placed.heard_plainly:
                deliver(event)
            return replace(event, value) if replace is not None else value

        return relay


def leaving(pairs: Open) -> Callable[[], None]:
    """The callable that forgets the call that ends, and what it has left open."""
    opened, calls = pairs

    def leave() -> None:
        frame = id(sys._getframe(1))
        opened.pop(frame, None)
        calls.pop(frame, None)

    return leave


def _tally(placed: PlacedProbe) -> tuple[str, ...]:
    name = placed.hidden.name
    if sys.version_info < (3, 11):  # Without specialised calls, the fewest arguments win.
        return (name(f"{placed.number} step"),)
    return (name("next"), name(f"{placed.number} tally"))


def _counted(tally: Any, sink: Listener, tests: Tests) -> Listener:
    """``sink``, counting its events; only those that pass the tests."""

    def counting(event: Event) -> None:
        next(tally)
        sink(event)

    def testing(event: Event) -> None:
        if all(test(event.get(key)) for key, test in tests.items()):
            next(tally)
            sink(event)

    return testing if tests else counting


class Weighing(NamedTuple):
    """Events that are timed.

    Attributes:
        now: Reads a clock, in nanoseconds.
        took: Told when each event begins and ends; returns how many to leave alone before the
            next that is timed, ``None`` when these are enough.
        done: Called with this when they are.
    """

    now: Callable[[], int]
    took: Callable[[int, int], int | None]
    done: Callable[[Weighing], object]


def _timing(sink: Callable[..., Any], weighing: Weighing) -> Callable[..., Any]:
    """``sink``, with events timed until that is over."""
    now, took, done = weighing
    alone = 0

    def timing(*values: Any) -> Any:
        nonlocal alone
        if alone:
            alone -= 1
            return sink(*values)
        began = now()
        try:
            return sink(*values)
        finally:
            left = took(began, now())
            if left is None:
                done(weighing)
            else:
                alone = left

    return timing


def _ends(wish: Wish, capture: Capture, pairs: Open, sink: Listener, depth: int) -> Listener:
    """``sink``, for events marked as one end of a pair."""
    focus, step = _focus(wish), _step(capture)
    getframe = sys._getframe

    def ends(event: Event) -> None:
        if _marked(event, focus, step, pairs, getframe(depth)):
            sink(event)

    return ends


def _beginning(focus: str, pairs: Open, tally: Any, sink: Listener, depth: int) -> Listener:
    """``sink``, for events that open a pair, counting them."""
    opened, called, getframe = pairs.opened, pairs.calls.setdefault, sys._getframe

    def beginning(event: Event) -> None:
        frame = id(getframe(depth))
        number = opened[frame] = called(frame, next(tally))
        event["$wrap"] = {"name": focus, "step": "begin", "id": number}
        sink(event)

    return beginning


def _ending(focus: str, pairs: Open, tally: Any, sink: Listener, depth: int) -> Listener:
    """``sink``, for events that close a pair, counting them."""
    close, getframe = pairs.opened.pop, sys._getframe

    def ending(event: Event) -> None:
        number = close(id(getframe(depth)), None)
        next(tally)
        if number is not None:
            event["$wrap"] = {"name": focus, "step": "end", "id": number}
            sink(event)

    return ending


def _marked(event: Event, focus: str, step: str, pairs: Open, frame: FrameType) -> bool:
    """Mark the event as an end of the pair that is open in ``frame``; ``False``: none is."""
    opened, calls = pairs
    if step == "begin":
        number = opened[id(frame)] = calls.setdefault(id(frame), next(_pair_ids))
    else:
        found = opened.pop(id(frame), None)
        if found is None:
            return False
        number = found
    event["$wrap"] = {"name": focus, "step": step, "id": number}
    return True


def _step(capture: Capture) -> str:
    return "end" if capture.role == END else "begin"


def _focus(wish: Wish) -> str:
    return next((c.key for c in wish.captures if c.role == FOCUS), "")


def _entries(wish: Wish, trigger: Capture) -> tuple[Entry, ...]:
    """What the event of ``trigger`` carries; an end does not come with a beginning."""
    entries: list[Entry] = []
    for capture in wish.captures:
        if capture is trigger:
            entries.append((capture.key, None))
        elif capture.role != END:
            entries.append((capture.key, "" if capture.is_marker else capture.name))
    return tuple(entries)


def _composed(
    entries: tuple[Entry, ...], value: object, others: Event | None, frame: FrameType
) -> Event:
    """The event for ``value``; variables that were not handed over are looked up."""
    event: Event = {}
    for key, name in entries:
        if name is None:
            event[key] = value
        elif not name:
            event[key] = True
        elif others is None:
            _look_up(event, key, name, _function_frame(frame))
        elif key in others:  # What has no value is not handed over.
            event[key] = others[key]
    return event


def _look_up(event: Event, key: str, name: str, frame: FrameType) -> None:
    """Add a variable of the function that runs in ``frame``, if it has a value."""
    values = frame.f_locals
    if name.startswith("__") and not name.endswith("__"):
        # Inside a class, the compiler put the name of the class before it.
        name = next((n for n in values if n.startswith("_") and n.endswith(name)), name)
    for space in (values, frame.f_globals, frame.f_builtins):
        if name in space:
            event[key] = space[name]
            return


def _function_frame(frame: FrameType) -> FrameType:
    """The frame of the function that a comprehension's frame stands in."""
    while frame.f_code.co_name in _COMPREHENSIONS and frame.f_back is not None:
        frame = frame.f_back
    return frame


__all__ = ["Event", "Lane", "Listener", "leaving"]
