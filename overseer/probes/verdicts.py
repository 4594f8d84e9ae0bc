"""What became of a probe, in words."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from .fitting import Place, lines, named, why_not
from .lookup import what_it_is
from .placed import PlacedProbe
from .selectors import MAIN, Wish
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
    if placed.late:
        return "it was set when the script had ended: set it before run_script has"
    if not placed.heard:
        return "nobody listened to it: add .give(), .display() or another subscriber"
    if not places:
        return "the code it names was never reached"
    if not any(place.swappable or place.scope in (place.unit.loaded or {}) for place in places):
        return "that code had run already when the probe was set: set it earlier"
    scope, unit = places[0].scope, places[0].unit
    at = ", ".join(map(str, lines(placed.wish, scope) or [scope.key[1] or 1]))
    where = f"{os.path.basename(unit.filename)}:{at}"
    return f"its place in {named(placed.wish)}, {where}, was never reached"


def missing(wish: Wish, units: Sequence[Unit], overridable: bool) -> str:
    """Why a selector found no code."""
    if units:
        defined = any(unit.at(wish.path) for unit in units)
        return (not defined and what_it_is(wish)) or why_not(wish, units, overridable)
    if wish.module == MAIN:
        return "the script was never loaded"
    if wish.module in sys.modules:
        return f"there is no source of {wish.module} to look at"
    near = _near_modules(wish.module)
    return f"{wish.module} was never imported" + (f"; {near} was" if near else "")


def _near_modules(name: str) -> str:
    from difflib import get_close_matches

    return ", ".join(get_close_matches(name, list(sys.modules), 3, 0.8))


__all__ = ["missing", "silent", "verdict"]
