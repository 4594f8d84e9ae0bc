"""Every slug that the source gives an error, found in its syntax trees.

A slug is the first argument of an error class. A function that passes one of its parameters on as
a slug takes slugs itself, so its calls are looked at in turn, until nothing new is found.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from .source import Module, imports, modules

ERRORS = {"Problem", "VoirError"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Taker:
    """Something that takes a slug: an error class (in any module), or a function of one.

    Attributes:
        name: What a call of it ends with.
        index: Which positional argument is the slug.
        module: Where it can be called by that name; ``None``: everywhere.
        sure: Whether every call by that name is of this; other classes have methods too.
    """

    name: str
    index: int
    module: str | None
    sure: bool = True


@cache
def slugs() -> dict[str, str]:
    """Each slug, and one place that gives it to an error.

    Raises:
        AssertionError: A slug is neither a literal, nor a local variable holding one, nor a
            parameter, nor another error's.
    """
    found: dict[str, str] = {}
    known = set(_classes())
    waiting = set(known)
    while waiting:
        new: set[Taker] = set()
        for module in modules():
            for function, call, slug, sure in _slug_arguments(module, waiting):
                if sure or isinstance(slug, ast.Constant):
                    _judge(module, function, call, slug, found, new)
        waiting = new - known
        known |= new
    return found


def _classes() -> Iterator[Taker]:
    """The error classes that are made with a slug; others hand one on by ``super().__init__``."""
    names = set(ERRORS)
    for _ in range(3):  # A subclass may stand before its base, or in another file.
        names |= {c.name for m in modules() for c in _subclasses(m, names)}
    made = {c.name: c for m in modules() for c in ast.walk(m.tree) if isinstance(c, ast.ClassDef)}
    for name in names:
        parameters = _init(made[name])
        if parameters is None:
            yield Taker(name, 0, None)
        elif "slug" in parameters:
            yield Taker(name, parameters.index("slug"), None)
    for module in modules():
        if any(_subclasses(module, names)):
            yield Taker("__init__", 0, module.name)


def _subclasses(module: Module, names: set[str]) -> Iterator[ast.ClassDef]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef) and names & {_last(base) for base in node.bases}:
            yield node


def _init(node: ast.ClassDef) -> list[str] | None:
    """The parameters of a class's own ``__init__``, if it has one."""
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and one.name == "__init__":
            return _parameters(one)
    return None


def _parameters(function: Function) -> list[str]:
    return [a.arg for a in function.args.args if a.arg != "self"]


def _last(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _slug_arguments(
    module: Module, takers: set[Taker]
) -> Iterator[tuple[Function | None, ast.Call, ast.expr, bool]]:
    """Each call of a taker in ``module``: the function it is in, the call, its slug, if it is."""
    for function, call in _calls(module.tree, None):
        for taker in takers:
            if _last(call.func) == taker.name and taker.module in (None, module.name):
                by_name = [k.value for k in call.keywords if k.arg == "slug"]
                if by_name or len(call.args) > taker.index:
                    slug = by_name[0] if by_name else call.args[taker.index]
                    yield function, call, slug, taker.sure


def _calls(node: ast.AST, function: Function | None) -> Iterator[tuple[Function | None, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        inside = child if isinstance(child, Function) else function
        if isinstance(child, ast.Call):
            yield function, child
        yield from _calls(child, inside)


def _judge(
    module: Module,
    function: Function | None,
    call: ast.Call,
    slug: ast.expr,
    found: dict[str, str],
    new: set[Taker],
) -> None:
    if isinstance(slug, ast.Constant) and isinstance(slug.value, str):
        found.setdefault(slug.value, module.at(call))
    elif isinstance(slug, ast.Attribute) and slug.attr == "slug":
        pass  # Another error's, found where that one is made.
    elif isinstance(slug, ast.Name) and function is not None:
        _follow(module, function, slug.id, found, new)
    else:
        raise AssertionError(f"{module.at(call)}: write the slug as a literal: {ast.unparse(slug)}")


def _follow(
    module: Module, function: Function, name: str, found: dict[str, str], new: set[Taker]
) -> None:
    if name in _parameters(function):
        if function.name != "__init__":  # Its class is looked at already.
            new.update(_takers(module, function.name, _parameters(function).index(name)))
        return
    values = list(_assigned(function, name))
    assert values, f"{module.at(function)}: where does the slug {name!r} come from?"
    for value in values:
        found.setdefault(value, module.at(function))


def _takers(module: Module, name: str, index: int) -> Iterator[Taker]:
    yield Taker(name, index, module.name)
    if not name.startswith("_"):
        yield Taker(name, index, None, sure=False)
    for other in modules():
        for one in imports(other):
            if one.target == module.name and one.name == name and one.known_as:
                yield Taker(one.known_as, index, other.name)


def _assigned(function: Function, name: str) -> Iterator[str]:
    """The literals that are assigned to a local variable, in tuples too."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _literals(target, node.value, name)


def _literals(target: ast.expr, value: ast.expr, name: str) -> Iterator[str]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for one, its in zip(target.elts, value.elts, strict=False):
            yield from _literals(one, its, name)
    elif isinstance(target, ast.Name) and target.id == name and isinstance(value, ast.Constant):
        yield str(value.value)
