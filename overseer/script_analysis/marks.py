"""What comes once a step: the end of a loop's body, or a variable that only a whole turn binds."""

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
#: What is called to learn.
_UPDATES = re.compile(
    r"(.*\.)?(\w*opt\w*\.(step|update)|apply_(gradients|updates))"
    r"|update|(train|update)_(step|params|weights)",
    re.IGNORECASE,
)
#: What a branch asks that not all turns take; what functions are called that evaluate.
_TRAINS = re.compile(r"train|learn|optim", re.IGNORECASE)
_EVALUATES = re.compile(r"(^|[_/])(eval|val|test|infer|predict)", re.IGNORECASE)
_ASSIGNS = (ast.Assign, ast.AnnAssign, ast.AugAssign)
_LEAVES = (ast.Break, ast.Continue, ast.Return)


class Mark(NamedTuple):
    """What comes once a step.

    Attributes:
        frame: The code that has it.
        name: A variable that is bound then, or the marker for the end of a loop's body.
        whole: Whether a step is one turn of the loop, and not several that add up.
    """

    frame: Frame
    name: str
    whole: bool = True

    def step(self, batch: str | None, loss: str | None, task: str = "") -> str:
        """The line that gives it as a step, with its batch and its loss, if it has them."""
        roles = ((batch, "batch"), (loss, "loss"))
        along = ", ".join(named(name, role) for name, role in roles if name)
        code = f"{self.frame.selector}({along})" if along else self.frame.selector
        return given(f"{code} > {named(self.name, 'step')}", task)

    def what(self, loop: Turns) -> str:
        """What it is of a loop, for a person."""
        if self.name.startswith("#"):
            return f"Each turn of the loop at {loop.frame.place} is a step."
        return f"The loop at {loop.frame.place} binds {self.name} once a step."


def mark(loop: Turns, stack: Sequence[Frame]) -> Mark | None:
    """What comes once each time that a line of a loop runs; None: the text shows nothing that does.

    That is the end of the loop's body, if every turn comes to the line; else a variable beside it.

    Args:
        loop: The loop.
        stack: The frames from the line up to the loop's, innermost first.
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
    """What blocks of statements say of a line in them.

    Returns:
        Whether each run comes to it; whether an ``if`` that decides about it asks whether to learn,
        and not how often; and a variable that is bound beside it, with nothing between that leaves.
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
    """The blocks of statements that a statement consists of."""
    yield from (getattr(node, name, ()) for name in ("body", "orelse", "finalbody"))
    yield from (one.body for name in ("handlers", "cases") for one in getattr(node, name, ()))


def _leaves(node: Any) -> bool:
    """Whether a statement may end a turn of the loop that it is in."""
    return any(isinstance(one, _LEAVES) for one in own_nodes([node]))


def _once(scope: Scope, name: str) -> bool:
    """Whether a scope binds a variable at one place only, which a selector can name."""
    places = sum(name in bindings(node) for node in scope.own) + (name in scope.parameters)
    return places == 1 and name not in scope.deleted and name.isascii() and bool(name.strip("_"))


def evaluates(scope: Scope, loss: str | None = None) -> bool:
    """Whether the name of a function, or of its loss, says that it evaluates."""
    return bool(_EVALUATES.search("/".join([*scope.path, loss or ""])))


def loss_at(frame: Frame) -> str | None:
    """The variable that ``backward`` is called on in a line, or the loss that the line binds."""
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
    """The innermost loops that bind a variable with the name of a loss.

    Returns:
        Each with the line at which it steps, and the one at which it binds the loss last; trainings
        first. It steps where it calls what learns or asks whether to learn, else at the loss.
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
    """The line at which a loop learns, if a call or an ``if`` in its body says so."""
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
    """The likeliest of the variables with such a name that statements bind."""
    bound = (name for part in body for name in all_bindings(part))
    found = [name for name in bound if _LOSS.search(name) and name.isascii()]
    return min(found, key=lambda name: (name != "loss", "loss" not in name.lower()), default=None)
