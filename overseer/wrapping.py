"""Stepping into functions of other libraries, by an attribute of the class or module they are in.

For functions of which a probe would be too dear, because their file is long: nothing has to be read
or compiled here. Where something stands in for a function while it runs, an error that is caught
and printed shows it; it is made here because tracebacks that end a script leave out what is of
this package.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

Undo = Callable[[], None]


class AtLookup:
    """Stands in for a function: has ``before`` called with the object it is looked up on.

    Then the function itself is called, so that no other shows in its errors.
    """

    def __init__(self, own: Any, before: Callable[[Any], object]) -> None:
        self._own, self._before = own, before

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is not None:
            self._before(instance)
        return self._own.__get__(instance, owner)


def ahead_of(owner: type, name: str, before: Callable[[Any], object]) -> Undo:
    """Call ``before`` with an object ahead of each call of its method ``name``, until undone.

    It may raise nothing but what is meant for the script.

    Raises:
        KeyError: The class itself has no such function.
    """
    own = vars(owner)[name]
    return _put(owner, name, own, AtLookup(own, before))


def behind(owner: type, name: str, after: Callable[[Any], object]) -> Undo:
    """Call ``after`` with an object behind each call of its method ``name``, until undone.

    It may raise nothing but what is meant for the script.

    Raises:
        KeyError: The class itself has no such function.
    """
    own = vars(owner)[name]

    def call(instance: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return own(instance, *args, **kwargs)
        finally:
            after(instance)

    call.__code__ = call.__code__.replace(co_name=own.__code__.co_name)
    stand_in: Any = wraps(own)(call)
    stand_in._torchdynamo_disable = True  # It is called, not looked into.
    return _put(owner, name, own, stand_in)


def enclosed(
    own: Callable[..., Any], before: Callable[..., object], after: Callable[[], object]
) -> Callable[..., Any]:
    """``own``, with ``before`` called with what it is called with, and ``after`` behind it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        before(args, kwargs)
        try:
            return own(*args, **kwargs)
        finally:
            after()

    return call


def _put(owner: type, name: str, own: Any, stand_in: Any) -> Undo:
    setattr(owner, name, stand_in)

    def undo() -> None:
        if vars(owner).get(name) is stand_in:  # Else somebody has put another around it.
            setattr(owner, name, own)

    return undo
