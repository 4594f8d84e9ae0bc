"""Names that inserted code calls: found like builtins, and never in the script's way.

They live in the namespace of ``builtins``, because that is where a plain name is looked up last,
in every module and on every thread. No script can spell them: they contain spaces, and a token of
this process, so that code that travels to another process never meets a namesake there. While
there are any, ``dir(builtins)`` leaves them out.
"""

from __future__ import annotations

import builtins
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_namespace: dict[str, Any] = builtins.__dict__
_OURS = "<voir "


@dataclass(frozen=True)
class Shared:
    """Names that all probes of one engine share."""

    failed: str
    unbound: str
    exc_info: str
    next: str

    @property
    def all(self) -> tuple[str, ...]:
        """Every one of them."""
        return (self.failed, self.unbound, self.exc_info, self.next)


class Hidden:
    """One engine's names, and what stands behind each."""

    def __init__(self) -> None:
        token = f"{os.getpid():x}-{time.time_ns() & 0xFFFFFFFF:x}-{id(self) >> 4 & 0xFFFF:x}"
        self._prefix = f"{_OURS}{token} "
        self._names: set[str] = set()

    def name(self, label: str) -> str:
        """The name for ``label``, whether or not anything stands behind it."""
        return f"{self._prefix}{label}>"

    def set(self, label: str, value: Any) -> str:
        """Put ``value`` behind the name for ``label``."""
        name = self.name(label)
        _namespace[name] = value
        self._names.add(name)
        if "__dir__" not in _namespace:
            _namespace["__dir__"] = _visible
        return name

    def share(self, failed: Callable[[int], bool], unbound: Callable[[], bool]) -> Shared:
        """Set the names that all probes share."""
        return Shared(
            self.set("failed", failed),
            self.set("unbound", unbound),
            self.set("exc_info", sys.exc_info),
            self.set("next", next),
        )

    def replace(self, change: Callable[[Any], Any]) -> None:
        """Put something else behind every name: ``change`` of what is there."""
        for name in self._names:
            _namespace[name] = change(_namespace[name])

    def clear(self, keep: Callable[[Any], Any] = lambda value: None) -> None:
        """Remove the names, but for those that ``keep`` maps to something to stay."""
        for name in list(self._names):
            stays = keep(_namespace.get(name))
            if stays is None:
                _namespace.pop(name, None)
                self._names.discard(name)
            else:
                _namespace[name] = stays
        if not any(name.startswith(_OURS) for name in _namespace):
            _namespace.pop("__dir__", None)


def _visible() -> list[str]:
    """What ``dir(builtins)`` shows without voir."""
    return [n for n in _namespace if not n.startswith(_OURS) and n != "__dir__"]


__all__ = ["Hidden", "Shared"]
