"""Finds the live functions of a scope and replaces their code.

Most functions are found by name, through common decorators. Closures, and functions hidden by other
decorators, are found among all objects of the process.
"""

from __future__ import annotations

import gc
import sys
from types import CodeType, FunctionType, MethodType

from .names import OURS, UNPROBED_NAMES
from .unit import key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .scopes import Scope
    from .unit import Key, Unit


def renew(unit: Unit, scope: Scope) -> str:
    """Replace the code of live functions of ``scope``, and of functions around it.

    Returns:
        Why a function of ``scope`` was left unchanged; empty if none was.
    """
    if not scope.in_function:
        return ""
    known = list(unit.known(scope.block))
    codes = unit.renewed(scope.block)
    wrong = ""
    for function in _live(unit, [one for one in scope.chain() if one.is_function]):
        key, code = key_of(function.__code__), function.__code__
        if any(code == of.get(key) for of in known) or probed(code):
            function.__code__ = codes[key]
        elif key == scope.key:
            wrong = _why_not(function, unit)
    return wrong


def probed(code: CodeType) -> bool:
    """Check ``code`` for probe calls, including those of an earlier run in this process."""
    names = (name for name in code.co_names if name not in UNPROBED_NAMES)
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return any(name.startswith(OURS) for name in names) or any(map(probed, inner))


def _why_not(function: FunctionType, unit: Unit) -> str:
    if hasattr(function, "__ptera_info__"):
        what = f"ptera rewrites {function.__qualname__} for a slow selector"
        return f"{what}: it cannot have other probes; watch this variable with a slow selector too"
    what = f"the running code differs from {unit.filename}"
    return f"{what}: edited since, or changed by another tool"


def _live(unit: Unit, scopes: list[Scope]) -> list[FunctionType]:
    """Live functions of these scopes."""
    module = sys.modules.get(unit.module)
    found: dict[Key, FunctionType] = {}
    for scope in scopes:
        for function in named(module, scope.path):
            if function.__code__.co_filename == unit.filename:
                found[key_of(function.__code__)] = function
    if all(scope.key in found and not scope.many for scope in scopes):
        return [found[scope.key] for scope in scopes]
    keys, everything = {scope.key for scope in scopes}, gc.get_objects()
    if unit.module != "__main__" and not any(one is module for one in everything):
        gc.unfreeze()  # Modules loaded before the script were frozen, with their functions.
        everything = gc.get_objects()
    # Check the type first: of a million objects, only a few thousand are functions.
    functions = [one for one in everything if type(one) is FunctionType]
    return [
        one
        for one in functions
        if one.__code__.co_filename == unit.filename and key_of(one.__code__) in keys
    ]


def named(module: Any, path: Iterable[str]) -> list[FunctionType]:
    """Functions at ``path`` in a module; runs none of the module's code."""
    found = module
    for part in path:
        if not isinstance(found, (type, type(sys))):
            return []
        found = vars(found).get(part)
    return unwrapped(found)


def unwrapped(value: Any) -> list[FunctionType]:
    """Innermost functions of a value, through decorators, properties and caches."""
    for _ in range(100):
        if isinstance(value, property):
            return [f for one in (value.fget, value.fset, value.fdel) for f in unwrapped(one)]
        if isinstance(value, (staticmethod, classmethod, MethodType)):
            value = value.__func__
        elif isinstance(value, FunctionType) and "__wrapped__" in value.__dict__:
            value = value.__dict__["__wrapped__"]
        elif type(value).__module__ == "functools":
            value = getattr(value, "__wrapped__", None) or getattr(value, "func", None)
        else:
            break
    return [value] if isinstance(value, FunctionType) else []
