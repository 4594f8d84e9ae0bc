"""Finds the loop around a line of a script, its selector, and the variable with its batch."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from ..probes.scopes import For, all_bindings, bindings, loops, own_nodes
from ..probes.targets import targets
from .script import ModuleSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from ..probes.scopes import Scope

LOOP_NODES = (*For, ast.While)
#: Names of variables that hold a batch, and of functions that return one.
_BATCH = re.compile(r"xs?|xb|x_\w+|inp|(\w+_)?(inputs?|images?|batch|samples?)", re.IGNORECASE)
_GETS = re.compile(r"next|sample|((get|next|load|make|draw|sample)_)+(\w+_)?(batch|sample)\w*")
#: Range ends that an event can contain: a number, a name, or an attribute of a name.
_END = re.compile(r"\d+|[^\W\d]\w*(\.\w+)?")
_PROGRESS = """\
ov.probe("{}({}) > #endloop_{}").subscribe(
    lambda event: ov.give(
        task="train", progress=({}, {}), units="epochs"
    )
)"""


class Frame(NamedTuple):
    """A line of code that was executed: module, scope and line number."""

    source: ModuleSource
    scope: Scope
    line: int

    @property
    def selector(self) -> str:
        """Reference to the frame's code in a selector."""
        return self.source.selector(self.scope)

    @property
    def place(self) -> str:
        """``file:line``, for display."""
        return self.source.place(self.line)

    def within(self, body: Sequence[Any]) -> bool:
        """True if the line is in these statements."""
        return bool(body) and body[0].lineno <= self.line <= (body[-1].end_lineno or 0)


class Turns(NamedTuple):
    """A loop of the script.

    Attributes:
        frame: Its scope and first line.
        node: Its syntax tree.
        batch: The variable that holds its batch, if known.
        marker: The variable that names the loop in a selector; None if every name is ambiguous.
    """

    frame: Frame
    node: Any
    batch: str | None
    marker: str | None

    @property
    def work(self) -> str | None:
        """Line that gives the work on each batch as a pair; time between pairs is loading."""
        if self.batch is None or self.marker is None:
            return None
        comes = self.batch in targets(getattr(self.node, "target", ast.Tuple([])))
        start = f"!{'#loop_' * comes}{self.batch} as compute_start"
        pair = f"{named(self.batch, 'batch')}, {start}, !!#endloop_{self.marker} as compute_end"
        return given(f"{self.frame.selector}({pair})")

    def has(self, frame: Frame) -> bool:
        """True if a frame's line is in the loop's body."""
        return frame.scope is self.frame.scope and frame.within(self.node.body)


def given(selector: str, task: str = "") -> str:
    """Line that gives a selector's captures; ``task`` is set for tasks other than training."""
    return f'ov.probe("{selector}").give(' + (f'task="{task}")' if task else ")")


def named(name: str, role: str) -> str:
    """Capture of a variable under the name ``role``."""
    return name if name == role else f"{name} as {role}"


def turns(frame: Frame) -> Turns | None:
    """Innermost loop whose body contains the frame's line."""
    around = (node for node in loops_in(frame.scope) if frame.within(node.body))
    node = max(around, key=lambda one: one.lineno, default=None)
    if node is None:
        return None
    if isinstance(node, ast.While):
        batch, names = None, [n for part in (node.test, *node.body) for n in all_bindings(part)]
    else:
        batch, names = _batch(node.target, node.iter), targets(node.target)
    batch = batch or next((name for name, _ in taken(node)), None)
    ours = [batch, *names] if batch else names
    usable = (name for name in ours if name.isascii() and loops(frame.scope, name) == [node])
    return Turns(frame._replace(line=node.lineno), node, batch, next(usable, None))


def loops_in(scope: Scope) -> list[Any]:
    """Loops that run in a scope."""
    return [node for node in scope.own if isinstance(node, LOOP_NODES)]


def turns_of(stack: Sequence[Frame], others: Sequence[Sequence[Frame]] = ()) -> Turns | None:
    """Innermost loop around a stack of frames that also contains one of ``others``.

    Args:
        stack: The executing frames, innermost first.
        others: Stacks that belong to the same iteration; if empty, any loop matches.
    """
    for frame in stack:
        found = turns(frame)
        while found is not None:
            if not others or any(found.has(one) for other in others for one in other):
                return found
            outer = turns(found.frame)
            found = outer if outer is not None and outer.node is not found.node else None
    return None


