"""Where in the body of a ``while`` loop an iteration begins, and where it ends.

A ``for`` loop has its batch before its body begins; a ``while`` loop may fetch it in its body. What
comes before belongs to no batch: the wait for it is loading, and a turn that gets none is none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from .asked import (
    FETCHES,
    LEAVES,
    TRIES,
    begun,
    fetches,
    is_guard,
    is_idle,
    is_passed,
    is_told,
    leaves,
    loads,
    present_in,
)
from .scopes import Definition, For, bindings, children, own_nodes

_LOOPS = (*For, ast.While)
_WITHS = (ast.With, ast.AsyncWith)
_LOADERS = (*FETCHES, "get_batch", "next_batch")


class Part(NamedTuple):
    """Statements that are an iteration, or part of one.

    Attributes:
        block: The block they stand in.
        at: Where in it they begin.
        begins: Whether the iteration begins here.
        goes_on: Whether it goes on elsewhere, unless this part is left before its end.
        until: Where in the block they end; ``None``: with it.
    """

    block: list[ast.stmt]
    at: int
    begins: bool = True
    goes_on: bool = False
    until: int | None = None

    @property
    def works(self) -> bool:
        """Whether there are any statements."""
        return self.at < len(self.block)


def turn(loop: ast.While, name: str) -> list[Part]:
    """What an iteration of the loop is that is named by a variable; empty: the whole body.

    It begins when the variable has been bound, or the first thing that its value is made of, unless
    nothing comes of that: then the work is what binds it, as in ``loss = step(next(batches))``. A
    loop that reads the variable's old value first is named by a counter, say: an iteration is all
    that follows what it takes by ``next``. Or by a batch that the turn before has fetched: what
    fetches the next one at the end of the turn is no part of it.

    Wherever a turn with a batch might be missed, or what is done with it, it is the whole body.
    """
    turns = _Turns(loop)
    if any(name in bindings(node) for node in own_nodes([loop.test])):
        return []
    if turns.fresh(name):
        taken = any(_takes(node, name) for node in loop.body)
        parts = turns.parts(loop.body, name) if taken else []
        return turns.trimmed(parts) if turns.uses(parts) else []
    if turns.carries(name):
        return turns.trimmed([Part(loop.body, 0)])
    fetched = next((other for other in turns.fetched if turns.fresh(other)), None)
    parts = turns.parts(loop.body, fetched) if fetched is not None else []
    return turns.trimmed(parts) if parts and parts[-1].block is loop.body else []


class _Turns:
    """One loop."""

    def __init__(self, loop: ast.While) -> None:
        self._loop = loop
        self._fresh: dict[str, bool] = {}

    def fresh(self, name: str) -> bool:
        """Whether no turn reads the value that a turn before has given to the variable."""
        known = self._fresh.get(name)
        if known is None:
            flow = _Flow(name)
            flow.statement(self._loop, False)
            known = self._fresh[name] = not flow.early
        return known

    @cached_property
    def fetched(self) -> list[str]:
        """What the body takes from an iterator by hand."""
        assigns = (node for node in own_nodes(self._loop.body) if fetches(node))
        return [name for node in assigns for name in bindings(node)]

    def uses(self, parts: list[Part]) -> bool:
        """Whether these work with what the turn has got before them."""
        read = loads(*(node for part in parts for node in part.block[part.at :]))
        got = {n for node in own_nodes(self._loop.body) for n in bindings(node)} & read
        return bool(self.fetched) or any(self.fresh(name) for name in got)

    def parts(self, block: list[ast.stmt], name: str) -> list[Part]:
        """As :func:`turn`, for a block of the body; empty: that cannot be said."""
        at, name = self._taken(block, name)
        node = block[at]
        within = self._within(node, name)
        if within is None or not _sure(block, at, name):
            return self._doubtful(block, at, within)
        names = {n for one in own_nodes([node]) for n in bindings(one)}
        after = begun(block, at + 1, names)
        working = [part for part in within if part.works]
        if after == len(block):
            return within if working else [Part(block, after)]
        if not working:
            present = present_in(block[after], names)
            alone = present and all(is_idle(one) for one in block[after + 1 :])
            return [Part(present, 0) if present and alone else Part(block, after)]
        if _goes_on(node, working):
            return [working[0]._replace(goes_on=True), Part(block, after, begins=False)]
        if all(is_idle(one) for one in block[after:]):
            return within
        return [] if any(_reads(part, name) for part in working) else [Part(block, after)]

    def _doubtful(self, block: list[ast.stmt], at: int, within: list[Part] | None) -> list[Part]:
        """The same where the turn may go on without a batch."""
        if any(part.works for part in within or ()):
            return within or [] if all(is_idle(one) for one in block[at + 1 :]) else []
        ended = within is not None and at + 1 < len(block) and is_told(block[at], block[at + 1])
        return [Part(block, at + 2)] if ended else []

    def carries(self, name: str) -> bool:
        """Whether the variable has the batch that the turn before has fetched at its end."""
        bound = [n for node in own_nodes(self._loop.body) for n in bindings(node)]
        last = self._loop.body[self._end] if self._end is not None else None
        return last is not None and bound.count(name) == 1 and name in bindings(last)

    @cached_property
    def _end(self) -> int | None:
        """Where the body fetches the batch of the next turn; no work comes after that."""
        body = self._loop.body
        at = len(body) - 1
        while at > 0 and is_idle(body[at]):
            at -= 1
        made, before = set(bindings(body[at])), body[:at]
        bound = {name for node in own_nodes(before) for name in bindings(node)}
        if not fetches(body[at], _LOADERS) or bound & loads(body[at]):
            return None
        carried = made & loads(self._loop.test, *before)
        return at if carried and not made & loads(*body[at + 1 :]) else None

    def trimmed(self, parts: list[Part]) -> list[Part]:
        """These, up to where the batch of the next turn is fetched."""
        end, body = self._end, self._loop.body
        return [
            part._replace(until=end)
            if end is not None and part.block is body and part.at < end
            else part
            for part in parts
        ]

    def _taken(self, block: list[ast.stmt], name: str) -> tuple[int, str]:
        """Which statement binds the variable, or the first thing that its value is made of."""
        taking = [i for i, node in enumerate(block) if _takes(node, name)]
        at = next((i for i in taking if _sure(block, i, name)), taking[0])
        read = loads(block[at])
        for index in reversed(range(at)):
            node = block[index]
            made = {n for one in own_nodes([node]) for n in bindings(one)} & read
            for one in sorted(made):
                if self._roots(block, index, one):
                    at, name, read = index, one, read | loads(node)
        return at, name

    def _roots(self, block: list[ast.stmt], at: int, name: str) -> bool:
        node = block[at]
        taken = _takes(node, name) and _sure(block, at, name)
        return taken and not isinstance(node, (*_LOOPS, *Definition)) and self.fresh(name)

    def _within(self, node: Any, name: str) -> list[Part] | None:
        """What an iteration is within the statement that binds the variable.

        ``None``: that cannot be said.
        """
        if isinstance(node, TRIES):
            return self._tried(node, name)
        if name in (n for head in own_nodes(_head(node)) for n in bindings(head)):
            return _headed(node, name)
        if isinstance(node, (ast.If, *_WITHS)):
            blocks = [node.body, getattr(node, "orelse", [])]
            found = [self.parts(b, name) for b in blocks if any(_takes(one, name) for one in b)]
            return [part for parts in found for part in parts] if all(found) else None
        return None

    def _tried(self, node: Any, name: str) -> list[Part] | None:
        first: list[Part] = []
        if any(_takes(one, name) for one in node.body):
            first = self.parts(node.body, name)
            if not first:
                return None
            if node.orelse and not any(part.works for part in first):
                first = [Part(node.orelse, 0)]
            elif not all(is_passed(one) for one in node.orelse):
                return None
        others = [h.body for h in node.handlers] + ([] if first else [node.orelse])
        found = [self.parts(b, name) for b in others if any(_takes(one, name) for one in b)]
        if not all(found) or name in loads(*node.finalbody):
            return None
        return first + [part for parts in found for part in parts if part.works]


def _headed(node: Any, name: str) -> list[Part] | None:
    """What an iteration is within a statement that binds the variable before its blocks."""
    if isinstance(node, _WITHS):
        return [Part(node.body, 0)]
    if isinstance(node, ast.If):
        present = present_in(node, {name})
        return [Part(present, 0)] if present else [] if is_guard(node, {name}) else None
    own = own_nodes([node])
    within = any(isinstance(one, ast.NamedExpr) and one.target.id == name for one in own)
    return None if within or isinstance(node, (*_LOOPS, ast.Match)) else []


class _Flow:
    """Follows a variable through a turn.

    Attributes:
        early: Whether it may be read before the turn has bound it.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.early = False

    def block(self, statements: Iterable[ast.stmt], bound: bool) -> bool:
        """Whether the variable is bound after these, if they come to their end."""
        before: Any = None
        for node in statements:
            bound = self.statement(node, bound)
            if not bound and is_told(before, node):
                bound = _sure(before.body, len(before.body), self._name)
            before = node
        return bound

    def statement(self, node: Any, bound: bool) -> bool:
        """The same for one statement."""
        if isinstance(node, TRIES):
            return self._try(node, bound)
        head = self._simple(list(_head(node)), bound)
        if isinstance(node, _LOOPS):
            self.block(node.body, head)
            self.block(node.orelse, head)
            return head
        if isinstance(node, ast.If):
            ends = [self.block(body, head) for body in (node.body, node.orelse)]
            return all(ends)
        if isinstance(node, _WITHS):
            return self.block(node.body, head)
        if isinstance(node, ast.Match):
            ends = [self._case(case, head) for case in node.cases]
            return head or (bool(ends) and all(ends) and _has_default(node))
        return head or isinstance(node, LEAVES)

    def _case(self, case: Any, bound: bool) -> bool:
        parts = [case.pattern, *([case.guard] if case.guard else [])]
        return self.block(case.body, self._simple(parts, bound))

    def _try(self, node: Any, bound: bool) -> bool:
        ends = [self.block([*node.body, *node.orelse], bound)]
        ends += [self.block(handler.body, bound) for handler in node.handlers]
        last = self.block(node.finalbody, bound)
        return all(ends) or (last and bool(node.finalbody))

    def _simple(self, nodes: list[ast.AST], bound: bool) -> bool:
        own, name = list(own_nodes(nodes)), self._name
        if not bound:
            self.early |= name in loads(*nodes)
        return bound or any(name in bindings(node) for node in own)


