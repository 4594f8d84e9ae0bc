"""Who plays which part in a script: its loader, model, options, device, and what pauses it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .batch import WRAPPERS, unwrapped
from .loop import BACKWARD, LOADERS, is_loader
from .scopes import Function, Scope, bindings, called, dotted, names_in

_PARSES = {"parse_args", "parse_known_args", "parse_args_into_dataclasses", "parse_intermixed_args"}
_PAUSES = re.compile(r"eval|valid|test|estimate|sample|generate|save|checkpoint|predict|plot", re.I)
#: Functions of such names may also be what gives a step its batch.
_DRAWS = re.compile(r"sample|generate|predict", re.IGNORECASE)
_OPTIONS = re.compile(r"^(args|opts?|options|config|conf|cfg|hparams|hp|flags|arguments)$", re.I)
_OPTIMIZER = re.compile(r"optim|\b(SGD|RMSprop|LBFGS|Lion|Muon|\w*Ada\w*)\(", re.IGNORECASE)
#: Models by their names.
_MODEL = re.compile(r"^_?(model|net|network|policy|backbone)$", re.IGNORECASE)
_MADE = (ast.Call, ast.Dict, ast.DictComp)
#: Options of a command that are shown, at most.
OPTIONS = 12
#: Functions that are declared a pause, at most.
PAUSES = 4


class Variable(NamedTuple):
    """A variable of a scope, or an attribute of what a variable of a method holds.

    Attributes:
        scope: Where it is.
        name: What it is called.
        line: Where it is bound.
        attribute: The attribute that is meant of it, once the method has been left.
    """

    scope: Scope
    name: str
    line: int
    attribute: str | None = None

    @property
    def selector(self) -> str:
        """Where its values are seen."""
        if self.attribute is not None:
            return f"{self.scope.reference}({self.name}) > #exit"
        return f"{self.scope.reference} > {self.name}"

    def known_as(self, key: str) -> str:
        """The selector, with the value under ``key``."""
        if self.attribute is not None:
            return self.selector
        return self.selector if self.name == key else f"{self.selector} as {key}"

    def code(self, key: str) -> str | None:
        """The line of a voirfile, where the selector alone does not do."""
        if self.attribute is None:
            return None
        return subscription(self.selector, key, f'event["{self.name}"].{self.attribute}')

    @property
    def where(self) -> str:
        """``file:line`` of where it is first bound."""
        return f"{self.scope.source.path}:{self.line}"


def variable(scope: Scope, name: str) -> Variable | None:
    """The variable that ``name`` means in ``scope``."""
    binder = scope.binder(name)
    return Variable(binder, name, binder.bound[name]) if binder is not None else None


def variable_of(scope: Scope, node: ast.expr | None) -> Variable | None:
    """The variable that an expression names; of ``self.x``, the one it was assigned from."""
    if isinstance(node, ast.Name):
        return variable(scope, node.id)
    if isinstance(node, ast.Attribute) and dotted(node.value) in ("self", "cls"):
        return _assigned_to(scope, node.attr)
    return None


def subscription(selector: str, key: str, value: str) -> str:
    """Lines of a voirfile that give ``value``, an expression of ``event``, as ``key``."""
    return f'ov.probe("{selector}").subscribe(\n        lambda event: ov.give({key}={value})\n    )'


def _assigned_to(scope: Scope, attribute: str) -> Variable | None:
    """The variable ``x`` of ``self.attribute = x`` in a method of the class around ``scope``.

    Of anything else that is assigned to it, the attribute as it is when the method is left.
    """
    home: Scope | None = scope
    while home is not None and not isinstance(home.node, ast.ClassDef):
        home = home.outer
    for method in home.inner if home is not None else ():
        for seen in method.seen:
            target = _attribute_target(seen.node, attribute)
            value = getattr(seen.node, "value", None)
            if target is None or value is None or isinstance(value, ast.Constant):
                continue
            if isinstance(value, ast.Name):
                return variable(method, value.id)
            return Variable(method, dotted(target.value), target.lineno, attribute)
    return None


def _attribute_target(node: ast.AST, attribute: str) -> ast.Attribute | None:
    """``self.attribute`` among what a statement assigns to."""
    alone = [node.target] if isinstance(node, ast.AnnAssign) else []
    every = node.targets if isinstance(node, ast.Assign) else alone
    flat = [t for each in every for t in getattr(each, "elts", [each])]
    return next(
        (t for t in flat if isinstance(t, ast.Attribute) and dotted(t) in _own(attribute)), None
    )


def _own(attribute: str) -> tuple[str, str]:
    return f"self.{attribute}", f"cls.{attribute}"


# The loader


def loader_of(scope: Scope, source: ast.expr | None, scopes: list[Scope]) -> Variable | None:
    """The variable that holds the loader which ``source`` takes its batches from."""
    found = variable_of(scope, _iterated(scope, source))
    if found is not None and not _made_by_generator(found):
        return found
    made = [v for each in scopes for v in _made(each, LOADERS)]
    named = [v for v in made if "train" in v.name.lower()]
    return next(iter([*named, *made]), None)


def makes_loader(scopes: list[Scope]) -> bool:
    """Whether a loader is made anywhere."""
    return any(called(seen.node) in LOADERS for scope in scopes for seen in scope.calls)


def _iterated(scope: Scope, source: ast.expr | None) -> ast.expr | None:
    """The loader behind ``next(it)``, where ``it = iter(loader)``."""
    for _ in range(4):
        if isinstance(source, ast.Call) and called(source) in WRAPPERS | {"next"} and source.args:
            source = unwrapped(source.args[0])
        elif isinstance(source, ast.Call) and (given := _loader_given(scope, source)) is not None:
            source = given
        elif isinstance(source, ast.Name) and (made := _value(scope, source.id)) is not None:
            source = made
        else:
            break
    return source


def _loader_given(scope: Scope, call: ast.Call) -> ast.expr | None:
    """The loader that a call is given: ``loader`` of ``forever(loader)``."""
    return next((arg for arg in call.args if dotted(arg) and is_loader(scope, arg)), None)


def _value(scope: Scope, name: str) -> ast.expr | None:
    """What ``name`` was made of, when that is an iterator over something."""
    binder = scope.binder(name)
    for seen in binder.seen if binder is not None else ():
        node = seen.node
        if not isinstance(node, ast.Assign) or bindings(node) != [name]:
            continue
        made = node.value
        if called(made) in WRAPPERS or (
            isinstance(made, ast.Call) and _loader_given(scope, made) is not None
        ):
            return made
    return None


def _made_by_generator(found: Variable) -> bool:
    """Whether the variable is no loader but plain numbers: ``range(10)``."""
    return any(
        isinstance(seen.node, ast.Assign)
        and found.name in bindings(seen.node)
        and called(seen.node.value) in ("range", "list", "tuple", "arange")
        for seen in found.scope.seen
    )


def _made(scope: Scope, kinds: Iterable[str]) -> Iterator[Variable]:
    """Variables assigned from a call of one of ``kinds``."""
    for seen in scope.seen:
        node = seen.node
        if isinstance(node, ast.Assign) and called(node.value) in kinds:
            for name in bindings(node)[:1]:
                yield Variable(scope, name, node.lineno)


# The model


def model_of(scope: Scope, scopes: list[Scope]) -> Variable | None:
    """The variable that holds the model: what an optimizer is made for, else what is trained."""
    near = [scope, *(each for each in scopes if each is not scope)]
    for find in (_optimized, _trained, _named_model):
        found = [v for each in near for node in find(each) if (v := variable_of(each, node))]
        assigned = [v for v in found if v.name not in v.scope.parameters]
        if found:
            return next(iter([*assigned, *found]))
    return None


def _optimized(scope: Scope) -> Iterator[ast.expr]:
    """``model`` of ``SGD(model.parameters())``."""
    for seen in scope.calls:
        call = seen.node
        assert isinstance(call, ast.Call)
        for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
            if called(argument) in ("parameters", "named_parameters"):
                yield argument.func.value  # type: ignore[attr-defined]


def _trained(scope: Scope) -> Iterator[ast.expr]:
    """``model`` of ``model.train()``, ``model.eval()``, ``model.to(device)``, ``model(x)``."""
    for seen in scope.calls:
        call = seen.node
        assert isinstance(call, ast.Call)
        if called(call) in ("train", "eval") and isinstance(call.func, ast.Attribute):
            yield call.func.value
        elif re.fullmatch(r"(self\.)?_?(model|net|network)", dotted(call.func)):
            yield call.func


def _named_model(scope: Scope) -> Iterator[ast.expr]:
    """``model`` of ``model = Model(...)``."""
    for seen in scope.seen:
        node = seen.node
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            names = (t for t in node.targets if isinstance(t, ast.Name))
            yield from (t for t in names if _MODEL.match(t.id))


# Options and device


def options_of(scopes: list[Scope]) -> Variable | None:
    """The variable that holds the parsed options."""
    for scope in scopes:
        for seen in scope.seen:
            node = seen.node
            if isinstance(node, ast.Assign) and any(called(n) in _PARSES for n in _calls(node)):
                for name in bindings(node)[:1]:
                    return Variable(scope, name, node.lineno)
    for scope in scopes:
        decorators = getattr(scope.node, "decorator_list", ())
        if any("hydra" in dotted(getattr(d, "func", d)) for d in decorators):
            for name in scope.parameters[:1]:
                return Variable(scope, name, getattr(scope.node, "lineno", 1))
    return _named_options(scopes)


def _calls(node: ast.Assign) -> Iterator[ast.AST]:
    return (n for n in ast.walk(node.value) if isinstance(n, ast.Call))


def _named_options(scopes: list[Scope]) -> Variable | None:
    """A variable of the script that sounds like options and is made of a call or a dictionary."""
    stepping = _optimizers(scopes)
    for scope in scopes:
        for seen in scope.seen:
            node = seen.node
            if isinstance(node, ast.Assign) and isinstance(node.value, _MADE):
                for name in bindings(node)[:1]:
                    if _sounds(name, scope) and name not in stepping:
                        return Variable(scope, name, node.lineno)
        for name in scope.parameters:
            if _sounds(name, scope) and name not in stepping:
                return Variable(scope, name, scope.bound[name])
    return None


def _sounds(name: str, scope: Scope) -> bool:
    return bool(_OPTIONS.match(name)) and scope.source.is_script


def _optimizers(scopes: list[Scope]) -> set[str]:
    """The names of optimizers: ``opt`` of ``opt.step()``, ``opt = SGD(...)``."""
    stepping = {
        dotted(seen.node.func).split(".")[0]  # type: ignore[attr-defined]
        for scope in scopes
        for seen in scope.calls
        if called(seen.node) in ("step", "zero_grad", "minimize", "update", "init")
    }
    return stepping | {
        name
        for scope in scopes
        for seen in scope.seen
        if isinstance(seen.node, ast.Assign) and _OPTIMIZER.search(ast.unparse(seen.node.value))
        for name in bindings(seen.node)
    }


def command_of(scopes: list[Scope]) -> Scope | None:
    """The function whose parameters are the script's options, by its decorators: click, typer."""
    for scope in scopes:
        for decorator in getattr(scope.node, "decorator_list", ()):
            name = dotted(getattr(decorator, "func", decorator)).rpartition(".")[2]
            if isinstance(scope.node, Function) and name in ("option", "command", "argument"):
                return scope if scope.parameters else None
    return None


