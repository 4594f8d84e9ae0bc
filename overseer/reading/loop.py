"""Where a script learns: the loop whose iterations are its steps."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from .scopes import LOOPS, Loop, Scope, Seen, called, dotted, names_in

_OPTIMIZER = re.compile(r"opt|sgd|adam|lbfgs|scaler|trainer|engine|model", re.IGNORECASE)
_NOT_OPTIMIZER = re.compile(r"sched|env|prof|bar|warmup", re.IGNORECASE)
_LOSS = re.compile(r"loss|cost|objective|err|criterion", re.IGNORECASE)
_MODEL = re.compile(r"^(self\.)?_?(model|net|network|module|encoder|classifier|policy)$")
BACKWARD = {"backward", "manual_backward"}
#: Calls between a loop and the code that learns, at most, and scopes that are looked at for them.
_DEEP, _CALLERS = 4, 64

#: By the name of a function, who calls it, and the loops around the call.
Callers = dict[str, list[tuple[Scope, tuple[Loop, ...]]]]


class Learning(NamedTuple):
    """A place that learns: ``backward``, an optimizer's step.

    Attributes:
        scope: Where it is.
        call: The call.
        loops: The loops of the scope around it.
        kind: ``backward`` or ``step``; ``forward`` where nothing is learned.
    """

    scope: Scope
    call: ast.Call
    loops: tuple[Loop, ...]
    kind: str


class Found(NamedTuple):
    """The loop of a script.

    Attributes:
        scope: Where the loop is.
        loop: An iteration of it is a step.
        micro: The loop within it that goes over parts of a step's batch; None without.
        learning: Every place that learns, those of this loop first.
    """

    scope: Scope
    loop: Loop
    micro: Loop | None
    learning: list[Learning]


def learning(scopes: list[Scope]) -> list[Learning]:
    """Every place that learns, in the order of the text."""
    return [found for scope in scopes for seen in scope.calls for found in _learns(scope, seen)]


def _learns(scope: Scope, seen: Seen) -> Iterator[Learning]:
    call = seen.node
    assert isinstance(call, ast.Call)
    name = called(call)
    if name in BACKWARD and isinstance(call.func, ast.Attribute):
        yield Learning(scope, call, seen.loops, "backward")
    elif name == "step" and isinstance(call.func, ast.Attribute):
        receiver = dotted(call.func.value).rpartition(".")[2] or called(call.func.value)
        if _NOT_OPTIMIZER.search(receiver):
            return
        if _OPTIMIZER.search(receiver) or not call.args:
            yield Learning(scope, call, seen.loops, "step")


def find_loop(scopes: list[Scope]) -> Found | None:
    """The loop whose iterations are steps; None if the text shows none."""
    places = learning(scopes)
    callers = _callers(scopes)
    best: tuple[int, Found] | None = None
    for place in places:
        for scope, loops in _loops_around(place, callers):
            found = _found(scope, loops, place, places)
            score = _score(found, place)
            if best is None or score > best[0]:
                best = score, found
    if best is not None:
        return best[1]
    return _inference(scopes)


def _loops_around(place: Learning, callers: Callers) -> Iterator[tuple[Scope, tuple[Loop, ...]]]:
    """The loops around a place: those of its scope, else those around calls of that scope."""
    waiting, seen = [(place.scope, place.loops, _DEEP)], {place.scope}
    while waiting:
        scope, loops, deep = waiting.pop(0)
        if loops:
            yield scope, loops
        elif scope.path and deep:
            for caller, around in callers.get(scope.path[-1], ()):
                if caller not in seen or around:
                    seen.add(caller)
                    waiting.append((caller, around, deep - 1))
        if len(seen) > _CALLERS:
            return


def _callers(scopes: list[Scope]) -> Callers:
    """Who calls a function of each name, or hands it to somebody, and in which loops."""
    found: Callers = {}
    for scope in scopes:
        for seen in scope.calls:
            handed = [arg.id for arg in _arguments(seen.node) if isinstance(arg, ast.Name)]
            for name in {called(seen.node), *handed}:
                found.setdefault(name, []).append((scope, seen.loops))
    return found


def _arguments(call: ast.AST) -> list[ast.expr]:
    assert isinstance(call, ast.Call)
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _found(
    scope: Scope,
    loops: tuple[Loop, ...],
    place: Learning,
    places: list[Learning],
) -> Found:
    loop = loops[-1]
    micro = None
    for other in places:
        if other.kind == "backward" and other.scope is scope and loop in other.loops[:-1]:
            micro = other.loops[-1] if other.loops[-1] is not loop else None
    return Found(scope, loop, micro, _belonging(scope, loop, place, places))


def _belonging(scope: Scope, loop: Loop, place: Learning, places: list[Learning]) -> list[Learning]:
    """Places of this loop first, then those nearby, then the others."""

    def distance(other: Learning) -> int:
        if other.scope is scope and loop in other.loops:
            return 0
        if other.scope is place.scope or other.scope.path[: len(scope.path)] == scope.path:
            return 1
        return 2 if other.scope.source is scope.source else 3

    return sorted(places, key=distance)


def _score(found: Found, place: Learning) -> int:
    """How likely this is the loop: a step and a backward in it, and a name that says so."""
    kinds = {p.kind for p in found.learning if p.scope is place.scope}
    name = ".".join(found.scope.path).lower()
    score = 4 * (place.kind == "step") + 2 * len(kinds)
    score += 3 * ("train" in name or "fit" in name) + 2 * found.scope.source.is_script
    return score - 6 * bool(re.search(r"test|eval|valid|bench|example", name))


def _inference(scopes: list[Scope]) -> Found | None:
    """The loop that calls a model and learns nothing."""
    for scope in scopes:
        for seen in scope.calls:
            call = seen.node
            assert isinstance(call, ast.Call)
            if seen.loops and call.args and _MODEL.match(dotted(call.func)):
                place = Learning(scope, call, seen.loops, "forward")
                return Found(scope, seen.loops[-1], None, [place])
    return None


# The loss


def loss_name(place: Learning) -> str | None:
    """The variable that ``backward`` is called on or given; None when it has no name of its own."""
    call = place.call
    if place.kind != "backward" or not isinstance(call.func, ast.Attribute):
        return None
    receiver = call.func.value
    given = call.args[0] if call.args else None
    if given is not None and not _LOSS.search(dotted(receiver)) and not _scaled(receiver):
        return _first_bound(given, place.scope)
    return _first_bound(_scaled(receiver) or receiver, place.scope)


def _scaled(node: ast.expr) -> ast.expr | None:
    """``loss`` of ``scaler.scale(loss)``."""
    if isinstance(node, ast.Call) and called(node) in ("scale", "scale_loss") and node.args:
        return node.args[0]
    return None


def _first_bound(node: ast.AST, scope: Scope) -> str | None:
    """The first name in an expression that the scope binds; one that sounds like a loss first."""
    if isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        return None  # criterion(output, y).backward(): the loss itself has no name.
    names = [name for name in names_in(node) if scope.binder(name) is not None]
    sounding = [name for name in names if _LOSS.search(name)]
    return next(iter([*sounding, *names]), None)


def main_loss(names: list[str]) -> str:
    """Of several losses the one that a curve should show."""
    for pattern in (r"^(total_?)?loss$", r"^(loss_?total|total)$", r"(loss|err)_?g(en)?$|^g_?loss"):
        for name in names:
            if re.search(pattern, name, re.IGNORECASE):
                return name
    return names[0]


def is_loop(node: ast.AST) -> bool:
    """Whether a node is a loop."""
    return isinstance(node, LOOPS)
