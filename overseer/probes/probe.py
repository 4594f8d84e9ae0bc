"""A placed probe: its sites, its subscribers, and what replaces its values."""

from __future__ import annotations

import threading
from itertools import count
from sys import intern

from ..boundary import announce_requested, current, name_of, problem
from ..recorder import recorder, table
from ..recorder.sites import BEGINS, ENDS, PLAIN, VALUE, VALUES
from .calls import Trigger
from .names import put
from .selector import FOCUS, PAIR_END

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..errors import Problem
    from .scopes import Scope
    from .selector import Capture, ParsedSelector
    from .unit import Unit

    Event = dict[str, Any]
    Listener = Callable[[Event], object]

#: How many events a listener hears that does not hear all, before it is armed again.
FIRST_EVENTS = 100
_numbers = count()


class _Absent:
    """What an interceptor returns to leave a value alone."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


class Listening:
    """A listener or interceptor of a probe.

    Attributes:
        fn: What is called.
        who: Whose it is, for reports.
    """

    __slots__ = ("_always", "_placed", "fn", "who")

    def __init__(self, placed: PlacedProbe, fn: Listener, who: str | None, always: bool) -> None:
        self._placed, self.fn, self._always = placed, fn, always
        self.who = who or current() or name_of(fn)

    @property
    def always(self) -> bool:
        """Whether it hears every event; else those for which the probe is armed."""
        return self._always

    @always.setter
    def always(self, on: bool) -> None:
        if on != self._always:
            self._always = on
            self._placed.arrange()

    def dispose(self) -> None:
        """Stop listening; harmless when done twice."""
        self._placed.remove(self)


def alone(fn: Listener, failed: Callable[[BaseException], bool]) -> Listener:
    """Hand events to one listener, as :meth:`PlacedProbe.hand` does: most probes have one."""

    def hand(event: Event) -> None:
        try:
            fn(event)
            return
        except RecursionError:
            return
        except BaseException as error:
            if not failed(error):
                return
            asked = error
        traceback = asked.__traceback__
        raise asked.with_traceback(traceback.tb_next if traceback else None)

    return hand


class PlacedProbe:
    """A probe in its place.

    Attributes:
        selector: Its text.
        parsed: What the selector asks for.
        where: Where it was set, ``file:line``.
        number: Its number in the table of sites.
        overridable: Whether :meth:`intercept` may replace the value.
        late: Whether it was set when the script had ended.
        sites: What inserted code calls: one site for each trigger of the selector.
        triggers: What to insert for each site.
        places: The scopes that it was inserted in.
        trouble: Why it came to nothing, if that is known.
        heard: Whether anybody has listened to it.
        unseen: Whether some of its calls are inside a graph of torch's, where they make no events.
    """

    def __init__(
        self,
        parsed: ParsedSelector,
        report: Callable[[Problem], object],
        *,
        where: str | None = None,
        overridable: bool = False,
        late: bool = False,
    ) -> None:
        self.selector, self.parsed, self.where = parsed.text, parsed, where
        self.overridable, self.late = overridable, late
        self._report = report
        self._listeners: tuple[Listening, ...] = ()
        self._interceptors: tuple[Listening, ...] = ()
        self._lock = threading.RLock()
        self.places: list[tuple[Unit, Scope]] = []
        self.trouble = ""
        self.unseen = self.heard = self._closed = False
        keys = [capture.key for capture in parsed.captures]
        file, _, line = (where or "").rpartition(":")
        more = {"file": file, "line": int(line)} if file and line.isdigit() else {}
        self.number = table.add(VALUE, self.selector, selector=self.selector, keys=keys, **more)
        self.sites: list[Any] = []
        self.triggers: list[Trigger] = []
        for capture in [None] if parsed.slow else parsed.triggers:
            self._add_site(capture)
        self.arrange()

    def _add_site(self, trigger: Capture | None) -> None:
        """Add the site of a trigger; ``None``: that of events that ptera makes."""
        captures = self.parsed.captures
        focus = next((c for c in captures if c.role == FOCUS), None)
        # The end of a pair does not come along with its beginning.
        along = [c for c in captures if c is trigger or not trigger or c.role != PAIR_END]
        others = tuple("" if c.is_marker else c.name for c in along if c is not trigger)
        at = next((i for i, c in enumerate(along) if c is (trigger or focus)), 0)
        keys = tuple(intern(c.key) for c in along)
        more: dict[str, Any] = {"keys": keys, "focus": at} if along else {}
        if trigger and focus and any(c.role == PAIR_END for c in captures):
            role = ENDS if trigger.role == PAIR_END else BEGINS
            more |= {"role": role, "pair": self.number, "name": focus.key}
        site = recorder.Site(self.number, VALUE, VALUES, **more)
        self.sites.append(site)
        if trigger:
            number, overrides = next(_numbers), self.overridable and trigger is focus
            event, relay = put(f"{number}", site.event), put(f"{number} relay", site.relay)
            # A step begins where its loop does, or its call; a loop of pairs waits from there on.
            marks = site.role == PLAIN
            wants = trigger is focus and (trigger.key == "step" or not marks)
            enters = put(f"{number} enters", site.enter_loop) if wants else ""
            names = trigger.name, event, relay
            self.triggers.append(Trigger(*names, others, at, overrides, enters, marks))
            site.last = int(trigger.name.startswith(("#exit", "#endloop_")))

    @property
    def fired(self) -> int:
        """How many events there were while somebody listened."""
        return sum(site.fired for site in self.sites)

    def listen(self, fn: Listener, who: str | None = None, always: bool = True) -> Listening:
        """Call ``fn(event)`` for each event, at once, on the thread that made it.

        An error of ``fn`` is reported once, and ``fn`` is then left out.

        Args:
            fn: What to call.
            who: Whose it is.
            always: Whether it hears every event; else it hears the first, and those for which
                :meth:`arm` was called.
        """
        with self._lock:
            added = Listening(self, fn, who, always)
            self._listeners = (*self._listeners, added)
            self.arrange()
        return added

    def intercept(self, fn: Listener, who: str | None = None) -> Listening:
        """Let the focus take the value that ``fn(event)`` returns, unless that is ``ABSENT``."""
        with self._lock:
            added = Listening(self, fn, who, True)
            self._interceptors = (*self._interceptors, added)
            self.arrange()
        return added

    def remove(self, listening: Listening) -> None:
        """Take a listener or interceptor out; harmless if it is not there."""
        with self._lock:
            self._listeners = tuple(one for one in self._listeners if one is not listening)
            self._interceptors = tuple(one for one in self._interceptors if one is not listening)
            self.arrange()

    def arm(self, n: int) -> None:
        """Let those who do not hear every event hear the next ``n``."""
        if self._listeners and not any(one.always for one in self._listeners):
            for site in self.sites:
                site.hand = n

    def arrange(self) -> None:
        """Set the sites as those who listen now need them."""
        with self._lock:
            heard = bool(self._listeners or self._interceptors)
            self.heard |= heard
            hand = FIRST_EVENTS if self._listeners else 0
            if any(one.always for one in self._listeners):
                hand = -1
            bus: Listener | None = self.hand if self._listeners else None
            if len(self._listeners) == 1:
                bus = alone(self._listeners[0].fn, self.hand_failed)
            for site in self.sites:
                site.bus = bus
                site.hand = hand
                site.intercept = self.replaced if self._interceptors else None
                site.silent = int(self._closed or not heard)

    def silence(self) -> None:
        """Deliver nothing any more; the code goes on calling."""
        self._closed, self._lock = True, threading.RLock()
        for site in self.sites:
            site.silent = 1
            site.bus = site.intercept = None

    def hand_failed(self, error: BaseException) -> bool:
        """The only listener raised: it is left out, unless the user asked for that; then True."""
        if announce_requested(error):
            return True
        for listening in self._listeners:
            self._failed(listening, error)
        return False

    def hand(self, event: Event) -> None:
        """Hand the event to every listener; what one of them asked for is raised at the end."""
        asked: BaseException | None = None
        for listening in self._listeners:
            try:
                listening.fn(event)
            except RecursionError:
                continue  # The script has no more stack: the event is lost.
            except BaseException as error:
                if announce_requested(error):
                    asked = error
                else:
                    self._failed(listening, error)
        if asked is not None:
            traceback = asked.__traceback__  # Begins with this frame, which is added once more.
            raise asked.with_traceback(traceback.tb_next if traceback else None)

    def replaced(self, event: Event, value: object) -> object:
        """The value after the interceptors; the last that does not abstain decides."""
        for listening in self._interceptors:
            try:
                wanted = listening.fn(event)
            except RecursionError:
                continue
            except BaseException as error:
                if announce_requested(error):
                    raise
                self._failed(listening, error)
                continue
            value = value if wanted is ABSENT else wanted
        return value

    def _failed(self, listening: Listening, error: BaseException) -> None:
        self.remove(listening)
        doing = f"a subscriber of {self.selector} failed"
        self._report(problem("subscriber", listening.who, error, doing))