def progress(stack: Sequence[Frame], loop: Turns) -> tuple[str, str] | None:
    """Find the loop over epochs; returns its ``file:line`` and the code that gives progress.

    This is the outermost ``for NAME in range(...)`` around the loop of steps.

    Args:
        stack: The frames executing at a step, innermost first.
        loop: The loop whose iterations are steps.
    """
    within = next(place for place, frame in enumerate(stack) if loop.has(frame))
    for frame in (*stack[:within:-1], loop.frame):
        for node in frame.scope.own:
            match node:
                case ast.For(ast.Name(name), ast.Call(ast.Name("range"), args), body) if (
                    node is not loop.node and frame.within(body)
                ):
                    code = _epochs(frame, node, name, args)
                    return (frame.source.place(node.lineno), code) if code else None
    return None


def _epochs(frame: Frame, loop: ast.For, name: str, args: list[ast.expr]) -> str | None:
    """Code that gives progress, if an event can contain both the current epoch and the last."""
    done = f'event["{name}"]'
    match args:
        case [ast.Constant(1), ast.BinOp(end, ast.Add(), ast.Constant(1))]:
            pass
        case [end] | [ast.expr(), end] if len(args) == 1 or ast.unparse(args[0]) != "1":
            done += " + 1"
        case _:
            return None
    ends, of = names_in(end), ast.unparse(end)
    scope, names = frame.scope, [name, *ends]
    changed = {*scope.deleted, *(one for part in loop.body for one in all_bindings(part))}
    simple = _END.fullmatch(of) and name not in ends and not changed & {*names}
    if not simple or loops(scope, name) != [loop] or not all(bound_in(frame, n) for n in names):
        return None
    of = f'event["{ends[0]}"]{of.removeprefix(ends[0])}' if ends else of
    return _PROGRESS.format(frame.selector, ", ".join(names), name, done, of)


def _batch(target: Any, over: Any) -> str | None:
    """The first loop variable that holds data, not a counter or a setting."""
    names = {called(node) for node in ast.walk(over) if isinstance(node, ast.Call)}
    counts, by_number = "enumerate" in names, names & {"range", "trange", "count"}
    if isinstance(over, (ast.Tuple, ast.List, ast.Constant)) or (by_number and not counts):
        return None
    parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    found = (name for part in parts[counts:] for name in targets(part))
    return next((name for name in found if name.strip("_")), None)


def taken(loop: Any) -> Iterator[tuple[str, Any]]:
    """Yield batch variables assigned in a loop's body, with the expressions they are assigned.

    These are slices, and calls whose function or variable is named like a batch.
    """
    for node in own_nodes(loop.body):
        names = [name for name in bindings(node) if name.strip("_")]
        if not isinstance(node, ast.Assign) or not names:
            continue
        value = node.value.elts[0] if isinstance(node.value, ast.Tuple) else node.value
        if isinstance(value, ast.Call):
            says = _GETS.fullmatch(called(value)) or _BATCH.fullmatch(names[0])
            takes = bool(says) and names[0] not in names_in(value)
        else:
            inside = ast.walk(value.slice) if isinstance(value, ast.Subscript) else ()
            takes = any(isinstance(one, ast.Slice) for one in inside)
        if takes:
            yield names[0], value


def function_at(frame: Frame, value: Any) -> Scope | None:
    """Find the function of the frame's module that an expression calls."""
    func, path, source = getattr(value, "func", None), frame.scope.path, frame.source
    if isinstance(func, ast.Name):
        return source.named(*path, func.id) or source.named(func.id)
    if not isinstance(func, ast.Attribute):
        return None
    own = source.named(*path[:-1], func.attr) if ast.unparse(func.value) == "self" else None
    methods = [one for one in source.scopes if one.is_function and one.path[-1] == func.attr]
    return own or (methods[0] if len(methods) == 1 else None)


def calls(*nodes: Any) -> list[Any]:
    """Calls in statements, without those in nested scopes."""
    return [node for node in own_nodes(nodes) if isinstance(node, ast.Call)]


def called(call: Any) -> str:
    """Last part of the called function's name."""
    return getattr(call.func, "attr", None) or getattr(call.func, "id", None) or ""


def names_in(*nodes: Any) -> list[str]:
    """Names in expressions, in order."""
    every = (one for node in nodes for one in ast.walk(node))
    return [one.id for one in every if isinstance(one, ast.Name)]


def bound_in(frame: Frame, name: str) -> bool:
    """True if a selector for the frame's code can capture the variable."""
    return name in frame.scope.bound and name.isascii()
