"""Which given events are recorded: all of a short run, a sample of a long one.

Of each combination of keys the first hundred events are kept; after that one an interval, with the
number of events there have been. What must be recorded each time is what ``ov.log`` is for. Nothing
here waits for a device, and no graph of a loss is kept alive.

A batch or another large value is written out as often as costs little, and otherwise named by its
kind: else a script's first hundred steps would be slower than all others, a warm-up of voir's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from .boundary import asked_for
from .clock import Clock
from .stream import Event

#: How many events of one combination of keys are kept before sampling begins.
WHOLE = 100
PLAIN = frozenset({int, float, str, bool, type(None)})
#: So many times as long as it took to write large values out none is, after that.
REST = 200
#: Containers of no more plain values than this take no time.
FEW = 8
_KINDS = 256


class Sampler:
    """Keeps events to be written later, off the script's critical path.

    Args:
        clock: Times the events.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started = clock.now_ns()
        self._taken: set[tuple[str, ...]] = set()
        # Not a list that is swapped: another thread may be about to add to it.
        self._kept: deque[Event] = deque()
        self._due = 0
        self._described: set[tuple[str, type]] = set()
        self._snapshot: Callable[[Any], Any] | None = None
        self._is_tensor: Callable[[object], bool]

    def __call__(self, event: Event, seen: int) -> bool:
        """Consider one given event.

        Args:
            event: The event.
            seen: How many with its keys there have been, itself included.

        Returns:
            Whether it will want the next one, before :meth:`take` is called.
        """
        if seen > WHOLE:
            shape = tuple(event)
            if shape in self._taken:
                return False
            self._taken.add(shape)
        self._kept.append(self._line(event, seen))
        return seen < WHOLE

    def _line(self, event: Event, seen: int) -> Event:
        line: Event = {"t": round((self._clock.now_ns() - self._started) / 1e9, 6)}
        if seen > WHOLE:
            line["n"] = seen
        for key, value in event.items():
            try:
                line[key] = value if type(value) in PLAIN else self._written(key, value)
            except BaseException as error:
                line[key] = _refused(value, error)
        return line

    def _written(self, key: str, value: Any) -> Any:
        small = _small(value)
        if small is not None:
            return small
        snapshot = self._snapshot or self._imported()
        if self._is_tensor(value):
            return snapshot(value)
        begun, kind = self._clock.now_ns(), (key, type(value))
        if begun < self._due and (kind in self._described or len(self._described) >= _KINDS):
            return f"<{type(value).__name__}>"
        self._described.add(kind)
        written = snapshot(value)
        now = self._clock.now_ns()
        self._due = now + REST * (now - begun)
        return written

    def _imported(self) -> Callable[[Any], Any]:
        """What a run without such values need not import."""
        from .record.encode import snapshot
        from .record.tensors import is_tensor

        self._is_tensor, self._snapshot = is_tensor, snapshot
        return snapshot

    def take(self) -> list[Event]:
        """What was kept since the last call."""
        kept = [self._kept.popleft() for _ in range(len(self._kept))]
        self._taken.clear()
        return kept


def _refused(value: object, error: BaseException) -> str:
    """What stands for a value that cannot even be looked at; nobody's wish ends here."""
    from .record.encode import RAISED, unreadable

    if asked_for(error) or not isinstance(error, RAISED):
        raise error
    return unreadable(value, error)


def _small(value: Any) -> Any:
    """A copy of a container of a few plain values; None for all else."""
    kind = type(value)
    if kind is dict:
        few = len(value) <= FEW and PLAIN.issuperset(map(type, value.values()))
        return dict(value) if few else None
    if kind is list or kind is tuple:
        return list(value) if len(value) <= FEW and PLAIN.issuperset(map(type, value)) else None
    return None
