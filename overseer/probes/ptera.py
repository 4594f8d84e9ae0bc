"""The only file that imports ptera: its grammar parses selectors, its engine runs slow ones.

The grammar needs four of ptera's modules. The whole package also imports giving and reactivex,
which takes ten times as long, so it is imported only for selectors that need the engine.

ptera's engine rewrites the functions that a selector names and keeps each call's captures. It
supports neither asynchronous nor nested functions, and sees only calls on the thread and in the
context in which the probe was set.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from importlib import import_module
from types import FunctionType, ModuleType

from ..apart import aside
from ..errors import VoirError
from .functions import named, probed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

_lock = threading.RLock()  # Reentrant: a signal handler may parse a selector, too.
_private: list[Any] = []
_GRAMMAR = ("opparse", "tags", "utils", "selector")
#: Code flags of coroutines and asynchronous generators; importing ``inspect`` takes milliseconds.
_ASYNCHRONOUS = 0x80 | 0x200


def grammar() -> Any:
    """Return ``ptera.selector``: the script's if ptera is imported, else a private copy."""
    if "ptera.selector" in sys.modules:
        return sys.modules["ptera.selector"]
    with _lock:
        if not _private:
            with aside:
                _private.append(_load())
    return _private[0]


def _load() -> ModuleType:
    """Import the grammar under a stand-in package, then remove both from ``sys.modules``.

    A later ``import ptera`` loads its own modules.
    """
    from importlib.util import find_spec

    spec = find_spec("ptera")
    package: Any = ModuleType("ptera")
    package.__path__ = list((spec and spec.submodule_search_locations) or ())
    sys.modules["ptera"] = package
    try:
        return import_module("ptera.selector")
    finally:
        for name in ("ptera", *(f"ptera.{part}" for part in _GRAMMAR)):
            sys.modules.pop(name, None)


class Ptera:
    """ptera's engine and the probes attached to it."""

    def __init__(self) -> None:
        names = ("interpret", "overlay", "selector", "utils")
        with aside:
            self._interpret, self._overlay, self._selector, self._utils = (
                import_module(f"ptera.{name}") for name in names
            )
        self._rules: dict[Any, tuple[Any, Any]] = {}

    def serves(self, placed: Any) -> bool:
        """True if the probe is attached."""
        return placed in self._rules

    def attach(self, placed: Any, looked_up: Callable[[str], Any]) -> None:
        """Rewrite the functions that the probe names and deliver its events.

        Args:
            placed: The probe.
            looked_up: Resolves a symbol that is not a reference.

        Raises:
            Exception: The selector does not match the code, or ptera cannot rewrite it.
        """
        selector = placed.parsed.selector
        if isinstance(selector, str):
            selector = self._selector.select(selector, env=_resolver(looked_up))
        functions: list[FunctionType] = []
        selector.wrap_functions(lambda function, _: _checked(function, functions))
        with _tooling(functions):
            self._overlay.autotool(selector)
        self._rules[placed] = rule = (selector, self._rule(placed, selector))
        self._overlay.HandlerCollection.current.set(self._handlers().plus([rule]))

    def _handlers(self) -> Any:
        collection = self._overlay.HandlerCollection
        return collection.current.get() or collection()

    def _rule(self, placed: Any, selector: Any) -> Any:
        emit = _emitter(placed, selector, self._utils.ABSENT)
        if placed.parsed.total:
            return self._interpret.Total(selector, close=emit, pass_info=True)
        kind = {"intercept" if placed.overridable else "trigger": emit}
        return self._interpret.Immediate(selector, pass_info=True, **kind)

    def close(self) -> None:
        """Restore the functions' original code."""
        rules, self._rules = list(self._rules.values()), {}
        collection = self._overlay.HandlerCollection
        others = [pair for pair in self._handlers().handler_pairs if pair not in rules]
        collection.current.set(collection(others) if others else None)
        for selector, _ in rules:
            with _tooling([]):
                self._overlay.autotool(selector, undo=True)


def _resolver(looked_up: Callable[[str], Any]) -> Callable[[str], Any]:
    """Build ptera's symbol resolver; it imports nothing."""

    def resolve(symbol: str) -> Any:
        if symbol.startswith("@"):
            return getattr(import_module("ptera.tags").tag, symbol[1:])
        if not symbol.startswith("/"):
            return looked_up(symbol)
        _, module, *path = symbol.split("/")
        found = named(sys.modules[module or "__main__"], [part for part in path if part])
        if not found:
            what = f"{'/'.join(path)} cannot be reached from the top of {module or '__main__'}"
            raise VoirError("unresolved-symbol", what)
        return found[0]

    return resolve


def _checked(function: Any, functions: list[FunctionType]) -> Any:
    """Reject functions that ptera cannot rewrite."""
    if not isinstance(function, FunctionType):
        raise VoirError("not-probeable", f"{function!r} is not a Python function")
    name, code = function.__qualname__, function.__code__
    if code.co_flags & _ASYNCHRONOUS:
        raise VoirError("not-probeable", f"{name} is asynchronous, which ptera does not support")
    if probed(code):
        what = f"{name} already has probes, which ptera would remove"
        raise VoirError("not-probeable", what, "Watch their variables with slow selectors as well.")
    functions.append(function)
    return function


def _emitter(placed: Any, selector: Any, absent: object) -> Callable[..., object]:
    (site,) = placed.sites
    paired = set(selector.all_tags) == {1, 2}

    def emit(captured: Mapping[str, Any], acc: Any = None, element: Any = None) -> object:
        event: Any = captured if placed.parsed.raw else {k: _value(c) for k, c in captured.items()}
        if paired:
            step, focus = "begin" if element.focus else "end", acc.selector.main.capture
            event = {**event, "$wrap": {"id": id(acc), "name": focus, "step": step}}
        site.given(event)
        return placed.replaced(event, absent) if placed.overridable else absent

    return emit


def _value(capture: Any) -> Any:
    return capture.values[0] if len(capture.values) == 1 else list(capture.values)


@contextmanager
def _tooling(functions: list[FunctionType]) -> Iterator[None]:
    """Suppress ptera's side effects while it rewrites ``functions``.

    ptera imports codefind, which walks all objects and hooks into the interpreter; it uses
    deprecated parts of ``ast``; and it binds a method's name to ``None`` globally, which may hide a
    builtin.
    """
    import re
    import warnings

    absent = [(f.__globals__, f.__name__) for f in functions if f.__name__ not in f.__globals__]
    missing = "codefind" not in sys.modules
    if missing:
        sys.modules["codefind"] = None  # type: ignore[assignment]
    # Modified in place: otherwise Python would show the script's warnings again.
    filters: Any = warnings.filters
    entry: Any = ("ignore", None, DeprecationWarning, re.compile(r"ptera\."), 0)
    filters.insert(0, entry)
    try:
        yield
    finally:
        filters.remove(entry)
        if missing:
            sys.modules.pop("codefind", None)
        for space, name in absent:
            space.pop(name, None)
