"""Writes the lines of a voirfile from a script's source, without running it."""

from __future__ import annotations

import ast
import re

from .loop import Frame, called, calls, function_at, given, loops_in, named, names_in, turns
from .marks import Mark, evaluates, losing, loss_at, mark
from .observed import PAUSE_PAIR, Findings, Line, Seen, loading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .loop import Turns
    from .observed import Sites
    from .script import ModuleSource

_SAVES = re.compile(r"save|checkpoint", re.IGNORECASE)


def read(sources: Sequence[ModuleSource]) -> Findings:
    """Analyse the source: calls of ``backward`` and ``step``, else the one loop with a loss."""
    sites: Sites = {"step": [], "backward": []}
    for source, scope in ((one, scope) for one in sources for scope in one.scopes):
        for call in (node for node in scope.own if isinstance(node, ast.Call)):
            schedules = any("sched" in name.lower() for name in names_in(call.func))
            if isinstance(call.func, ast.Attribute) and not schedules and called(call) in sites:
                sites[called(call)].append(([Frame(source, scope, call.lineno)], 0))
    if sites["backward"]:
        note = "It calls backward(): where that runs, voir sees steps without a voirfile."
        return Seen(sites, {"train": {"items": None}}).findings(note)
    loops = losing(sources)
    if [evaluates(at.scope, loss_at(bound)) for _, at, bound in loops].count(False) != 1:
        return Findings([], [])
    found = [line for one in loops for line in _lines(*one)]
    notes = [line.comment for line in found if not line.code]
    return Findings(notes, [line for line in found if line.live])


def lines(sources: Sequence[ModuleSource]) -> list[Line]:
    """Suggest lines for a script, likeliest first; unknown names are in capitals.

    Each function contributes its loops that assign a loss, else its last loop.
    """
    loops = losing(sources)
    known, pauses = {id(loop.frame.scope) for loop, _, _ in loops}, []
    for source, scope in ((one, scope) for one in sources for scope in one.scopes):
        nodes = loops_in(scope)
        last = Frame(source, scope, nodes[-1].body[-1].lineno if nodes else 0)
        if id(scope) not in known and (loop := turns(last)) is not None:
            loops.append((loop, last, last))
        if scope.is_function and (evaluates(scope) or _SAVES.search(scope.path[-1])):
            pauses.append(Line("pause", given(f"{source.selector(scope)}{PAUSE_PAIR}"), ""))
    return [*(line for one in loops for line in _lines(*one) if line.code), *pauses]


def _lines(loop: Turns, at: Frame, bound: Frame) -> Iterator[Line]:
    """Lines for a loop with its step at ``at`` and its loss at ``bound``; notes have no code."""
    loss, found = loss_at(bound), mark(loop, [at])
    task = "eval" if evaluates(at.scope, loss) else ""
    if isinstance(loop.node, ast.For) and "iterate" in map(called, calls(loop.node.iter)):
        code = f"give(loss={loss or 'LOSS'}) in the loop at {loop.frame.place}"
        yield Line("loss", code, "")  # voir.iterate() gives everything else, with the task.
        return
    if found is None:
        yield _unmarked(loop, at, loss)
        return
    batch = loop.batch if found.whole else None
    role = "step loss" if loss else "step"
    yield Line(role, found.step(batch, loss, task), found.what(loop), live=loss is not None)
    yield Line("loss", given(f"{at.selector} > {named(loss or 'LOSS', 'loss')}", task), "")
    waits = [] if task else list(loading(loop, evaluates))
    yield from waits
    if not (task or waits or loop.work is None) and found.name.startswith("#"):
        yield Line("loading", loop.work, "")


def _unmarked(loop: Turns, at: Frame, loss: str | None) -> Line:
    """Line or note for steps at a line that has no variable next to it."""
    every = [called(one) for one in ast.walk(at.source.tree) if isinstance(one, ast.Call)]
    for call in (one for one in calls(*at.scope.node.body) if at.within([one])):
        function = function_at(at, call)
        if function is not None and every.count(function.path[-1]) == 1:
            code = given(f"{at.source.selector(function)} > #exit as step")
            return Line("step", code, f"Each call of {function.path[-1]}() is a step.", live=True)
    code = Mark(at, "stepped").step(loop.batch, loss)
    what = f"No probe counts the steps at {at.place} exactly"
    return Line("", "", f"{what}: write `stepped = True` there, and here {code}")
