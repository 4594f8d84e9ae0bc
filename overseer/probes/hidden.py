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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..clock import time_ns

_namespace: dict[str, Any] = builtins.__dict__
_OURS = "<voir "


@dataclass(frozen=True)
class Shared:
    """Names that all probes of one engine share."""

    failed: str
    unbound: str
    exc_info: str
    next: str
    exception: str

    @property
    def all(self) -> tuple[str, ...]:
        """Every one of them."""
        return (self.failed, self.unbound, self.exc_info, self.next, self.exception)


class Hidden:
    """One engine's names, and what stands behind each."""

    def __init__(self) -> None:
        token = f"{os.getpid():x}-{time_ns() & 0xFFFFFFFF:x}-{id(self) >> 4 & 0xFFFF:x}"
        self._prefix = f"{_OURS}{token} "
        self._names: set[str] = set()
        self._known: dict[str, str] = {}
        self._cleared = False

    def name(self, label: str) -> str:
        """The name for ``label``, whether or not anything stands behind it."""
        name = self._known.get(label)
        if name is None:
            # Interned, as the names in code objects are: found by identity.
            name = self._known[label] = sys.intern(f"{self._prefix}{label}>")
        return name

    def put(self, label: str, value: Any) -> str:
        """Put ``value`` behind the name for ``label``, unless the names have been cleared."""
        name = self.name(label)
        self.store(name, value)
        return name

    def store(self, name: str, value: Any) -> None:
        """As :meth:`put`, for one of the names."""
        if self._cleared:
            return
        _namespace[name] = value
        if name not in self._names:
            self._names.add(name)
            if "__dir__" not in _namespace:
                _namespace["__dir__"] = _visible

    def share(self, failed: Callable[[int], None], unbound: Callable[[], bool]) -> Shared:
        """Set the names that all probes share."""
        return Shared(
            self.put("failed", failed),
            self.put("unbound", unbound),
            self.put("exc_info", sys.exc_info),
            self.put("next", next),
            self.put("exception", Exception),
        )

    def clear(self, lasting: set[str]) -> None:
        """Remove the names, for good; those that are ``lasting`` pass on what they are given.

        A generator that is suspended, or a thread that goes on, may still call them.
        """
        self._cleared = True
        for name in self._names - lasting:
            _namespace.pop(name, None)
        for name in self._names & lasting:
            _namespace[name] = _pass_on
        self._names &= lasting
        if not any(name.startswith(_OURS) for name in _namespace):
            _namespace.pop("__dir__", None)


def _pass_on(*values: Any) -> Any:
    return values[0] if values else None


def _visible() -> list[str]:
    """What ``dir(builtins)`` shows without voir."""
    return [n for n in _namespace if not n.startswith(_OURS) and n != "__dir__"]


__all__ = ["Hidden", "Shared"]
