"""Keeps what a rank did last, for the search for what ranks did differently.

The latest events stay as they came from the ring, so a healthy run pays nothing for it: they are
read once, when the run makes no step any more, or ends.
"""

from __future__ import annotations

from collections import deque
from typing import Any
from zlib import crc32

from ..model.doings import as_doings, steps_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Bytes of events that are kept: some 8,000 events.
KEPT_BYTES = 1 << 18
#: Values that are to be the same which are kept; characters of one that is shown, and of one that
#: is summed up.
MOST_SAME, PLAIN_LENGTH, LONG_TEXT = 64, 40, 10_000


class Doings:
    """Receives events as they are drained, and keeps the latest ones.

    Args:
        rows: The table of sites.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = rows
        self._chunks = deque[bytes]()
        self._size = self._steps = 0
        self._same = deque[dict[str, object]](maxlen=MOST_SAME)
        self._numbers: dict[str, int] = {}

    def same(self, event: Mapping[str, Any], where: str) -> None:
        """Keep values that are to be the same on all ranks.

        Args:
            event: Values by name.
            where: ``file:line`` that says so.
        """
        for name, value in event.items():
            n = self._numbers[name] = self._numbers.get(name, 0) + 1
            self._same.append({"name": name, "n": n, "value": shown(value), "where": where})

    def __call__(self, data: bytes) -> None:
        """Keep events."""
        if not data:
            return
        self._chunks.append(data)
        self._size += len(data)
        while self._size - len(self._chunks[0]) >= KEPT_BYTES:
            dropped = self._chunks.popleft()
            self._size -= len(dropped)
            self._steps += steps_in(dropped, self._rows)

    def facts(self) -> dict[str, Any] | None:
        """The ``control`` of ``run.json``."""
        found = as_doings(b"".join(tuple(self._chunks)), self._rows, self._steps)
        if found is None and not self._same:
            return None
        return {
            "step": self._steps,
            **(found or {}),
            **({"same": [*self._same]} if self._same else {}),
        }


def shown(value: object) -> str:
    """A value in few characters: plain ones as they are, others by a checksum of their text."""
    text = repr(value)
    if isinstance(value, (int, float, str, bool, type(None))) and len(text) <= PLAIN_LENGTH:
        return text
    return f"{type(value).__name__} {crc32(text[:LONG_TEXT].encode('utf-8', 'replace')):08x}"
