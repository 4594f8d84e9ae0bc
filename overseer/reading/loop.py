"""Where a script learns: the loop whose iterations are its steps."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from .batch import unwrapped
from .scopes import (
    LOOPS,
    Function,
    Loop,
    Scope,
    Seen,
    arguments,
    bindings,
    called,
    dotted,
    names_in,
)

_OPTIMIZER = re.compile(r"opt|sgd|adam|lbfgs|scaler|trainer|engine|model", re.IGNORECASE)
_NOT_OPTIMIZER = re.compile(r"sched|env|prof|bar|warmup", re.IGNORECASE)
_LOSS = re.compile(r"loss|cost|objective|err|criterion", re.IGNORECASE)
_MODEL = re.compile(r"^(self\.)?_?(model|net|network|module|encoder|classifier|policy)$")
#: By its name it may be a loss, or what one is computed from.
_AN_ERROR = re.compile(r"^err(or)?$", re.IGNORECASE)
#: A loss by its name, in scripts that have no backward; what is not learned from; what updates.
_A_LOSS = re.compile(r"(^|_)(loss|cost|mse|nll)(_|$)|^(err|error|objective)$", re.IGNORECASE)
_NOT_TRAINED = re.compile(r"val|test|eval|best|total|avg|mean|epoch|running|prev", re.IGNORECASE)
_PARAMETERS = re.compile(r"(^|_)(d?grads?|gradients?|params?|weights?|state|dw|dtheta)(_|$)", re.I)
_UPDATE = re.compile(r"^(update|apply_updates|apply_gradients|grad|train_step|step|partial_fit)$")
#: What decides whether gradients are added up, or used.
_SOMETIMES = re.compile(r"%|accum|sync|boundary|update_grad", re.IGNORECASE)
#: Loaders by their classes, and by their names.
LOADERS = {"DataLoader", "DistributedDataLoader", "StatefulDataLoader", "NeighborLoader"}
LOADER_NAME = re.compile(r"loader|(^|_)(dl|batches)$", re.IGNORECASE)
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
        kind: ``backward`` or ``step``; ``update`` where parameters are updated by hand;
            ``forward`` where nothing is learned.
        loss: The variable that an ``update`` belongs to.
    """

    scope: Scope
    call: ast.AST
    loops: tuple[Loop, ...]
    kind: str
    loss: str | None = None


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
    return _by_hand(scopes) or _inference(scopes)


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
    also = _aliases(scopes)
    for scope in scopes:
        for seen in scope.calls:
            handed = [arg.id for arg in arguments(seen.node) if isinstance(arg, ast.Name)]
            own = called(seen.node)
            for name in {own, *handed, *also.get(own, ())}:
                found.setdefault(name, []).append((scope, seen.loops))
    return found


def _aliases(scopes: list[Scope]) -> dict[str, set[str]]:
    """Functions by the variables that hold them: made by another function, or of one by a call.

    ``step`` of ``step = make_step(model)``, where that returns one of its own, and of
    ``step = torch.compile(train_step)``.
    """
    functions = {s.path[-1] for s in scopes if isinstance(s.node, Function)}
    returned = {s.path[-1]: own for s in scopes if (own := _returned(s))}
    found: dict[str, set[str]] = {}
    for scope in scopes:
        for seen in scope.seen:
            node = seen.node
            if not isinstance(node, ast.Assign):
                continue
            value = node.value
            held = set(returned.get(called(value), ()))
            named = [value, *(arguments(value) if isinstance(value, ast.Call) else ())]
            held |= {n.id for n in named if isinstance(n, ast.Name)} & functions
            for target in node.targets if held else ():
                found.setdefault(dotted(target).rpartition(".")[2], set()).update(held)
    return found


def _returned(scope: Scope) -> set[str]:
    """The functions of its own that a function returns."""
    own = {inner.path[-1] for inner in scope.inner if isinstance(inner.node, Function)}
    returns = (s.node.value for s in scope.seen if isinstance(s.node, ast.Return) and own)
    return {name for value in returns if value is not None for name in names_in(value)} & own


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


def rare_step(found: Found) -> ast.AST | None:
    """The ``if`` in the loop which decides that some iterations step; None if every one does.

    The others learn, too: their gradients are added up.
    """
    steps = [p for p in found.learning if p.kind == "step"]
    if found.micro is not None or not steps or found.learning[0].kind == "forward":
        return None
    for node in found.loop.body:
        for each in ast.walk(node):
            if isinstance(each, ast.If) and _SOMETIMES.search(ast.unparse(each.test)):
                inside = {id(call) for body in each.body for call in ast.walk(body)}
                if _decides(found, steps, inside):
                    return each
    return None