def _head(node: Any) -> Iterator[ast.AST]:
    """What a statement evaluates and binds before its blocks."""
    if isinstance(node, (ast.While, ast.If)):
        yield node.test
    elif isinstance(node, For):
        yield from (node.iter, node.target)
    elif isinstance(node, _WITHS):
        yield from node.items
    elif isinstance(node, ast.Match):
        yield node.subject
    else:
        yield node


def _has_default(node: ast.Match) -> bool:
    last = node.cases[-1]
    return last.guard is None and isinstance(last.pattern, ast.MatchAs) and not last.pattern.pattern


def _takes(node: ast.AST, name: str) -> bool:
    """Whether the statement may give the variable a value that is worth a turn."""
    return any(name in bindings(one) and not _is_reset(one) for one in own_nodes([node]))


def _is_reset(node: ast.AST) -> bool:
    """Whether a variable is set to a constant, as ``batch = None`` does."""
    assigns = isinstance(node, (ast.Assign, ast.AnnAssign))
    return assigns and isinstance(getattr(node, "value", None), ast.Constant)


def _sure(block: list[ast.stmt], at: int, name: str) -> bool:
    """Whether the variable is bound by the block up to and with this statement."""
    return _Flow(name).block(block[: at + 1], False)


def _reads(part: Part, name: str) -> bool:
    """Whether the part works with the batch, or with what is got beside it."""
    got = {n for node in own_nodes(part.block) for n in bindings(node)}
    return bool(loads(*part.block[part.at :]) & {name, *got})


