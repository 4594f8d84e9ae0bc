"""What a loop goes over: the batch, the loader, and a variable that names the loop."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from ..targets import targets
from .scopes import Loop, Scope, Seen, assigned, bindings, called, dotted

#: Calls that hand on what they iterate over: the loader is their first argument.
WRAPPERS = {
    "enumerate", "tqdm", "trange", "zip", "islice", "iter", "track", "cycle", "iterate",
    "MpDeviceLoader", "ParallelLoader", "progress_bar", "log_every", "peekable",
}  # fmt: skip
_COUNTING = {"range", "count", "trange"}
_GIVES = re.compile(r"batch|next|sample|load|fetch|draw|get_data", re.IGNORECASE)
#: Names of loop variables that count.
_COUNTERS = re.compile(r"^(e|ep|epochs?|i|j|k|n|it|idx|index|iter|iteration|t|\w*step|\w*_idx)$")
#: What ``next`` is asked for that is no batch: by its name, and by what makes it.
_NO_BATCHES = re.compile(r"(^|_)(p?rngs?|keys?|seeds?|(iter)?counts?|counter)(_|$)", re.IGNORECASE)
_NO_LOADERS = re.compile(
    r"^(PRNGSequence|((named_)?(parameters|children|modules|buffers))|keys|values|items)$"
)
#: What makes a batch of a path or the like, by the words of its name.
_READS = re.compile(r"(^|_)(im)?(load|fetch|read|open|decode)(_|$)", re.IGNORECASE)
_MODEL = re.compile(r"model|net|encoder|module|generator|discriminator|policy|^[dg]$", re.I)


class Batch(NamedTuple):
    """What a loop works on.

    Attributes:
        name: The variable that holds the batch; None when none does.
        marker: The variable by which selectors name the loop; None when that is ambiguous.
        iterates: The loop itself goes over batches: what lies between iterations is loading.
        source: The expression that batches come from: a loader, an iterator, a call.
        node: Where the batch is bound.
    """

    name: str | None
    marker: str | None
    iterates: bool
    source: ast.expr | None
    node: ast.AST


def batch_of(scope: Scope, loop: Loop) -> Batch:
    """What an iteration of ``loop`` works on."""
    marker = marker_of(scope, loop)
    asked = asked_for(scope, loop)
    if not isinstance(loop, ast.While) and not _counts(loop.iter):
        name = _target_name(scope, loop)
        if name is not None or not asked:
            return Batch(name, marker, True, unwrapped(loop.iter), loop)
    bound = _while_bound(loop) or _bound_in(scope, loop)
    gives = asked[0] if asked and not _only_names(scope, loop, asked) else None
    if bound is None:
        return Batch(_given_to_model(scope, loop), marker, False, gives, loop)
    name, value, node = bound
    drawn = isinstance(value, ast.Call) or gives is None
    return Batch(name, marker, False, value if drawn else gives, node)


def asked_for(scope: Scope, loop: Loop) -> list[ast.Call]:
    """The calls of ``next`` in an iteration by which it may wait for a batch.

    Not those for what is no batch: a count, a random key, ``next(model.parameters())``.
    """
    if scope.binder("next") is not None:
        return []
    calls = (seen.node for seen in _running(scope, loop))
    return [call for call in calls if isinstance(call, ast.Call) and _asks(scope, call)]


def _asks(scope: Scope, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Name) or call.func.id != "next" or not call.args:
        return False
    over = unwrapped(call.args[0])
    every = [over, *(_values(scope, over.id) if isinstance(over, ast.Name) else ())]
    if any(_counts(each) or _NO_LOADERS.search(called(each)) for each in every):
        return False
    named = dotted(over).rpartition(".")[2]
    return not isinstance(over, ast.GeneratorExp) and not _NO_BATCHES.search(named)


def _values(scope: Scope, name: str) -> list[ast.expr]:
    """What assignments bind a variable to."""
    binder = scope.binder(name)
    return [
        value
        for seen in (binder.seen if binder is not None else ())
        for target, value in assigned(seen.node)
        if value is not None and targets(target) == [name]
    ]


def _only_names(scope: Scope, loop: Loop, asked: list[ast.Call]) -> bool:
    """Whether what ``next`` gives only says what to load: ``x[next(it)]``, ``load(next(it))``."""
    inside = [seen.node for seen in scope.seen if loop in seen.loops]
    named: list[ast.AST] = [n.slice for n in inside if isinstance(n, ast.Subscript)]
    named += [n for n in inside if _READS.search(called(n))]
    within = {id(part) for each in named for part in ast.walk(each)}
    return any(id(call) in within for call in asked)


def unwrapped(node: ast.expr) -> ast.expr:
    """The loader in ``enumerate(tqdm(loader))``."""
    while isinstance(node, ast.Call) and called(node) in WRAPPERS and node.args:
        node = node.args[0]
    return node


def _counts(node: ast.expr) -> bool:
    inner = node
    while isinstance(inner, ast.Call) and called(inner) in WRAPPERS - _COUNTING and inner.args:
        inner = inner.args[0]
    return isinstance(inner, ast.Call) and called(inner) in _COUNTING


def _target_name(scope: Scope, loop: ast.For | ast.AsyncFor) -> str | None:
    """The name of the batch among the loop's variables: what the model gets, else the first."""
    target: ast.expr = loop.target
    outermost = loop.iter
    while isinstance(outermost, ast.Call) and called(outermost) in WRAPPERS - {"enumerate", "zip"}:
        outermost = outermost.args[0] if outermost.args else ast.Constant(None)
    paired = isinstance(target, (ast.Tuple, ast.List)) and len(target.elts) == 2
    if called(outermost) == "enumerate" and paired:
        target = target.elts[1]  # type: ignore[attr-defined]
    names = [name for name in targets(target) if name != "_"]
    given = _model_arguments(scope, loop)
    named = [name for name in names if not _COUNTERS.match(name)]
    return next((name for name in given if name in names), next(iter([*named, *names]), None))


