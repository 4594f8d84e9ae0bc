"""Finds what happens exactly once per step: the end of a loop body, or a variable's assignment."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from ..probes.scopes import Definition, With, all_bindings, bindings, own_nodes
from .loop import (
    LOOP_NODES,
    Frame,
    bound_in,
    called,
    calls,
    given,
    loops_in,
    named,
    names_in,
    turns,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from ..probes.scopes import Scope
    from .loop import Turns
    from .script import ModuleSource

_LOSS = re.compile(r"loss|(^|_)(err|cost|objective)", re.IGNORECASE)
#: Calls that update a model.
_UPDATES = re.compile(
    r"(.*\.)?(\w*opt\w*\.(step|update)|apply_(gradients|updates))"
    r"|update|(train|update)_(step|params|weights)",
    re.IGNORECASE,
)
#: Conditions of branches that train in only some iterations; names of functions that evaluate.
_TRAINS = re.compile(r"train|learn|optim", re.IGNORECASE)
_EVALUATES = re.compile(r"(^|[_/])(eval|val|test|infer|predict)", re.IGNORECASE)
_ASSIGNS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
_LEAVES = (ast.Break, ast.Continue, ast.Return)


class Mark(NamedTuple):
    """A position that is reached once per step.

    Attributes:
        frame: Its code.
        name: The variable bound there, or the marker of the end of a loop's body.
        whole: One iteration is one step; False with gradient accumulation.
    """

    frame: Frame
    name: str
    whole: bool = True

    def step(self, batch: str | None, loss: str | None, task: str = "") -> str:
        """Line that gives a step, with its batch and loss if known."""
        roles = ((batch, "batch"), (loss, "loss"))
        along = ", ".join(named(name, role) for name, role in roles if name)
        code = f"{self.frame.selector}({along})" if along else self.frame.selector
        return given(f"{code} > {named(self.name, 'step')}", task)

    def what(self, loop: Turns) -> str:
        """Describe how it counts a loop's steps."""
        if self.name.startswith("#"):
            return f"Each turn of the loop at {loop.frame.place} is a step."
        return f"The loop at {loop.frame.place} binds {self.name} once a step."


def mark(loop: Turns, stack: Sequence[Frame]) -> Mark | None:
    """Find a mark reached once each time a line of a loop runs; None if there is none.

    If every iteration reaches the line, this is the end of the loop's body; otherwise a variable
    assigned near the line.

    Args:
        loop: The loop.
        stack: The frames from the line up to the loop, innermost first.
    """
    found, whole = None, True
    for frame in stack:
        body = loop.node.body if loop.has(frame) else frame.scope.node.body
        always, alone, name = _beside(frame, body)
        whole &= alone
        found = Mark(frame, name, whole) if name else found
        if not always:
            return found
    return Mark(loop.frame, f"#endloop_{loop.marker}") if loop.marker else found


def _beside(frame: Frame, block: Sequence[Any]) -> tuple[bool, bool, str | None]:
    """Analyse the statements around a frame's line.

    Returns:
        Whether every run of the block reaches the line; whether each ``if`` around it tests for
        training (not for every n-th iteration); and a variable assigned next to it, with no jump
        in between.
    """
    always, whole, tried = True, True, False
    while True:
        at = next(n for n, one in enumerate(block) if frame.within([one]))
        node, before = block[at], block[:at]
        always &= not any(map(_leaves, before))
        within = next(filter(frame.within, _blocks(node)), None)
        if within is None or isinstance(node, (*LOOP_NODES, *Definition)):
            break
        always &= isinstance(node, With)
        whole &= not isinstance(node, ast.If) or bool(_TRAINS.search(ast.unparse(node.test)))
        tried |= isinstance(node, ast.Try) and within is node.body
        block = within
    for near in (block[at:], before[::-1]):
        for one in near:
            names = bindings(one) if isinstance(one, _ASSIGNS) else ()
            for name in names:
                if _once(frame.scope, name):
                    return always, whole, name
            if _leaves(one) or (tried and calls(one)):
                break
    return always, whole, None


