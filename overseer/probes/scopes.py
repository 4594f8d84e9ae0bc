"""Finds functions, classes and loops in a syntax tree, and the names they bind."""

from __future__ import annotations

import ast
from functools import cached_property

from .targets import targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
Definition = (*Function, ast.ClassDef)
Comprehension = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
For = (ast.For, ast.AsyncFor)
With = (ast.With, ast.AsyncWith)
#: Nodes that appear in lists of statements, handlers or cases.
Blocks = (ast.stmt, ast.excepthandler, ast.match_case)


class Scope:
    """A module, class or function.

    Attributes:
        node: Its node in the tree.
        path: Names from the module down to it; empty for the module.
        outer: The enclosing scope; ``None`` for the module.
        block: Index of the top-level statement that contains it.
        many: The definition may be executed several times, in a function or loop.
        inner: The scopes directly inside.
    """

    def __init__(
        self, node: Any, outer: Scope | None = None, block: int = -1, many: bool = False
    ) -> None:
        self.node, self.outer, self.block, self.many = node, outer, block, many
        self.path: tuple[str, ...] = (*outer.path, node.name) if outer else ()
        self.inner: list[Scope] = []

    @property
    def key(self) -> tuple[str, int]:
        """Name and first line of the scope's code object."""
        return (self.path[-1], first_line(self.node)) if self.path else ("<module>", 0)

    @property
    def is_function(self) -> bool:
        """True for functions, asynchronous ones included."""
        return isinstance(self.node, Function)

    @property
    def in_function(self) -> bool:
        """True inside a function, whose code can be replaced after loading."""
        return any(scope.is_function for scope in self.chain())

    @cached_property
    def own(self) -> list[ast.AST]:
        """All nodes executed as part of this scope, in source order."""
        return list(own_nodes(self.node.body))

    @cached_property
    def parameters(self) -> list[str]:
        """Parameter names."""
        if not self.is_function:
            return []
        a = self.node.args
        every = [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]
        return [arg.arg for arg in every if arg is not None]

    @cached_property
    def bound(self) -> list[str]:
        """Names bound in this scope, parameters first."""
        names = [name for node in self.own for name in bindings(node)]
        return list(dict.fromkeys([*self.parameters, *names]))

    @cached_property
    def read(self) -> set[str]:
        """Names read in this scope."""
        return {n.id for n in self.own if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}

    @cached_property
    def deleted(self) -> set[str]:
        """Names that may be unbound: by ``del``, an ``except`` clause, or another scope."""
        names = {n.id for n in self.own if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del)}
        names |= {n.name for n in self.own if isinstance(n, ast.ExceptHandler) and n.name}
        shared = (n.names for n in self.own if isinstance(n, (ast.Global, ast.Nonlocal)))
        return names.union(*shared)

    def chain(self) -> Iterator[Scope]:
        """Yield this scope and its enclosing scopes, without the module."""
        scope: Scope | None = self
        while scope is not None and scope.path:
            yield scope
            scope = scope.outer


def first_line(node: Any) -> int:
    """Line of a statement's first instruction; for a decorated definition, of its decorator."""
    line: int = (getattr(node, "decorator_list", None) or [node])[0].lineno
    return line


def scopes(tree: ast.Module) -> list[Scope]:
    """The module's scope and all classes and functions in it, outer ones first."""
    module = Scope(tree)
    found = [module]
    for block, statement in enumerate(tree.body):
        _collect([statement], module, block, False, found)
    return found


def _collect(
    body: Iterable[ast.AST], outer: Scope, block: int, many: bool, found: list[Scope]
) -> None:
    for node in body:
        within = many or isinstance(node, (*Function, *For, ast.While))
        scope = outer
        if isinstance(node, Definition):
            scope = Scope(node, outer, block, many)
            outer.inner.append(scope)
            found.append(scope)
        for _, part in ast.iter_fields(node):
            if isinstance(part, list) and part and isinstance(part[0], Blocks):
                _collect(part, scope, block, within, found)


def own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes under ``body`` that run in its scope, in source order."""
    stack = list(body)[::-1]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(list(_children(node))[::-1])


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of ``node`` that run in its scope."""
    if isinstance(node, Definition):
        yield from node.decorator_list
        if isinstance(node, ast.ClassDef):
            yield from (*node.bases, *node.keywords)
    if isinstance(node, (*Function, ast.Lambda)):
        yield from node.args.defaults
        yield from (default for default in node.args.kw_defaults if default is not None)
    elif isinstance(node, ast.comprehension):  # Its target is local to the comprehension.
        yield from (node.iter, *node.ifs)
    elif not isinstance(node, ast.ClassDef):
        yield from ast.iter_child_nodes(node)


def bindings(node: Any) -> list[str]:
    """Names bound by this node itself, without its children."""
    if isinstance(node, ast.Assign):
        return [name for target in node.targets for name in targets(target)]
    if isinstance(node, ast.AnnAssign):
        return targets(node.target) if node.value is not None else []
    if isinstance(node, (ast.AugAssign, ast.NamedExpr, *For)):
        return targets(node.target)
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [a.asname or a.name.partition(".")[0] for a in node.names if a.name != "*"]
    if isinstance(node, ast.withitem):
        return targets(node.optional_vars) if node.optional_vars is not None else []
    if isinstance(node, (*Definition, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return [node.name] if node.name else []
    if isinstance(node, ast.MatchMapping):
        return [node.rest] if node.rest else []
    return targets(node.name) if type(node).__name__ == "TypeAlias" else []  # Python 3.12.


def all_bindings(node: ast.AST) -> list[str]:
    """Unique names bound by a node and its children, such as a ``case`` pattern."""
    return list(dict.fromkeys(name for one in own_nodes([node]) for name in bindings(one)))


def loops(scope: Scope, name: str) -> list[Any]:
    """Loops selected by the marker ``#loop_<name>``.

    These are ``for`` loops whose target binds the name; failing that, the innermost ``while`` loops
    that bind it in their condition or body.
    """
    fors = [n for n in scope.own if isinstance(n, For) and name in targets(n.target)]
    whiles = [n for n in scope.own if isinstance(n, ast.While)]
    binding = [n for n in whiles if any(name in all_bindings(part) for part in (n.test, *n.body))]
    return fors or [n for n in binding if not any(m in binding for m in _inner(n))]


def _inner(loop: ast.While) -> Iterator[ast.AST]:
    return (node for node in own_nodes(loop.body) if isinstance(node, ast.While))
