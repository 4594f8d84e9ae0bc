"""The generator functions that a script's loop takes its batches from.

A generator that is running cannot be watched any more, so its function is to be known before.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from .batch import WRAPPERS
from .loop import LOADERS, arguments, find_loop, is_loader, learning
from .roles import uses_framework
from .scopes import LOOPS, Function, Loop, Scope, bindings, called, dotted, scopes
from .sources import imported, open_script, project

#: Names between a loop and the function that it takes batches from, at most.
_DEEP = 8


#: Which function code is of: the absolute path of its file, its first line, its name.
Kind = tuple[str, int, str]


class Feed(NamedTuple):
    """A generator function, or a method that is one.

    Attributes:
        reference: It in a selector: ``//batches``, ``//Loader/__iter__``.
        kinds: Which function it is, and which others hand on what it yields.
        own: Of an ``__iter__``, the name of its parameter that is the loader; else empty.
        learns: The loop that learns goes over it; else another loop does.
    """

    reference: str
    kinds: tuple[Kind, ...]
    own: str
    learns: bool


def feeds(script: str, every: bool = True) -> list[Feed]:
    """The generator functions from which loops take what they go over.

    They are looked for in the script and in the modules of its project that it imports itself.
    Where nothing yields this takes no longer than parsing the text.

    Args:
        script: Its file.
        every: Any loops; else only those that learn.

    Raises:
        VoirError: The script cannot be read.
    """
    source = open_script(script)
    sources = [source, *imported(source, "yield")]
    if not any(isinstance(node, ast.Yield) for each in sources for node in ast.walk(each.tree)):
        return []
    search = _Search([scope for each in sources for scope in scopes(each)])
    own = search.learning()
    others = [scope for scope in search.any() if scope not in own] if every else []
    return [*(search.feed(s, True) for s in own), *(search.feed(s, False) for s in others)]


def learns(script: str) -> bool:
    """Whether the text of a script and of its project shows that it learns, in a loop or not.

    Raises:
        VoirError: The script cannot be read.
    """
    every = [scope for source in project(open_script(script)) for scope in scopes(source)]
    return bool(learning(every)) or uses_framework(every) is not None


_ITER = "__iter__"


class _Search:
    """Follows what a loop goes over to where it was made.

    Args:
        every: All scopes.
    """

    def __init__(self, every: list[Scope]) -> None:
        self._every = every
        self._functions: dict[str, list[Scope]] = {}
        self._classes: dict[str, list[Scope]] = {}
        for scope in every:
            if isinstance(scope.node, Function):
                self._functions.setdefault(scope.node.name, []).append(scope)
            elif isinstance(scope.node, ast.ClassDef):
                self._classes.setdefault(scope.node.name, []).append(scope)
        self._looked: set[tuple[Scope, int]] = set()
        self._handed: dict[Scope, dict[Scope, None]] = {}

    def feed(self, scope: Scope, learns: bool) -> Feed:
        """What is to be known of a function that was found."""
        kinds = tuple(_kind(each) for each in (scope, *self._handed.get(scope, ())))
        own = scope.parameters[0] if scope.path[-1] == _ITER and scope.parameters else ""
        return Feed(scope.reference, kinds, own, learns)

    def learning(self) -> list[Scope]:
        """Those that the loops around what learns go over; without such, what all loops go over."""
        found = find_loop(self._every)
        if found is None:
            each = [own for one in self._all() if (own := self._followed([one]))]
            return each[0] if each and all(own == each[0] for own in each) else []
        around = [(place.scope, loop) for place in found.learning for loop in place.loops]
        return self._followed([(found.scope, found.loop), *around])

    def any(self) -> list[Scope]:
        """Those that any loop goes over."""
        return self._followed(self._all())

    def _all(self) -> list[tuple[Scope, Loop]]:
        """Every loop."""
        seen = ((scope, each.node) for scope in self._every for each in scope.seen)
        return [(scope, node) for scope, node in seen if isinstance(node, LOOPS)]

    def _followed(self, loops: list[tuple[Scope, Loop]]) -> list[Scope]:
        """Those that loops go over; one that only hands on the batches of a loader is none."""
        self._looked.clear()
        found: dict[Scope, None] = {}
        for scope, loop in loops:
            for node in _taken(scope, loop):
                found.update(dict.fromkeys(self._made(scope, node, _DEEP)))
        return [scope for scope in found if not self._hands_on(scope)]

    def _made(self, scope: Scope, node: ast.AST | None, deep: int) -> Iterator[Scope]:
        """The generator functions that an expression may come from."""
        if node is None or not deep or (scope, id(node)) in self._looked:
            return
        self._looked.add((scope, id(node)))
        if isinstance(node, ast.Call):
            yield from self._called(scope, node, deep)
        elif isinstance(node, ast.Name):
            for where, value in self._bound(scope, node.id):
                yield from self._made(where, value, deep - 1)
        elif isinstance(node, ast.Attribute):
            for where, value in self._kept(node.attr):
                yield from self._made(where, value, deep - 1)
        elif isinstance(node, ast.IfExp):
            for each in (node.body, node.orelse):
                yield from self._made(scope, each, deep - 1)
        elif isinstance(node, (ast.Tuple, ast.List)):
            for each in node.elts:
                yield from self._made(scope, each, deep - 1)
        elif isinstance(node, ast.Starred):
            yield from self._made(scope, node.value, deep - 1)

    def _called(self, scope: Scope, call: ast.Call, deep: int) -> Iterator[Scope]:
        name = called(call)
        functions, classes = self._functions.get(name, []), self._classes.get(name, [])
        for function in functions:
            yield from self._given_by(function, deep)
        for own in classes:
            for method in own.inner:
                if method.path[-1] == _ITER:
                    yield from self._given_by(method, deep)
        if not functions and not classes:  # enumerate, zip, tqdm, and what else goes over things.
            for each in arguments(call):
                yield from self._made(scope, each, deep - 1)

    def _given_by(self, function: Scope, deep: int) -> Iterator[Scope]:
        """Where what a function yields, or returns, comes from."""
        if _yields(function):
            yield function
        for seen in function.seen:
            if isinstance(seen.node, ast.YieldFrom):
                for found in self._made(function, seen.node.value, deep - 1):
                    self._handed.setdefault(found, {})[function] = None
                    yield found
            elif isinstance(seen.node, ast.Return) and not _is_generator(function):
                yield from self._made(function, seen.node.value, deep - 1)

    def _bound(self, scope: Scope, name: str) -> Iterator[tuple[Scope, ast.expr | None]]:
        """What a variable is bound to, and what is given for a parameter."""
        binder = scope.binder(name)
        if binder is None:
            return
        for seen in binder.seen:
            node = seen.node
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and (
                name in bindings(node)
            ):
                yield from ((binder, each) for each in _values(node, name))
        if name in binder.parameters:
            yield from self._given(binder, name)

    def _given(self, function: Scope, name: str) -> Iterator[tuple[Scope, ast.expr]]:
        own, names = function.parameters, {function.path[-1]}
        if own[0] == "self":
            own = own[1:]
            if function.path[-1] == "__init__":
                names = {function.path[-2]} if len(function.path) > 1 else set()
        if name not in own:
            return
        at = own.index(name)
        for scope, call in (each for name_ in names for each in self._calls.get(name_, ())):
            if called(call) in names:
                yield from ((scope, each) for each in call.args[at : at + 1])
                yield from ((scope, k.value) for k in call.keywords if k.arg == name)
            else:  # Somebody is to call it: with what else it is given, most likely.
                yield from ((scope, each) for each in arguments(call))

    @cached_property
    def _calls(self) -> dict[str, list[tuple[Scope, ast.Call]]]:
        """The calls of functions of a name, and those that are given one."""
        found: dict[str, list[tuple[Scope, ast.Call]]] = {}
        for scope in self._every:
            for seen in scope.calls:
                call = seen.node
                assert isinstance(call, ast.Call)
                given = (dotted(each).rpartition(".")[2] for each in arguments(call))
                for name in {called(call), *given} - {""}:
                    found.setdefault(name, []).append((scope, call))
        return found

    def _kept(self, name: str) -> list[tuple[Scope, ast.expr]]:
        """What attributes of that name are bound to."""
        return self._attributes.get(name, [])

    @cached_property
    def _attributes(self) -> dict[str, list[tuple[Scope, ast.expr]]]:
        found: dict[str, list[tuple[Scope, ast.expr]]] = {}
        for scope in self._every:
            for seen in scope.seen:
                if isinstance(seen.node, ast.Assign):
                    for target in seen.node.targets:
                        if isinstance(target, ast.Attribute):
                            found.setdefault(target.attr, []).append((scope, seen.node.value))
        return found

    def _hands_on(self, function: Scope) -> bool:
        """Whether it goes over a loader that is watched itself."""
        return any(
            isinstance(seen.node, (ast.For, ast.AsyncFor))
            and self._is_loader(function, seen.node.iter, _DEEP)
            for seen in function.seen
        )

    def _is_loader(self, scope: Scope, node: ast.expr | None, deep: int) -> bool:
        if node is None or not deep:
            return False
        if isinstance(node, ast.Call) and called(node) in WRAPPERS:
            return any(self._is_loader(scope, each, deep - 1) for each in node.args)
        if called(node) in LOADERS:
            return True
        if isinstance(node, ast.Name):
            values = list(self._bound(scope, node.id))
            if values:
                return any(self._is_loader(where, value, deep - 1) for where, value in values)
        return bool(dotted(node)) and is_loader(scope, node)


def _taken(scope: Scope, loop: Loop) -> Iterator[ast.AST]:
    """What a loop goes over, and what it asks for the next."""
    if isinstance(loop, (ast.For, ast.AsyncFor)):
        yield loop.iter
    for seen in scope.calls:
        call = seen.node
        assert isinstance(call, ast.Call)
        if loop in seen.loops and called(call) in ("next", "__next__", "send"):
            if isinstance(call.func, ast.Attribute):
                yield call.func.value
            elif call.args:
                yield call.args[0]


def _kind(scope: Scope) -> Kind:
    node = scope.node
    assert isinstance(node, Function)
    line = min(each.lineno for each in (node, *node.decorator_list))
    return os.path.abspath(scope.source.path), line, node.name


def _yields(scope: Scope) -> bool:
    """Whether a function yields something itself, and not only what another does."""
    return isinstance(scope.node, ast.FunctionDef) and any(
        isinstance(seen.node, ast.Yield) for seen in scope.seen
    )


def _is_generator(scope: Scope) -> bool:
    return any(isinstance(seen.node, (ast.Yield, ast.YieldFrom)) for seen in scope.seen)


def _values(
    node: ast.Assign | ast.AnnAssign | ast.NamedExpr, name: str
) -> Iterator[ast.expr | None]:
    """What an assignment binds a name to: of a tuple's, the part that stands where it does."""
    value = node.value
    if isinstance(node, ast.Assign) and isinstance(value, ast.Tuple):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and len(target.elts) == len(value.elts):
                for each, part in zip(target.elts, value.elts, strict=True):
                    if isinstance(each, ast.Name) and each.id == name:
                        yield part
                return
    yield value