def _blocks(node: Any) -> Iterator[Any]:
    """Yield a statement's blocks."""
    yield from (getattr(node, name, ()) for name in ("body", "orelse", "finalbody"))
    yield from (one.body for name in ("handlers", "cases") for one in getattr(node, name, ()))


def _leaves(node: Any) -> bool:
    """True if a statement may leave the current iteration."""
    return any(isinstance(one, _LEAVES) for one in own_nodes([node]))


def _once(scope: Scope, name: str) -> bool:
    """True if a scope binds a variable in one place only and a selector can name it."""
    places = sum(name in bindings(node) for node in scope.own) + (name in scope.parameters)
    return places == 1 and name not in scope.deleted and name.isascii() and bool(name.strip("_"))


def evaluates(scope: Scope, loss: str | None = None) -> bool:
    """True if the name of a function, or of its loss, suggests evaluation."""
    return bool(_EVALUATES.search("/".join([*scope.path, loss or ""])))


def loss_at(frame: Frame) -> str | None:
    """Variable on which a line calls ``backward``, or the loss that the line assigns."""
    names, plain = [], False
    for node in (one for one in frame.scope.own if isinstance(one, (ast.Call, *_ASSIGNS))):
        if not frame.within([node]):
            continue
        names += bindings(node)
        if isinstance(node, ast.Call) and called(node) in ("backward", "manual_backward"):
            of = getattr(node.func, "value", ast.Tuple([]))
            names, plain = [*names, *names_in(*node.args, of)], isinstance(of, ast.Name)
    names = [name for name in names if bound_in(frame, name)]
    return next(
        (name for name in names if _LOSS.search(name)), names[0] if plain and names else None
    )


def losing(sources: Sequence[ModuleSource]) -> list[tuple[Turns, Frame, Frame]]:
    """Innermost loops that assign a variable named like a loss, training loops first.

    Returns:
        Each loop with the line of its step and the line of its last assignment of the loss. The
        step is at the last call or condition that updates a model, else at the loss.
    """
    found = []
    for source, scope in ((one, scope) for one in sources for scope in one.scopes):
        for node in loops_in(scope):
            own: list[Any] = list(own_nodes(node.body))
            loss = _loss(node.body)
            nested = (_loss(one.body) for one in own if isinstance(one, LOOP_NODES))
            loop = turns(Frame(source, scope, node.body[0].lineno))
            if loop is not None and loss is not None and not any(nested):
                bound = [one.lineno for one in own if loss in bindings(one)]
                steps = [line for one in own if (line := _learning(one, node))] or bound
                at, last = (loop.frame._replace(line=lines[-1]) for lines in (steps, bound))
                found.append((evaluates(scope, loss), (loop, at, last)))
    return [one for _, one in sorted(found, key=lambda one: one[0])]


def _learning(node: Any, loop: Any) -> int | None:
    """Line at which a call or ``if`` in a loop's body updates a model."""
    match node:
        case ast.Call(func) if _UPDATES.fullmatch(ast.unparse(func)):
            return int(node.lineno)
        case ast.If(ast.UnaryOp(ast.Not(), flag)):
            line = loop.body[-1].lineno
        case ast.If(flag, [first, *_]):
            line = first.lineno
        case _:
            return None
    asks = isinstance(flag, (ast.Name, ast.Attribute, ast.Compare))
    return int(line) if asks and _TRAINS.search(ast.unparse(flag)) else None


def _loss(body: Sequence[Any]) -> str | None:
    """Likeliest loss variable assigned in statements."""
    bound = (name for part in body for name in all_bindings(part))
    found = [name for name in bound if _LOSS.search(name) and name.isascii()]
    return min(found, key=lambda name: (name != "loss", "loss" not in name.lower()), default=None)
