"""A module's source in blocks, with and without inserted calls.

A block is one statement of the module's top level. It is compiled alone but for the module's
imports and futures: what its functions compile to depends on nothing else.
"""

from __future__ import annotations

import ast

from .calls import declared
from .insert import insert, top
from .scopes import Function, Scope, scopes
from .source import compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import CodeType

    from .calls import Trigger
    from .insert import Orders

    #: Finds a code object again: its name and its first line.
    Key = tuple[str, int]
    Codes = dict[Key, CodeType]


class Unit:
    """The source of a module, or of a part of the script that runs on its own.

    Attributes:
        module: The module's name; ``__main__`` for the script.
        filename: As code objects have it.
        tree: Its syntax tree, which is never changed.
        futures: The ``__future__`` imports in force.
        scopes: The module's scope first, then every class and function.
        orders: What is to be inserted in which scope.
        loaded: The scopes in which something was inserted when it was executed.
    """

    def __init__(
        self, module: str, filename: str, tree: ast.Module, futures: Iterable[ast.stmt] = ()
    ) -> None:
        self.module, self.filename, self.tree = module, filename, tree
        own = (n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__")
        self.futures = [*futures, *own]
        self.scopes = scopes(tree)
        self.orders: dict[Scope, list[Trigger]] = {}
        self.loaded: Mapping[Scope, list[Trigger]] = {}
        self._known: dict[int, list[Codes]] = {}

    def at(self, path: tuple[str, ...]) -> list[Scope]:
        """The scopes with this path: none, one, or several where a name is defined again."""
        return [scope for scope in self.scopes if scope.path == path]

    def executed(self) -> ast.Module:
        """The tree to execute: with everything inserted, or as it is if there is nothing."""
        self.loaded = {scope: list(triggers) for scope, triggers in self.orders.items()}
        if not self.orders:
            return self.tree
        body: list[ast.stmt] = []
        for block in range(len(self.tree.body)):
            body += self._block(block, self.loaded)
        triggers = self.loaded.get(self.scopes[0])
        if triggers:
            at = top(self.tree)
            body.insert(at, declared(name for t in triggers for name in (t.event, t.relay)))
        return ast.Module(body=body, type_ignores=self.tree.type_ignores)

    def known(self, block: int) -> list[Codes]:
        """Code that functions of a block may have: the source's, as executed, and given since."""
        if block not in self._known:
            self._known[block] = [self._codes([self.tree.body[block]])]
            if any(scope.block == block for scope in self.loaded):
                self._known[block].append(self._codes(self._block(block, self.loaded)))
        return self._known[block]

    def renewed(self, block: int) -> Codes:
        """The block's code with everything inserted that is wanted now."""
        codes = self._codes(self._block(block, self.orders))
        self.known(block).append(codes)
        return codes

    def _block(self, block: int, orders: Orders) -> list[ast.stmt]:
        module, statement = self.scopes[0], self.tree.body[block]
        here = bool(orders.get(module)) and block >= top(self.tree)
        if not here and all(scope.block != block for scope in orders):
            return [statement]
        return insert(statement, module, orders)

    def _codes(self, statements: list[ast.stmt]) -> Codes:
        # From 3.12 on, a call of an attribute of an imported name compiles to other instructions.
        imports = list(_imports(self.tree))
        tree = ast.Module(body=[*self.futures, *statements, *imports], type_ignores=[])
        return dict(_named(compiled(tree, self.filename)))


def _imports(node: ast.AST) -> Iterator[ast.stmt]:
    """The imports of the module's own level, wherever they are there."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            if getattr(child, "module", None) != "__future__":
                yield child
        elif not isinstance(child, (*Function, ast.ClassDef, ast.expr)):
            yield from _imports(child)


def _named(code: CodeType) -> Iterator[tuple[Key, CodeType]]:
    """Every class and function in ``code``; lambdas and comprehensions have no names."""
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            if not constant.co_name.startswith("<"):
                yield key_of(constant), constant
            yield from _named(constant)


def key_of(code: CodeType) -> Key:
    """How to find ``code`` again in the unit it comes from."""
    return code.co_name, code.co_firstlineno
