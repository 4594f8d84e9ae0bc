"""The statements and expressions that probes insert, as syntax trees.

Everything inserted calls plain names that no script can spell (``overseer/probes/hidden.py``).
Around each call stands a ``try`` that costs nothing until something is raised, and then asks
voir: a listener that fails must not reach the script. Where those names do not exist, in another
process or after the run, the inserted code does nothing.

Inserted nodes carry no line, so that tracers, debuggers and coverage see none; only what is
inserted before the first statement of a function takes the line of that statement, because it
would show as the line of the ``def`` otherwise.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from .hidden import Shared
from .quick import Noting
from .scopes import first_leaf

#: The key of an event, and the variable to read for it; ``None``: what fired the event; the empty
#: string: a marker that was passed before, which is ``True``.
Entry = tuple[str, "str | None"]


@dataclass(frozen=True, eq=False)
class Trigger:
    """What to insert where a variable is bound or a marker is passed.

    Attributes:
        name: The variable or marker.
        entries: What the event carries.
        number: The probe's number, by which a failure finds it.
        lane: Name of the callable that takes the event.
        relay: Name of the callable that takes the value and returns it.
        values: Whether ``lane`` takes the event's values, not the event.
        tally: Names of ``next`` and of the iterator that counts events, or of the one callable
            that takes a step; empty: the lane counts.
        reader: Name of the callable that looks the variable up.
        leave: Name of the callable that forgets the pairs a call has left open, for pairs.
        overrides: Whether the variable takes the value that ``relay`` returns.
        guard: Name of what is true while somebody listens; empty: it is not asked.
        compiling: Name of what tells whether Dynamo traces; empty: nothing is compiled.
        noting: How inserted code may note the event by itself, in place of the call.
    """

    name: str
    entries: tuple[Entry, ...]
    number: int
    lane: str
    relay: str
    reader: str = ""
    values: bool = False
    tally: tuple[str, ...] = ()
    leave: str = ""
    overrides: bool = False
    guard: str = ""
    compiling: str = ""
    noting: Noting | None = None

    @property
    def others(self) -> dict[str, str]:
        """The variables that come along, by key."""
        return {key: name for key, name in self.entries if name}

    @property
    def hidden(self) -> list[str]:
        """Every name of this probe that its stanzas read."""
        of = self.noting
        noting = () if of is None else (*of.names.values(), of.on, of.missed)
        names = (self.lane, self.relay, *self.tally, self.guard, self.compiling, *noting)
        return [name for name in names if name]


class Stanzas:
    """Builds what is inserted at one line; without a line, inserted code has none.

    Args:
        names: Hidden names that all probes share.
        line: The line, or -1.
        definite: Variables that certainly have a value here.
        cold: The line of what runs only when a listener has failed; jumps there need one.
        deleted: Variables that the scope deletes somewhere.
    """

    def __init__(
        self,
        names: Shared,
        line: int = -1,
        definite: Iterable[str] = (),
        cold: int = -1,
        deleted: Iterable[str] = (),
    ) -> None:
        self._names = names
        self._line = line
        self._cold = cold
        self._definite = frozenset(definite)
        self._deleted = frozenset(deleted)

    def variable(self, trigger: Trigger) -> list[ast.stmt]:
        """After a variable was bound."""
        if trigger.overrides:
            return self._override(trigger)
        return self._statement(trigger, _read(trigger.name), trigger.name)

    def marker(self, trigger: Trigger) -> list[ast.stmt]:
        """Where a marker is passed that has no value of its own."""
        return self._statement(trigger, ast.Constant(True))

    def error(self, trigger: Trigger) -> list[ast.stmt]:
        """In the handler of an exception."""
        return self._statement(trigger, self._caught())

    def nothing(self, trigger: Trigger) -> list[ast.stmt]:
        """Where a function returns without a value, by a statement."""
        return self._statement(trigger, ast.Constant(None))

    def through(self, trigger: Trigger, value: ast.expr) -> ast.expr:
        """An expression with the value of ``value``, that passes through the probe."""
        return self._relayed(trigger, value)

    def leave(self, name: str) -> ast.expr:
        """At the end of a call: forget the pairs it has left open."""
        made = _call(name)
        for node in (made, made.func):
            _place(node, self._line)
        return made

    def notice(self, name: str) -> list[ast.stmt]:
        """Call ``name``, whatever comes of it."""
        return self._guarded([ast.Expr(_call(name))], [ast.Pass()])

    def unless_gone(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """``body``, also when python ends and has removed the names that it calls."""
        gone = ast.ExceptHandler(_read("NameError"), None, [ast.Pass()])
        whole = ast.Try(body=body, handlers=[gone], orelse=[], finalbody=[])
        for node in (whole, gone, *ast.walk(gone)):
            _place(node, -1)
        return [whole]

    def reachable(self, names: list[str]) -> list[ast.stmt]:
        """At the start of a call that evaluates ``names``: where they are missing, make them."""
        code = (
            f"import builtins\nfor name in {tuple(names)!r}:\n"
            "    builtins.__dict__.setdefault(name, lambda *values: values[0] if values else None)"
        )
        make = ast.Expr(_call("exec", ast.Constant(code), ast.Dict([], [])))
        reads: list[ast.stmt] = [ast.Expr(_read(name)) for name in names]
        return self._guarded(reads, [make])

    def mention(self, names: Iterable[str], bound: Iterable[str]) -> list[ast.stmt]:
        """Code that never runs and names variables: it fixes their order in ``co_varnames``.

        Args:
            names: The variables.
            bound: Those that belong to the function; others belong to its comprehensions.
        """
        own = set(bound)
        body: list[ast.stmt] = [
            ast.Expr(_read(name) if name in own else _comprehension(name)) for name in names
        ]
        never = ast.If(ast.Constant(False), body, [])
        for node in ast.walk(never):
            _place(node, self._line)
        return [never]

    def attempt(
        self,
        body: list[ast.stmt],
        caught: list[ast.stmt] | None = None,
        finally_: list[ast.stmt] | None = None,
    ) -> list[ast.stmt]:
        """``body`` in a ``try``: ``caught`` runs on any exception, which goes on; or a finally."""
        handlers = []
        if caught:
            again = unplaced(ast.Raise(None, None))
            handlers = [unplaced(ast.ExceptHandler(None, None, [*caught, again]))]
        whole = ast.Try(body=body, handlers=handlers, orelse=[], finalbody=finally_ or [])
        return [_place(whole, self._line)]

    def _statement(
        self, trigger: Trigger, value: ast.expr, own: str | None = None
    ) -> list[ast.stmt]:
        unsure = set(trigger.others.values()) - self._definite - {own}
        body = self._counted(trigger, _call(trigger.lane, *_event(trigger, value)))
        if trigger.noting is not None:
            body = [self._noted(trigger, trigger.noting, value, body)]
        if trigger.guard:
            body = [ast.If(_read(trigger.guard), body, [])]
        if unsure and trigger.compiling:
            # To Dynamo, to read a variable without a value is an end, not an exception.
            sure = ast.Expr(_call(trigger.lane, *_event(trigger, value, unsure)))
            body = [ast.If(_call(trigger.compiling), [sure], body)]
        reads, others = self._found(trigger, unsure)
        without = [*reads, ast.Expr(_call(trigger.relay, value, *others))]
        handler = self._handler(trigger, without, bool(unsure))
        return self._guarded(body, handler, -1 if unsure else self._cold)

    @staticmethod
    def _counted(trigger: Trigger, call: ast.expr) -> list[ast.stmt]:
        """The call, and one step of the tally after it: as an argument it is a bit cheaper."""
        if len(trigger.tally) == 2:
            count, tally = trigger.tally
            return [ast.Expr(_call(count, _read(tally), call))]
        return [ast.Expr(call), *(ast.Expr(_call(count)) for count in trigger.tally)]

    def _noted(
        self, trigger: Trigger, noting: Noting, value: ast.expr, ordinary: list[ast.stmt]
    ) -> ast.stmt:
        """Note the event here while that is on; the ``ordinary`` way, if not or if it fails."""
        parts = {key: value if n is None else _read(n) for key, n in trigger.entries if n != ""}
        note = _Named(noting.names, parts).visit(ast.parse(noting.code, mode="eval").body)
        missed = ast.Expr(_call(self._names.next, _read(noting.missed)))
        handler = ast.ExceptHandler(_read(self._names.exception), None, [missed, *ordinary])
        tried = ast.Try(body=[ast.Expr(note)], handlers=[handler], orelse=[], finalbody=[])
        return ast.If(_read(noting.on), [tried], ordinary)

    def _override(self, trigger: Trigger) -> list[ast.stmt]:
        def set_to(value: ast.expr) -> ast.stmt:
            return ast.Assign([ast.Name(trigger.name, ast.Store())], value)

        value = _read(trigger.name)
        unsure = set(trigger.others.values()) - self._definite - {trigger.name}
        whole = set_to(_call(trigger.relay, value, *self._others(trigger.others)))
        if unsure and trigger.compiling:
            alone = set_to(_call(trigger.relay, value))
            whole = ast.If(_call(trigger.compiling), [alone], [whole])
        reads, others = self._found(trigger, unsure)
        without = [*reads, set_to(_call(trigger.relay, value, *others))]
        handler = self._handler(trigger, without, bool(unsure))
        return self._guarded([whole], handler, -1 if unsure else self._cold)

    def _found(self, trigger: Trigger, unsure: set[str]) -> tuple[list[ast.stmt], list[ast.expr]]:
        """When one of ``unsure`` has no value: what reads the others, and hands them to the relay.

        Where nothing is deleted, the relay looks them up. Before 3.13 that keeps every variable of
        the frame alive until the next look: not in code that deletes some to have them gone.
        """
        if self._deleted.isdisjoint(unsure):
            return [], []
        others = trigger.others
        sure = {key: name for key, name in others.items() if name not in unsure}
        keys: list[ast.expr | None] = [ast.Constant(key) for key in sure]
        values: list[ast.expr] = [_read(name) for name in sure.values()]
        reads: list[ast.stmt] = []
        if len(unsure) > 1:
            # The exception in hand keeps them, for it is nobody else's and is gone in a moment.
            reads = [self._kept(key, name) for key, name in others.items() if name in unsure]
            keys.append(None)
            values.append(self._keeper())
        return reads, [ast.Dict(keys, values)]

    def _kept(self, key: str, name: str) -> ast.stmt:
        """Keep the variable, if it has a value."""
        place = ast.Subscript(self._keeper(), ast.Constant(key), ast.Store())
        keep = ast.Assign([place], _read(name))
        handler = ast.ExceptHandler(_read("NameError"), None, [ast.Pass()])
        return ast.Try(body=[keep], handlers=[handler], orelse=[], finalbody=[])

    def _keeper(self) -> ast.expr:
        """The attributes of the exception in hand."""
        return ast.Attribute(self._caught(), "__dict__", ast.Load())

    def _caught(self) -> ast.expr:
        return ast.Subscript(_call(self._names.exc_info), ast.Constant(1), ast.Load())

    def _handler(self, trigger: Trigger, without: list[ast.stmt], unsure: bool) -> list[ast.stmt]:
        """Ask voir what to do about an exception from the inserted call.

        A captured variable may have no value yet: then the event goes ``without`` it. Elsewhere
        nobody is there to be asked; and at the recursion limit nobody can be.
        """
        told: ast.stmt = ast.Expr(_call(self._names.failed, ast.Constant(trigger.number)))
        if unsure:
            told = ast.If(_call(self._names.unbound), without, [told])
        names: list[ast.expr] = [_read("NameError"), _read("RecursionError")]
        nobody = ast.ExceptHandler(ast.Tuple(names, ast.Load()), None, [ast.Pass()])
        return [ast.Try(body=[told], handlers=[nobody], orelse=[], finalbody=[])]

    def _relayed(self, trigger: Trigger, value: ast.expr) -> ast.expr:
        # An expression has no handler of its own, so only what certainly has a value is read;
        # the relay looks the others up.
        others = trigger.others
        certain = self._definite.issuperset(others.values())
        made = _call(trigger.relay, value, *self._others(others if certain else {}))
        # As lines go, the call is part of the expression: it begins and ends where that does.
        for node in (made, *(n for arg in made.args[1:] for n in ast.walk(arg))):
            _place(node, value.lineno)
        _place(made.func, first_leaf(value).lineno)
        return made

    @staticmethod
    def _others(others: dict[str, str]) -> list[ast.expr]:
        if not others:
            return []
        keys: list[ast.expr | None] = [ast.Constant(key) for key in others]
        return [ast.Dict(keys, [_read(name) for name in others.values()])]

    def _guarded(
        self, body: list[ast.stmt], caught: list[ast.stmt], cold: int | None = None
    ) -> list[ast.stmt]:
        """``body``, and ``caught``, at the line ``cold``, for whatever it raises."""
        cold = self._cold if cold is None else cold
        handler = ast.ExceptHandler(None, None, caught)
        whole = ast.Try(body=body, handlers=[handler], orelse=[], finalbody=[])
        for node in ast.walk(whole):
            _place(node, self._line)
        for node in ast.walk(handler):
            _place(node, cold)
        return [whole]


class _Named(ast.NodeTransformer):
    """Puts hidden names, and what an event carries, into the place of names.

    Args:
        names: The hidden name for each.
        parts: What stands for a key of the event.
    """

    def __init__(self, names: Mapping[str, str], parts: Mapping[str, ast.expr]) -> None:
        self._names, self._parts = names, parts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name."""
        return _read(self._names[node.id]) if node.id in self._names else self._parts[node.id]


Node = TypeVar("Node", bound=ast.AST)


def unplaced(node: Node) -> Node:
    """The node, without a line of its own."""
    return _place(node, -1)


def _place(node: Node, line: int) -> Node:
    if "lineno" in node._attributes:
        column = 0 if line > 0 else -1
        node.lineno = node.end_lineno = line  # type: ignore[attr-defined]
        node.col_offset = node.end_col_offset = column  # type: ignore[attr-defined]
    return node


def _event(trigger: Trigger, value: ast.expr, without: Iterable[str] = ()) -> list[ast.expr]:
    """The display that makes the event, leaving out some variables; or the values in it."""
    entries = [(key, name) for key, name in trigger.entries if name not in set(without)]
    parts = [value if n is None else _read(n) if n else ast.Constant(True) for _, n in entries]
    return parts if trigger.values else [ast.Dict([ast.Constant(key) for key, _ in entries], parts)]


def _read(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _comprehension(name: str) -> ast.expr:
    loop = ast.comprehension(ast.Name(name, ast.Store()), ast.Tuple([], ast.Load()), [], 0)
    return ast.ListComp(ast.Constant(None), [loop])


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(_read(name), list(args), [])


__all__ = ["Entry", "Stanzas", "Trigger", "unplaced"]