def _goes_on(node: Any, working: list[Part]) -> bool:
    """Whether the iteration that begins in this ``try`` goes on behind it, or has ended."""
    if not isinstance(node, TRIES) or len(working) != 1 or working[0].goes_on:
        return False
    part = working[0]
    straight = part.block is node.body or part.block is node.orelse
    passed = all(is_passed(one) for one in node.finalbody)
    ended = all(leaves(handler.body) for handler in node.handlers)
    return straight and passed and ended and all(_leaves_plainly(n) for n in part.block[part.at :])


def _leaves_plainly(node: ast.AST, looped: bool = False, kept: bool = False) -> bool:
    """Whether nothing can happen any more where this leaves the turn.

    Args:
        node: A statement, or what stands in one.
        looped: Whether it stands in a loop of its own, which ``break`` then leaves.
        kept: Whether something is done yet when it is left: by a ``finally`` or ``with``.
    """
    if isinstance(node, (ast.Continue, ast.Break)):
        return looped or not kept
    if isinstance(node, ast.Return):
        return not kept and isinstance(node.value, (ast.Constant, type(None)))
    if isinstance(node, _LOOPS):
        return all(_leaves_plainly(one, True, kept) for one in node.body) and all(
            _leaves_plainly(one, looped, kept) for one in node.orelse
        )
    kept = kept or isinstance(node, _WITHS) or bool(getattr(node, "finalbody", None))
    within = (ast.stmt, ast.ExceptHandler, ast.match_case)
    return all(_leaves_plainly(n, looped, kept) for n in children(node) if isinstance(n, within))


__all__ = ["Part", "turn"]
