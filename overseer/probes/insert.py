"""Inserts calls into statements, after the names they bind.

The original tree is not modified: nodes on the path to an insertion are copied. A value is passed
through a call inside its expression only where no statement can follow: for a walrus, ``return``,
``yield``, and the captures of a guarded ``case``.
"""

from __future__ import annotations

import ast
import copy

from . import calls
from .scopes import (
    Blocks,
    Comprehension,
    Definition,
    For,
    With,
    all_bindings,
    bindings,
    first_line,
    loops,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from .calls import Trigger
    from .scopes import Scope

    Orders = Mapping[Scope, Sequence[Trigger]]


def insert(statement: ast.stmt, module: Scope, orders: Orders) -> list[ast.stmt]:
    """Insert all calls that ``orders`` has for a top-level ``statement`` of ``module``."""
    return _Inserter(module, orders).body([statement])


def top(tree: ast.Module) -> int:
    """Number of leading statements that must stay first: docstring and futures."""
    at = len(_docstring(tree.body))
    for index, node in enumerate(tree.body):
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            at = index + 1
    return at


def _docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first: Any = body[0] if body else None
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return [first] if documented and isinstance(first.value.value, str) else []


class _Inserter:
    """Inserts calls into the statements of one scope; inner scopes have separate inserters."""

    def __init__(self, scope: Scope, orders: Orders) -> None:
        self._scope, self._orders = scope, orders
        # Overriding probes come first, so that other probes see the new value.
        self._triggers = sorted(orders.get(scope, ()), key=lambda trigger: not trigger.overrides)
        self._inner = {id(one.node): one for wanted in orders for one in wanted.chain()}
        self._starts, self._ends = self._of_loops("#loop_"), self._of_loops("#endloop_")
        names = {trigger.name for trigger in self._triggers}
        walrus = (n.target.id for n in scope.own if isinstance(n, ast.NamedExpr)) if names else ()
        self._in_expressions = bool(names & {"#yield", "#receive", *walrus})
        #: Variables known to be bound at the current position.
        self._sure = set(scope.parameters)
        #: Names called without a handler.
        self._called: list[str] = []
        #: Triggers placed in the innermost loop that record its start.
        self._placed: list[Trigger] = []

    def _of_loops(self, marker: str) -> dict[int, list[Trigger]]:
        found: dict[int, list[Trigger]] = {}
        for trigger in self._triggers:
            if trigger.name.startswith(marker):
                for loop in loops(self._scope, trigger.name[len(marker) :]):
                    found.setdefault(id(loop), []).append(trigger)
        return found

    # Calls

    def _named(self, *names: str) -> list[Trigger]:
        """Triggers of these variables or markers."""
        return [trigger for name in names for trigger in self._triggers if trigger.name == name]

    def _unsure(self, trigger: Trigger) -> list[str]:
        """Other variables of the event that may be unbound here."""
        sure = self._sure - self._scope.deleted
        return [name for name in trigger.others if name and name not in sure]

    def _fire(self, trigger: Trigger, value: ast.expr, line: int) -> ast.stmt:
        self._place(trigger)
        unsure = set(self._unsure(trigger)) & set(self._scope.bound)
        return calls.fired(trigger, value, line, bool(unsure) and self._scope.is_function)

    def _place(self, trigger: Trigger) -> None:
        if trigger.enters and trigger not in self._placed:
            self._placed.append(trigger)

    def _mark(self, triggers: Iterable[Trigger], line: int) -> list[ast.stmt]:
        return [self._fire(trigger, ast.Constant(True), line) for trigger in triggers]

    def _end(self, trigger: Trigger, line: int) -> ast.stmt:
        """Build the event at the end of a call or iteration."""
        # Python may end suspended calls at exit, after it has removed the names.
        suspended = isinstance(self._scope.node, ast.AsyncFunctionDef) or self._yields
        if suspended or not self._scope.is_function or self._unsure(trigger):
            return self._fire(trigger, ast.Constant(True), line)
        self._place(trigger)
        self._called.append(trigger.event)
        return calls.marked(trigger)

    def _after(self, names: Iterable[str], line: int) -> list[ast.stmt]:
        """Build the events after ``names`` were bound."""
        unique = list(dict.fromkeys(names))
        self._sure.update(unique)
        made = [self._fire(t, calls.read(t.name), line) for t in self._named(*unique)]
        # Where branches join, the next instruction may otherwise get the line of any branch.
        return [*made, calls.located(ast.Pass(), line)] if made else []

    def _through(
        self, triggers: Iterable[Trigger], value: ast.expr, alone: bool | None = None
    ) -> ast.expr:
        """Pass an expression through probes, with their other variables if those are bound."""
        for trigger in triggers:
            self._place(trigger)
            self._called.append(trigger.relay)
            without = bool(self._unsure(trigger)) if alone is None else alone
            value = calls.passed(trigger, value, without)
        return value

    # Statements

    def body(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Insert into a list of statements."""
        return [made for statement in statements for made in self._statement(statement)]

    def _statement(self, node: Any) -> list[ast.stmt]:
        if isinstance(node, ast.Return):
            return self._return(node)
        if isinstance(node, With):
            return [self._with(node)]
        if isinstance(node, (*For, ast.While)):
            return self._loop(node)
        made = self._copied(node)
        if isinstance(node, Definition) and id(node) in self._inner:
            made.body = _Inserter(self._inner[id(node)], self._orders).whole()
        return [made, *self._after(bindings(node), node.lineno)]

    def _loop(self, node: Any) -> list[ast.stmt]:
        """Insert into a loop; calls that record its start come before it."""
        around, self._placed = self._placed, []
        made = self._copied(node)
        begun = [calls.entered(trigger, node.lineno) for trigger in self._placed]
        self._placed = around
        return [*begun, made]

    def _copied(self, node: Any) -> Any:
        """Copy a node and insert into its blocks and expressions."""
        made = copy.copy(node)
        for name, part in ast.iter_fields(node):
            if not (isinstance(part, list) and part and isinstance(part[0], Blocks)):
                setattr(made, name, self._expression(part))
            elif not isinstance(node, Definition):
                before = set(self._sure)
                setattr(made, name, self._block(node, name, part))
                self._sure = before
        if isinstance(node, ast.match_case) and node.guard is not None:
            self._guard(made, self._named(*all_bindings(node.pattern)))
        return made

    def _block(self, node: Any, name: str, part: list[Any]) -> list[Any]:
        if not isinstance(part[0], ast.stmt):
            return [self._copied(each) for each in part]
        if name != "body":
            return self.body(part)
        # A `while` loop jumps back to its body, not to its head.
        line = first_line(
            part[0] if isinstance(node, ast.While) else getattr(node, "pattern", node)
        )
        made = self._mark(self._starts.get(id(node), ()), line)
        if isinstance(node, (*For, ast.ExceptHandler)):
            made += self._after(bindings(node), line)
        elif isinstance(node, ast.match_case):
            after = self._after(all_bindings(node.pattern), line)
            made += after if node.guard is None else []
        before = set(self._sure)
        made += self.body(part)
        self._sure = before
        ends = [self._end(trigger, line) for trigger in self._ends.get(id(node), ())]
        return [calls.finally_(made, ends)] if ends else made

    def _guard(self, case: Any, triggers: list[Trigger]) -> None:
        """Fire the events of a pattern's captures before its guard is evaluated."""
        seen = []
        for trigger in triggers:
            value = self._through([trigger], calls.read(trigger.name))
            if trigger.overrides:
                value = ast.NamedExpr(ast.Name(trigger.name, ast.Store()), value)
            seen.append(value)
        if seen:
            both: list[ast.expr] = [ast.List(seen, ast.Load()), case.guard]
            case.guard = calls.located(ast.BoolOp(ast.And(), both))

    def _with(self, node: Any) -> ast.stmt:
        made, items, body = copy.copy(node), node.items, node.body
        for index, item in enumerate(items[:-1], 1):
            # `with a as x, b as y` binds x before it calls b: split it into nested statements.
            if self._named(*bindings(item)):
                inner = copy.copy(node)
                inner.items = items[index:]
                items, body = items[:index], [inner]
                break
        made.items, before = self._expression(items), set(self._sure)
        made.body = [*self._after(bindings(items[-1]), node.lineno), *self.body(body)]
        self._sure = before  # The context manager may swallow an exception.
        return made  # type: ignore[no-any-return]

    def _return(self, node: Any) -> list[ast.stmt]:
        made, triggers = self._copied(node), self._named("#value")
        if not triggers:
            return [made]
        value = made.value or ast.Constant(None)
        if self._async_generator:
            return [*self._mark_value(triggers, value), made]
        unsure = [name for trigger in triggers for name in self._unsure(trigger)]
        alone, made.value = copy.copy(made), self._through(triggers, value, alone=False)
        if not unsure:
            return [made]
        alone.value = self._through(triggers, value, alone=True)
        return [calls.if_bound(unsure, made, node.lineno), alone]

    def _mark_value(self, triggers: list[Trigger], value: ast.expr) -> list[ast.stmt]:
        return [calls.located(ast.Expr(self._through(triggers, value)))]

    @property
    def _yields(self) -> bool:
        return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in self._scope.own)

    @property
    def _async_generator(self) -> bool:
        return self._yields and isinstance(self._scope.node, ast.AsyncFunctionDef)

    # Functions and classes

    def whole(self) -> list[ast.stmt]:
        """Insert into the body of this function or class."""
        body = self._scope.node.body
        head = _docstring(body) if self._triggers else []
        rest = body[len(head) :]
        if not self._triggers:
            return self.body(body)
        if self._scope.is_function:
            return [*head, *self._function(rest, first_line((rest or head)[0]))]
        names = [name for t in self._triggers for name in (t.event, t.relay)]
        return [*head, calls.declared(names), *self.body(rest)]

    def _function(self, body: list[ast.stmt], line: int) -> list[ast.stmt]:
        made = [*self._entry(line), *self.body(body), *self._implicit_return(body)]
        made = made or [calls.located(ast.Pass(), line)]
        self._sure = set(self._scope.parameters)
        errors = self._named("#error")
        if errors:
            fired = [self._fire(t, calls.exception(), line) for t in errors]
            made = [calls.on_error(made, fired, line)]
        exits = [self._end(trigger, line) for trigger in self._named("#exit")]
        if exits:
            made = [calls.finally_(made, exits, line)]
        placed = (trigger for trigger in self._placed if trigger.in_calls)
        made = [*(calls.entered(trigger, line) for trigger in placed), *made]
        return [calls.present(dict.fromkeys(self._called), line), *made] if self._called else made

    def _entry(self, line: int) -> list[ast.stmt]:
        """Build the events at the start of a call: marker, read-only variables, parameters."""
        made = self._mark(self._named("#enter"), line)
        for trigger in self._triggers:
            if not trigger.name.startswith("#") and trigger.name not in self._scope.bound:
                made.append(self._fire(trigger, calls.read(trigger.name), line))
        return [*made, *self._after(self._scope.parameters, line)]

    def _implicit_return(self, body: list[ast.stmt]) -> list[ast.stmt]:
        values = self._named("#value")
        if not values or (body and isinstance(body[-1], (ast.Return, ast.Raise))):
            return []
        if self._async_generator:
            return self._mark_value(values, ast.Constant(None))
        return self._return(calls.located(ast.Return(None)))

    # Expressions

    def _expression(self, node: Any, within: bool = False) -> Any:
        """Copy an expression or list of nodes; pass bound and yielded values through probes.

        Args:
            node: The nodes to copy.
            within: Inside a comprehension, where other variables cannot be read.
        """
        if isinstance(node, list):
            return [self._expression(each, within) for each in node]
        # All trees share one ``Load`` object.
        plain = not isinstance(node, ast.AST) or isinstance(node, ast.expr_context)
        if plain or not self._in_expressions:
            return node
        made = copy.copy(node)
        within = within or isinstance(node, Comprehension)
        for name, part in ast.iter_fields(node):
            if not (isinstance(node, ast.Lambda) and name == "body"):
                setattr(made, name, self._expression(part, within))
        alone = True if within else None
        if isinstance(made, ast.NamedExpr):
            triggers = self._named(made.target.id)
            made.value = self._through([t for t in triggers if t.overrides], made.value, alone)
            return self._through([t for t in triggers if not t.overrides], made, alone)
        if isinstance(made, ast.Yield):
            value, triggers = made.value or ast.Constant(None), self._named("#yield")
            made.value = self._through(triggers, value, alone) if triggers else made.value
            return self._through(self._named("#receive"), made, alone)
        return made
