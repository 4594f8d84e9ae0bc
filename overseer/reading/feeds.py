"""The generator functions that a script's loop takes its batches from.

A generator that is running cannot be watched any more, so its function is to be known before.
Of several the one that gives batches is chosen (:mod:`.choosing`).
"""

from __future__ import annotations

import ast
import os
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from ..targets import targets
from .batch import WRAPPERS
from .choosing import Turns, all_of, calls_in, chosen, mentioned, names, taken
from .loop import LOADERS, arguments, find_loop, is_loader, is_loop, learning
from .roles import uses_framework
from .scopes import LOOPS, Function, Loop, Scope, bindings, called, dotted, scopes
from .sources import imported, open_script, project

#: Names between a loop and the function that it takes batches from, at most.
_DEEP = 8
#: Calls that are no work on a batch, and what only takes it apart.
_IDLE = {"len", "isinstance", "range", "enumerate", "zip", "iter", "next", "print"}
_PARTS = (ast.Name, ast.Tuple, ast.List, ast.Starred, ast.Subscript, ast.Attribute)
_WORK = (ast.Call, ast.BinOp, ast.UnaryOp, ast.ListComp, ast.DictComp, ast.SetComp)


#: Which function code is of: the absolute path of its file, its first line, its name.
Kind = tuple[str, int, str]


class Feed(NamedTuple):
    """A generator function, or a method that is one.

    Attributes:
        reference: It in a selector: ``//batches``, ``//Loader/__iter__``.
        kinds: Which function it is, and which others hand on what it yields.
        own: Of an ``__iter__``, the name of its parameter that is the loader; else empty.
        learns: The loop that learns goes over it; else another loop does.
        unsure: A loop goes over it that may be the one that learns, as others may be.
    """

    reference: str
    kinds: tuple[Kind, ...]
    own: str
    learns: bool
    unsure: bool = False


