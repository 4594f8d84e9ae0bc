"""Builds inserted calls as syntax trees.

A statement is followed by ``try: <site>(loss, batch)``. If another variable is unbound, a handler
fires the event with the focus alone. The handler also covers code unpickled in a process that lacks
the names, and the recursion limit. In an expression, ``<relay>(value)`` replaces the value.

A call has the line number of the statement it follows; at the start of a function or loop body,
that of the function or loop. A call at the end of a function or iteration has no line number if it
needs no handler: the compiler copies it to every exit, and each copy takes the exit's line.
"""

from __future__ import annotations

import ast
import copy

from .names import COMPILING, EXCEPTION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeVar

    Node = TypeVar("Node", bound=ast.AST)

#: Line number of nodes that have none.
NOWHERE = -1


class Trigger:
    """A call to insert where a variable is bound or a marker is reached.

    Attributes:
        name: The variable or marker.
        event: Name of the callable that takes an event's values.
        relay: Name of the callable that takes a value and returns it or its replacement.
        others: The event's other variables, in key order; empty strings for markers, whose value
            is ``True``.
        focus: Index of the focus among the keys.
        overrides: The variable is assigned the value that ``relay`` returns.
        enters: Name of the callable to call before the enclosing loop; empty for none.
        in_calls: Outside a loop, ``enters`` is called at the start of the function.
    """

    __slots__ = (
        "enters", "event", "focus", "in_calls", "name", "others", "overrides", "relay",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        event: str,
        relay: str,
        others: tuple[str, ...] = (),
        focus: int = 0,
        overrides: bool = False,
        enters: str = "",
        in_calls: bool = True,
    ) -> None:
        self.name, self.event, self.relay, self.enters = name, event, relay, enters
        self.others, self.focus, self.overrides = others, focus, overrides
        self.in_calls = in_calls


def fired(trigger: Trigger, value: ast.expr, line: int, unsure: bool = False) -> ast.stmt:
    """Build the statement that fires an event.

    Args:
        trigger: The call to insert.
        value: The value of the focus.
        line: Line number of the inserted nodes.
        unsure: Another local variable may be unbound. Reading one breaks a graph under Dynamo, so
            there the event has the focus only.
    """
    whole = _act(trigger, value, _read_all(trigger.others))
    alone = _act(trigger, copy.deepcopy(value), [])
    if unsure:
        whole = ast.If(called(COMPILING), [copy.deepcopy(alone)], [whole])
    nothing: list[ast.stmt] = [ast.Pass()]
    return guarded([whole], [guarded([alone], nothing, line)] if trigger.others else nothing, line)


def marked(trigger: Trigger) -> ast.stmt:
    """Build a marker's event without a handler, so that the compiler can copy it."""
    return located(_act(trigger, ast.Constant(True), _read_all(trigger.others)))


def entered(trigger: Trigger, line: int) -> ast.stmt:
    """Build the call that records the start of a loop or function."""
    nothing: list[ast.stmt] = [ast.Pass()]
    return guarded([ast.Expr(called(trigger.enters))], nothing, line)


def _act(trigger: Trigger, value: ast.expr, others: list[ast.expr]) -> ast.stmt:
    if trigger.overrides:
        target = ast.Name(trigger.name, ast.Store())
        return ast.Assign([target], called(trigger.relay, value, *others))
    at = trigger.focus if others else 0
    return ast.Expr(called(trigger.event, *others[:at], value, *others[at:]))


def passed(trigger: Trigger, value: ast.expr, alone: bool) -> ast.expr:
    """Pass ``value`` through a site; with ``alone``, the event has the focus only."""
    made = called(trigger.relay, value, *([] if alone else _read_all(trigger.others)))
    return located(made, getattr(value, "lineno", NOWHERE))


def guarded(body: list[ast.stmt], caught: list[ast.stmt], line: int) -> ast.stmt:
    """Run ``body``; on NameError or RecursionError, ``caught``."""
    errors: list[ast.expr] = [read("NameError"), read("RecursionError")]
    handler = ast.ExceptHandler(ast.Tuple(errors, ast.Load()), None, caught)
    return located(ast.Try(body=body, handlers=[handler], orelse=[], finalbody=[]), line)


def if_bound(names: Iterable[str], then: ast.stmt, line: int) -> ast.stmt:
    """Run ``then`` if all these variables are bound; never under Dynamo."""
    reads = ast.Expr(ast.Tuple(_read_all(names), ast.Load()))
    unbound = ast.ExceptHandler(read("NameError"), None, [ast.Pass()])
    tried = ast.Try(body=[reads], handlers=[unbound], orelse=[then], finalbody=[])
    return located(ast.If(ast.UnaryOp(ast.Not(), called(COMPILING)), [tried], []), line)


def finally_(body: list[ast.stmt], last: list[ast.stmt], line: int = NOWHERE) -> ast.stmt:
    """Run ``body``, then ``last`` in a ``finally`` block."""
    return located(ast.Try(body=body, handlers=[], orelse=[], finalbody=last), line)


def on_error(body: list[ast.stmt], what: list[ast.stmt], line: int) -> ast.stmt:
    """Run ``body``; on an exception, run ``what`` and re-raise."""
    again = [*what, located(ast.Raise(None, None))]
    handler = located(ast.ExceptHandler(None, None, again))
    return located(ast.Try(body=body, handlers=[handler], orelse=[], finalbody=[]), line)


def present(names: Iterable[str], line: int) -> ast.stmt:
    """Define ``names`` if this process lacks them; calls in expressions have no handler."""
    code = (
        f"import builtins\nfor name in {tuple(names)!r}:\n"
        "    builtins.__dict__.setdefault(name, lambda *values: values[0] if values else None)"
    )
    make = ast.Expr(called("exec", ast.Constant(code), ast.Dict([], [])))
    reads: list[ast.stmt] = [ast.Expr(each) for each in _read_all(names)]
    return guarded(reads, [make], line)


def declared(names: Iterable[str]) -> ast.stmt:
    """Declare names global, so that lookups skip class and module namespaces."""
    return located(ast.Global(list(dict.fromkeys(names))))


def exception() -> ast.expr:
    """Build an expression for the exception being handled."""
    return called(EXCEPTION)


def read(name: str) -> ast.Name:
    """Build a read of a variable."""
    return ast.Name(name, ast.Load())


def _read_all(names: Iterable[str]) -> list[ast.expr]:
    return [read(name) if name else ast.Constant(True) for name in names]


def called(name: str, *args: ast.expr) -> ast.Call:
    """Build a call of a name."""
    return ast.Call(read(name), list(args), [])


def located(node: Node, line: int = NOWHERE) -> Node:
    """Set the line of ``node`` and its children; nodes of the script keep theirs."""
    if "lineno" in node._attributes:
        if hasattr(node, "lineno"):
            return node
        node.lineno = node.end_lineno = line  # type: ignore[attr-defined]
        node.col_offset = node.end_col_offset = NOWHERE  # type: ignore[attr-defined]
    for child in ast.iter_child_nodes(node):
        located(child, line)
    return node