def is_early(found: Variable) -> bool:
    """Whether it may be bound before a script's probes are set as a rule: a literal, at the top."""
    top = not found.scope.path and found.scope.source.is_script
    return top and any(
        isinstance(seen.node, (ast.Assign, ast.AnnAssign))
        and isinstance(seen.node.value, (ast.Dict, ast.Constant))
        and seen.node.lineno == found.line
        for seen in found.scope.seen
    )


def cuda_of(scopes: list[Scope]) -> Variable | None:
    """The variable that says whether a GPU is to be used: ``use_cuda``, else ``device``."""
    found = []
    for scope in scopes:
        for seen in scope.seen if not isinstance(scope.node, ast.ClassDef) else ():
            node = seen.node
            if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
                continue
            for name in bindings(node)[:1]:
                said = ast.dump(node.value)
                if name == "use_cuda" or (name == "device" and ("cuda" in said or "'cpu'" in said)):
                    found.append(Variable(scope, name, node.lineno))
    return min(found, default=None, key=lambda v: v.name != "use_cuda")


# Functions


def function_named(name: str, scopes: list[Scope]) -> Scope | None:
    """The only function of the project with this name."""
    found = [s for s in scopes if isinstance(s.node, Function) and s.path[-1] == name]
    return found[0] if len(found) == 1 else None


