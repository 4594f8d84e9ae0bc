"""Statements that do no work with a batch: they fetch one, ask whether there is one, or count.

What the loop does with its batch begins behind them.
"""

from __future__ import annotations

import ast
from typing import Any

from .scopes import bindings, own_nodes

LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
TRIES = tuple(getattr(ast, name) for name in ("Try", "TryStar") if hasattr(ast, name))
#: What takes the next of something by hand.
FETCHES = ("next", "anext", "__next__", "__anext__")
_ACTS = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom)


def loads(*nodes: ast.AST) -> set[str]:
    """The variables whose values these read."""
    read: set[str] = set()
    for node in own_nodes(nodes):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            read.add(node.target.id)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            read.add(node.id)
    return read


def fetches(node: ast.AST, names: tuple[str, ...] = FETCHES) -> bool:
    """Whether this is an assignment from such a call."""
    if not isinstance(node, ast.Assign):
        return False
    value = node.value.value if isinstance(node.value, ast.Await) else node.value
    called = getattr(value, "func", None)
    return getattr(called, "id", getattr(called, "attr", None)) in names


def leaves(body: list[ast.stmt]) -> bool:
    """Whether nothing comes behind these."""
    return bool(body) and isinstance(body[-1], LEAVES)


def is_passed(node: ast.stmt) -> bool:
    """Whether the statement does nothing that counts, and what follows it comes."""
    return is_idle(node) and not any(isinstance(one, LEAVES) for one in own_nodes([node]))


def is_idle(node: ast.stmt) -> bool:
    """Whether the statement does nothing that counts: it notes a constant, asks for one."""
    if isinstance(node, ast.If):
        acts = any(isinstance(one, _ACTS) for one in own_nodes([node.test]))
        return not acts and all(is_idle(one) for one in (*node.body, *node.orelse))
    noted = isinstance(node, (ast.Assign, ast.AugAssign, ast.Return))
    plain = noted and isinstance(getattr(node, "value", None), (ast.Constant, type(None)))
    return plain or isinstance(node, (ast.Pass, ast.Continue, ast.Break))


def begun(block: list[ast.stmt], at: int, names: set[str]) -> int:
    """Where the work with a batch begins: behind what else is fetched, and behind what asks."""
    while at < len(block) and fetches(block[at]) and not names & loads(block[at]):
        at += 1
    while True:
        asked = at
        while (
            asked < len(block) and is_passed(block[asked]) and not isinstance(block[asked], ast.If)
        ):
            asked += 1
        if asked == len(block) or not is_guard(block[asked], names):
            break
        at = asked + 1
    return at


def is_told(node: Any, asked: ast.stmt) -> bool:
    """Whether ``if done: break`` leaves if a handler of the ``try`` has noted the end."""
    if not isinstance(node, TRIES) or not isinstance(asked, ast.If) or asked.orelse:
        return False
    flipped = isinstance(asked.test, ast.UnaryOp) and isinstance(asked.test.op, ast.Not)
    test = asked.test.operand if flipped else asked.test  # type: ignore[attr-defined]
    if not isinstance(test, ast.Name) or not leaves(asked.body) or node.orelse or node.finalbody:
        return False
    ends = [h.body for h in node.handlers if not leaves(h.body)]
    return all(_notes(body[-1], test.id, not flipped) for body in ends)


def _notes(node: ast.stmt, name: str, value: bool) -> bool:
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
        return False
    return name in bindings(node) and node.value.value is value


def is_guard(node: ast.stmt, names: set[str]) -> bool:
    """Whether this is as ``if batch is None: break``."""
    if not isinstance(node, ast.If) or node.orelse or not leaves(node.body):
        return False
    if names & loads(*node.body):
        return False  # It works with what may be a batch.
    test = node.test
    tests = [test]
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        tests = test.values
    return any(_absent(one, names) for one in tests)


def present_in(node: ast.stmt, names: set[str]) -> list[ast.stmt] | None:
    """What ``if batch is not None`` does then; ``None``: this is another statement."""
    absent = _absent(node.test, names) if isinstance(node, ast.If) else None
    if absent is None:
        return None
    blocks: tuple[list[ast.stmt], ...] = (node.body, node.orelse)  # type: ignore[attr-defined]
    return None if names & loads(*blocks[not absent]) else blocks[absent]


def _absent(test: ast.expr, names: set[str]) -> bool | None:
    """Whether it is asked for no batch, or for one; ``None``: for something else."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        absent = _absent(test.operand, names)
        return None if absent is None else not absent
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        if _is_size(test.left, names) and getattr(test.comparators[0], "value", None) == 0:
            empty = isinstance(test.ops[0], ast.Eq)
            return empty if empty or isinstance(test.ops[0], (ast.NotEq, ast.Gt)) else None
        if not _is_one(test.left, names) or not _is_sentinel(test.ops[0], test.comparators[0]):
            return None
        return isinstance(test.ops[0], (ast.Is, ast.Eq))
    return False if _is_one(test, names) or _is_size(test, names) else None


def _is_size(node: ast.expr, names: set[str]) -> bool:
    called = isinstance(node, ast.Call) and getattr(node.func, "id", None) == "len"
    return called and any(_is_one(one, names) for one in node.args)  # type: ignore[attr-defined]


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


__all__ = [
    "FETCHES",
    "LEAVES",
    "TRIES",
    "begun",
    "fetches",
    "is_guard",
    "is_idle",
    "is_passed",
    "is_told",
    "leaves",
    "loads",
    "present_in",
]
