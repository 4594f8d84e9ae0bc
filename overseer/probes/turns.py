"""Where in the body of a ``while`` loop an iteration begins, and where it ends.

A ``for`` loop has its batch before its body begins; a ``while`` loop may fetch it in its body. What
comes before belongs to no batch: the wait for it is loading, and a turn that gets none is none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from .scopes import Definition, For, bindings, own_nodes

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_EXITS = (ast.Return, ast.Continue, ast.Break)
_TRIES = tuple(getattr(ast, name) for name in ("Try", "TryStar") if hasattr(ast, name))
_LOOPS = (*For, ast.While)
_WITHS = (ast.With, ast.AsyncWith)
_FETCHES = ("next", "anext", "__next__", "__anext__")


class Part(NamedTuple):
    """Statements that are an iteration, or part of one.

    Attributes:
        block: The block they stand in, to the end of which they go.
        at: Where in it they begin.
        begins: Whether the iteration begins here.
        goes_on: Whether it goes on elsewhere, unless an exception leaves this part.
    """

    block: list[ast.stmt]
    at: int
    begins: bool = True
    goes_on: bool = False

    @property
    def works(self) -> bool:
        """Whether there are any statements."""
        return self.at < len(self.block)


def turn(loop: ast.While, name: str) -> list[Part]:
    """What an iteration of the loop is that is named by a variable; empty: the whole body.

    It begins when the variable has been bound, or the first thing that its value is made of, unless
    nothing comes of that: then the work is what binds it, as in ``loss = step(next(batches))``. A
    loop that reads the variable's old value first is named by a counter, say, or by a batch that
    the turn before has fetched: an iteration is all that follows what it takes by ``next``.
    """
    turns = _Turns(loop)
    if any(name in bindings(node) for node in own_nodes([loop.test])):
        return []
    if turns.fresh(name):
        taken = any(_takes(node, name) for node in loop.body)
        parts = turns.parts(loop.body, name) if taken else []
        return parts if turns.uses(parts) else []
    fetched = next((other for other in turns.fetched if turns.fresh(other)), None)
    parts = turns.parts(loop.body, fetched) if fetched is not None else []
    return parts if parts and parts[-1].block is loop.body else []


class _Turns:
    """One loop."""

    def __init__(self, loop: ast.While) -> None:
        self._loop = loop
        self._fresh: dict[str, bool] = {}

    def fresh(self, name: str) -> bool:
        """Whether no turn reads the value that a turn before has given to the variable."""
        known = self._fresh.get(name)
        if known is None:
            flow = _Flow(name)
            flow.statement(self._loop, False)
            known = self._fresh[name] = not flow.early
        return known

    @cached_property
    def fetched(self) -> list[str]:
        """What the body takes from an iterator by hand."""
        assigns = (node for node in own_nodes(self._loop.body) if _fetches(node))
        return [name for node in assigns for name in bindings(node)]

    def uses(self, parts: list[Part]) -> bool:
        """Whether these work with what the turn has got before them."""
        read = _loads(*(node for part in parts for node in part.block[part.at :]))
        got = {n for node in own_nodes(self._loop.body) for n in bindings(node)} & read
        return bool(self.fetched) or any(self.fresh(name) for name in got)

    def parts(self, block: list[ast.stmt], name: str) -> list[Part]:
        """As :func:`turn`, for a block of the body; empty: that cannot be said."""
        at, name = self._taken(block, name)
        node = block[at]
        within = self._within(node, name)
        if within is None or not _sure(block, at, name):
            return within or []
        after = at + 1
        names = {n for one in own_nodes([node]) for n in bindings(one)}
        while after < len(block) and _is_guard(block[after], names):
            after += 1
        working = [part for part in within if part.works]
        if after == len(block):
            return within if working else [Part(block, after)]
        if not working:
            present = _present(block[after], names) if after + 1 == len(block) else None
            return [Part(present, 0) if present else Part(block, after)]
        if isinstance(node, _WITHS):
            return []  # What it manages may swallow an exception: nobody knows what goes on.
        if len(working) == 1 and _falls_through(node, working[0]):
            return [working[0]._replace(goes_on=True), Part(block, after, begins=False)]
        return [Part(block, after)]

    def _taken(self, block: list[ast.stmt], name: str) -> tuple[int, str]:
        """Which statement binds the variable, or the first thing that its value is made of."""
        taking = [i for i, node in enumerate(block) if _takes(node, name)]
        at = next((i for i in taking if _sure(block, i, name)), taking[0])
        read = _loads(block[at])
        for index in reversed(range(at)):
            node = block[index]
            made = {n for one in own_nodes([node]) for n in bindings(one)} & read
            for one in sorted(made):
                if self._roots(block, index, one):
                    at, name, read = index, one, read | _loads(node)
        return at, name

    def _roots(self, block: list[ast.stmt], at: int, name: str) -> bool:
        node = block[at]
        taken = _takes(node, name) and _sure(block, at, name)
        return taken and not isinstance(node, (*_LOOPS, *Definition)) and self.fresh(name)

    def _within(self, node: Any, name: str) -> list[Part] | None:
        """What an iteration is within the statement that binds the variable.

        ``None``: that cannot be said.
        """
        if isinstance(node, _TRIES):
            return self._tried(node, name)
        if name in (n for head in own_nodes(_head(node)) for n in bindings(head)):
            return _headed(node, name)
        if isinstance(node, (ast.If, *_WITHS)):
            blocks = [node.body, getattr(node, "orelse", [])]
            found = [self.parts(b, name) for b in blocks if any(_takes(one, name) for one in b)]
            return [part for parts in found for part in parts] if all(found) else None
        return None

    def _tried(self, node: Any, name: str) -> list[Part] | None:
        first: list[Part] = []
        if any(_takes(one, name) for one in node.body):
            first = self.parts(node.body, name)
            if not first:
                return None
            if node.orelse and not any(part.works for part in first):
                first = [Part(node.orelse, 0)]
        others = [h.body for h in node.handlers] + ([] if first else [node.orelse])
        taking = [b for b in others if any(_takes(one, name) for one in b)]
        return first + [part for b in taking for part in self.parts(b, name) if part.works]


def _headed(node: Any, name: str) -> list[Part] | None:
    """What an iteration is within a statement that binds the variable before its blocks."""
    if isinstance(node, _WITHS):
        return [Part(node.body, 0)]
    if isinstance(node, ast.If):
        present = _present(node, {name})
        return [Part(present, 0)] if present else [] if _is_guard(node, {name}) else None
    own = own_nodes([node])
    within = any(isinstance(one, ast.NamedExpr) and one.target.id == name for one in own)
    return None if within or isinstance(node, (*_LOOPS, ast.Match)) else []


class _Flow:
    """Follows a variable through a turn.

    Attributes:
        early: Whether it may be read before the turn has bound it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.early = False

    def block(self, statements: Iterable[ast.stmt], bound: bool) -> bool:
        """Whether the variable is bound after these, if they come to their end."""
        for node in statements:
            bound = self.statement(node, bound)
        return bound

    def statement(self, node: Any, bound: bool) -> bool:
        """The same for one statement."""
        if isinstance(node, _TRIES):
            return self._try(node, bound)
        head = self._simple(list(_head(node)), bound)
        if isinstance(node, _LOOPS):
            self.block(node.body, head)
            self.block(node.orelse, head)
            return head
        if isinstance(node, ast.If):
            ends = [self.block(body, head) for body in (node.body, node.orelse)]
            return all(ends)
        if isinstance(node, _WITHS):
            return self.block(node.body, head)
        if isinstance(node, ast.Match):
            ends = [self._case(case, head) for case in node.cases]
            return head or (bool(ends) and all(ends) and _has_default(node))
        return head or isinstance(node, _LEAVES)

    def _case(self, case: Any, bound: bool) -> bool:
        parts = [case.pattern, *([case.guard] if case.guard else [])]
        return self.block(case.body, self._simple(parts, bound))

    def _try(self, node: Any, bound: bool) -> bool:
        ends = [self.block([*node.body, *node.orelse], bound)]
        ends += [self.block(handler.body, bound) for handler in node.handlers]
        last = self.block(node.finalbody, bound)
        return all(ends) or (last and bool(node.finalbody))

    def _simple(self, nodes: list[ast.AST], bound: bool) -> bool:
        own, name = list(own_nodes(nodes)), self._name
        if not bound:
            self.early |= name in _loads(*nodes)
        return bound or any(name in bindings(node) for node in own)


