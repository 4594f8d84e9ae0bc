"""A module's source as the engine works on it: compiled in blocks, once for each set of probes.

A block is one statement of the module's top level. It is compiled alone but for the module's
imports: what its functions compile to depends on nothing else.
"""

from __future__ import annotations
import __future__ as futures

import ast
import dis
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType

from .hidden import Shared
from .insert import Orders, Wanted, declared, insert, top
from .scopes import Key, Scope, scopes
from .sources import compiled
from .stanzas import Trigger

#: Instructions after which the body of a function begins.
_OPENS = {dis.opmap[name] for name in ("RESUME", "GEN_START") if name in dis.opmap}
_LIKE_BEFORE = (
    "co_varnames",
    "co_freevars",
    "co_cellvars",
    "co_argcount",
    "co_flags",
    "co_name",
    "co_firstlineno",
)


class Unfit(Exception):
    """A probe that cannot be inserted without changing the function it is in."""


@dataclass(eq=False)
class Unit:
    """The source of a module, or of a part of it that runs on its own.

    Attributes:
        module: The module's name; ``__main__`` for the script.
        filename: As code objects have it.
        tree: Its syntax tree, which is never changed.
        names: Hidden names that all probes share.
        flags: ``__future__`` flags in force besides its own imports.
        loaded: What was inserted when it was executed; ``None``: not executed by voir.
        lasting: Hidden names that its code may go on calling after the run.
    """

    module: str
    filename: str
    tree: ast.Module
    names: Shared
    flags: int = 0
    loaded: Orders | None = None
    lasting: set[str] = field(default_factory=set)
    _plain: dict[int, dict[Key, CodeType]] = field(default_factory=dict)
    _executed: dict[int, dict[Key, CodeType]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.flags |= future_flags(self.tree)

    @cached_property
    def scopes(self) -> list[Scope]:
        """The module's scope first, then every class and function."""
        return scopes(self.tree)

    def at(self, path: tuple[str, ...]) -> list[Scope]:
        """The scopes with this path: none, one, or several where a name is defined again."""
        return [scope for scope in self.scopes if scope.path == path]

    def plain(self, block: int) -> dict[Key, CodeType]:
        """The block's code objects as without probes."""
        if block not in self._plain:
            self._plain[block] = self._codes([self.tree.body[block]])
        return self._plain[block]

    def probed(self, block: int, orders: Orders) -> dict[Key, CodeType]:
        """The block's code objects with ``orders`` inserted.

        Raises:
            Unfit: A function would not look the same any more.
        """
        return self._codes(self._block(block, orders)) if orders else self.plain(block)

    def at_load(self, block: int) -> dict[Key, CodeType]:
        """The block's code objects as they were executed."""
        if block not in self._executed:
            here = {s: made for s, made in (self.loaded or {}).items() if s.block == block}
            self._executed[block] = self.probed(block, here)
        return self._executed[block]

    def instrumented(self, orders: Orders) -> ast.Module:
        """The whole tree with ``orders`` inserted; the same tree when there are none.

        Raises:
            Unfit: A function would not look the same any more.
        """
        if not orders:
            return self.tree
        module = self.scopes[0]
        blocks = self._touched(orders)
        body: list[ast.stmt] = []
        for index, statement in enumerate(self.tree.body):
            body += self._block(index, orders) if index in blocks else [statement]
        triggers = orders.get(module, [])
        if triggers:
            hidden = (*self.names.all, *(n for t in triggers for n in t.hidden))
            body[top(self.tree) : top(self.tree)] = declared(hidden)
        return ast.Module(body=body, type_ignores=self.tree.type_ignores)

    def _touched(self, orders: Orders) -> set[int]:
        module = self.scopes[0]
        if orders.get(module):
            return set(range(top(self.tree), len(self.tree.body)))
        return {scope.block for scope in orders}

    def _block(self, block: int, orders: Orders) -> list[ast.stmt]:
        """The statements that stand for one statement; functions keep their shape."""
        statement, module = self.tree.body[block], self.scopes[0]
        made = insert(statement, module, self._wanted(orders, {}))
        changed = self._changed_shape(block, made)
        if not changed:
            return made
        # A variable mentioned earlier than before comes earlier in co_varnames: say them in order.
        order = {s: _first_names(*changed[s.key]) for s in self.scopes if s.key in changed}
        made = insert(statement, module, self._wanted(orders, order))
        for key in self._changed_shape(block, made):
            raise Unfit(f"{key[0]} would not have the same variables with this probe in it")
        return made

    def _wanted(self, orders: Orders, ordered: Mapping[Scope, Sequence[str]]) -> Wanted:
        return Wanted(orders, self.names, self._entry_line, ordered, self.lasting)

    def _entry_line(self, scope: Scope) -> int:
        code = self.plain(scope.block).get(scope.key)
        return entry_line(code) if code is not None else -1

    def _changed_shape(
        self, block: int, made: list[ast.stmt]
    ) -> dict[Key, tuple[CodeType, CodeType]]:
        """Code objects that would look different: as they are, and as ``made`` has them."""
        plain, new = self.plain(block), self._codes(made)
        # What is not in both is in code that is never reached, which the compiler drops at will.
        return {
            key: (code, new[key])
            for key, code in plain.items()
            if key in new and any(getattr(code, n) != getattr(new[key], n) for n in _LIKE_BEFORE)
        }

    @cached_property
    def _imports(self) -> list[ast.stmt]:
        """The import statements of the module's own level, wherever they stand there."""
        found: list[ast.stmt] = []
        level: list[ast.AST] = list(self.tree.body)
        while level:
            node = level.pop(0)
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                found.append(node)
            elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                level += [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.expr)]
        return [n for n in found if getattr(n, "module", None) != "__future__"]

    def _codes(self, statements: list[ast.stmt]) -> dict[Key, CodeType]:
        # A call of an attribute of what the module imports compiles to other instructions.
        tree = ast.Module(body=[*statements, *self._imports], type_ignores=[])
        return dict(named_codes(compiled(tree, self.filename, self.flags)))


