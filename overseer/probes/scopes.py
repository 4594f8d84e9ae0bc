"""Functions, classes and modules of a syntax tree, and the names that each of them binds."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..targets import targets

Function = (ast.FunctionDef, ast.AsyncFunctionDef)
Definition = (*Function, ast.ClassDef)
Comprehension = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
For = (ast.For, ast.AsyncFor)

#: Finds a code object again: its name and its first line.
Key = tuple[str, int]


@dataclass(eq=False)
class Scope:
    """A module, class or function.

    Attributes:
        node: Its node in the tree.
        path: Names from the module down to it; empty for the module.
        outer: The scope it stands in; ``None`` for the module.
        block: Which statement of the module's top level it is part of.
        repeated: Whether more than one function may come from this definition.
    """

    node: ast.AST
    path: tuple[str, ...] = ()
    outer: Scope | None = None
    block: int = -1
    repeated: bool = False
    inner: list[Scope] = field(default_factory=list)

    @property
    def key(self) -> Key:
        """Name and first line of its code object; decorators are part of a definition."""
        return (self.path[-1], first_line(self.node)) if self.path else ("<module>", 0)

    @property
    def is_function(self) -> bool:
        """Whether this is a function, asynchronous or not."""
        return isinstance(self.node, Function)

    @property
    def is_generator(self) -> bool:
        """Whether calling this makes a generator or an asynchronous generator."""
        return any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in self.own)

    @property
    def is_suspended(self) -> bool:
        """Whether calls of this may be left in the middle, and ended when python itself ends."""
        return self.is_generator or isinstance(self.node, ast.AsyncFunctionDef)

    @property
    def body(self) -> list[ast.stmt]:
        """The statements."""
        body: list[ast.stmt] = self.node.body  # type: ignore[attr-defined]
        return body

    @cached_property
    def own(self) -> list[ast.AST]:
        """Every node that is executed as part of this scope, in order of the text."""
        return list(own_nodes(self.body))

    @cached_property
    def parameters(self) -> list[str]:
        """Names of the parameters, in the order in which they are reported."""
        if not self.is_function:
            return []
        a: ast.arguments = self.node.args  # type: ignore[attr-defined]
        args = [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]
        return [arg.arg for arg in args if arg is not None]

    @cached_property
    def bound(self) -> list[str]:
        """Names that this scope binds, in order, parameters first."""
        names = [name for node in self.own for name in bindings(node)]
        return list(dict.fromkeys([*self.parameters, *names]))

    @cached_property
    def read(self) -> set[str]:
        """Names that this scope itself reads."""
        return {n.id for n in self.own if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}

    @cached_property
    def deleted(self) -> set[str]:
        """Names that this scope unbinds somewhere."""
        names = {n.id for n in self.own if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del)}
        handlers = (n.name for n in self.own if isinstance(n, ast.ExceptHandler))
        return names | {name for name in handlers if name}

    def chain(self) -> Iterator[Scope]:
        """This scope and those around it, but for the module."""
        scope: Scope | None = self
        while scope is not None and scope.path:
            yield scope
            scope = scope.outer


def first_line(node: ast.AST) -> int:
    """The line of a statement's first instruction: a definition starts with its decorators."""
    decorators = getattr(node, "decorator_list", None)
    first: Any = decorators[0] if decorators else node
    line: int = first.lineno
    return line


def scopes(tree: ast.Module) -> list[Scope]:
    """The module's scope and every class and function in it, outer ones first."""
    module = Scope(tree)
    found = [module]
    for index, statement in enumerate(tree.body):
        _collect([statement], module, index, False, found)
    return found


def _collect(
    body: Iterable[ast.AST], outer: Scope, block: int, repeated: bool, found: list[Scope]
) -> None:
    for node in body:
        if isinstance(node, Definition):
            scope = Scope(node, (*outer.path, node.name), outer, block, repeated)
            outer.inner.append(scope)
            found.append(scope)
            within = repeated or isinstance(node, Function)
            _collect(node.body, scope, block, within, found)
        else:
            loops = repeated or isinstance(node, (*For, ast.While))
            for part in ("body", "orelse", "finalbody", "handlers", "cases"):
                children = getattr(node, part, None)
                if isinstance(children, list):
                    _collect(children, outer, block, loops, found)


