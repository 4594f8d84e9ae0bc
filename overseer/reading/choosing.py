"""Which of several generators gives the batches that a training goes over: what names tell.

And which loops only give batches to others, so that no training goes over them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from ..targets import targets
from .scopes import Loop, Scope, bindings, called

#: What an evaluation goes over, and what a training does, by a word of a name.
_ASIDE = re.compile(r"(^|_)(val|valid[a-z]*|dev|test[a-z]*|eval[a-z]*|holdout)(_|$)")
_TRAINS = re.compile(r"(^|_)((pre_?)?train[a-z]*|fine_?tun[a-z]*|fit|learn[a-z]*)(_|$)")
#: What gives batches, and what is gone through around the loop over them, by their names.
_BATCHES = re.compile(r"batch|load|feed|prefetch")
_EPOCHS = re.compile(r"epoch|round|fold|phase|stage")
#: Calls that hand on what they are given, and those that do no work on it.
_HANDS = re.compile(r"(^|_)(put|append|appendleft|extend|push|send)(_|$)")
_QUIET = {
    "len", "isinstance", "range", "enumerate", "zip", "iter", "next", "print",
    "acquire", "release", "notify", "notify_all", "set", "is_set", "clear", "task_done",
    "to", "cuda", "pin_memory", "clone", "copy", "items",
}  # fmt: skip
#: What is worked on by learning, not made for it, by the names in a loop.
_LEARNS = re.compile(r"(^|_)(loss(es)?|step|train|fit|backward|optim[a-z]*|metrics?)(_|$)")
#: What a training yields that is a generator, by the names in it.
_TOLD = re.compile(r"(^|_)(loss(es)?|cost|metrics?|acc(uracy)?|scores?|logs?|stats)(_|$)")
#: Calls that have another thread or process call what they are given first.
_STARTS = re.compile(
    r"^(submit|(i|star)?map(_unordered|_async)?|apply_async|run_in_executor|to_thread"
    r"|start_new_thread)$"
)
#: Classes of what runs in the background.
_THREAD = re.compile(r"(Thread|Process|Timer)$")
_WORK = (ast.Call, ast.BinOp, ast.ListComp, ast.DictComp, ast.SetComp)


class Turns(NamedTuple):
    """A loop, and the generator functions from which it takes what it goes over."""

    scope: Scope
    loop: Loop
    own: list[Scope]


class Search(Protocol):
    """What is known of how loops lie to each other."""

    def within(self, inner: Turns, outer: Turns) -> bool:
        """Whether a loop is gone through in each iteration of another."""

    def works_on(self, inner: Turns, outer: Turns) -> bool:
        """Whether a loop within another goes over something made of what that one gives."""


def chosen(search: Search, turns: list[Turns]) -> list[Scope]:
    """Those that a training goes over; none where nothing tells which of several they are."""
    roles = {id(each): _role(each) for each in turns}
    turns = [each for each in turns if roles[id(each)] is not _ASIDE] or turns
    dropped = {
        id(inner if _is_work(search, inner, outer) else outer)
        for outer in turns
        for inner in turns
        if inner is not outer
        and search.within(inner, outer)
        and _is_work(search, inner, outer) is not None
    }
    turns = [each for each in turns if id(each) not in dropped] or turns
    if turns and all(each.own == turns[0].own for each in turns):
        return turns[0].own
    return all_of(each for each in turns if roles[id(each)] is _TRAINS)


def _is_work(search: Search, inner: Turns, outer: Turns) -> bool | None:
    """Whether the inner of two loops is part of the work on a batch, or the outer gives none.

    None where neither is plain: it goes over what the outer one gives, whatever that may be.
    """
    inner_batches, outer_batches = (_BATCHES.search(_sounds(each)) for each in (inner, outer))
    if outer_batches and not inner_batches:
        return True
    plain = inner_batches or _EPOCHS.search(_sounds(outer)) or not search.works_on(inner, outer)
    return False if plain else None


def _role(turns: Turns) -> re.Pattern[str] | None:
    """Whether names tell an evaluation or a training; those of the generators go first."""
    path = (_words(name) for name in reversed(turns.scope.path))
    for said in (_sounds(turns), "_".join(map(_words, mentioned(turns))), *path):
        found = [each for each in (_ASIDE, _TRAINS) if each.search(said)]
        if len(found) == 1:
            return found[0]
    return None


def _sounds(turns: Turns) -> str:
    """What the generators of a loop are called."""
    return "_".join(_words(name) for scope in turns.own for name in scope.path)


def _words(name: str) -> str:
    """A name in words: ``val_batches`` of ``ValBatches``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def mentioned(turns: Turns) -> list[str]:
    """The names in what a loop goes over."""
    return [name for node in taken(turns.scope, turns.loop) for name in names(node)]


