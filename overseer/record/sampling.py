"""Which given events are recorded: all of a short run, a sample of a long one.

Of each combination of keys the first hundred events are kept; after that one a flush, with the
number of events there have been. What must be recorded each time is what ``ov.log`` is for.
"""

from __future__ import annotations

from ..clock import Clock
from ..recorder.values import values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Event = dict[str, Any]

#: How many events of one combination of keys are kept before sampling begins, and of how many
#: combinations: of further ones, one a flush is.
WHOLE, COMBINATIONS = 100, 1000
PLAIN = frozenset({int, float, str, bool, type(None)})


class Sampler:
    """Decides which given events are kept, and takes their values as they are now.

    Args:
        clock: Times the events.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._started = clock, clock.now_ns()
        self._kept: dict[tuple[str, ...], int] = {}
        self._taken: set[tuple[str, ...]] = set()

    def __call__(self, event: Event, seen: int) -> Event | None:
        """The line for an event; None if it is not kept.

        Args:
            event: The event.
            seen: How many with its keys there have been, itself included.
        """
        keys = tuple(event)
        kept = self._kept.get(keys, WHOLE if len(self._kept) >= COMBINATIONS else 0)
        # By those that were kept: of two threads the second may have counted its event first.
        if kept < WHOLE and (kept or seen <= WHOLE):
            self._kept[keys] = kept + 1
        elif keys in self._taken:
            return None
        else:
            self._taken.add(keys)
        line: Event = {"t": round((self._clock.now_ns() - self._started) / 1e9, 6)}
        if seen > WHOLE:
            line["n"] = seen
        for key, value in event.items():
            line[key] = value if type(value) in PLAIN else _taken(value)
        return line

    def flushed(self) -> None:
        """What was kept has been written: of each combination one more may be."""
        self._taken.clear()


def _taken(value: Any) -> Any:
    from .encode import snapshot  # A run without such values need not import it.

    return snapshot(value, values.later, sample=True)