def _head(node: Any) -> Iterator[ast.AST]:
    """What a statement evaluates and binds before its blocks."""
    if isinstance(node, (ast.While, ast.If)):
        yield node.test
    elif isinstance(node, For):
        yield from (node.iter, node.target)
    elif isinstance(node, _WITHS):
        yield from node.items
    elif isinstance(node, ast.Match):
        yield node.subject
    else:
        yield node


def _has_default(node: ast.Match) -> bool:
    last = node.cases[-1]
    return last.guard is None and isinstance(last.pattern, ast.MatchAs) and not last.pattern.pattern


def _loads(*nodes: ast.AST) -> set[str]:
    """The variables whose values these read."""
    read: set[str] = set()
    for node in own_nodes(nodes):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            read.add(node.target.id)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            read.add(node.id)
    return read


def _takes(node: ast.AST, name: str) -> bool:
    """Whether the statement may give the variable a value that is worth a turn."""
    return any(name in bindings(one) and not _is_reset(one) for one in own_nodes([node]))


def _is_reset(node: ast.AST) -> bool:
    """Whether a variable is set to a constant, as ``batch = None`` does."""
    assigns = isinstance(node, (ast.Assign, ast.AnnAssign))
    return assigns and isinstance(getattr(node, "value", None), ast.Constant)


