"""Whether a scope has what a selector names, and what it may have meant if not."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .scopes import Scope, bindings, loops
from .selectors import ALSO, LOOPS, MAIN, Capture, Wish, reference
from .units import Unit


@dataclass(eq=False)
class Place:
    """A scope that a probe is put in.

    Attributes:
        unit: The source it is part of.
        scope: The scope.
        only: The one function it is meant for; ``None``: every function of this scope.
    """

    unit: Unit
    scope: Scope
    only: Any = None  # A FunctionType; mypy takes that for a method of this class.

    @property
    def swappable(self) -> bool:
        """Whether it can be reached by giving a function other code: not so the top level."""
        return any(scope.is_function for scope in self.scope.chain())


def fits(wish: Wish, scope: Scope, overridable: bool) -> bool:
    """Whether the scope has all that the selector names."""
    return all(_has(scope, capture, overridable) for capture in wish.captures)


def _has(scope: Scope, capture: Capture, overridable: bool) -> bool:
    name = capture.name
    if name.startswith(LOOPS):
        return bool(loops(scope, name.partition("_")[2]))
    if name in ("#yield", "#receive"):
        return scope.is_function and any(isinstance(n, ast.Yield) for n in scope.own)
    if capture.is_marker:
        return scope.is_function
    if capture.role == ALSO:
        return not scope.path or name in scope.bound or name in scope.read
    # What is only read is reported when a call begins; nothing there could be overridden.
    return name in scope.bound or (scope.is_function and not overridable and name in scope.read)


def lines(wish: Wish, scope: Scope) -> list[int]:
    """The lines where the selector's events come from, for ``--debug``."""
    found: set[int] = set()
    for trigger in wish.triggers:
        if trigger.name.startswith(LOOPS):
            found |= {loop.lineno for loop in loops(scope, trigger.name.partition("_")[2])}
        elif not trigger.is_marker:
            found |= _binding_lines(scope, trigger.name)
    return sorted(found)


def _binding_lines(scope: Scope, name: str) -> set[int]:
    return {getattr(n, "lineno", 0) for n in scope.own if name in bindings(n)} - {0}


def why_not(wish: Wish, units: Iterable[Unit], overridable: bool) -> str:
    """Why the selector has no place in ``units``, with the nearest names that exist."""
    units = list(units)
    found = [scope for unit in units for scope in unit.at(wish.path)]
    if found:
        return _no_name(wish, found[0], overridable)
    all_scopes = [scope for unit in units for scope in unit.scopes if scope.path]
    inner = _with_path(s.path for s in all_scopes if s.path[-len(wish.path) :] == wish.path)
    here = reference(wish.module, wish.path)
    if inner:
        candidates = ", ".join(reference(wish.module, path) for path in inner)
        return f"there is no {here}, but {candidates}"
    near = _near(
        "/".join(wish.path), ["/".join(path) for path in _with_path(map(_path, all_scopes))]
    )
    module = "the script" if wish.module == MAIN else wish.module
    if not near:
        return f"{module} defines no function or class"
    return f"there is no {here}; {module} has {', '.join(near)}"


def _path(scope: Scope) -> tuple[str, ...]:
    return scope.path


def _with_path(paths: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(paths))


def _no_name(wish: Wish, scope: Scope, overridable: bool) -> str:
    capture = next(c for c in wish.captures if not _has(scope, c, overridable))
    where = wish.reference if scope.path else f"the top level of {wish.reference}"
    if capture.name.startswith(LOOPS):
        name = capture.name.partition("_")[2]
        return f"no loop of {where} binds {name}; its loops bind {_some(_loop_names(scope), name)}"
    if capture.is_marker:
        return f"{capture.name} means nothing in {where}"
    if overridable and capture.name in scope.read:
        return f"{where} only reads {capture.name}, so it cannot be overridden there"
    names = _some(scope.bound, capture.name)
    return f"{where} has no variable {capture.name}; it has {names}"


def _loop_names(scope: Scope) -> list[str]:
    return [name for name in scope.bound if loops(scope, name)]


def _some(names: Iterable[str], wanted: str) -> str:
    return ", ".join(_near(wanted, list(names))) or "none"


def _near(wanted: str, names: list[str], most: int = 5) -> list[str]:
    """The names most like ``wanted``, likest first, and a few others."""
    from difflib import get_close_matches

    close = get_close_matches(wanted, names, most)
    return [*close, *(name for name in names if name not in close)][:most]


__all__ = ["Place", "fits", "lines", "why_not"]