def pausing(scopes: list[Scope], loop_scope: Scope) -> list[Scope]:
    """Functions that are no part of a step by their names: evaluation, checkpoints."""
    used = {called(seen.node) for scope in scopes for seen in scope.calls}
    found = [
        scope
        for scope in scopes
        if isinstance(scope.node, Function)
        and _PAUSES.search(scope.path[-1])
        and scope.path[-1] in used
        and scope is not loop_scope
        and not _holds(scope, loop_scope)
        and not any(called(seen.node) in BACKWARD for seen in scope.calls)
        and not (_DRAWS.search(scope.path[-1]) and _drawn_from(scope.path[-1], scopes))
    ]
    inner = {called(seen.node) for scope in found for seen in scope.calls}
    return [scope for scope in found if scope.path[-1] not in inner][:PAUSES]


def _drawn_from(name: str, scopes: list[Scope]) -> bool:
    """Whether a function that learns calls one of this name each time: that gives its batch."""
    for scope in scopes:
        if any(called(seen.node) in BACKWARD for seen in scope.calls):
            now_and_then = {
                id(inner)
                for seen in scope.seen
                if isinstance(seen.node, ast.If)
                for inner in ast.walk(seen.node)
            }
            calls = [seen.node for seen in scope.calls if called(seen.node) == name]
            if any(id(call) not in now_and_then for call in calls):
                return True
    return False


def _holds(scope: Scope, loop_scope: Scope) -> bool:
    """Whether ``scope`` calls the function that has the loop, or is around it."""
    name = loop_scope.path[-1] if loop_scope.path else None
    calls = any(called(seen.node) == name for seen in scope.calls) if name else False
    return calls or loop_scope.path[: len(scope.path)] == scope.path


def uses_framework(scopes: list[Scope]) -> str | None:
    """The trainer that has the loop in its own code, as the script calls it."""
    for scope in scopes:
        for seen in scope.calls:
            func = seen.node.func  # type: ignore[attr-defined]
            receiver = dotted(getattr(func, "value", None)).rpartition(".")[2].lower()
            if called(seen.node) in ("fit", "train") and "trainer" in receiver:
                return f"{dotted(func)}()"
    return None


def mentions(node: ast.AST, name: str) -> bool:
    """Whether an expression reads ``name``."""
    return name in names_in(node)
