"""What variables, parameters and attributes are bound to, wherever in a project that is written."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from ..targets import targets
from .scopes import Function, Scope, arguments, assigned, called, dotted
from .sources import Source

#: Names between where something is looked up by a key and where it is written out, at most.
_DEEP = 8
#: An expression, and the scope that it stands in.
Value = tuple[Scope, ast.expr | None]


class Bindings:
    """What variables, parameters and attributes are bound to, by the text of all scopes.

    Args:
        every: All scopes.
    """

    def __init__(self, every: list[Scope]) -> None:
        self._every = every
        self._known: dict[tuple[Scope, str], list[Value]] = {}

    def origins(self, scope: Scope, node: ast.AST) -> Iterator[Value]:
        """What an expression was bound to, or may be one of; nothing of a call."""
        if isinstance(node, ast.Name):
            yield from self.bound(scope, node.id)
        elif isinstance(node, ast.Attribute):
            yield from self._attributes.get(node.attr, ())
            if isinstance(node.value, ast.Name) and (scope.source, node.value.id) in self._imports:
                yield from self._elsewhere(scope, node.attr)
        elif isinstance(node, ast.Subscript):
            yield from self.items(scope, node.value, node.slice)
        else:
            yield from ((scope, each) for each in _alternatives(node))

    def kept(self, scope: Scope, node: ast.Attribute) -> list[Value]:
        """What the class around binds an attribute of its own objects to, in its methods."""
        home = next((each for each in scope.outward() if isinstance(each.node, ast.ClassDef)), None)
        own = self._attributes.get(node.attr, []) if dotted(node.value) == "self" else []
        return [(where, value) for where, value in own if home in [*where.outward()]]

    def items(self, scope: Scope, node: ast.expr, key: ast.expr | None) -> Iterator[Value]:
        """What a dictionary or a list that is written out somewhere has for a key."""
        yield from self._items((scope, node), key, set(), _DEEP)

    def _items(
        self, own: Value, key: ast.expr | None, looked: set[tuple[Scope, int]], deep: int
    ) -> Iterator[Value]:
        scope, node = own
        if node is None or not deep or (scope, id(node)) in looked:
            return
        looked.add((scope, id(node)))
        yield from ((scope, each) for each in _written(node, key))
        if isinstance(node, ast.Subscript):
            found = self._items((scope, node.value), node.slice, looked, deep - 1)
        else:
            found = self.origins(scope, node)
        for each in found:
            yield from self._items(each, key, looked, deep - 1)

    def name(self, scope: Scope, node: ast.AST) -> str:
        """The last of an expression's names; of what is imported, that in its own module."""
        if isinstance(node, ast.Name):
            return self._imports.get((scope.source, node.id), node.id)
        return node.attr if isinstance(node, ast.Attribute) else ""

    def bound(self, scope: Scope, name: str) -> list[Value]:
        """What a variable is bound to, and what is given for a parameter."""
        binder = scope.binder(name)
        key = binder or scope, name
        if key not in self._known:
            found = self._imported(*key) if binder is None else self._bound(*key)
            self._known[key] = list(found)
        return self._known[key]

    def _bound(self, binder: Scope, name: str) -> Iterator[Value]:
        for seen in binder.seen:
            own = assigned(seen.node)
            yield from ((binder, value) for target, value in own if name in targets(target))
        if name in binder.parameters:
            given = list(self._given(binder, name))
            yield from given or _default(binder, name)

    def _imported(self, scope: Scope, name: str) -> Iterator[Value]:
        if (scope.source, name) in self._imports:
            yield from self._elsewhere(scope, self._imports[scope.source, name])

    def _elsewhere(self, scope: Scope, name: str) -> Iterator[Value]:
        """What a variable of other modules is bound to."""
        for module in self._every:
            if not module.path and module.source is not scope.source and name in module.bound:
                yield from self.bound(module, name)

    @cached_property
    def _imports(self) -> dict[tuple[Source, str], str]:
        """What each source imports, by the name that it has there: its name where it is from."""
        return {
            (scope.source, alias.asname or alias.name): alias.name
            for scope in self._every
            for seen in scope.seen
            if isinstance(seen.node, (ast.Import, ast.ImportFrom))
            for alias in seen.node.names
        }

    def _given(self, function: Scope, name: str) -> Iterator[Value]:
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

    @cached_property
    def _attributes(self) -> dict[str, list[Value]]:
        """What attributes of each name are bound to."""
        found: dict[str, list[Value]] = {}
        for scope in self._every:
            for seen in scope.seen:
                for target, value in assigned(seen.node):
                    if isinstance(target, ast.Attribute):
                        found.setdefault(target.attr, []).append((scope, value))
        return found


def _default(function: Scope, name: str) -> Iterator[Value]:
    """What a parameter is where a call gives nothing for it."""
    assert isinstance(function.node, Function) and function.outer is not None
    own = function.node.args
    named = [*own.posonlyargs, *own.args]
    last = zip(reversed(named), reversed(own.defaults), strict=False)
    for each, value in (*last, *zip(own.kwonlyargs, own.kw_defaults, strict=True)):
        if each.arg == name:
            yield function.outer, value


def _alternatives(node: ast.AST) -> list[ast.expr]:
    """What an expression may be, or consists of: both of ``a if b else c``, each of a tuple."""
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.BoolOp):
        return node.values
    if isinstance(node, (ast.Tuple, ast.List)):
        return node.elts
    return [node.value] if isinstance(node, (ast.Starred, ast.NamedExpr)) else []


def _written(node: ast.AST | None, key: ast.expr | None) -> list[ast.expr]:
    """What a dictionary or list as written has for a key: all, where the key is not written."""
    known = key.value if isinstance(key, ast.Constant) else None
    if isinstance(node, (ast.List, ast.Tuple)):
        found: list[tuple[object, ast.expr]] = list(enumerate(node.elts))
    elif isinstance(node, ast.Dict):
        keys = (each.value if isinstance(each, ast.Constant) else None for each in node.keys)
        found = list(zip(keys, node.values, strict=True))
    elif called(node) == "dict" and isinstance(node, ast.Call):
        found = [(each.arg, each.value) for each in node.keywords]
    else:
        return []
    own = [value for each, value in found if known is not None and each == known]
    return own or [value for _, value in found]
