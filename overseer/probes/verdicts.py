"""What became of a probe, in words."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import BuiltinFunctionType
from typing import Any

from .fitting import Place, why_not
from .placed import PlacedProbe
from .selectors import MAIN, Wish, reference
from .units import Unit

_UNSEEN = "markers and pairs have no time inside a graph, and nothing can be overridden there"


def verdict(placed: PlacedProbe, found: bool, hint: str) -> dict[str, Any]:
    """One entry of ``probes`` in ``run.json``."""
    state = "fired" if placed.fired else "never fired" if found else "unresolved"
    if placed.unseen:
        state = "compiled away" if state == "never fired" else state
        hint = "inside torch.compile: not seen; " + _UNSEEN
    made: dict[str, Any] = {"selector": placed.selector, "state": state, "fired": placed.fired}
    if placed.where:
        made["where"] = placed.where
    if state != "fired" or placed.unseen:
        made["hint"] = hint
    return made


def silent(placed: PlacedProbe, places: Sequence[Place]) -> str:
    """Why a probe that found its code may not have fired."""
    if not placed.heard:
        return "nobody listened to it: add .give(), .display() or another subscriber"
    if not places:
        return "the code it names was never reached"
    if not any(place.swappable or place.scope in (place.unit.loaded or {}) for place in places):
        return "that code had run already when the probe was set: set it earlier"
    scope, unit = places[0].scope, places[0].unit
    line = scope.key[1] or 1
    where = f"{os.path.basename(unit.filename)}:{line}"
    return f"its place in {placed.wish.reference}, {where}, was never reached"


def missing(wish: Wish, units: Sequence[Unit], overridable: bool) -> str:
    """Why a selector found no code."""
    if units:
        defined = any(unit.at(wish.path[:1]) for unit in units)
        elsewhere = _not_defined_here(wish) if wish.path and not defined else ""
        return elsewhere or why_not(wish, units, overridable)
    if wish.module == MAIN:
        return "the script was never loaded"
    if wish.module in sys.modules:
        return f"there is no source of {wish.module} to look at"
    near = _near_modules(wish.module)
    return f"{wish.module} was never imported" + (f"; {near} was" if near else "")


def _not_defined_here(wish: Wish) -> str:
    """What a name of the module is that its source does not define."""
    named = getattr(sys.modules.get(wish.module), wish.path[0], None)
    here = reference(wish.module, wish.path[:1])
    if isinstance(named, BuiltinFunctionType):
        return f"{here} is a built-in function without Python code; probe what calls it"
    home, name = getattr(named, "__module__", None), getattr(named, "__qualname__", None)
    if not isinstance(home, str) or not isinstance(name, str):
        return ""
    code = getattr(named, "__code__", None)
    if code is not None and not os.path.exists(code.co_filename):
        return f"{here} was made at run time, by {code.co_filename}; probe what calls it"
    if home == wish.module:
        return ""
    path = (*name.split("."), *wish.path[1:])
    return f"{here} is only imported there; write {reference(home, path)}"


def _near_modules(name: str) -> str:
    from difflib import get_close_matches

    return ", ".join(get_close_matches(name, list(sys.modules), 3, 0.8))


__all__ = ["missing", "silent", "verdict"]
