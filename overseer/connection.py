"""giving's own ``give``: while connected, what it gives reaches the run, from any thread.

Loaded as soon as giving is, whoever imports it: so this imports nothing that imports giving.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import giving
from giving import gvr

from .boundary import Report, here, said
from .errors import Problem
from .inheriting import own
from .stream import Event, EventStream

Push = Callable[[Event], object]
giving_give: Any = giving.give


def _go_on() -> None:
    """Have giving, which has only just been imported, inherit the keys that are in force."""
    gvr.global_inherited, gvr.global_count = own.keys, own.numbers
    gvr.Giver.__init__.__kwdefaults__["inherited"] = own.keys
    giving_give.inherited = own.keys


if own.used:
    _go_on()


class _Everywhere:
    """Stands in for giving's context variable: the run hears what any thread gives."""

    def __init__(self, push: Push) -> None:
        self._only = (push,)

    def get(self, *default: Any) -> tuple[Push, ...]:
        """The handlers of the context, and the run's."""
        own = own_handlers()
        return (*own, *self._only) if own else self._only

    def set(self, value: Any) -> Any:
        """Set the handlers of the context."""
        return gvr.global_context.set(tuple(push for push in value if push not in self._only))

    def reset(self, token: Any) -> None:
        """Undo ``set``."""
        gvr.global_context.reset(token)


class _Context:
    """``Giver.context`` while connected, for givers of before and after alike."""

    def __init__(self, push: Push) -> None:
        self._everywhere = _Everywhere(push)

    def __get__(self, giver: Any, owner: Any = None) -> Any:
        own = vars(giver)["context"]
        return self._everywhere if own is gvr.global_context else own

    def __set__(self, giver: Any, value: Any) -> None:
        # A copy of a giver takes over what it sees as its context, and may outlive the run.
        vars(giver)["context"] = gvr.global_context if isinstance(value, _Everywhere) else value


@contextmanager
def connected(stream: EventStream, push: Push | None = None) -> Iterator[None]:
    """While open, everything given with giving's own ``give`` is pushed, from any thread.

    Args:
        stream: Where events go.
        push: The way there; the stream's own, when not given.
    """
    context, resolve = vars(gvr.Giver).get("context"), gvr.resolve
    gvr.Giver.context = _Context(_unless_empty(push or stream.push))
    stream.inherited = gvr.global_inherited
    gvr.resolve = _resolver(resolve, stream.report)
    try:
        yield
    finally:
        gvr.resolve, stream.inherited = resolve, None
        if context is None:
            del gvr.Giver.context
        else:
            gvr.Giver.context = context


def own_handlers() -> tuple[Push, ...]:
    """Who listens by a ``given()`` of the script's own, in this context."""
    handlers: tuple[Push, ...] = gvr.global_context.get()
    return handlers


def inherited() -> ContextVar[Event]:
    """What holds the keys of ``give.inherit``."""
    keys: ContextVar[Event] = gvr.global_inherited
    return keys


def numbers() -> Iterator[int]:
    """What ``give.wrap`` tells its blocks apart by."""
    count: Iterator[int] = gvr.global_count
    return count


def named(give: object, values: tuple[Any, ...], report: Report) -> Event:
    """``values`` under the names that they have in the source of the caller's caller."""
    if gvr.resolve.__module__ == __name__:
        return dict(gvr.resolve(2, give, values))
    return dict(_resolver(gvr.resolve, report)(2, give, values))


def _unless_empty(push: Push) -> Push:
    return lambda event: push(event) if event else None


def _resolver(resolve: Callable[..., Event], report: Report) -> Callable[..., Event]:
    """A ``resolve`` that does not fail a script which would not have failed without a listener."""

    def safe(frame: int, giver: object, values: tuple[Any, ...]) -> Event:
        try:
            return resolve(frame + 1, giver, values)
        except Exception as error:
            if own_handlers():
                raise
            what = f"what it gives has no name that can be found: {said(error)}"
            report(Problem("unnamed", "give", what, here(), "Write give(name=value)."))
            return {}

    return safe
