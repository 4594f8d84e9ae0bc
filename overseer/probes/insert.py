"""Inserting: a statement of the script in, the same statement with calls after its bindings out.

Nothing that was there is changed in place; nodes on the way to an insertion are copied. The value
of an expression is passed through a call only where there is no statement to come after: walrus,
``return``, ``yield``, and the captures of a guarded ``case``.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..targets import targets
from .hidden import Shared
from .scopes import (
    Comprehension,
    Definition,
    For,
    Scope,
    binding_line,
    bindings,
    loops,
    opening_line,
    pattern_names,
)
from .stanzas import Stanzas, Trigger, unplaced
from .turns import Part, turn

Node = TypeVar("Node", bound=ast.AST)
Orders = Mapping[Scope, list[Trigger]]
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_TRIES = tuple(getattr(ast, name) for name in ("Try", "TryStar") if hasattr(ast, name))


@dataclass(frozen=True)
class Wanted:
    """What is to be inserted, and how.

    Attributes:
        orders: What to insert in which scope.
        names: Hidden names that all probes share.
        entry: The line of a function's first instruction; -1: it has none.
        ordered: For functions where an insertion comes before the first mention of a variable:
            the order in which the compiler must meet the local variables.
        lasting: Collects the hidden names that stand in expressions, which cannot be done without
            as long as the code is used.
    """

    orders: Orders
    names: Shared
    entry: Callable[[Scope], int]
    ordered: Mapping[Scope, Sequence[str]]
    lasting: set[str]


def insert(statement: ast.stmt, module: Scope, wanted: Wanted) -> list[ast.stmt]:
    """A top-level ``statement`` of ``module`` with everything that is wanted inside it."""
    return _Inserter(module, wanted).statement(statement)


def top(tree: ast.Module) -> int:
    """How many of the module's first statements have to stay first: docstring and futures."""
    at = int(_documented(tree.body))
    for index, node in enumerate(tree.body):
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            at = index + 1
    return at


def declared(names: Iterable[str]) -> list[ast.stmt]:
    """A statement that makes hidden names global.

    They are found faster then, and no class or module namespace is asked for them first.
    """
    unique = list(dict.fromkeys(names))
    return [unplaced(ast.Global(unique))] if unique else []


