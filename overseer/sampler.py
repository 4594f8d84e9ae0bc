"""Which given events are recorded: all of a short run, a sample of a long one.

Of each combination of keys the first hundred events are kept whole; after that one an interval,
with the number of events there have been. What must be recorded each time is what ``ov.log`` is
for. Nothing here waits for a device, and no graph of a loss is kept alive.
"""

from __future__ import annotations

from typing import Any

from .clock import Clock
from .stream import Event

#: How many events of one combination of keys are kept before sampling begins.
WHOLE = 100
PLAIN = frozenset({int, float, str, bool, type(None)})


class Sampler:
    """Keeps events to be written later, off the script's critical path.

    Args:
        clock: Times the events.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started = clock.now_ns()
        self._seen: dict[tuple[str, ...], int] = {}
        self._taken: set[tuple[str, ...]] = set()
        self._kept: list[Event] = []

    def __call__(self, event: Event) -> None:
        """Consider one given event."""
        shape = tuple(event)
        seen = self._seen[shape] = self._seen.get(shape, 0) + 1
        if seen > WHOLE:
            if shape in self._taken:
                return
            self._taken.add(shape)
        self._kept.append(self._line(event, seen))

    def _line(self, event: Event, seen: int) -> Event:
        line: Event = {"t": round((self._clock.now_ns() - self._started) / 1e9, 6)}
        if seen > WHOLE:
            line["n"] = seen
        for key, value in event.items():
            line[key] = value if type(value) in PLAIN else self._snapshot(value)
        return line

    def _snapshot(self, value: Any) -> Any:
        from .record.encode import snapshot

        return snapshot(value)

    def take(self) -> list[Event]:
        """What was kept since the last call."""
        kept, self._kept = self._kept, []
        self._taken.clear()
        return kept
