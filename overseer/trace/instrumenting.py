"""Spans around functions and methods of every kind, which stay what they are."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager
from types import FunctionType, MethodType, ModuleType
from typing import Any

#: Makes the span of one call.
Spans = Callable[[], AbstractContextManager[Any]]
#: What marks functions that record, with the label that they record by.
LABEL = "__voir_span__"


def around(function: Any, label: str, spans: Spans) -> Any:
    """``function`` with a span around each call; of a generator, around each of its turns.

    A coroutine function stays one, a generator function too; of a class, the making of its objects
    is recorded, and it stays the class it is.
    """
    if isinstance(function, type):
        instrument(function, "__init__", label, spans)
        return function
    if getattr(function, LABEL, None) == label:
        return function
    traced = _kind_of(function)(function, spans)
    functools.update_wrapper(traced, function)
    setattr(traced, LABEL, label)
    return traced


def _kind_of(function: Any) -> Callable[[Any, Spans], Any]:
    if inspect.iscoroutinefunction(function):
        return _coroutine
    if inspect.isasyncgenfunction(function):
        return _async_generator
    return _generator if inspect.isgeneratorfunction(function) else _plain


def _plain(function: Any, spans: Spans) -> Any:
    def traced(*args: Any, **kwargs: Any) -> Any:
        with spans():
            return function(*args, **kwargs)

    return traced


def _coroutine(function: Any, spans: Spans) -> Any:
    async def traced(*args: Any, **kwargs: Any) -> Any:
        with spans():
            return await function(*args, **kwargs)

    return traced


def _generator(function: Any, spans: Spans) -> Any:
    def traced(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        inner = function(*args, **kwargs)
        turn, given = inner.send, None
        while True:
            with spans():
                try:
                    value = turn(given)
                except StopIteration as ended:
                    return ended.value
            try:
                given = yield value
                turn = inner.send
            except GeneratorExit:
                with spans():
                    inner.close()
                raise
            except BaseException as error:  # The generator's to deal with.
                turn, given = inner.throw, error

    return traced


def _async_generator(function: Any, spans: Spans) -> Any:
    async def traced(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = function(*args, **kwargs)
        turn, given = inner.asend, None
        while True:
            with spans():
                try:
                    value = await turn(given)
                except StopAsyncIteration:
                    return
            try:
                given = yield value
                turn = inner.asend
            except GeneratorExit:
                with spans():
                    await inner.aclose()
                raise
            except BaseException as error:  # The generator's to deal with.
                turn, given = inner.athrow, error

    return traced


def label_of_method(target: Any, name: str) -> str:
    """What the calls of a method are called: ``Class.method``, ``module.function``."""
    owner = target if isinstance(target, type | ModuleType) else type(target)
    return f"{owner.__name__}.{name}"


def instrument(target: Any, name: str, label: str, spans: Spans) -> None:
    """Put ``name`` of ``target`` (an object, a class or a module) in with a span around it.

    Raises:
        Exception: That cannot be; ``target`` is as it was.
    """
    if isinstance(target, ModuleType):
        setattr(target, name, around(getattr(target, name), label, spans))
    elif isinstance(target, type):
        setattr(target, name, _in_class(target, name, label, spans))
    elif name in getattr(target, "__dict__", {}):
        setattr(target, name, _in_object(target, vars(target)[name], label, spans))
    elif name.startswith("__") and name.endswith("__"):
        raise TypeError(f"python looks {name} up in the class: instrument that")
    else:
        raw = inspect.getattr_static(type(target), name)
        setattr(target, name, _bound(target, raw, name, label, spans))


def _in_object(target: Any, found: Any, label: str, spans: Spans) -> Any:
    """What stands in an object's own dictionary."""
    if isinstance(found, MethodType) and found.__self__ is target:
        return MethodType(around(found.__func__, label, spans), target)
    return around(_callable(found), label, spans)


def _bound(target: Any, raw: Any, name: str, label: str, spans: Spans) -> MethodType:
    """A method of one object; a copy of the object, or one that was pickled, has its own."""
    if isinstance(raw, FunctionType):
        return MethodType(around(raw, label, spans), target)
    if isinstance(raw, property | functools.cached_property):
        raise TypeError("it is a property: instrument the class")
    if isinstance(raw, staticmethod):
        inner = around(raw.__func__, label, spans)
    elif isinstance(raw, classmethod):
        inner = MethodType(around(raw.__func__, label, spans), type(target))
    else:
        inner = around(_callable(raw.__get__(target, type(target))), label, spans)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    call.__name__ = name
    setattr(call, LABEL, label)
    return MethodType(call, target)


def _in_class(target: type, name: str, label: str, spans: Spans) -> Any:
    """What takes the place of a class's attribute: the same kind of thing."""
    raw: Any = inspect.getattr_static(target, name)
    if isinstance(raw, staticmethod | classmethod):
        return type(raw)(around(raw.__func__, label, spans))
    if isinstance(raw, property):
        get, put, drop = (
            part and around(part, label, spans) for part in (raw.fget, raw.fset, raw.fdel)
        )
        return property(get, put, drop, raw.__doc__)
    if isinstance(raw, functools.cached_property):
        made: Any = functools.cached_property(around(raw.func, label, spans))
        made.__set_name__(target, raw.attrname or name)
        return made
    if isinstance(raw, FunctionType) or not hasattr(type(raw), "__get__"):
        return around(_callable(raw), label, spans)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return raw.__get__(self, type(self))(*args, **kwargs)

    return around(functools.wraps(_callable(getattr(target, name)))(call), label, spans)


def _callable(found: Any) -> Any:
    if callable(found):
        return found
    raise TypeError(f"it is no method: {type(found).__name__}")
