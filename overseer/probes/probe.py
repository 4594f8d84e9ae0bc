"""A placed probe: its sites, listeners and interceptors."""

from __future__ import annotations

import threading
from itertools import count
from sys import intern

from ..boundary import announce_requested, current, name_of, problem, put_off
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

#: Events that a listener with ``always=False`` receives before it must be armed again.
FIRST_EVENTS = 100
_numbers = count()


class _Absent:
    """Type of ABSENT, which an interceptor returns to keep the value."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


class Listening:
    """A listener or interceptor of a probe.

    Attributes:
        fn: The callable.
        who: Its owner, for reports.
    """

    __slots__ = ("_always", "_placed", "fn", "who")

    def __init__(self, placed: PlacedProbe, fn: Listener, who: str | None, always: bool) -> None:
        self._placed, self.fn, self._always = placed, fn, always
        self.who = who or current() or name_of(fn)

    @property
    def always(self) -> bool:
        """True to receive every event; otherwise only those for which the probe is armed."""
        return self._always

    @always.setter
    def always(self, on: bool) -> None:
        if on != self._always:
            self._always = on
            self._placed.arrange()

    def dispose(self) -> None:
        """Stop listening; idempotent."""
        self._placed.remove(self)


def single_listener(fn: Listener, failed: Callable[[BaseException], bool]) -> Listener:
    """Fast path of :meth:`PlacedProbe.hand` for a single listener, which most probes have."""

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
    """A probe with its sites and listeners.

    Attributes:
        selector: The selector's text.
        parsed: The parsed selector.
        where: ``file:line`` where it was set.
        number: Its number in the table of sites.
        overridable: :meth:`intercept` may replace the value.
        late: It was set after the script had ended.
        sites: One site for each trigger of the selector; inserted code calls them.
        triggers: The call to insert for each site.
        places: Units and scopes in which it was inserted.
        trouble: Why it could not be placed, if known.
        heard: It has had a listener or interceptor.
        unseen: Some of its calls are inside a torch.compile graph, where they make no events.
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
        """Add the site of a trigger; ``None`` for events made by ptera."""
        captures = self.parsed.captures
        focus = next((c for c in captures if c.role == FOCUS), None)
        # The event that begins a pair does not include the variable that ends it.
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
            # The first step begins with its loop or call; before the first pair, the loop waits.
            marks = site.role == PLAIN
            wants = trigger is focus and (trigger.key == "step" or not marks)
            enters = put(f"{number} enters", site.enter_loop) if wants else ""
            names = trigger.name, event, relay
            self.triggers.append(Trigger(*names, others, at, overrides, enters, marks))
            site.last = int(trigger.name.startswith(("#exit", "#endloop_")))

    @property
    def fired(self) -> int:
        """Number of events while the probe had listeners."""
        return sum(site.fired for site in self.sites)

    def listen(self, fn: Listener, who: str | None = None, always: bool = True) -> Listening:
        """Call ``fn(event)`` for each event, synchronously, on the thread that fired it.

        If ``fn`` raises, the error is reported once and ``fn`` is removed.

        Args:
            fn: The listener.
            who: Its owner, for reports.
            always: Receive every event; otherwise the first :data:`FIRST_EVENTS`, and then those
                for which :meth:`arm` was called.
        """
        with self._lock:
            added = Listening(self, fn, who, always)
            self._listeners = (*self._listeners, added)
            self.arrange()
        return added

    def intercept(self, fn: Listener, who: str | None = None) -> Listening:
        """Replace the focus by the return value of ``fn(event)``, unless that is ``ABSENT``."""
        with self._lock:
            added = Listening(self, fn, who, True)
            self._interceptors = (*self._interceptors, added)
            self.arrange()
        return added

    def remove(self, listening: Listening) -> None:
        """Remove a listener or interceptor; idempotent."""
        with self._lock:
            self._listeners = tuple(one for one in self._listeners if one is not listening)
            self._interceptors = tuple(one for one in self._interceptors if one is not listening)
            self.arrange()

    def arm(self, n: int) -> None:
        """Deliver the next ``n`` events, if every listener has ``always=False``."""
        if self._listeners and not any(one.always for one in self._listeners):
            for site in self.sites:
                site.hand = n

    def arrange(self) -> None:
        """Configure the sites for the current listeners and interceptors."""
        with self._lock:
            heard = bool(self._listeners or self._interceptors)
            self.heard |= heard
            hand = FIRST_EVENTS if self._listeners else 0
            if any(one.always for one in self._listeners):
                hand = -1
            bus: Listener | None = self.hand if self._listeners else None
            if len(self._listeners) == 1:
                bus = single_listener(self._listeners[0].fn, self.sole_listener_failed)
            for site in self.sites:
                site.bus = bus
                site.hand = hand
                site.intercept = self.replaced if self._interceptors else None
                site.silent = int(self._closed or not heard)

    def silence(self) -> None:
        """Stop delivering events; inserted code keeps calling the sites."""
        self._closed, self._lock = True, threading.RLock()
        for site in self.sites:
            site.silent = 1
            site.bus = site.intercept = None

    def sole_listener_failed(self, error: BaseException) -> bool:
        """Remove the only listener, which raised; True, and keep it, for a requested stop."""
        if put_off(error):
            return False
        if announce_requested(error):
            return True
        for listening in self._listeners:
            self._failed(listening, error)
        return False

    def hand(self, event: Event) -> None:
        """Call all listeners with the event; re-raise a requested stop after the last one."""
        asked: BaseException | None = None
        for listening in self._listeners:
            try:
                listening.fn(event)
            except RecursionError:
                continue  # The script is at its recursion limit: drop the event.
            except BaseException as error:
                if put_off(error):
                    continue
                if announce_requested(error):
                    asked = error
                else:
                    self._failed(listening, error)
        if asked is not None:
            traceback = asked.__traceback__  # Skip this frame: raising adds it again.
            raise asked.with_traceback(traceback.tb_next if traceback else None)

    def replaced(self, event: Event, value: object) -> object:
        """Return the value of the last interceptor that did not return ``ABSENT``."""
        for listening in self._interceptors:
            try:
                wanted = listening.fn(event)
            except RecursionError:
                continue
            except BaseException as error:
                if put_off(error):
                    continue
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