def _sure(block: list[ast.stmt], at: int, name: str) -> bool:
    """Whether the variable is bound by the block up to and with this statement."""
    return _Flow(name).block(block[: at + 1], False)


def _fetches(node: ast.AST) -> bool:
    if not isinstance(node, ast.Assign):
        return False
    value = node.value.value if isinstance(node.value, ast.Await) else node.value
    called = getattr(value, "func", None)
    return getattr(called, "id", getattr(called, "attr", None)) in _FETCHES


def _leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], _LEAVES)


def _falls_through(node: Any, part: Part) -> bool:
    """Whether the ``try`` that holds this part is left by its end, or the turn is."""
    if not isinstance(node, _TRIES) or node.finalbody or part.goes_on:
        return False
    whole = part.block is (node.orelse or node.body)
    left = any(isinstance(one, _EXITS) for one in own_nodes(part.block[part.at :]))
    return whole and not left and all(_leaves(handler.body) for handler in node.handlers)


# What is asked of a batch at once: whether there is one


def _is_guard(node: ast.stmt, names: set[str]) -> bool:
    """Whether this is as ``if batch is None: break``."""
    if not isinstance(node, ast.If) or node.orelse or not _leaves(node.body):
        return False
    test = node.test
    tests = [test]
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        tests = test.values
    return any(_absent(one, names) for one in tests)


def _present(node: ast.stmt, names: set[str]) -> list[ast.stmt] | None:
    """What ``if batch is not None`` does then; ``None``: this is another statement."""
    absent = _absent(node.test, names) if isinstance(node, ast.If) else None
    if absent is None:
        return None
    return node.orelse if absent else node.body  # type: ignore[attr-defined,no-any-return]


def _absent(test: ast.expr, names: set[str]) -> bool | None:
    """Whether it is asked for no batch, or for one; ``None``: for something else."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        absent = _absent(test.operand, names)
        return None if absent is None else not absent
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        if not _is_one(test.left, names) or not _is_sentinel(test.ops[0], test.comparators[0]):
            return None
        return isinstance(test.ops[0], (ast.Is, ast.Eq))
    return False if _is_one(test, names) else None


def _is_one(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.NamedExpr):
        node = node.target
    return isinstance(node, ast.Name) and node.id in names


def _is_sentinel(asked: ast.cmpop, value: ast.expr) -> bool:
    constant = value.value if isinstance(value, ast.Constant) else ...
    if isinstance(asked, (ast.Is, ast.IsNot)):
        return not isinstance(constant, bool)
    alike = isinstance(asked, (ast.Eq, ast.NotEq))
    return alike and (constant is None or isinstance(constant, (str, bytes)))


__all__ = ["Part", "turn"]