def tells(scope: Scope) -> bool:
    """Whether a generator function yields nothing but how a training goes, and no batches."""
    yielded = [seen.node.value for seen in scope.seen if isinstance(seen.node, ast.Yield)]
    parts = [
        part for each in yielded for part in (each.elts if isinstance(each, ast.Tuple) else [each])
    ]
    return bool(parts) and all(map(_is_told, parts))


def _is_told(node: ast.expr | None) -> bool:
    named = names(node) if node is not None else []
    return any(_TOLD.search(_words(name)) for name in named) or isinstance(
        node, (ast.Constant, type(None))
    )


def names(node: ast.AST) -> list[str]:
    """The names and attributes in an expression."""
    named = (each for each in ast.walk(node) if isinstance(each, (ast.Name, ast.Attribute)))
    return [each.id if isinstance(each, ast.Name) else each.attr for each in named]


def calls_in(turns: Turns) -> list[ast.AST]:
    """The calls in the body of a loop."""
    return [seen.node for seen in turns.scope.calls if turns.loop in seen.loops]


def all_of(turns: Iterable[Turns]) -> list[Scope]:
    """The generators of all these loops, each once."""
    return list(dict.fromkeys(scope for each in turns for scope in each.own))


def taken(scope: Scope, loop: Loop) -> Iterator[ast.AST]:
    """What a loop goes over, and what it asks for the next."""
    if isinstance(loop, (ast.For, ast.AsyncFor)):
        yield loop.iter
    for seen in scope.calls:
        call = seen.node
        assert isinstance(call, ast.Call)
        if loop in seen.loops and called(call) in ("next", "__next__", "send"):
            if isinstance(call.func, ast.Attribute):
                yield call.func.value
            elif call.args:
                yield call.args[0]


# Loops that only give batches to others


def hands_on(loop: Loop, made: bool) -> bool:
    """Whether a loop does nothing with what it goes over but hand it on, as to a queue.

    Args:
        loop: The loop.
        made: It may make something of that first, and hand on what it has made.
    """
    nodes = [node for statement in loop.body for node in ast.walk(statement)]
    given = _given(loop, nodes)
    handing = [each for each in nodes if _hands(each) and not given.isdisjoint(names(each))]
    if not handing:
        return False
    if made:
        named = (name for statement in loop.body for name in names(statement))
        return not any(_LEARNS.search(_words(name)) for name in named)
    aside = {id(each) for node in nodes for each in _aside(node)}
    work = (each for each in nodes if isinstance(each, _WORK) and id(each) not in aside)
    return all(_hands(each) or called(each) in _QUIET for each in work)


def _aside(node: ast.AST) -> Iterator[ast.AST]:
    """What a statement looks at to go on: a condition, what another loop goes over."""
    if isinstance(node, (ast.For, ast.AsyncFor)):
        yield from ast.walk(node.iter)
    elif isinstance(node, (ast.While, ast.If)):
        yield from ast.walk(node.test)


def _given(loop: Loop, nodes: list[ast.AST]) -> set[str]:
    """The names in a loop of what it goes over, and of what is made of it."""
    loops = [each for each in (loop, *nodes) if isinstance(each, (ast.For, ast.AsyncFor))]
    given = {name for each in loops for name in targets(each.target)}
    for node in nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            asked = any(called(each) in ("next", "__next__") for each in ast.walk(node.value))
            if asked or not given.isdisjoint(names(node.value)):
                given.update(bindings(node))
    return given


def _hands(node: ast.AST) -> bool:
    """Whether something hands on what it is given: ``q.put(x)``, ``yield x``, ``slots[i] = x``."""
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Subscript) for target in node.targets)
    return isinstance(node, ast.Yield) or bool(_HANDS.search(called(node)))


def started(call: ast.AST) -> list[str]:
    """The names in what a call has a thread, a process or an executor call."""
    assert isinstance(call, ast.Call)
    by_name = [each.value for each in call.keywords if each.arg == "target"]
    if not by_name and _THREAD.search(called(call)):
        by_name = call.args[1:2]
    elif not by_name and isinstance(call.func, ast.Attribute) and _STARTS.search(called(call)):
        by_name = call.args[called(call) == "run_in_executor" :][:1]
    return [name for each in by_name for name in names(each)]


def is_thread(scope: Scope) -> bool:
    """Whether it is what a thread of a class of its own runs."""
    outer = scope.outer.node if scope.outer is not None else None
    if scope.path[-1:] != ("run",) or not isinstance(outer, ast.ClassDef):
        return False
    return any(_THREAD.search(name) for base in outer.bases for name in names(base))
