"""What a path names in a module that runs, without running any of its code."""

from __future__ import annotations

import builtins
import os
import sys
from types import FunctionType, ModuleType
from typing import Any

from .selectors import Wish, reference

_NOTHING = object()
_WRAPPERS = (FunctionType, property, staticmethod, classmethod)


def dig(named: Any) -> Any:
    """Through decorators, properties and caches to the function itself."""
    for _ in range(100):
        if isinstance(named, property):
            named = named.fget
        elif isinstance(named, (staticmethod, classmethod)):
            named = named.__func__
        elif hasattr(named, "__wrapped__"):
            named = named.__wrapped__
        elif type(named).__module__ == "functools" and hasattr(named, "func"):
            named = named.func
        else:
            break
    return named


def what_it_is(wish: Wish) -> str:
    """Why the code that ``wish`` names has no place in its module's source; empty: unknown."""
    named = _at_run_time(wish.module, wish.path)
    if named is _NOTHING:
        return ""
    # Other objects may run code of the script when they are asked for an attribute.
    known = isinstance(named, _WRAPPERS) or type(named).__module__ == "functools"
    function = dig(named) if known else named
    if isinstance(function, ModuleType):
        return f"{wish.reference} is a module; its top level is {reference(function.__name__, ())}"
    if isinstance(function, FunctionType):
        return _function(function, wish)
    if isinstance(function, type):
        return _class(function, wish)
    if type(function).__module__ == "builtins":
        return f"{wish.reference} has no Python code: it is built in; probe what calls it"
    kind = reference(type(function).__module__, (*type(function).__qualname__.split("."),))
    return f"{wish.reference} is an object, not code: its methods are in {kind}"


def _at_run_time(module: str, path: tuple[str, ...]) -> Any:
    found: Any = sys.modules.get(module)
    for index, part in enumerate(path):
        spaces: list[Any] = [vars(c) for c in found.__mro__] if isinstance(found, type) else []
        spaces = spaces or [getattr(found, "__dict__", {})]
        if not index:
            spaces.append(vars(builtins))
        found = next((space[part] for space in spaces if part in space), _NOTHING)
    return found


def _function(function: FunctionType, wish: Wish) -> str:
    if function.__name__ == "<lambda>":
        return f"{wish.reference} is a lambda: probes go into functions that def makes"
    filename = function.__code__.co_filename
    if filename.startswith("<frozen "):
        return f"{wish.reference} is frozen into the interpreter; probe what calls it"
    if not os.path.exists(filename):
        made = f"{wish.reference} was made at run time, by {filename}, and has no source"
        return f"{made}; probe what calls it"
    return _elsewhere(function, wish)


def _class(named: type, wish: Wish) -> str:
    if named.__module__ == "builtins":
        return f"{wish.reference} has no Python code: it is built in; probe what calls it"
    return _elsewhere(named, wish)


def _elsewhere(named: Any, wish: Wish) -> str:
    """Where the class or function was defined, if it was not where the selector says."""
    home = named.__module__
    path = tuple(part for part in named.__qualname__.split(".") if part != "<locals>")
    if not isinstance(home, str) or (home, path) == (wish.module, wish.path):
        return ""
    return f"{wish.reference} is defined as {reference(home, path)}; write that"


__all__ = ["dig", "what_it_is"]
