"""The events' end of the dashboard: runs in the script's threads, so it only counts and keeps."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from instruments.dash.values import PLAIN, DeviceScalar, as_number, describe, is_tensor
from overseer.clock import Clock

#: Keys that hold what monitors emit: small mappings of plain numbers.
MONITORS = frozenset({"cpudata", "gpudata", "iodata", "memdata", "netdata", "process"})
#: Kept whole, with the time; everything else is kept as described in ``values.py``.
_WHOLE = MONITORS | {"progress"}
DEFAULT_TASK = "train"

#: Losses kept between two frames; with more, their minimum is over the last so many.
_BURST = 256
#: A script that makes up a new key or task at each step must not fill the memory.
_MOST_KEYS = 512


class Slot:
    """One key of one task: how often it came, and what is kept of its last value."""

    __slots__ = ("count", "fresh", "kept")

    def __init__(self) -> None:
        self.count = 0
        self.kept: object = None
        #: Whether the kept value was renewed since the last frame. What is dear to keep is
        #: renewed once a frame, not at each event.
        self.fresh = False

    def take(self, value: object) -> None:
        """Count ``value`` and keep what can be shown of it."""
        self.count += 1
        if type(value) in PLAIN:
            self.kept = value
        else:
            self._take_object(value)

    def renew(self) -> None:
        """A frame has been drawn: the next value is kept, whatever that costs."""
        # A copy still under way must not be overwritten, or a slow device would never show one.
        pending = isinstance(self.kept, DeviceScalar) and self.kept.read() is None
        self.fresh = self.fresh and pending

    def _take_object(self, value: object) -> None:
        if is_tensor(type(value)) and value.numel() == 1:  # type: ignore[attr-defined]
            self._take_scalar(value)
        elif not self.fresh:
            self.kept, self.fresh = describe(value), True

    def _take_scalar(self, tensor: object) -> None:
        if tensor.is_cpu:  # type: ignore[attr-defined]
            self.kept = tensor.detach()  # type: ignore[attr-defined]
        elif not self.fresh:
            self._take_from_device(tensor)

    def _take_from_device(self, tensor: object) -> None:
        cell = self.kept if isinstance(self.kept, DeviceScalar) else DeviceScalar()
        try:
            self.fresh, self.kept = cell.copy(tensor), cell
        except Exception:  # Nothing to copy (meta), or a device in trouble: not ours to tell.
            self.fresh, self.kept = True, describe(tensor)


class Burst(Slot):
    """A slot that keeps every value since the last frame, up to a limit: for losses."""

    __slots__ = ("_recent", "first")

    def __init__(self) -> None:
        super().__init__()
        self.first: object = None
        self._recent: deque[object] = deque(maxlen=_BURST)

    def take(self, value: object) -> None:
        """Count and keep ``value``."""
        super().take(value)
        if self.count == 1:
            self.first = self.kept
        if not isinstance(self.kept, DeviceScalar):
            self._recent.append(self.kept)

    def drain(self) -> list[float]:
        """The numbers taken since the last call; of values on a device, the last to arrive."""
        if isinstance(self.kept, DeviceScalar):
            taken: list[object] = [self.kept] if self.fresh else []
        else:
            taken = [self._recent.popleft() for _ in range(len(self._recent))]
        return [number for number in map(as_number, taken) if number is not None]


class Stamped(Slot):
    """A slot that keeps a small plain value whole, and when it came."""

    __slots__ = ("_clock", "at")

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self.at = 0

    def take(self, value: object) -> None:
        """Keep ``value`` with the time."""
        self.count += 1
        self.kept, self.at = value, self._clock.now_ns()


class Ignored(Slot):
    """A slot for what is never shown; its count stays 0."""

    __slots__ = ()

    def take(self, value: object) -> None:
        """Do nothing."""


class Feed:
    """Takes events of one stream, from any thread, in about a microsecond each."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ignored = Ignored()
        self._room = _MOST_KEYS
        self.tasks: dict[str, dict[str, Slot]] = {}

    def hear(self, event: Mapping[str, object]) -> None:
        """Take one event."""
        wrap = event.get("$wrap")
        if wrap is not None and wrap["step"] == "begin":  # type: ignore[index]
            return  # The end of the pair brings the same keys again.
        task = event.get("task", DEFAULT_TASK)
        if type(task) is not str:
            task = DEFAULT_TASK if task is None else str(task)
        task = task or DEFAULT_TASK
        slots = self.tasks.get(task) or self._open_task(task)
        for key, value in event.items():
            slot = slots.get(key) or self._open(slots, key)
            slot.take(value)

    def _open_task(self, task: str) -> dict[str, Slot]:
        slots: dict[str, Slot] = {"task": self._ignored}
        if self._room > 0:
            self.tasks[task] = slots
        return slots

    def _open(self, slots: dict[str, Slot], key: str) -> Slot:
        if self._room <= 0:
            return self._ignored
        self._room -= 1
        slots[key] = slot = self._slot(key)
        return slot

    def _slot(self, key: str) -> Slot:
        if key.startswith("$"):
            return self._ignored
        if key in _WHOLE:
            return Stamped(self._clock)
        return Burst() if key == "loss" else Slot()