def named_codes(code: CodeType) -> Iterable[tuple[Key, CodeType]]:
    """Every class and function in ``code`` with its key; lambdas and comprehensions have none."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if not constant.co_name.startswith("<"):
                yield key_of(constant), constant
            yield from named_codes(constant)


def _first_names(plain: CodeType, new: CodeType) -> tuple[str, ...]:
    """The local variables up to the last one that changed its place."""
    before, after = plain.co_varnames, new.co_varnames
    places = [i for i, name in enumerate(before) if after[i : i + 1] != (name,)]
    return before[: max(places, default=-1) + 1]


def key_of(code: CodeType) -> Key:
    """How to find ``code`` again in the unit it comes from."""
    return code.co_name, code.co_firstlineno


def entry_line(code: CodeType) -> int:
    """The line of the first instruction that the function's body compiles to; -1: none has one.

    Before it stands what opens the call, at the line of the ``def``.
    """
    start = 0
    for offset in range(0, len(code.co_code), 2):
        if code.co_code[offset] in _OPENS:
            start = offset + 2
            break
    lines = [line for begin, end, line in code.co_lines() if end > start]
    return lines[0] or -1 if lines else -1


def future_flags(tree: ast.Module) -> int:
    """The compiler flags that the tree's ``__future__`` imports stand for."""
    flags = 0
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            for alias in node.names:
                feature = getattr(futures, alias.name, None)
                flags |= getattr(feature, "compiler_flag", 0)
    return flags


def merged(orders: Iterable[tuple[Scope, list[Trigger]]]) -> dict[Scope, list[Trigger]]:
    """The triggers of several probes by scope."""
    found: dict[Scope, list[Trigger]] = {}
    for scope, triggers in orders:
        found.setdefault(scope, []).extend(triggers)
    return found


__all__ = ["Unfit", "Unit", "entry_line", "future_flags", "key_of", "merged", "named_codes"]
