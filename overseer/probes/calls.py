"""Inserted calls, as syntax trees.

After a statement stands ``try: <site>(loss, batch)``, with a handler that fires the event with the
focus alone where another variable has no value. The handler is also for code that was sent to a
process without the names, and for the limit of the stack. In an expression, ``<relay>(value)``
takes the value's place.

A call has the line of the statement that it follows, or of the one before which a function or a
loop's body begins. At the end of a call or an iteration it has none where it needs no handler: the
compiler copies it to every place from which that is left, and each copy takes the line there.
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

#: The line of nodes without one.
NOWHERE = -1


class Trigger:
    """What to insert where a variable is bound or a marker is passed.

    Attributes:
        name: The variable or marker.
        event: Name of the callable that takes the values of an event.
        relay: Name of the callable that takes a value and returns it, or what replaces it.
        others: The variables that come along, in the order of the keys without the focus; an empty
            string for a marker, which is ``True``.
        focus: Index of the focus among the keys.
        overrides: Whether the variable takes the value that ``relay`` returns.
        enters: Name of the callable to call where the loop begins in which the event comes; empty:
            none. With ``in_calls``, where no loop is around, at the beginning of the call.
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
    """Fire an event by a statement.

    Args:
        trigger: What to call.
        value: The value of the focus.
        line: The line of all that is inserted.
        unsure: Whether another variable of the function may have no value. To Dynamo, reading one
            is the end of a graph rather than an exception, so there the focus comes alone.
    """
    whole = _act(trigger, value, _read_all(trigger.others))
    alone = _act(trigger, copy.deepcopy(value), [])
    if unsure:
        whole = ast.If(called(COMPILING), [copy.deepcopy(alone)], [whole])
    nothing: list[ast.stmt] = [ast.Pass()]
    return guarded([whole], [guarded([alone], nothing, line)] if trigger.others else nothing, line)


def marked(trigger: Trigger) -> ast.stmt:
    """Fire an event of a marker without a handler, so that the compiler can copy it."""
    return located(_act(trigger, ast.Constant(True), _read_all(trigger.others)))


def entered(trigger: Trigger, line: int) -> ast.stmt:
    """Say that the loop or call begins in which the trigger's event comes."""
    nothing: list[ast.stmt] = [ast.Pass()]
    return guarded([ast.Expr(called(trigger.enters))], nothing, line)


def _act(trigger: Trigger, value: ast.expr, others: list[ast.expr]) -> ast.stmt:
    if trigger.overrides:
        target = ast.Name(trigger.name, ast.Store())
        return ast.Assign([target], called(trigger.relay, value, *others))
    at = trigger.focus if others else 0
    return ast.Expr(called(trigger.event, *others[:at], value, *others[at:]))


def passed(trigger: Trigger, value: ast.expr, alone: bool) -> ast.expr:
    """``value``, passed through a site; without the other variables if the focus is ``alone``."""
    made = called(trigger.relay, value, *([] if alone else _read_all(trigger.others)))
    return located(made, getattr(value, "lineno", NOWHERE))


def guarded(body: list[ast.stmt], caught: list[ast.stmt], line: int) -> ast.stmt:
    """``body``, and ``caught`` for a name without value or the limit of the stack."""
    errors: list[ast.expr] = [read("NameError"), read("RecursionError")]
    handler = ast.ExceptHandler(ast.Tuple(errors, ast.Load()), None, caught)
    return located(ast.Try(body=body, handlers=[handler], orelse=[], finalbody=[]), line)


def if_bound(names: Iterable[str], then: ast.stmt, line: int) -> ast.stmt:
    """``then``, if all these variables have a value; to Dynamo they have none."""
    reads = ast.Expr(ast.Tuple(_read_all(names), ast.Load()))
    unbound = ast.ExceptHandler(read("NameError"), None, [ast.Pass()])
    tried = ast.Try(body=[reads], handlers=[unbound], orelse=[then], finalbody=[])
    return located(ast.If(ast.UnaryOp(ast.Not(), called(COMPILING)), [tried], []), line)


def finally_(body: list[ast.stmt], last: list[ast.stmt], line: int = NOWHERE) -> ast.stmt:
    """``body``, and ``last`` however it is left."""
    return located(ast.Try(body=body, handlers=[], orelse=[], finalbody=last), line)


def on_error(body: list[ast.stmt], what: list[ast.stmt], line: int) -> ast.stmt:
    """``body``, and ``what`` when it raises, which goes on."""
    again = [*what, located(ast.Raise(None, None))]
    handler = located(ast.ExceptHandler(None, None, again))
    return located(ast.Try(body=body, handlers=[handler], orelse=[], finalbody=[]), line)


def present(names: Iterable[str], line: int) -> ast.stmt:
    """Make ``names`` that a process lacks: expressions call them, which have no handler."""
    code = (
        f"import builtins\nfor name in {tuple(names)!r}:\n"
        "    builtins.__dict__.setdefault(name, lambda *values: values[0] if values else None)"
    )
    make = ast.Expr(called("exec", ast.Constant(code), ast.Dict([], [])))
    reads: list[ast.stmt] = [ast.Expr(each) for each in _read_all(names)]
    return guarded(reads, [make], line)


def declared(names: Iterable[str]) -> ast.stmt:
    """Make names global, so that no class or module namespace is asked for them first."""
    return located(ast.Global(list(dict.fromkeys(names))))


def exception() -> ast.expr:
    """The exception that is being handled."""
    return called(EXCEPTION)


def read(name: str) -> ast.Name:
    """A variable's value."""
    return ast.Name(name, ast.Load())


def _read_all(names: Iterable[str]) -> list[ast.expr]:
    return [read(name) if name else ast.Constant(True) for name in names]


def called(name: str, *args: ast.expr) -> ast.Call:
    """A call."""
    return ast.Call(read(name), list(args), [])


def located(node: Node, line: int = NOWHERE) -> Node:
    """Give the line to ``node`` and all in it that has none: the script's nodes keep theirs."""
    if "lineno" in node._attributes:
        if hasattr(node, "lineno"):
            return node
        node.lineno = node.end_lineno = line  # type: ignore[attr-defined]
        node.col_offset = node.end_col_offset = NOWHERE  # type: ignore[attr-defined]
    for child in ast.iter_child_nodes(node):
        located(child, line)
    return node
