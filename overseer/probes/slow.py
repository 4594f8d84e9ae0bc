"""The slow path: selectors that only ptera's own engine can serve.

ptera rewrites the functions that such a selector names and keeps, for each call, what was captured
so far. Three things are done differently here. A function is looked up without importing anything.
What a call has captured belongs to its frame rather than to a context variable, so that a generator
that is suspended does not pass it on to its caller, and other threads see the probes too. And what
ptera leaves in functions and modules is taken away at the end.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from ..boundary import said
from ..errors import VoirError
from .hidden import Hidden
from .placed import PlacedProbe
from .places import Places
from .ptera_cost import Counted, proceeding
from .scopes import Definition, Key
from .selectors import MAIN
from .sources import silently
from .stanzas import Stanzas
from .units import Unit, key_of

#: Of code objects; importing ``inspect`` for them takes milliseconds.
CO_COROUTINE, CO_ASYNC_GENERATOR = 0x80, 0x200
Resolver = Callable[[str], Any]


class Slow:
    """Hands probes to ptera once the code they name is there; ptera is imported for the first.

    Args:
        places: Where compiled probes are.
        is_loaded: Whether a module is there.
        release: Called with a function that ptera is about to rewrite: it must be plain.
        moved: Called with a compiled probe that ptera has to serve from now on, because it
            rewrites the same function.
        hidden: Where the name is kept that the script's top level calls.
    """

    def __init__(
        self,
        places: Places,
        is_loaded: Callable[[str], bool],
        release: Callable[[FunctionType], None],
        moved: Callable[[PlacedProbe], None],
        hidden: Hidden,
    ) -> None:
        self._places = places
        self._is_loaded = is_loaded
        self._release = release
        self._moved = moved
        self._hidden = hidden
        self._path: SlowPath | None = None
        self._served: set[PlacedProbe] = set()
        #: What ptera does.
        self.counted = Counted()
        self._waiting: dict[PlacedProbe, None] = {}

    def claims(self, placed: PlacedProbe) -> bool:
        """Whether ptera rewrites a function that this compiled probe is in."""
        keys = self._path.keys if self._path is not None else set()
        places = self._places.of(placed)
        return any((place.unit.filename, place.scope.key) in keys for place in places)

    def serves(self, placed: PlacedProbe) -> bool:
        """Whether events of the probe are ptera's, or were."""
        return placed.wish.slow is not None or placed in self._served

    def attached(self, placed: PlacedProbe) -> bool:
        """Whether the probe's code was found."""
        return self._path is not None and self._path.has(placed)

    def update(self, placed: PlacedProbe) -> None:
        """Attach the probe if it is heard and its code is there; detach it if it is not heard."""
        if not placed.active:
            self._waiting.pop(placed, None)
            if self._path is not None:
                self._path.detach(placed)
            return
        self._waiting[placed] = None
        self._attach(placed)

    def _attach(self, placed: PlacedProbe) -> None:
        from . import ptera_bridge

        if not all(map(self._is_loaded, ptera_bridge.modules_of(placed.wish, placed.asked))):
            return
        if self._path is None:
            self._path = SlowPath(ptera_bridge.engine_modules(), self._release, self.counted)
        before = set(self._path.keys)
        try:
            self._path.attach(placed, ptera_bridge.resolver(placed.asked.env, placed.selector))
        except Exception as error:
            why = said(error)
            if isinstance(error, VoirError):
                why = f"{error.what}. {error.remedy}" if error.remedy else error.what
            self._places.give_up(placed, f"ptera cannot serve it: {why}")
            return
        self._places.troubles.pop(placed, None)
        self._served.add(placed)
        self._waiting.pop(placed, None)
        if set(self._path.keys) != before:
            self._move_others(placed)

    def _move_others(self, placed: PlacedProbe) -> None:
        for other in self._places.probes():
            if other is not placed and other.active and self.claims(other):
                self._moved(other)

    def instrument(self, tree: ast.Module, unit: Unit) -> ast.Module:
        """The tree, telling when the script's top level defines what probes wait for."""
        if unit.module != MAIN or not self._waiting:
            return tree
        from .ptera_bridge import first_names

        names = {name for placed in self._waiting for name in first_names(placed.asked)}
        body: list[ast.stmt] = []
        for statement in tree.body:
            body.append(statement)
            if isinstance(statement, Definition) and statement.name in names:
                body += Stanzas(unit.names).notice(self._hidden.put("defined", self._defined))
        return ast.Module(body=body, type_ignores=tree.type_ignores)

    def _defined(self) -> None:
        for placed in list(self._waiting):
            self._attach(placed)

    def silence(self) -> None:
        """Deliver nothing any more."""
        if self._path is not None:
            self._path.silence()

    def close(self) -> None:
        """Give every function its own code back."""
        self._waiting.clear()
        if self._path is not None:
            self._path.close()