def _model_arguments(scope: Scope, loop: Loop, deeper: bool = True) -> list[str]:
    """The names that a model is called with in the loop; then those that its methods are.

    Args:
        scope: Where the loop is.
        loop: The loop.
        deeper: Also in loops within it.
    """
    called_in = [seen.node for seen in _running(scope, loop) if deeper or seen.loops[-1] is loop]
    direct = [call for call in called_in if _MODEL.search(_parts(call)[-1])]
    methods = [call for call in called_in if any(_MODEL.search(p) for p in _parts(call)[:-1])]
    return [
        arg.id
        for call in [*direct, *methods]
        for arg in [*call.args, *(keyword.value for keyword in call.keywords)]  # type: ignore[attr-defined]
        if isinstance(arg, ast.Name)
    ]


def _running(scope: Scope, loop: Loop) -> list[Seen]:
    """The calls in the loop, and those of the functions that are defined in it."""
    around = {id(seen.node): seen.loops for seen in scope.seen if loop in seen.loops}
    return [seen for seen in scope.calls if loop in seen.loops] + [
        Seen(seen.node, around[id(inner.node)])
        for inner in scope.inner
        if id(inner.node) in around
        for seen in inner.calls
    ]


def _parts(call: ast.AST) -> list[str]:
    return dotted(call.func).split(".")  # type: ignore[attr-defined]


def _given_to_model(scope: Scope, loop: Loop) -> str | None:
    """A name that a model is called with in the loop, and that this scope binds."""
    given = _model_arguments(scope, loop, deeper=False)
    return next((name for name in given if name in scope.bound), None)


def _bound_in(scope: Scope, loop: Loop) -> tuple[str, ast.expr, ast.AST] | None:
    """Where the loop's body gets a batch: ``get_batch()``, ``next(it)``, ``X[i]``."""
    given = set(_model_arguments(scope, loop))
    found: list[tuple[bool, bool, int, tuple[str, ast.expr, ast.AST]]] = []
    for seen in scope.seen:
        node = seen.node
        if loop not in seen.loops or not isinstance(node, ast.Assign) or not bindings(node):
            continue
        names, values = _side_by_side(node)
        for name, value in zip(names, values, strict=True):
            drawn = isinstance(value, ast.Call) and _draws(value)
            if drawn or isinstance(value, ast.Subscript):
                # What is drawn is a batch; of what is indexed, what the model is given.
                found.append((drawn, name in given, -len(found), (name, value, node)))
    return max(found, key=lambda each: each[:3])[3] if found else None


def _while_bound(loop: Loop) -> tuple[str, ast.expr, ast.AST] | None:
    """The batch of ``while (batch := queue.get()) is not None``."""
    for node in ast.walk(loop.test) if isinstance(loop, ast.While) else ():
        if isinstance(node, ast.NamedExpr) and isinstance(node.value, (ast.Call, ast.Subscript)):
            return node.target.id, node.value, node
    return None


def _draws(call: ast.Call) -> bool:
    """Whether a call gives a batch; ``distribution.sample()`` gives an action, or noise."""
    name, receiver = called(call), dotted(getattr(call.func, "value", None))
    if name in ("sample", "rsample") and not call.args and not call.keywords:
        return bool(re.search(r"data|buffer|replay|memory|loader", receiver, re.IGNORECASE))
    return bool(_GIVES.search(name))


def _side_by_side(node: ast.Assign) -> tuple[list[str], list[ast.expr]]:
    """``a, b = x, y`` name by name; of anything else the first name."""
    names = bindings(node)
    if isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(names):
        return names, node.value.elts
    return names[:1], [node.value]


# The variable that names the loop


def marker_of(scope: Scope, loop: Loop) -> str | None:
    """A variable by which ``#loop_X`` means this loop of the scope and no other."""
    if not isinstance(loop, ast.While):
        own = targets(loop.target)
        others = {n for other in _fors(scope) if other is not loop for n in targets(other.target)}
        alone = [name for name in own if name not in others]
        return next((n for n in alone if n != "_"), alone[0] if alone else None)
    inside = [name for seen in scope.seen if loop in seen.loops for name in bindings(seen.node)]
    fors = {name for other in _fors(scope) for name in targets(other.target)}
    whiles = {
        name
        for seen in scope.seen
        for name in bindings(seen.node)
        if any(isinstance(one, ast.While) and one is not loop for one in seen.loops)
    }
    alone = [n for n in dict.fromkeys(inside) if n not in fors and n not in whiles]
    counted = [
        name
        for seen in scope.seen
        if loop in seen.loops and isinstance(seen.node, ast.AugAssign)
        for name in bindings(seen.node)
        if name in alone
    ]
    return next(iter([*counted, *alone]), None)


def once_bound(scope: Scope, loop: Loop) -> str | None:
    """A variable that each iteration binds once, and that no other loop of the scope binds.

    Its last one, so that as much as possible of the iteration lies before it.
    """
    elsewhere = {
        name
        for seen in scope.seen
        if seen.loops and loop not in seen.loops
        for name in bindings(seen.node)
    }
    inside = [name for s in scope.seen if loop in s.loops for name in bindings(s.node)]
    always = [name for node in loop.body for name in bindings(node)]
    found = [name for name in always if inside.count(name) == 1 and name not in elsewhere]
    return found[-1] if found else None


def _fors(scope: Scope) -> list[ast.For | ast.AsyncFor]:
    return [s.node for s in scope.seen if isinstance(s.node, (ast.For, ast.AsyncFor))]
