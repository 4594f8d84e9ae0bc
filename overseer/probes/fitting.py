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


def named(wish: Wish) -> str:
    """The code that a selector names, for a sentence."""
    if wish.path:
        return wish.reference
    return f"the top level of {_module(wish)}"


def _module(wish: Wish) -> str:
    return "the script" if wish.module == MAIN else wish.module


def why_not(wish: Wish, units: Iterable[Unit], overridable: bool) -> str:
    """Why the selector has no place in ``units``, with the nearest names that exist."""
    units = list(units)
    found = [scope for unit in units for scope in unit.at(wish.path)]
    if found:
        return _no_name(wish, found, overridable)
    outer = [scope for unit in units for scope in unit.at(wish.path[:-1])]
    last = wish.path[-1]
    if any(_is_lambda(scope, last) for scope in outer):
        return f"{wish.reference} is a lambda: probes go into functions that def makes"
    every = list(dict.fromkeys(s.path for unit in units for s in unit.scopes if s.path))
    same = [path for path in every if path[-len(wish.path) :] == wish.path]
    if same:
        candidates = " or ".join(reference(wish.module, path) for path in same)
        return f"there is no {wish.reference}; write {candidates}"
    return f"there is no {wish.reference}; {_offer(wish, outer, every)}"


def _is_lambda(scope: Scope, name: str) -> bool:
    return any(
        isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda)
        for node in scope.own
        if name in bindings(node)
    )


def _offer(wish: Wish, outer: list[Scope], every: list[tuple[str, ...]]) -> str:
    """What there is instead: in the class or function that was found, or in the module."""
    if outer and outer[0].path:
        inner = list(dict.fromkeys(s.path[-1] for scope in outer for s in scope.inner))
        around = reference(wish.module, outer[0].path)
        return f"{around} has {', '.join(_near(wish.path[-1], inner)) or 'none in it'}"
    near = _near("/".join(wish.path), ["/".join(path) for path in every])
    return f"{_module(wish)} has {', '.join(near) or 'no function or class'}"


def _no_name(wish: Wish, found: list[Scope], overridable: bool) -> str:
    """What the scopes lack, which are there; the script's top level has several."""
    scope, where = found[0], named(wish)
    lacking = [c for c in wish.captures if not _has(scope, c, overridable)]
    nowhere = [c for c in lacking if not any(_has(s, c, overridable) for s in found)]
    if not nowhere:
        wanted = " and ".join(c.name for c in wish.captures)
        return f"{where} is defined {len(found)} times, never with all of {wanted}"
    capture = nowhere[0]
    if capture.name.startswith(LOOPS):
        name = capture.name.partition("_")[2]
        others = [one for s in found for one in s.bound if loops(s, one)]
        return f"no loop of {where} binds {name}; its loops bind {_some(others, name)}"
    if capture.name in ("#yield", "#receive") and scope.is_function:
        return f"{where} has no yield"
    if capture.is_marker:
        return f"{capture.name} means nothing in {where}: only functions have it"
    if overridable and any(capture.name in s.read for s in found):
        return f"{where} only reads {capture.name}, so it cannot be overridden there"
    names = _some(dict.fromkeys(name for s in found for name in s.bound), capture.name)
    return f"{where} has no variable {capture.name}; it has {names}"


def _some(names: Iterable[str], wanted: str) -> str:
    return ", ".join(_near(wanted, list(names))) or "none"


def _near(wanted: str, names: list[str], most: int = 5) -> list[str]:
    """The names most like ``wanted``, likest first, and a few others."""
    from difflib import get_close_matches

    close = get_close_matches(wanted, names, most)
    return [*close, *(name for name in names if name not in close)][:most]


__all__ = ["Place", "fits", "lines", "named", "why_not"]
