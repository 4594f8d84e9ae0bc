"""Which given events are recorded: all of a short run, a sample of a long one.

Of each combination of keys the first hundred events are kept whole; after that one an interval,
with the number of events there have been. What must be recorded each time is what ``ov.log`` is
for. Nothing here waits for a device, and no graph of a loss is kept alive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .clock import Clock
from .stream import Event

#: How many events of one combination of keys are kept before sampling begins.
WHOLE = 100

Describe = Callable[[Any], Any]


class Sampler:
    """Keeps events to be written later, off the script's critical path.

    Args:
        clock: Times the events.
        describe: Turns a tensor into a shape; called at most once a kept event and value.
    """

    def __init__(self, clock: Clock, describe: Describe) -> None:
        self._clock = clock
        self._describe = describe
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
            line[key] = self._detached(value)
        return line

    def _detached(self, value: Any) -> Any:
        kind = type(value)
        if kind in (int, float, str, bool, dict, tuple, list) or not hasattr(kind, "shape"):
            return value
        try:
            if getattr(value, "numel", None) is not None and value.numel() == 1:
                return value.detach()  # Read when it is written, on another thread.
            return self._describe(value)
        except Exception:
            return repr(kind)

    def take(self) -> list[Event]:
        """What was kept since the last call."""
        kept, self._kept = self._kept, []
        self._taken.clear()
        return kept