class SlowPath:
    """ptera's engine.

    Args:
        ptera: ptera's modules, by :func:`overseer.probes.ptera_bridge.engine_modules`.
        release: Called with a function before it is rewritten.
        counted: Told of what ptera does.

    Attributes:
        keys: File and key of each function that ptera has rewritten.
        counted: What ptera does.
    """

    def __init__(
        self, ptera: Any, release: Callable[[FunctionType], None], counted: Counted
    ) -> None:
        self._ptera = ptera
        self._release = release
        self.counted = counted
        self._into = proceeding(ptera, counted)
        self.keys: set[tuple[str, Key]] = set()
        self._rules: dict[PlacedProbe, Any] = {}
        self._stacks: dict[FunctionType, Any] = {}
        self._frames: dict[int, Any] = {}
        self._proceed = _proceed(self)
        self._base = ptera.overlay.HandlerCollection([])

    def has(self, placed: PlacedProbe) -> bool:
        """Whether the probe is attached."""
        return placed in self._rules

    def attach(self, placed: PlacedProbe, resolve: Resolver) -> None:
        """Rewrite what the probe names, and deliver its events.

        Raises:
            Exception: As ptera has it: the selector does not fit the code, or ptera cannot
                rewrite it.
        """
        if placed in self._rules:
            return
        asked = placed.asked
        selector = asked.selector
        if isinstance(selector, str):
            selector = self._ptera.selector.select(selector, env=resolve)
        rule = self._rule(placed, selector)
        with _tooling():
            selector.wrap_functions(self._tool)
            self._ptera.selector.verify(selector, display=placed.selector)
        self._rules[placed] = rule
        self._rebuild()

    def detach(self, placed: PlacedProbe) -> None:
        """Deliver no more events of this probe."""
        rule = self._rules.pop(placed, None)
        if rule is not None:
            self._rebuild()
            with _tooling():
                rule.selector.wrap_functions(self._untool)

    def close(self) -> None:
        """Give every function its own code back and remove ptera's names."""
        for placed in list(self._rules):
            self.detach(placed)
        for function in self._stacks:
            _clean(function)
        self._stacks.clear()
        self._frames.clear()

    def silence(self) -> None:
        """Deliver nothing any more."""
        self._base = self._ptera.overlay.HandlerCollection([])
        self._frames.clear()

    def _rebuild(self) -> None:
        pairs = [(rule.selector, rule) for rule in self._rules.values()]
        self._base = self._ptera.overlay.HandlerCollection(pairs)

    def _rule(self, placed: PlacedProbe, selector: Any) -> Any:
        interpret, total = self._ptera.interpret, placed.asked.probe_type == "total"
        emit = _emitter(placed, selector, self._ptera.utils.ABSENT)
        if total or not (selector.focus or placed.asked.probe_type == "immediate"):
            return interpret.Total(selector, close=emit, pass_info=True)
        kind = {"intercept": emit} if placed.overridable else {"trigger": emit}
        return interpret.Immediate(selector, pass_info=True, **kind)

    def _tool(self, function: Any, captures: Any) -> Any:
        if not isinstance(function, FunctionType):
            raise TypeError(f"{function!r} is not a Python function")
        if function.__code__.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
            what = f"{function.__qualname__} is asynchronous, which ptera does not do"
            raise VoirError("not-probeable", what)
        stack = self._stacks.get(function)
        if stack is None:
            self._release(function)
            code = function.__code__
            self.keys.add((code.co_filename, key_of(code)))
            transform = self._ptera.transform.SyncedStackedTransforms
            stack = self._stacks[function] = transform(function, proceed=self._proceed)
        with _without_new_names(function):
            stack.push(captures)
        return function

    def _untool(self, function: Any, captures: Any) -> Any:
        with _without_new_names(function):
            self._stacks[function].pop(captures)
        return function

    def around(self, frame: Any) -> Any:
        """The handlers in force where ``frame`` was called from."""
        frame = frame.f_back
        while frame is not None:
            found = self._frames.get(id(frame))
            if found is not None:
                return found
            frame = frame.f_back
        return self._base

    def enter(self, frame: Any, function: FunctionType) -> Any:
        """A call begins; returns what ptera's code reports to."""
        interactor, inside = self._into(self.around(frame), function)
        self._frames[id(frame)] = inside
        return interactor

    def leave(self, frame: Any) -> None:
        """The call in ``frame`` ends."""
        self._frames.pop(id(frame), None)


