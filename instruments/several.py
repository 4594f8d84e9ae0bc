"""Names for generators of one function: those that come together are loaders of their own.

Where a training takes a batch of each of two in every turn, by ``zip`` or by ``next``, a step has
both. One that begins in the midst of another's steps, in a loop of its own, is an evaluation, and a
loader of its own, too: else the loop over the other one would seem left or over. One that another
asks is a part of that, and one that begins where another did comes in its place: they have its
name. Those that go over loaders are told apart by these.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Hashable
from types import CodeType, FrameType

#: Generators of one function that are told apart on a thread, at most.
MOST = 16
#: The name of those that only hand on what is told of by itself.
HANDED = ("handed on",)
#: So many callers say where a generator begins: bars of progress and the like lie around it.
CALLERS = 8
#: Where one begins: what its callers run, and where in it they are.
Place = tuple[tuple[CodeType, int], ...]


class Names:
    """Names the generators of a function while they are alive, each on its thread.

    Args:
        first: The name of the only one, or the first of several.
        code: First line and name of its code.
    """

    def __init__(self, first: Hashable, code: tuple[int, str]) -> None:
        self._first, self._code = first, code
        self._alive: dict[int, dict[int, Hashable]] = {}
        self._places: dict[int, Place] = {}
        self._running: dict[int, int] = {}
        self._stepped: set[int] = set()
        self._together: set[int] = set()
        self._over: dict[int, Hashable] = {}
        self._alike = False

    def all_alike(self) -> None:
        """What they go over tells them apart no more."""
        self._alike = True
        self._over.clear()

    def begins(self, over: tuple[Hashable, ...] = ()) -> Hashable:
        """The calling generator is asked for the first time.

        Args:
            over: The names of the loaders that it goes over, if it does; or :data:`HANDED`.
        """
        thread, frame = get_ident(), self._frame()
        own, place = id(frame), _place(frame)
        self._over.pop(own, None)
        within = self._running.get(thread, 0)
        self._running[thread] = within + 1
        alive = self._alive.setdefault(thread, {})
        alive.pop(own, None)  # Another was there, whose end nobody has seen.
        if not alive:
            self._stepped.discard(thread)
        elif len(alive) >= MOST:
            return self._first
        name = self._first
        if alive and not within:
            name = self._apart(thread, alive, place)
        alive[own], self._places[own] = name, place
        if not over or within or self._alike:
            return name
        apart = HANDED if over is HANDED else (self._first, over)
        if apart is not HANDED and apart in tuple(self._over.values()):
            apart = (name, over)
        self._over[own] = apart
        return apart

    def _apart(self, thread: int, alive: dict[int, Hashable], place: Place) -> Hashable:
        """The name of one that begins while others are alive."""
        if thread in self._together or thread not in self._stepped:
            self._together.add(thread)
        else:
            for each, name in alive.items():
                if self._places[each] == place:
                    return name  # The same loop comes anew, and the one before was left.
        taken = set(alive.values())
        others = ((self._first, number) for number in range(1, MOST))
        return next((each for each in (self._first, *others) if each not in taken), self._first)

    def asked(self) -> Hashable:
        """It is asked for another batch: those that are given so far have been worked on."""
        thread = get_ident()
        self._stepped.add(thread)
        self._running[thread] = self._running.get(thread, 0) + 1
        return self._own()

    def answered(self) -> Hashable:
        """It yields a batch."""
        self._rests()
        return self._own()

    def _own(self) -> Hashable:
        """The name of the generator whose code has called."""
        alive = self._alive.get(get_ident())
        if not alive:
            return self._first
        own = next(iter(alive)) if len(alive) == 1 else id(self._frame())
        name = self._over.get(own)
        return alive.get(own, self._first) if name is None else name

    def over(self) -> Hashable:
        """It ends, or is closed."""
        self._rests()
        name, thread = self._own(), get_ident()
        alive = self._alive.get(thread, {})
        own = next(iter(alive)) if len(alive) == 1 else id(self._frame())
        alive.pop(own, None)
        self._places.pop(own, None)
        self._over.pop(own, None)
        if not alive:
            self._alive.pop(thread, None)
        return name

    def _rests(self) -> None:
        thread = get_ident()
        self._running[thread] = max(0, self._running.get(thread, 0) - 1)

    def _frame(self) -> FrameType:
        """The frame of the generator whose code has called; it is known by its id."""
        frame = sys._getframe(1)
        while frame.f_back is not None:
            code = frame.f_code
            if (code.co_firstlineno, code.co_name) == self._code:
                break
            frame = frame.f_back
        return frame


def _place(frame: FrameType) -> Place:
    """Where the code stands that has asked a generator for its first batch."""
    place: list[tuple[CodeType, int]] = []
    caller = frame.f_back
    while caller is not None and len(place) < CALLERS:
        place.append((caller.f_code, caller.f_lasti))
        caller = caller.f_back
    return tuple(place)
