"""Compiles a module's source block by block, with and without inserted calls.

A block is one top-level statement. It is compiled together with the module's imports and futures
only, because nothing else affects the code of its functions.
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

    #: Identifies a code object within a unit: its name and first line.
    Key = tuple[str, int]
    Codes = dict[Key, CodeType]


class Unit:
    """Source of a module, or of one part of the script (prefix or rest).

    Attributes:
        module: The module's name; ``__main__`` for the script.
        filename: Filename in its code objects.
        tree: Its syntax tree; never modified.
        futures: The ``__future__`` imports in force.
        scopes: The module's scope first, then every class and function.
        orders: Triggers to insert, by scope.
        loaded: Triggers inserted before the unit was executed, by scope.
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
        """All scopes with this path; several if a name is defined again."""
        return [scope for scope in self.scopes if scope.path == path]

    def executed(self) -> ast.Module:
        """Build the tree to execute, with all ordered calls; without orders, the original."""
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
        """Code that functions of a block may have: original, as executed, and later versions."""
        if block not in self._known:
            self._known[block] = [self._codes([self.tree.body[block]])]
            if any(scope.block == block for scope in self.loaded):
                self._known[block].append(self._codes(self._block(block, self.loaded)))
        return self._known[block]

    def renewed(self, block: int) -> Codes:
        """Compile the block with all calls ordered so far."""
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
        # Since 3.12, calling an attribute of an imported name compiles to different instructions.
        imports = list(_imports(self.tree))
        tree = ast.Module(body=[*self.futures, *statements, *imports], type_ignores=[])
        return dict(_named(compiled(tree, self.filename)))


def _imports(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the imports at module level, also inside ``if`` and ``try``; without futures."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            if getattr(child, "module", None) != "__future__":
                yield child
        elif not isinstance(child, (*Function, ast.ClassDef, ast.expr)):
            yield from _imports(child)


def _named(code: CodeType) -> Iterator[tuple[Key, CodeType]]:
    """Yield all classes and functions in ``code``; skips lambdas and comprehensions."""
    for constant in code.co_consts:
        if isinstance(constant, type(code)):
            if not constant.co_name.startswith("<"):
                yield key_of(constant), constant
            yield from _named(constant)


def key_of(code: CodeType) -> Key:
    """Key of ``code`` in its unit."""
    return code.co_name, code.co_firstlineno
