"""The loop around a line of a script: which names mark its turns, hold its batch and its loss."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from ..probes.scopes import For, all_bindings, loops
from ..probes.targets import targets
from .script import Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from ..probes.scopes import Scope

_LOSS = re.compile(r"loss|(^|_)(err|cost|objective)", re.IGNORECASE)
_PROGRESS = """\
ov.probe("{}({}) > #endloop_{}").subscribe(
    lambda event: ov.give(
        task="train", progress=({}, {}), units="epochs"
    )
)"""


class Frame(NamedTuple):
    """A line that runs: the module, the scope, the line."""

    source: Source
    scope: Scope
    line: int

    def within(self, body: Sequence[Any]) -> bool:
        """Whether these statements have the line."""
        return bool(body) and body[0].lineno <= self.line <= (body[-1].end_lineno or 0)


class Turns(NamedTuple):
    """A loop of the script.

    Attributes:
        frame: Where it runs; the line is one in its body.
        node: The loop.
        batch: The variable that holds its batch, if its target tells.
        marker: The variable by which a selector names it; None: none is unambiguous.
    """

    frame: Frame
    node: Any
    batch: str | None
    marker: str | None

    @property
    def selector(self) -> str:
        """The code that it is in, as a selector names it."""
        return self.frame.source.selector(self.frame.scope)

    def has(self, frame: Frame) -> bool:
        """Whether a frame's line is in its body."""
        return frame.scope is self.frame.scope and frame.within(self.node.body)

    def step(self, batch: str | None = None, loss: str | None = None) -> str | None:
        """The line that gives each turn as a step, with its batch and its loss, if it has them."""
        if self.marker is None:
            return None
        also = {"batch": batch or self.batch, "loss": loss}
        along = ", ".join(named(name, role) for role, name in also.items() if name)
        inside = f"({along})" if along else ""
        return given(f"{self.selector}{inside} > #endloop_{self.marker} as step")


def given(selector: str) -> str:
    """The line that gives what a selector captures."""
    return f'ov.probe("{selector}").give()'


def named(name: str, role: str) -> str:
    """How a selector gives a variable another name."""
    return name if name == role else f"{name} as {role}"


def turns(frame: Frame) -> Turns | None:
    """The innermost loop whose body has the frame's line."""
    around = (node for node in loops_in(frame.scope) if frame.within(node.body))
    node = max(around, key=lambda one: one.lineno, default=None)
    if node is None:
        return None
    if isinstance(node, ast.While):
        batch, names = None, [n for part in (node.test, *node.body) for n in all_bindings(part)]
    else:
        batch, names = _batch(node.target, node.iter), targets(node.target)
    ours = [batch, *names] if batch else names
    usable = (name for name in ours if name.isascii() and loops(frame.scope, name) == [node])
    return Turns(frame, node, batch, next(usable, None))


def loops_in(scope: Scope) -> list[Any]:
    """The loops that run in a scope."""
    return [node for node in scope.own if isinstance(node, (*For, ast.While))]


def turns_of(stack: Sequence[Frame], others: Sequence[Sequence[Frame]] = ()) -> Turns | None:
    """The innermost loop around a stack of frames whose body one of ``others`` is in, too.

    Args:
        stack: What runs, innermost first.
        others: Stacks of what belongs to the same turn; none: any loop will do.
    """
    for frame in stack:
        found = turns(frame)
        while found is not None:
            if not others or any(found.has(one) for other in others for one in other):
                return found
            outer = turns(frame._replace(line=found.node.lineno))
            found = outer if outer is not None and outer.node is not found.node else None
    return None


def progress(stack: Sequence[Frame], loop: Turns) -> tuple[str, str] | None:
    """Where the loop over epochs is, and the code that gives its progress.

    It is the outermost ``for NAME in range(...)`` around the loop of the steps.

    Args:
        stack: What runs when a step is made, innermost first.
        loop: The loop whose turns are the steps.
    """
    within = next(place for place, frame in enumerate(stack) if loop.has(frame))
    for frame in (*stack[:within:-1], stack[within]._replace(line=loop.node.lineno)):
        for node in frame.scope.own:
            match node:
                case ast.For(ast.Name(name), ast.Call(ast.Name("range"), args), body) if (
                    node is not loop.node and frame.within(body)
                ):
                    code = _epochs(frame, node, name, args)
                    return (frame.source.place(node.lineno), code) if code else None
    return None


