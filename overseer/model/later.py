"""Matches values that arrive in events of their own to the events that they belong to."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any

    Take = Callable[[Any], object]

#: How many are waited for, and how many are kept of what nobody waits for yet.
MOST = 1 << 16


class Later:
    """Brings together what is expected and what arrives, whichever is first.

    Args:
        never: Stands for what does not come.

    Attributes:
        news: Whether anything has arrived since this was last set to False.
    """

    def __init__(self, never: Any) -> None:
        self._never = never
        self._expected: dict[Hashable, Take] = {}
        self._early: dict[Hashable, Any] = {}
        self.news = False

    def expect(self, key: Hashable, take: Take) -> None:
        """Call ``take`` with what arrives under ``key``."""
        if key in self._early:
            take(self._early.pop(key))
            return
        if len(self._expected) >= MOST:
            self.give_up()
        self._expected[key] = take

    def arrive(self, key: Hashable, value: Any) -> None:
        """It is here."""
        take = self._expected.pop(key, None)
        if take is not None:
            self.news = True
            take(value)
            return
        if len(self._early) >= MOST:
            del self._early[next(iter(self._early))]
        self._early[key] = value

    def give_up(self) -> None:
        """Nothing more will come of what is expected."""
        self.news = True
        for take in self._expected.values():
            take(self._never)
        self._expected.clear()
