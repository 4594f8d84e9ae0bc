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
