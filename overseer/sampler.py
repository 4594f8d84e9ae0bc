"""Which given events are recorded: all of a short run, a sample of a long one.

Of each combination of keys the first hundred events are kept; after that one an interval, with the
number of events there have been. What must be recorded each time is what ``ov.log`` is for. Nothing
here waits for a device, and no graph of a loss is kept alive.

A batch or another large value is written out as often as costs little, and otherwise named by its
kind: else a script's first hundred steps would be slower than all others, a warm-up of voir's own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from .boundary import asked_for
from .clock import Clock

Event = dict[str, Any]

#: How many events of one combination of keys are kept before sampling begins.
WHOLE = 100
PLAIN = frozenset({int, float, str, bool, type(None)})
#: By which steps that are told of late say when they were; it is on a clock of the run's own.
TIMES = frozenset({"$began", "$ended"})
#: So many times as long as it took to write a large value out none of its kind is, after that.
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
        self._whole: dict[tuple[str, ...], int] = {}
        self._taken: set[tuple[str, ...]] = set()
        # Not a list that is swapped: another thread may be about to add to it.
        self._kept: deque[Event] = deque()
        self._due: dict[tuple[str, type], int] = {}
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
        shape = tuple(event)
        whole = self._whole.get(shape, 0)
        # By those that were kept: of two threads the second may have counted its event first.
        if whole < WHOLE and (whole or seen <= WHOLE):
            whole += 1
            self._whole[shape] = whole
        elif shape in self._taken:
            return False
        else:
            self._taken.add(shape)
        self._kept.append(self._line(event, seen))
        return 0 < whole < WHOLE

    def _line(self, event: Event, seen: int) -> Event:
        line: Event = {"t": round((self._clock.now_ns() - self._started) / 1e9, 6)}
        if seen > WHOLE:
            line["n"] = seen
        for key, value in event.items():
            if key in TIMES:
                continue
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
        # Each kind by itself: what monitors give, all at a time, is of a kind each.
        due = self._due.get(kind, 0 if len(self._due) < _KINDS else begun + 1)
        if begun < due:
            return f"<{type(value).__name__}>"
        written = snapshot(value)
        now = self._clock.now_ns()
        self._due[kind] = now + REST * (now - begun)
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

    def put_back(self, lines: list[Event]) -> None:
        """Keep what was taken a while longer: it could not be written."""
        self._kept.extendleft(reversed(lines))


def _refused(value: object, error: BaseException) -> str:
    """What stands for a value that cannot even be looked at; nobody's wish ends here."""
    from .record.encode import RAISED, unreadable

    if asked_for(error) or not isinstance(error, RAISED):
        raise error
    return unreadable(value, error)


def _small(value: Any, most: int = FEW) -> Any:
    """A copy of a container of a few plain values, or of a few such; None for all else."""
    kind = type(value)
    if kind is dict and len(value) <= most:
        if PLAIN.issuperset(map(type, value.values())):
            return dict(value)
        parts = _parts(value.values()) if most == FEW else None
        return dict(zip(value, parts, strict=True)) if parts is not None else None
    if (kind is list or kind is tuple) and len(value) <= most:
        return list(value) if PLAIN.issuperset(map(type, value)) else None
    return None


def _parts(values: Iterable[Any]) -> list[Any] | None:
    """Copies of plain values and of small containers, as monitors give; None: there are others."""
    made = []
    for value in values:
        part = value if type(value) in PLAIN else _small(value, FEW - 1)
        if part is None and value is not None:
            return None
        made.append(part)
    return made
