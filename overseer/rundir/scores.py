"""Keeps the last and the best of given numbers."""

from __future__ import annotations

from ..model.catalogue import CONTEXT_KEYS, FIGURES, SETTINGS, lower_is_better
from ..model.facts import number
from ..recorder.encode import PendingValue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: Limit of values.
MAX_SCORES = 64
#: Keys that are not results, or that have their place in ``tasks``.
_NONE = CONTEXT_KEYS | FIGURES | SETTINGS
#: Tasks omitted from a value's name.
_PLAIN = ("", "train", "main")


class Scores:
    """Collects values from recorded events."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[str, float]] = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """Add an event; numbers on a device count once they have arrived."""
        if "$event" in event:
            return
        task = str(event.get("task") or "")
        for key, value in event.items():
            if type(value) is PendingValue:
                value = value.shown
            if type(value) is not float and type(value) is not int:
                continue
            if key not in _NONE and key[:1] != "$" and number(value) is not None:
                self._take(key if task in _PLAIN else f"{task}/{key}", value)

    def _take(self, name: str, value: float) -> None:
        known = self._kept.get(name)
        if known is not None:
            better = min if lower_is_better(name) else max
            known["last"], known["best"] = value, better(known["best"], value)
        elif len(self._kept) < MAX_SCORES:
            self._kept[name] = {"last": value, "best": value}

    def section(self) -> dict[str, dict[str, float]] | None:
        """The ``values`` of ``run.json``; None without any."""
        return {name: dict(of) for name, of in list(self._kept.items())} or None
