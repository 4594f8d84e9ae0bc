"""Matches late values to their events."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any

    Take = Callable[[Any], object]

#: Maximum count of expected values, and of values that arrived before they were expected.
MAX_EXPECTED = 1 << 16


class LateValues:
    """Matches expected values with arriving ones, in any order.

    Args:
        never: The value that stands for one that never arrives.

    Attributes:
        news: Set to True when a value arrives.
    """

    def __init__(self, never: Any) -> None:
        self._never = never
        self._expected: dict[Hashable, Take] = {}
        self._early: dict[Hashable, Any] = {}
        self.news = False

    def expect(self, key: Hashable, take: Take) -> None:
        """Call ``take`` with the value that arrives under ``key``."""
        if key in self._early:
            take(self._early.pop(key))
            return
        if len(self._expected) >= MAX_EXPECTED:
            self.give_up()
        self._expected[key] = take

    def arrive(self, key: Hashable, value: Any) -> None:
        """Pass on an arriving value, or keep it until it is expected."""
        take = self._expected.pop(key, None)
        if take is not None:
            self.news = True
            take(value)
            return
        if len(self._early) >= MAX_EXPECTED:
            del self._early[next(iter(self._early))]
        self._early[key] = value

    def give_up(self) -> None:
        """Pass on ``never`` for all expected values."""
        self.news = True
        for take in self._expected.values():
            take(self._never)
        self._expected.clear()
