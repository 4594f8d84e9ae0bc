"""Functions, methods and top-level code of a source: what each binds, and the loops in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from ..targets import targets
from .sources import Source

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
Definition = (*Function, ast.ClassDef)
Loop = ast.For | ast.AsyncFor | ast.While
LOOPS = (ast.For, ast.AsyncFor, ast.While)
#: Names between where something is looked up by a key and where it is written out, at most.
_DEEP = 8


class Seen(NamedTuple):
    """A node that runs in a scope, and the loops of that scope around it, outermost first."""

    node: ast.AST
    loops: tuple[Loop, ...]


class Scope:
    """A function, method, class body or module.

    Args:
        source: The file.
        path: Names from the module's top level to it: ``("Trainer", "fit")``.
        node: Its syntax tree.
        outer: The scope around it.
    """

    def __init__(
        self, source: Source, path: tuple[str, ...], node: ast.AST, outer: Scope | None
    ) -> None:
        self.source, self.path, self.node, self.outer = source, path, node, outer
        self.inner: list[Scope] = []

    @property
    def reference(self) -> str:
        """It in a selector, without variables: ``//Trainer/fit``, ``/pkg.engine/train``."""
        names = "/".join(self.path)
        if self.source.is_script:
            return f"//{names}"
        return f"/{self.source.module}/{names}" if names else f"/{self.source.module}"

    @property
    def said(self) -> str:
        """It in words."""
        if self.path:
            return ".".join(self.path)
        return "the script's top level" if self.source.is_script else self.source.module

    @cached_property
    def seen(self) -> list[Seen]:
        """Every node that runs in it, in the order of the text."""
        return list(_walk(self.node.body, ()))  # type: ignore[attr-defined]

    @cached_property
    def calls(self) -> list[Seen]:
        """Every call in it."""
        return [seen for seen in self.seen if isinstance(seen.node, ast.Call)]

    @cached_property
    def parameters(self) -> list[str]:
        """Its parameters' names."""
        if not isinstance(self.node, Function):
            return []
        a = self.node.args
        every = [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]
        return [arg.arg for arg in every if arg is not None]

    @cached_property
    def bound(self) -> dict[str, int]:
        """The names that it binds, each with the first line that does."""
        first = getattr(self.node, "lineno", 1)
        found = dict.fromkeys(self.parameters, first)
        for seen in self.seen:
            for name in bindings(seen.node):
                found.setdefault(name, getattr(seen.node, "lineno", first))
        return found

    def outward(self) -> Iterator[Scope]:
        """It, and every scope around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def around(self) -> Iterator[Scope]:
        """The scopes in which a name that is read here is looked up."""
        for scope in self.outward():
            if scope is self or not isinstance(scope.node, ast.ClassDef):
                yield scope

    def binder(self, name: str) -> Scope | None:
        """The scope that binds ``name`` as it is read here."""
        return next((scope for scope in self.around() if name in scope.bound), None)

    def where(self, node: ast.AST) -> str:
        """``file:line`` of a node in it."""
        return f"{self.source.path}:{getattr(node, 'lineno', 1)}"


def scopes(source: Source) -> list[Scope]:
    """The module's own scope and every one in it, outer ones first."""
    module = Scope(source, (), source.tree, None)
    found = [module]
    _collect(source.tree.body, module, found)
    return found


def _collect(body: list[ast.stmt], outer: Scope, found: list[Scope]) -> None:
    for node in body:
        if isinstance(node, Definition):
            scope = Scope(outer.source, (*outer.path, node.name), node, outer)
            outer.inner.append(scope)
            found.append(scope)
            _collect(node.body, scope, found)
            continue
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(node, name, None)
            if isinstance(inner, list):
                _collect(inner, outer, found)
        for handler in getattr(node, "handlers", ()) or getattr(node, "cases", ()):
            _collect(handler.body, outer, found)


def _walk(nodes: Sequence[ast.AST], loops: tuple[Loop, ...]) -> Iterator[Seen]:
    for node in nodes:
        yield Seen(node, loops)
        if isinstance(node, (*Definition, ast.Lambda)):
            continue
        if isinstance(node, LOOPS):
            once = [node.iter, node.target] if not isinstance(node, ast.While) else []
            yield from _walk(once, loops)
            again = [node.test] if isinstance(node, ast.While) else []
            yield from _walk([*again, *node.body], (*loops, node))
            yield from _walk(list(node.orelse), loops)
        else:
            yield from _walk(list(ast.iter_child_nodes(node)), loops)


def bindings(node: ast.AST) -> list[str]:
    """The names that this one node binds."""
    if isinstance(node, ast.Assign):
        return [name for target in node.targets for name in targets(target)]
    if isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For, ast.AsyncFor)):
        if isinstance(node, ast.AnnAssign) and node.value is None:
            return []
        return targets(node.target)
    if isinstance(node, ast.withitem) and node.optional_vars is not None:
        return targets(node.optional_vars)
    return []


def assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The targets of an assignment and what they are bound to, of tuples part by part."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        return
    value = node.value
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        parts = target.elts if isinstance(target, ast.Tuple) else []
        if isinstance(value, ast.Tuple) and len(parts) == len(value.elts):
            yield from zip(parts, value.elts, strict=True)
        else:
            yield target, value


def arguments(call: ast.AST) -> list[ast.expr]:
    """What a call is given, by position and by name."""
    assert isinstance(call, ast.Call)
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def called(node: ast.AST | None) -> str:
    """The last name of what a call calls: ``step`` of ``self.optimizer.step()``."""
    func = node.func if isinstance(node, ast.Call) else None
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""


def dotted(node: ast.AST | None) -> str:
    """A name, or attributes of one, as written; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def names_in(node: ast.AST) -> list[str]:
    """The names that an expression reads, in order."""
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]


# What is bound elsewhere

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