def _proceed(path: SlowPath) -> Any:
    """The context manager that ptera puts around a function's body."""
    begin, end = path.counted.begin, path.counted.end

    class Proceed:
        def __init__(self, function: FunctionType) -> None:
            self._function = function

        def __enter__(self) -> Any:
            began = begin()
            self._frame = sys._getframe(1)
            self._interactor = path.enter(self._frame, self._function)
            if began is not None:
                end(began)
            return self._interactor

        def __exit__(self, *exc: object) -> None:
            began = begin()
            path.leave(self._frame)
            del self._frame  # It holds this object.
            self._interactor.exit()
            if began is not None:
                end(began)

    return Proceed


def _emitter(placed: PlacedProbe, selector: Any, absent: object) -> Callable[..., object]:
    paired = set(selector.all_tags) == {1, 2}
    raw = placed.asked.raw

    def emit(captured: Mapping[str, Any], acc: Any = None, element: Any = None) -> object:
        if not placed.active:
            return absent
        event: Any = captured if raw else {key: _value(cap) for key, cap in captured.items()}
        if paired:
            step = "begin" if element.focus else "end"
            focus = acc.selector.main.capture
            event["$wrap"] = {"id": id(acc), "name": focus, "step": step}
        if placed.overridable:
            return placed.replaced(event, absent)
        next(placed.tally)
        placed.hand(event)
        return absent

    return emit


def _value(capture: Any) -> Any:
    values = capture.values
    return values[0] if len(values) == 1 else list(values)


@contextmanager
def _tooling() -> Iterator[None]:
    """Keep ptera from importing codefind, which walks the heap and hooks into the interpreter."""
    missing = "codefind" not in sys.modules
    if missing:
        sys.modules["codefind"] = None  # type: ignore[assignment]
    try:
        with silently(), _undeprecated():
            yield
    finally:
        if missing:
            sys.modules.pop("codefind", None)


@contextmanager
def _undeprecated() -> Iterator[None]:
    """Ignore what ptera uses of ``ast`` until 3.14, also where warnings are errors.

    The list is changed in place: python takes no notice, and shows nothing a second time.
    """
    import re
    import warnings

    entry: Any = ("ignore", None, DeprecationWarning, re.compile(r"ptera\."), 0)
    filters: Any = warnings.filters
    filters.insert(0, entry)
    try:
        yield
    finally:
        filters.remove(entry)


@contextmanager
def _without_new_names(function: FunctionType) -> Iterator[None]:
    """Undo that ptera makes the function's name global, as ``None``, where there was none.

    For a method called ``next`` or ``print`` that would hide what everybody else calls so.
    """
    space: dict[Any, Any] = function.__globals__
    absent = [name for name in (function.__name__, None) if name not in space]
    try:
        yield
    finally:
        for name in absent:
            space.pop(name, None)


def _clean(function: FunctionType) -> None:
    for name in [name for name in function.__dict__ if name.startswith("__ptera_")]:
        del function.__dict__[name]
    space = function.__globals__
    for name in [n for n in space if n.startswith(("__ptera_", "_ptera__"))]:
        del space[name]


__all__ = ["Slow", "SlowPath"]
