"""What became of a probe, in words."""

from __future__ import annotations

from typing import Any

from .placed import PlacedProbe


def verdict(placed: PlacedProbe, found: bool, hint: str) -> dict[str, Any]:
    """One entry of ``probes`` in ``run.json``."""
    state = "fired" if placed.fired else "never fired" if found else "unresolved"
    made: dict[str, Any] = {"selector": placed.selector, "state": state, "fired": placed.fired}
    if placed.where:
        made["where"] = placed.where
    if state != "fired":
        made["hint"] = hint
    return made


__all__ = ["verdict"]