def feeds(script: str, every: bool = True, probed: Collection[str] = ()) -> list[Feed]:
    """The generator functions from which loops take what they go over.

    They are looked for in the script and in the modules of its project that it imports itself.
    Where nothing yields this takes no longer than parsing the text.

    Args:
        script: Its file.
        every: Any loops, for a loader is given; else only those that learn.
        probed: The code that shows steps, as selectors name it: loops in it, and around calls of
            it, are those that learn.

    Raises:
        VoirError: The script cannot be read.
    """
    source = open_script(script)
    sources = [source, *imported(source, "yield")]
    if not any(isinstance(node, ast.Yield) for each in sources for node in ast.walk(each.tree)):
        return []
    search = _Search([scope for each in sources for scope in scopes(each)])
    own = search.learning(probed, given=every)
    others = [scope for scope in search.any() if scope not in own] if every else []
    found = [*(search.feed(s, True) for s in own), *(search.feed(s, False) for s in others)]
    return found or [search.feed(s, False)._replace(unsure=True) for s in search.unsure]


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

    Attributes:
        unsure: Those of which one may be what the loop that learns goes over.
    """

    def __init__(self, every: list[Scope]) -> None:
        self._every = every
        self.unsure: list[Scope] = []
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

    def learning(self, probed: Collection[str], given: bool) -> list[Scope]:
        """Those that the loops around what learns go over; without such, what is chosen."""
        found = find_loop(self._every)
        own: list[Scope] = []
        learns = found is not None and not is_loop(found.learning[0].call)
        if found is not None:
            around = [(place.scope, loop) for place in found.learning for loop in place.loops]
            own = self._followed([(found.scope, found.loop), *around])
            if learns and not probed:
                return own
        turns = self._turns()
        shown = [each for each in turns if self._shown(each, probed)]
        if shown or learns:
            return list(dict.fromkeys([*own, *(chosen(self, shown) or all_of(shown))]))
        if found is not None and not own:
            return own  # It goes over a loader by name, which is watched itself.
        if given:
            alike = bool(turns) and all(each.own == turns[0].own for each in turns)
            return turns[0].own if alike else own
        found_by_name = chosen(self, turns) or own
        if not found_by_name and probed:
            return all_of(turns)  # Waits that no step follows are told from those of steps.
        if not found_by_name and uses_framework(self._every) is None:
            self.unsure = all_of(turns)
        return found_by_name

    def any(self) -> list[Scope]:
        """Those that any loop goes over."""
        return self._followed(self._all())

    def _all(self) -> list[tuple[Scope, Loop]]:
        """Every loop."""
        seen = ((scope, each.node) for scope in self._every for each in scope.seen)
        return [(scope, node) for scope, node in seen if isinstance(node, LOOPS)]

    def _turns(self) -> list[Turns]:
        """The loops that go over any, but for those that are part of the work of one."""
        found = [Turns(*one, own) for one in self._all() if (own := self._followed([one]))]
        feeding = all_of(found)
        calls = (seen.node for scope in feeding for seen in scope.calls)
        working = {*feeding, *self._reached(calls)}
        return [each for each in found if each.scope not in working] or found

    def _shown(self, turns: Turns, probed: Collection[str]) -> bool:
        """Whether a loop is in code that shows steps, or calls such."""
        if not probed:
            return False
        scopes = [turns.scope, *self._reached(calls_in(turns))]
        return any(scope.reference in probed for scope in scopes)

    def within(self, inner: Turns, outer: Turns) -> bool:
        """Whether a loop is gone through in each iteration of another."""
        if inner.scope is outer.scope:
            nodes = inner.scope.seen
            return any(seen.node is inner.loop and outer.loop in seen.loops for seen in nodes)
        return inner.scope in self._reached(calls_in(outer))

    def works_on(self, inner: Turns, outer: Turns) -> bool:
        """Whether a loop within another goes over something made of what that one gives."""
        given = set() if isinstance(outer.loop, ast.While) else set(targets(outer.loop.target))
        if inner.scope is outer.scope:
            return not given.isdisjoint(mentioned(inner))
        return any(
            inner.scope in self._reached([call])
            and any(not given.isdisjoint(names(each)) for each in arguments(call))
            for call in calls_in(outer)
        )

    def _reached(self, calls: Iterable[ast.AST]) -> dict[Scope, None]:
        """The functions that calls may come to, by their names."""
        found: dict[Scope, None] = {}
        waiting = list(calls)
        while waiting:
            for scope in self._functions.get(called(waiting.pop()), ()):
                if scope not in found:
                    found[scope] = None
                    waiting.extend(seen.node for seen in scope.calls)
        return found

    def _followed(self, loops: list[tuple[Scope, Loop]]) -> list[Scope]:
        """Those that loops go over."""
        self._looked.clear()
        found: dict[Scope, None] = {}
        for scope, loop in loops:
            for node in taken(scope, loop):
                found.update(dict.fromkeys(self._made(scope, node, _DEEP)))
        return list(found)

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
        if name in LOADERS and not functions and not classes:
            return  # It is watched itself, and what it asks for samples is part of its work.
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
        """Where what a function yields, or returns, comes from.

        One that only hands on what a loader gives has nobody wait for more than that.
        """
        handed = [loop.iter for loop in self._goes_over_loaders(function)]
        if handed and any(_works(loop) for loop in self._goes_over_loaders(function)):
            handed = []
        if _yields(function) and not handed:
            yield function
        handed += [s.node.value for s in function.seen if isinstance(s.node, ast.YieldFrom)]
        for node in handed:
            for found in self._made(function, node, deep - 1):
                self._handed.setdefault(found, {})[function] = None
                yield found
        for seen in function.seen:
            if isinstance(seen.node, ast.Return) and not _is_generator(function):
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

    def _goes_over_loaders(self, function: Scope) -> list[ast.For | ast.AsyncFor]:
        """Its loops over loaders that are watched themselves."""
        loops = [s.node for s in function.seen if isinstance(s.node, (ast.For, ast.AsyncFor))]
        return [loop for loop in loops if self._is_loader(function, loop.iter, _DEEP)]

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


def _works(loop: ast.For | ast.AsyncFor) -> bool:
    """Whether a loop over a loader does anything with a batch but hand it on, or a part of it."""
    tests = {id(n) for w in ast.walk(loop) if isinstance(w, ast.If) for n in ast.walk(w.test)}
    for node in (each for statement in loop.body for each in ast.walk(statement)):
        if isinstance(node, ast.AugAssign) and set(targets(node.target)) & set(
            targets(loop.target)
        ):
            return True
        if isinstance(node, ast.Yield) and not isinstance(node.value, _PARTS):
            return True
        if isinstance(node, _WORK) and id(node) not in tests and called(node) not in _IDLE:
            return True
    return False


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
