"""Every slug that the source gives an error, found in its syntax trees.

A slug is the first argument of an error class. What passes one on has it as its first parameter,
``slug``, too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import Any

from .source import dotted, imports, modules

BASES = {"Problem", "VoirError"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def slugs() -> dict[str, str]:
    """Each slug, and one place that gives it to an error.

    Raises:
        AssertionError: A slug is neither a literal, nor a local variable holding one, nor a
            parameter of that name, nor another error's.
    """
    found: dict[str, str] = {}
    errors = _errors()
    sure = {error.name for error in errors if "slug" in _parameters(_init(error))}
    takers = _takers()
    inits = {_init(error) for error in errors if error.name not in BASES}
    for module in modules():
        for function in _all(module.tree, Function):
            for call in _all(function, ast.Call):
                given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "slug")]
                name = _last(call.func)
                own = name in sure or (name == "__init__" and function in inits)
                if given and (own or name in takers):
                    values = [*_values(function, given[-1])]
                    # Another's method may have the name of a function that takes a slug.
                    assert values or not own or _last(given[-1]) == "slug", module.at(call)
                    found |= dict.fromkeys(values, module.at(call))
    return found


def _errors() -> list[ast.ClassDef]:
    """The error classes."""
    classes = [c for module in modules() for c in _all(module.tree, ast.ClassDef)]
    names = BASES
    for _ in range(3):  # A subclass may stand before its base, or in another file.
        names = names | {c.name for c in classes if names & {_last(base) for base in c.bases}}
    return [c for c in classes if c.name in names]


def _init(error: ast.ClassDef) -> Function | None:
    own = (f for f in error.body if isinstance(f, ast.FunctionDef) and f.name == "__init__")
    return next(own, None)


def _takers() -> set[str]:
    """What functions that take a slug are called where they are called."""
    functions = [f for m in modules() for f in _all(m.tree, Function) if "slug" in _parameters(f)]
    assert all(_parameters(function)[0] == "slug" for function in functions)
    known = {function.name for function in functions} - {"__init__"}
    aliases = {one.known_as for module in modules() for one in imports(module) if one.name in known}
    return known | {alias for alias in aliases if alias}


def _all(tree: ast.AST, kind: Any) -> Iterator[Any]:
    return (node for node in ast.walk(tree) if isinstance(node, kind))


def _parameters(function: Function | None) -> list[str]:
    """Of a function; of an error without an ``__init__``, those of its base."""
    return [a.arg for a in function.args.args if a.arg != "self"] if function else ["slug"]


def _last(node: ast.expr) -> str:
    return (dotted(node) or "").rpartition(".")[2]


def _values(function: Function, slug: ast.expr) -> Iterator[str]:
    """The literals that a slug may be; none of a parameter, and of another error's."""
    if isinstance(slug, ast.Constant):
        yield str(slug.value)
    elif isinstance(slug, ast.Name):
        yield from _assigned(function, slug.id)


def _assigned(function: Function, name: str) -> Iterator[str]:
    """The literals that are assigned to a local variable, in tuples too."""
    for node in _all(function, ast.Assign):
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = [*zip(target.elts, node.value.elts, strict=False)]
            for one, value in pairs:
                if isinstance(one, ast.Name) and one.id == name and isinstance(value, ast.Constant):
                    yield str(value.value)