def _decides(found: Found, steps: list[Learning], inside: set[int]) -> bool:
    """Whether every step of the loop is made within, and no ``backward``."""

    def within(place: Learning) -> bool:
        if place.scope is found.scope:
            return id(place.call) in inside
        name = place.scope.path[-1] if place.scope.path else ""
        calls = [seen for seen in found.scope.calls if called(seen.node) == name]
        return bool(calls) and all(id(seen.node) in inside for seen in calls)

    near = [p for p in steps if p.scope.source is found.scope.source]
    backs = [p for p in found.learning if p.kind == "backward" and not within(p)]
    return bool(near) and all(map(within, near)) and bool(backs)


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


# Loops without backward


def _by_hand(scopes: list[Scope]) -> Found | None:
    """The loop that computes a loss and updates parameters, without torch's means."""
    best: tuple[tuple[int, bool], Found] | None = None
    for scope in scopes:
        for seen in scope.seen:
            name = _loss_bound(seen.node)
            if name is None or not seen.loops or not _updates(scope, seen.loops[-1]):
                continue
            place = Learning(scope, seen.node, seen.loops, "update", name)
            found = Found(scope, seen.loops[-1], None, [place])
            score = _score(found, place), not _AN_ERROR.search(name)
            if best is None or score > best[0]:
                best = score, found
    return best[1] if best is not None else None


def _loss_bound(node: ast.AST) -> str | None:
    """The variable that sounds like a loss among those that an assignment binds."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or isinstance(node.value, ast.Constant):
        return None
    named = (name for name in bindings(node) if _A_LOSS.search(name))
    return next((name for name in named if not _NOT_TRAINED.search(name)), None)


def _updates(scope: Scope, loop: Loop) -> bool:
    """Whether an iteration changes parameters: ``w -= ...``, ``grads = ...``, ``update(...)``."""
    for seen in scope.seen:
        node = seen.node
        if loop not in seen.loops:
            continue
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Sub):
            return True
        if any(_PARAMETERS.search(name) for name in bindings(node)):
            return True
        if isinstance(node, ast.Call) and _UPDATE.search(called(node)):
            return True
    return False


def _inference(scopes: list[Scope]) -> Found | None:
    """The loop that calls a model and learns nothing; else one over a loader."""
    return _calling(scopes) or _over_loader(scopes)


def _over_loader(scopes: list[Scope]) -> Found | None:
    for scope in scopes:
        for seen in scope.seen:
            loop = seen.node
            if isinstance(loop, (ast.For, ast.AsyncFor)) and is_loader(scope, unwrapped(loop.iter)):
                place = Learning(scope, loop, (*seen.loops, loop), "forward")
                return Found(scope, loop, None, [place])
    return None


def is_loader(scope: Scope, node: ast.expr) -> bool:
    """Whether an expression is a loader, by what it is called or made by."""
    if called(node) in LOADERS or LOADER_NAME.search(dotted(node).rpartition(".")[2]):
        return True
    if not isinstance(node, ast.Name) or (binder := scope.binder(node.id)) is None:
        return False
    return any(
        isinstance(seen.node, (ast.Assign, ast.AnnAssign))
        and node.id in bindings(seen.node)
        and called(seen.node.value or seen.node) in LOADERS
        for seen in binder.seen
    )


def _calling(scopes: list[Scope]) -> Found | None:
    """The loop that calls a model."""
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
    if place.kind == "update":
        return place.loss
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    if place.kind != "backward":
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
    sounding = list(dict.fromkeys(name for name in names if _LOSS.search(name)))
    if len(sounding) > 1:
        return None  # (loss_a + loss_b).backward(): neither is the loss.
    return next(iter([*sounding, *names]), None)


class Within(NamedTuple):
    """A loss that is a part of what a variable holds: ``out.loss``, ``losses["total"]``.

    Attributes:
        name: The variable.
        path: What follows it.
    """

    name: str
    path: str


def loss_within(place: Learning) -> Within | None:
    """The variable that holds the loss which ``backward`` is called on, and where in it."""
    call = place.call
    if place.kind != "backward" or not isinstance(call, ast.Call):
        return None
    assert isinstance(call.func, ast.Attribute)
    node = _scaled(call.func.value) or call.func.value
    if call.args and not _LOSS.search(ast.unparse(node)) and node is call.func.value:
        node = call.args[0]
    root: ast.AST = node
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        if isinstance(root, ast.Subscript) and not isinstance(root.slice, ast.Constant):
            return None
        root = root.value
    if root is node or not isinstance(root, ast.Name) or place.scope.binder(root.id) is None:
        return None
    if not _LOSS.search(ast.unparse(node)):
        return None
    return Within(root.id, ast.unparse(node)[len(root.id) :])


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
