"""Which of several generators gives the batches that a training goes over: what names tell."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from .scopes import Loop, Scope, called

#: What an evaluation goes over, and what a training does, by a word of a name.
_ASIDE = re.compile(r"(^|_)(val|valid[a-z]*|dev|test[a-z]*|eval[a-z]*|holdout)(_|$)")
_TRAINS = re.compile(r"(^|_)((pre_?)?train[a-z]*|fine_?tun[a-z]*|fit|learn[a-z]*)(_|$)")
#: What gives batches, and what is gone through around the loop over them, by their names.
_BATCHES = re.compile(r"batch|load|feed|prefetch")
_EPOCHS = re.compile(r"epoch|round|fold|phase|stage")


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