def own_nodes(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes under ``body`` that run in its scope: not those of functions and classes in it.

    A comprehension's own variables are not bound here, so its targets are left out.
    """
    stack = list(body)[::-1]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(list(children(node))[::-1])


def children(node: ast.AST) -> Iterator[ast.AST]:
    """The children of ``node`` that run in the same scope as it."""
    if isinstance(node, Definition):
        yield from node.decorator_list
        if isinstance(node, ast.ClassDef):
            yield from (*node.bases, *node.keywords)
        else:
            yield from _defaults(node.args)
    elif isinstance(node, ast.Lambda):
        yield from _defaults(node.args)
    elif isinstance(node, ast.comprehension):
        yield from (node.iter, *node.ifs)
    else:
        yield from ast.iter_child_nodes(node)


def _defaults(args: ast.arguments) -> Iterator[ast.AST]:
    yield from args.defaults
    yield from (default for default in args.kw_defaults if default is not None)


def bindings(node: ast.AST) -> list[str]:
    """The names that executing this one node binds, its children left out."""
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
    if isinstance(node, Definition):
        return [node.name]
    if isinstance(node, ast.ExceptHandler):
        return [node.name] if node.name else []
    return _rare_bindings(node)


def _rare_bindings(node: ast.AST) -> list[str]:
    if isinstance(node, (ast.MatchAs, ast.MatchStar)):
        return [node.name] if node.name else []
    if isinstance(node, ast.MatchMapping):
        return [node.rest] if node.rest else []
    if type(node).__name__ == "TypeAlias":  # Python 3.12.
        return targets(node.name)  # type: ignore[attr-defined]
    return []


def binding_line(node: ast.AST) -> int:
    """The line of the instruction that binds the last name of this node; -1: hard to say.

    What is inserted there takes that line: to tracers it is part of the binding.
    """
    if isinstance(node, ast.withitem):
        return _last_line([node.optional_vars] if node.optional_vars else [])
    if isinstance(node, ast.Assign):
        return _last_line(node.targets[-1:])
    if isinstance(node, (ast.AugAssign, *For)):
        return _last_line([node.target])
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.ExceptHandler)):
        return node.lineno
    return -1


def _last_line(nodes: list[ast.expr]) -> int:
    names = [n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)]
    stored = [n for n in names if isinstance(n.ctx, ast.Store)]
    last = max(stored, key=lambda n: (n.lineno, n.col_offset), default=None)
    return last.lineno if last is not None else -1


_FIRST = ("func", "left", "value", "test", "operand", "values", "elts", "generators", "iter")


def first_leaf(node: ast.expr) -> ast.expr:
    """The part of an expression that is evaluated first."""
    for name in _FIRST:
        part = getattr(node, name, None)
        if isinstance(part, list):
            part = part[0] if part else None
        if isinstance(part, ast.comprehension):
            # A comprehension of its own code begins by making that; since 3.12 lists have none.
            inlined = sys.version_info >= (3, 12) and not isinstance(node, ast.GeneratorExp)
            return first_leaf(part.iter) if inlined else node
        if isinstance(part, ast.expr) and not isinstance(node, ast.Dict):
            return first_leaf(part)
    if isinstance(node, ast.Dict) and node.keys:
        return first_leaf(node.keys[0] or node.values[0])
    return node


def opening_line(body: list[ast.stmt]) -> int:
    """The line of the first instruction of these statements; -1: they have none."""
    for node in body:
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            continue
        if isinstance(node, ast.AnnAssign) and node.value is None:
            continue
        if isinstance(node, ast.Assert) and not __debug__:
            continue
        first = _opening(node)
        return first_leaf(first).lineno if first is not None else node.lineno
    return -1


def _opening(node: Any) -> ast.expr | None:
    """The expression that a statement begins with; ``None``: it begins on its own."""
    if isinstance(node, Definition):
        parts = [*node.decorator_list, *(_defaults(node.args) if hasattr(node, "args") else ())]
        return parts[0] if parts else None
    if isinstance(node, ast.AugAssign):
        return node.target
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return node.items[0].context_expr
    names = ("value", "test", "iter", "subject", "exc")
    found = (getattr(node, name, None) for name in names)
    return next((part for part in found if isinstance(part, ast.expr)), None)


def pattern_names(pattern: ast.AST) -> list[str]:
    """The names that a ``case`` pattern captures, in order; alternatives bind the same names."""
    return list(dict.fromkeys(n for node in own_nodes([pattern]) for n in bindings(node)))


def loops(scope: Scope, name: str) -> list[ast.For | ast.AsyncFor | ast.While]:
    """The loops that the marker ``#loop_<name>`` means.

    Those are the ``for`` loops whose target binds the name; if there are none, the innermost
    ``while`` loops that bind it in their condition or body.
    """
    fors = [n for n in scope.own if isinstance(n, For) and name in targets(n.target)]
    if fors:
        return fors  # type: ignore[return-value]
    whiles = [n for n in scope.own if isinstance(n, ast.While) and _binds(n, name)]
    outer = {id(w) for w in whiles for inner in whiles if inner is not w and _inside(inner, w)}
    return [w for w in whiles if id(w) not in outer]


def _binds(loop: ast.While, name: str) -> bool:
    nodes = own_nodes([loop.test, *loop.body])
    return any(name in bindings(node) for node in nodes)


def _inside(inner: ast.While, outer: ast.While) -> bool:
    return any(node is inner for node in own_nodes(outer.body))


__all__ = [
    "Comprehension",
    "Definition",
    "For",
    "Function",
    "Key",
    "Scope",
    "binding_line",
    "bindings",
    "first_leaf",
    "first_line",
    "loops",
    "opening_line",
    "own_nodes",
    "pattern_names",
    "scopes",
]