class _Inserter:
    """Works on the statements of one scope; inner scopes get an inserter of their own."""

    def __init__(self, scope: Scope, wanted: Wanted) -> None:
        self._scope = scope
        self._wanted = wanted
        triggers = wanted.orders.get(scope, [])
        # What is overridden is overridden before anybody else sees it.
        self._triggers = sorted(triggers, key=lambda t: not t.overrides)
        self._inner = {id(s.node): s for o in wanted.orders for s in o.chain()}
        #: What stands in a part of a loop's body, by the block that it goes to the end of.
        self._parts: dict[int, list[tuple[Part, Trigger]]] = {}
        #: What ends before a ``return``, and before what else leaves the innermost loop.
        self._returning: list[Trigger] = []
        self._leaving: list[Trigger] = []
        self._starts, self._ends = self._loops("#loop_"), self._loops("#endloop_")
        self._expressions = self._has_expressions()
        self._cold = wanted.entry(scope) if scope.is_function else -1
        #: Variables that certainly have a value at the place that is worked on.
        self._sure = set(scope.parameters)
        self.relays: list[str] = []

    def _loops(self, kind: str) -> dict[int, list[Trigger]]:
        found: dict[int, list[Trigger]] = {}
        for trigger in self._triggers:
            if trigger.name.startswith(kind):
                name = trigger.name[len(kind) :]
                for loop in loops(self._scope, name):
                    parts = turn(loop, name) if isinstance(loop, ast.While) else []
                    for part in parts:
                        self._parts.setdefault(id(part.block), []).append((part, trigger))
                    if not parts:
                        found.setdefault(id(loop), []).append(trigger)
        return found

    def _has_expressions(self) -> bool:
        """Whether any expression of this scope has to pass through a probe."""
        names = {t.name for t in self._triggers}
        if names & {"#yield", "#receive"}:
            return True
        walrus = (n for n in self._scope.own if isinstance(n, ast.NamedExpr)) if names else ()
        return any(node.target.id in names for node in walrus)

    def use(self, name: str) -> None:
        """Note that an expression of this scope calls ``name``."""
        self.relays.append(name)
        self._wanted.lasting.add(name)

    def named(self, name: str) -> list[Trigger]:
        """The triggers for a variable or marker."""
        return [t for t in self._triggers if t.name == name]

    def stanzas(self, bound: Iterable[str] = (), line: int = -1) -> Stanzas:
        """The builder for a place where ``bound`` were just bound."""
        definite = (self._sure - self._scope.deleted).union(bound)
        return Stanzas(self._wanted.names, line, definite, self._cold, self._scope.deleted)

    def blind(self) -> Stanzas:
        """The builder for a place from which the scope's variables cannot be read."""
        return Stanzas(self._wanted.names, cold=self._cold)

    def after(self, names: Iterable[str], line: int = -1) -> list[ast.stmt]:
        """What comes after ``names`` were bound."""
        unique = list(dict.fromkeys(names))
        made = self.stanzas(unique, line)
        return [s for name in unique for t in self.named(name) for s in made.variable(t)]

    # Statements

    def body(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements one after the other."""
        if parts := self._parts.get(id(statements)):
            return self._parted(statements, parts)
        return [made for statement in statements for made in self.statement(statement)]

    def _parted(
        self, statements: Sequence[ast.stmt], parts: list[tuple[Part, Trigger]], done: int = 0
    ) -> list[ast.stmt]:
        """Statements with iterations of loops that begin, or go on, somewhere among them."""
        if not parts:
            return self.body(statements[done:])
        first = min(parts, key=lambda each: each[0].at)[0]
        at, until = first.at, len(statements) if first.until is None else first.until
        made = self.body(statements[done:at])
        here = [(part, trigger) for part, trigger in parts if part.at == at]
        others = [each for each in parts if each not in here]
        within = self.stanzas((), opening_line(list(statements[at:])))
        starts = [t for part, t in here if part.begins and t.name.startswith("#loop_")]
        ends = [(part, t) for part, t in here if t.name.startswith("#endloop_")]
        body = [s for t in starts for s in within.marker(t)]
        # What has a value here has one at the end.
        last = [s for part, t in ends if not part.goes_on for s in self.stanzas().marker(t)]
        going = [t for part, t in ends if part.goes_on]
        caught = [s for t in going for s in self.stanzas().marker(t)]
        before = self._returning, self._leaving
        self._returning, self._leaving = [*before[0], *going], [*before[1], *going]
        inner = [(part, trigger) for part, trigger in others if part.at < until]
        body += self._parted(statements[:until], inner, at)
        self._returning, self._leaving = before
        if caught:
            body = within.attempt(body, caught)
        if last:
            body = within.attempt(body, None, last) if body else last
        behind = [each for each in others if each not in inner]
        return [*made, *body, *self._parted(statements, behind, until)]

    def _leave(self, node: Any) -> list[ast.stmt]:
        """``continue`` or ``break``: what goes on behind the part that it stands in ends here."""
        made = self.stanzas((), node.lineno)
        return [*(s for t in self._leaving for s in made.marker(t)), node]

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        """One statement and what comes after it."""
        handle = self._HANDLERS.get(type(node))
        if handle is not None:
            return handle(self, node)
        names = bindings(node)
        made = (
            self._definition(node) if isinstance(node, Definition) else self._expressions_of(node)
        )
        self._sure.update(names)
        return [made, *self.after(names, binding_line(node))]

    def _alternatives(self, *bodies: list[ast.stmt]) -> list[list[ast.stmt]]:
        """Bodies of which one is executed; sure is then what all that go on have bound."""
        before, ends, made = self._sure, [], []
        for body in bodies:
            self._sure = set(before)
            made.append(self.body(body))
            if not (body and isinstance(body[-1], _LEAVES)):
                ends.append(self._sure)
        self._sure = set.intersection(*ends) if ends else set(before)
        return made

    def _tentative(self, bound: Iterable[str], body: list[ast.stmt]) -> list[ast.stmt]:
        """A body that may be left at any point, or never entered; ``bound`` are bound before it."""
        before = self._sure
        self._sure = before.union(bound)
        made = self.body(body)
        self._sure = before
        return made

    def _definition(self, node: Any) -> Any:
        changed = copy.copy(node)
        for part in ("decorator_list", "bases", "keywords", "args"):
            if self._expressions and hasattr(node, part):
                setattr(changed, part, self._rewritten(getattr(node, part)))
        scope = self._inner.get(id(node))
        if scope is not None:
            inner = _Inserter(scope, self._wanted)
            changed.body = inner.scope_body()
        return changed

    def scope_body(self) -> list[ast.stmt]:
        """The whole body of this function or class."""
        body = self._scope.body
        head = body[:1] if _documented(body) else []
        rest = body[len(head) :]
        if not self._scope.is_function:
            hidden = [*self._wanted.names.all, *(n for t in self._triggers for n in t.hidden)]
            return [*head, *declared(hidden if self._triggers else ()), *self.body(rest)]
        if not self._triggers and self._scope not in self._wanted.ordered:
            return self.body(body)
        return [*head, *self._function(rest)]

    def _function(self, body: list[ast.stmt]) -> list[ast.stmt]:
        line = self._cold
        made = self.stanzas((), line)
        caught = [s for t in self.named("#error") for s in self.stanzas().error(t)]
        last = self._last()
        inner = [*self._entry(line), *self.body(body), *self._implicit_return(body)]
        # A `try` of ours starts where its first statement does.
        if caught or last:
            inner += _end(body)
        if caught:
            inner = made.attempt(inner, caught)
        if last:
            inner = made.attempt(inner, None, last)
        reach = made.reachable(list(dict.fromkeys(self.relays))) if self.relays else []
        order = self._wanted.ordered.get(self._scope)
        before = made.mention(order, self._scope.bound) if order else []
        return [*before, *reach, *inner]

    def _last(self) -> list[ast.stmt]:
        """What a call does at its very end, without branches as in :meth:`_implicit_return`.

        But with those of what inserted code notes by itself, where they show in no line.
        """
        exits, hidden = self.named("#exit"), _returns_from_with(self._scope)
        noted = [t for t in exits if hidden and t.noting is not None]
        made = [s for t in noted for s in self.stanzas().marker(t)]
        passed = [t for t in exits if t not in noted]
        ends = [self._through([t], unplaced(ast.Constant(True))) for t in passed]
        leaves = dict.fromkeys(t.leave for t in self._triggers if t.leave)
        for name in leaves:
            self.use(name)
        calls = [*ends, *(self.stanzas().leave(name) for name in leaves)]
        made += [unplaced(ast.Expr(call)) for call in calls]
        if made and self._scope.is_suspended:
            return self.blind().unless_gone(made)
        return made

    def _entry(self, line: int) -> list[ast.stmt]:
        """At the start of a call: the marker, what is only read, the parameters."""
        made = self.stanzas(self._scope.parameters, line)
        stanzas = [s for t in self.named("#enter") for s in made.marker(t)]
        for trigger in self._triggers:
            name = trigger.name
            if not name.startswith("#") and name not in self._scope.bound:
                stanzas += made.notice(trigger.reader)
        return stanzas + self.after(self._scope.parameters, line)

    def _implicit_return(self, body: list[ast.stmt]) -> list[ast.stmt]:
        values = self.named("#value")
        if not values or (body and isinstance(body[-1], (ast.Return, ast.Raise))):
            return []
        # Without branches: the compiler copies the end of a function to every place that leads
        # there, each copy with the line of that place, but only if it is straight.
        value = self._through(values, unplaced(ast.Constant(None)))
        if self._overridden(values):
            return [unplaced(ast.Return(value))]
        return [unplaced(ast.Expr(value))]

    def _overridden(self, triggers: list[Trigger]) -> bool:
        return any(t.overrides for t in triggers) and not self._async_generator

    @property
    def _async_generator(self) -> bool:
        node = self._scope.node
        return isinstance(node, ast.AsyncFunctionDef) and self._scope.is_generator

    def _return(self, node: Any) -> list[ast.stmt]:
        made = self.stanzas((), node.lineno)
        ends = [s for t in self._returning for s in made.marker(t)]
        return [*ends, *self._valued(node)]

    def _valued(self, node: Any) -> list[ast.stmt]:
        values = self.named("#value")
        changed = self._expressions_of(node)
        if not values:
            return [changed]
        if node.value is None and not self._overridden(values):
            made = self.stanzas((), node.lineno)
            return [*(s for t in values for s in made.nothing(t)), changed]
        if changed is node:
            changed = copy.copy(node)
        value = changed.value or unplaced(ast.Constant(None))
        changed.value = self._through(values, value)
        return [changed]

    def _through(self, triggers: Iterable[Trigger], value: ast.expr) -> ast.expr:
        for trigger in triggers:
            self.use(trigger.relay)
            value = self.stanzas().through(trigger, value)
        return value

    def _loop(self, node: Any) -> list[ast.stmt]:
        changed = copy.copy(node)
        bound = targets(node.target) if isinstance(node, For) else []
        for part in ("iter", "test", "target"):
            if hasattr(node, part):
                setattr(changed, part, self._rewritten(getattr(node, part)))
        # What the turn has deleted has no value at its end.
        line, made = binding_line(node), self.stanzas(set(bound) - self._scope.deleted)
        # A `while` comes back to its body, not to its head.
        starts = self.stanzas(bound, line if bound else opening_line(node.body))
        body = [s for t in self._starts.get(id(node), ()) for s in starts.marker(t)]
        around, self._leaving = self._leaving, []
        body += [*self.after(bound, line), *self._tentative(bound, node.body)]
        self._leaving = around
        if ends := self._ends.get(id(node)):
            body = self.stanzas(bound, line).attempt(
                body, None, [s for t in ends for s in made.marker(t)]
            )
        changed.body, changed.orelse = body, self._tentative((), node.orelse)
        return [changed]

    def _if(self, node: Any) -> list[ast.stmt]:
        changed = copy.copy(node)
        changed.test = self._rewritten(node.test)
        changed.body, changed.orelse = self._alternatives(node.body, node.orelse)
        return [changed]

    def _with(self, node: Any) -> list[ast.stmt]:
        changed = copy.copy(node)
        for index, item in enumerate(node.items):
            # `with a as x, b as y` is `with a as x: with b as y`; x is bound before b is called.
            names = bindings(item)
            if any(self.named(name) for name in names) and index + 1 < len(node.items):
                inner = copy.copy(node)
                changed.items, inner.items = node.items[: index + 1], node.items[index + 1 :]
                changed.items = self._rewritten(changed.items)
                self._sure.update(names)
                changed.body = [*self.after(names, binding_line(item)), *self._with(inner)]
                return [changed]
        changed.items = self._rewritten(node.items)
        last, names = node.items[-1], [n for item in node.items for n in bindings(item)]
        self._sure.update(names)
        after = self.after(bindings(last), binding_line(last))
        # What it manages may swallow an exception of its body.
        changed.body = [*after, *self._tentative((), node.body)]
        return [changed]

    def _try(self, node: Any) -> list[ast.stmt]:
        changed = copy.copy(node)
        before = set(self._sure)
        changed.body = self.body(node.body)
        changed.orelse = self.body(node.orelse)
        ends = [self._sure]
        changed.handlers = []
        for handler in node.handlers:
            self._sure = set(before)
            changed.handlers.append(self._except(handler))
            if not isinstance(handler.body[-1], _LEAVES):
                ends.append(self._sure)
        self._sure = before
        changed.finalbody = self.body(node.finalbody)
        self._sure = self._sure | set.intersection(*ends)
        return [changed]

    def _except(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        changed = copy.copy(node)
        if node.type is not None:
            changed.type = self._rewritten(node.type)
        changed.body = [*self.after(bindings(node), binding_line(node)), *self.body(node.body)]
        return changed

    def _match(self, node: Any) -> list[ast.stmt]:
        changed = copy.copy(node)
        changed.subject = self._rewritten(node.subject)
        changed.cases = [self._case(case) for case in node.cases]
        return [changed]

    def _case(self, node: Any) -> Any:
        changed = copy.copy(node)
        names = pattern_names(node.pattern)
        captured = [t for name in names for t in self.named(name)]
        if node.guard is None:
            changed.body = [*self.after(names), *self._tentative(names, node.body)]
            return changed
        # The names are bound before the guard is asked, and stay bound when it says no.
        changed.guard = self._rewritten(node.guard)
        changed.body = self._tentative(names, node.body)
        if captured:
            seen: list[ast.expr] = [self._seen(trigger) for trigger in captured]
            first = unplaced(ast.List(seen, ast.Load()))
            changed.guard = unplaced(ast.BoolOp(ast.And(), [first, changed.guard]))
        return changed

    def _seen(self, trigger: Trigger) -> ast.expr:
        value = self._through([trigger], unplaced(ast.Name(trigger.name, ast.Load())))
        if not trigger.overrides:
            return value
        store = unplaced(ast.Name(trigger.name, ast.Store()))
        return unplaced(ast.NamedExpr(store, value))

    _HANDLERS: Mapping[type, Callable[[_Inserter, Any], list[ast.stmt]]] = {
        ast.Return: _return,
        **dict.fromkeys((ast.Continue, ast.Break), _leave),
        **dict.fromkeys((*For, ast.While), _loop),
        ast.If: _if,
        **dict.fromkeys((ast.With, ast.AsyncWith), _with),
        **dict.fromkeys(_TRIES, _try),
        ast.Match: _match,
    }

    # Expressions

    def _expressions_of(self, node: Any) -> Any:
        return self._rewritten(node) if self._expressions else node

    def _rewritten(self, node: Any) -> Any:
        """The expression, or list of nodes, with what it binds and yields passed through."""
        if not self._expressions:
            return node
        if isinstance(node, list):
            return [self._rewritten(one) for one in node]
        made = _Expressions(self).visit(_copied(node))
        # The line of a decorator is the line of the definition.
        return ast.copy_location(made, node) if isinstance(node, ast.expr) else made


def _copied(node: Any) -> Any:
    """A copy of a tree, without what others have hung on its nodes.

    Python has one ``Load`` for all trees, and giving's way to find names hangs a frame on it.
    """
    if isinstance(node, list):
        return [_copied(each) for each in node]
    if not isinstance(node, ast.AST) or isinstance(node, ast.expr_context):
        return node
    of = type(node)
    made = of(**{name: _copied(getattr(node, name)) for name in of._fields if hasattr(node, name)})
    return ast.copy_location(made, node)


class _Expressions(ast.NodeTransformer):
    """Passes what an expression binds or yields through probes; works on a copy, in place."""

    def __init__(self, inserter: _Inserter) -> None:
        self._inserter = inserter
        self._comprehensions = 0

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """Only the defaults belong to the scope around."""
        node.args.defaults = [self.visit(default) for default in node.args.defaults]
        node.args.kw_defaults = [d and self.visit(d) for d in node.args.kw_defaults]
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.AST:
        """``(x := e)``: overridden inside, seen outside."""
        node.value = self.visit(node.value)
        value: ast.expr = node
        for trigger in self._inserter.named(node.target.id):
            if trigger.overrides:
                node.value = self._through(trigger, node.value)
            else:
                value = self._through(trigger, value)
        return value

    def visit_Yield(self, node: ast.Yield) -> ast.AST:
        """``yield e``: what goes out, and what comes back."""
        value = self.visit(node.value) if node.value is not None else None
        for trigger in self._inserter.named("#yield"):
            value = self._through(trigger, value or unplaced(ast.Constant(None)))
        node.value = value
        received: ast.expr = node
        for trigger in self._inserter.named("#receive"):
            received = self._through(trigger, received)
        return received

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Mark where other variables of the function cannot be read in place."""
        inside = isinstance(node, Comprehension)
        self._comprehensions += inside
        try:
            return super().generic_visit(node)
        finally:
            self._comprehensions -= inside

    def _through(self, trigger: Trigger, value: ast.expr) -> ast.expr:
        self._inserter.use(trigger.relay)
        made = self._inserter.stanzas() if not self._comprehensions else self._inserter.blind()
        return made.through(trigger, value)


def _end(body: list[ast.stmt]) -> list[ast.stmt]:
    """The return that stands at the end of every function, unless it is there already."""
    if body and isinstance(body[-1], (ast.Return, ast.Raise)):
        return []
    return [unplaced(ast.Return(None))]


def _returns_from_with(scope: Scope) -> bool:
    """Whether the one ``return``, of a name, ends a ``with``: the last line is that of its exit.

    To a tracer it is so even behind branches, unless what it manages hushes an exception.
    """
    last = scope.body[-1]
    within = isinstance(last, ast.With)
    while isinstance(last, ast.With):
        last = last.body[-1]
    one = [node for node in scope.own if isinstance(node, ast.Return)] == [last]
    return within and one and isinstance(getattr(last, "value", None), ast.Name)


def _documented(body: list[ast.stmt]) -> bool:
    return bool(body) and _is_docstring(body[0])


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


__all__ = ["Orders", "Wanted", "declared", "insert", "top"]