def _epochs(frame: Frame, loop: ast.For, name: str, args: list[ast.expr]) -> str | None:
    """The code that gives progress, if ``event`` tells how far it is and where it ends."""
    done = f'event["{name}"]'
    match args:
        case [ast.Constant(1), ast.BinOp(end, ast.Add(), ast.Constant(1))]:
            pass
        case [end] | [ast.expr(), end] if len(args) == 1 or ast.unparse(args[0]) != "1":
            done += " + 1"
        case _:
            return None
    match end:
        case ast.Constant(int(number)):
            ends, of = [], str(number)
        case ast.Name(end_name):
            ends, of = [end_name], f'event["{end_name}"]'
        case ast.Attribute(ast.Name(end_name), part):
            ends, of = [end_name], f'event["{end_name}"].{part}'
        case _:
            return None
    scope, names = frame.scope, [name, *ends]
    changed = {*scope.deleted, *(one for part in loop.body for one in all_bindings(part))}
    if name in ends or changed & {*names} or loops(scope, name) != [loop]:
        return None
    if not all(_ours(frame, one) for one in names):
        return None
    return _PROGRESS.format(frame.source.selector(scope), ", ".join(names), name, done, of)


def conditional(loop: Turns, frame: Frame, others: Iterable[Frame]) -> bool:
    """Whether an ``if`` in the loop decides about the frame's line, and not about all others."""
    ifs = [node for node in ast.walk(loop.node) if isinstance(node, ast.If)]
    branches = [part for node in ifs for part in (node.body, node.orelse) if frame.within(part)]
    return not all(one.within(branch) for one in others for branch in branches)


def _batch(target: Any, over: Any) -> str | None:
    """The variable that holds a turn's batch: the first one, but for a counter or a setting."""
    if isinstance(over, (ast.Tuple, ast.List, ast.Constant)):
        return None
    names = {called(node) for node in ast.walk(over) if isinstance(node, ast.Call)}
    parts = list(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]
    if "enumerate" in names:
        parts = parts[1:]
    elif names & {"range", "trange", "count"}:
        return None
    return next((name for part in parts for name in targets(part) if name.strip("_")), None)


def calls_at(frame: Frame, *names: str) -> list[Any]:
    """The calls in a frame's line; with ``names``, of functions or methods of these names."""
    found = [n for n in frame.scope.own if isinstance(n, ast.Call) and frame.within([n])]
    return [node for node in found if not names or called(node) in names]


def called(call: Any) -> str:
    """The last name of what is called."""
    return getattr(call.func, "attr", None) or getattr(call.func, "id", None) or ""


def names_in(*nodes: Any) -> list[str]:
    """The names that are read in expressions, in order."""
    every = (one for node in nodes for one in ast.walk(node))
    return [one.id for one in every if isinstance(one, ast.Name)]


def loss_at(frame: Frame) -> str | None:
    """The variable that ``backward`` is called on in a line, if it is called on one."""
    for call in calls_at(frame, "backward", "manual_backward"):
        of = getattr(call.func, "value", None)
        known = [name for name in names_in(*call.args, *([of] if of else [])) if _ours(frame, name)]
        named = [name for name in known if _LOSS.search(name)]
        if named or isinstance(of, ast.Name):
            return next(iter(named), known[0] if known else None)
    return None


def _ours(frame: Frame, name: str) -> bool:
    return name in frame.scope.bound and name.isascii()


def losing(sources: Sequence[Source]) -> list[tuple[Turns, str]]:
    """The innermost loops in which a variable is bound that has the name of a loss."""
    found = []
    for source, scope in ((one, scope) for one in sources for scope in one.scopes):
        for node in loops_in(scope):
            loop, names = turns(Frame(source, scope, node.body[0].lineno)), _losses(node)
            within = [one for part in node.body for one in ast.walk(part)]
            nested = (one for one in within if isinstance(one, (*For, ast.While)))
            if loop is not None and names and not any(map(_losses, nested)):
                found.append((loop, names[0]))
    return found


def _losses(loop: Any) -> list[str]:
    """The variables with such a name that a loop's body binds, likeliest first."""
    bound = [name for part in loop.body for name in all_bindings(part)]
    found = [name for name in bound if _LOSS.search(name) and name.isascii()]
    return sorted(found, key=lambda name: (name != "loss", "loss" not in name.lower()))
