"""When a loop leaves a loader that has more batches: its iterator goes there, and says so."""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Callable, Hashable
from contextlib import suppress
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any
from weakref import ref

from overseer.boundary import in_plumbing

if TYPE_CHECKING:
    from overseer.measure.audience import Audience

_GENERATOR = 0x20  # inspect.CO_GENERATOR, without importing inspect.
#: So many generators may hand on one another's batches.
_DEEP = 4
#: Loaders that are known at once.
_MOST = 32


class Leaving:
    """Sees iterators end that a ``for`` held, at a ``break``, a ``return`` or an exception.

    One that a variable holds may end any time later, which says nothing: that is in the code of
    who called the loop's function, or of nobody who ever asked for batches.

    Args:
        audience: Who is told.
        name_of: The name that an iterator's loader is known by.
    """

    def __init__(self, audience: Audience, name_of: Callable[[Any], Hashable]) -> None:
        self._audience = audience
        self._name_of = name_of
        self._last: dict[Hashable, ref[Any]] = {}

    def made(self, function: CodeType, iterator: Any) -> None:
        """A loader has begun anew.

        Args:
            function: The code of its ``__iter__``, which is returning.
            iterator: What that returns.
        """
        users, thread, name = _users(function), get_ident(), self._name_of(iterator)

        def gone(this: ref[Any]) -> None:
            if self._last.get(name) is this:
                del self._last[name]
                if get_ident() == thread and _ended_in(users):
                    with suppress(BaseException):  # Nothing can be raised here; a stop insists.
                        self._audience.left(name)

        try:
            self._last[name] = ref(iterator, gone)
        except TypeError:  # There are kinds that nothing can be told about.
            return
        if len(self._last) > _MOST:
            del self._last[next(iter(self._last))]

    def close(self) -> None:
        """See no more; what ends with the process is no news, and nobody is there to tell."""
        self._last.clear()


def _users(function: CodeType) -> set[CodeType]:
    """The code that uses the iterator that ``function`` is returning, through generators too."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and not _alike(frame.f_code, function):
        frame = frame.f_back
    found: set[CodeType] = set()
    for _ in range(_DEEP):
        frame = frame.f_back if frame is not None else None
        if frame is None:
            break
        found.add(frame.f_code)
        if not frame.f_code.co_flags & _GENERATOR:
            break
    return found


def _alike(code: CodeType, other: CodeType) -> bool:
    """Whether code is the same, but for what voir has inserted."""
    return code.co_name == other.co_name and code.co_filename == other.co_filename


def _ended_in(users: set[CodeType]) -> bool:
    """Whether the code that now lets go of an object is one of these."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and (in_plumbing(frame) or frame.f_code.co_filename == __file__):
        frame = frame.f_back
    return frame is not None and any(_alike(frame.f_code, each) for each in users)
