"""Watches a run's events for what the checks need, and ends it when there is enough."""

from __future__ import annotations

import sys
from collections import deque
from itertools import pairwise
from typing import Any

from overseer import Overseer
from overseer.measure.items import Sizer
from overseer.measure.losses import TASK
from overseer.measure.steady import steady
from overseer.measure.steps import STEP_PAIRS

from .loaders import Loaders
from .syncs import Syncs

#: The first and as many last losses, sizes of batches, and keys that are kept.
LOSSES, SIZES, KEYS = 2048, 256, 4096
#: Steps whose ends are kept, to tell whether they are steady.
ENDS = 4096
#: Steps at which it is asked whether there is enough evidence.
ASKED = (40, 60, 80, 100, 125, 150, 175)
#: States of probes that may come to something yet.
SILENT = ("unresolved", "never fired")
#: There must be so many seconds of steps, and so many steps, for voir's own part to be told.
LONG, ENOUGH = 0.3, 24
#: The first steps are watched in full, so that by then voir knows them: they count only where they
#: took so many seconds that this is nothing.
KNOWN, SLOW = 40, 3.0
#: Seconds into the run and steps from which on what voir does is no start-up any more.
SETTLED, BEGINNING = 1.5, 20


class Witness:
    """Hears every given event of a run.

    Args:
        ov: The run.
        syncs: Counts calls that wait for a device; told when steps begin and end.
        most: Steps after which to stop, whatever is known; None: whoever asked for it stops.
    """

    def __init__(self, ov: Overseer, syncs: Syncs, most: int | None) -> None:
        self._ov, self.syncs, self._most = ov, syncs, most
        self._sizer = Sizer()
        self.steps = self.others = self.pairs = self.with_batch = self.loss_events = 0
        self.sizes: dict[int, int] = {}
        self._others_sizes: dict[int, int] = {}
        self.unsized: str | None = None
        self.losses: list[Any] = []
        self.last_losses: deque[Any] = deque(maxlen=LOSSES)
        self.keys: set[str] = set()
        self.seen: dict[str, Any] = {}
        self.device: str | None = None
        self.ends: list[int] = []
        self._cost_ns = 0
        self.cut = False
        self.began = ov.clock.now_ns()
        self.settled: tuple[int, int] | None = None
        self.ended: tuple[int, int] | None = None
        self._closed = False
        self._known: tuple[int, int] | None = None

    def __call__(self, event: dict[str, Any]) -> None:
        """Hear one event; raises the stop when there is enough."""
        if self._closed:
            return
        begun = self._ov.clock.cpu_ns()
        try:
            self._hear(event)
        finally:  # Charged, it is not taken for the event's cost.
            took = self._ov.clock.cpu_ns() - begun
            self._cost_ns += took
            self._ov.charge(took)

    def _hear(self, event: dict[str, Any]) -> None:
        self._note_keys(event)
        for key in ("model", "loader", "options", "use_cuda"):
            if key in event and event.get("task", TASK) == TASK:
                self.seen[key] = event[key]
        if "loss" in event and event.get("task", TASK) == TASK:
            self._loss(event["loss"])
        if self._is_step(event):
            self._step(event)

    def close(self) -> None:
        """The script has ended; what comes now is no evidence."""
        self._closed = True
        self.cut = self.cut or self._ov.stopped_early is not None
        self.ended = self.ended or (self._ov.clock.now_ns(), self._charged_ns)
        if not self.sizes and not self.steps:
            self.sizes = self._others_sizes

    def found(self, loaders: Loaders) -> None:
        """Take the loader from those that were iterated over, when no event has shown it."""
        if "loader" not in self.seen:
            usual = max(self.sizes, default=None, key=lambda size: self.sizes[size])
            self.seen["loader"] = loaders.of(usual)

    @property
    def _charged_ns(self) -> int:
        """What voir has cost but for this."""
        return self._ov.charged_ns - self._cost_ns

    @property
    def window_ns(self) -> int:
        """How long the steps took that were seen."""
        return self.ends[-1] - self.ends[0] if self.ends else 0

    @property
    def judged(self) -> tuple[int, float]:
        """The nanoseconds of steps by which voir's own part is told; their part of the events."""
        if self._known is None or self.window_ns >= SLOW * 1e9:
            return self.window_ns, 1.0
        began, before = self._known
        every = self._ov.events
        return self.ends[-1] - began, (every - before) / every if every else 1.0

    @property
    def missing_keys(self) -> list[tuple[str, str]]:
        """What instruments declare that they emit and was not seen: their names, and keys."""
        return [(who, key) for who, key in promised(self._ov) if key not in self.keys]

    def _is_step(self, event: dict[str, Any]) -> bool:
        wrap = event.get("$wrap")
        if wrap is not None:
            if wrap.get("step") != "begin" and wrap.get("name") in STEP_PAIRS:
                self.pairs += 1
                self._size(event, self.sizes)
                return not self.steps
            return False
        return "step" in event or ("loss" in event and not self.steps and not self.pairs)

    def _step(self, event: dict[str, Any]) -> None:
        now = self._ov.clock.now_ns()
        if event.get("task", TASK) != TASK:
            self.others += 1
            self._size(event, self._others_sizes)
        elif "step" in event and "$wrap" not in event:
            self.steps += 1
            self.with_batch += "batch" in event or "batch_size" in event
            self._size(event, self.sizes)
        self.ended = (now, self._charged_ns)
        late = len(self.ends) >= BEGINNING and now - self.began > SETTLED * 1e9
        if self.settled is None and late:
            self.settled = self.ended
        if len(self.ends) < ENDS:
            self.ends.append(now)
        if len(self.ends) == KNOWN and self._known is None:
            self._known = now, self._ov.events
        self.syncs.step()
        self._device(event)
        self._stop_if_enough()

    def _stop_if_enough(self) -> None:
        n = self.steps or self.others or self.pairs or self.loss_events
        if self._most is None:
            return
        if n >= self._most:
            self._end(f"after {n} steps")
        if n in ASKED and self._enough(n):
            self._end(f"after {n} steps: every check has its evidence")

    def _end(self, why: str) -> None:
        self._closed = self.cut = True
        self._ov.stopped_early = why
        self._ov.stop()

    def _enough(self, n: int) -> bool:
        """Whether every check has its evidence."""
        if self.missing_keys or (self.loss_events and self.loss_events < 20):
            return False
        if self.judged[0] < LONG * 1e9:
            return False
        if any(probe["state"] in SILENT for probe in self._ov.probe_verdicts()):
            return False
        times = [float(end - begin) for begin, end in pairwise(self.ends)]
        return steady(times).from_step is not None

    def _loss(self, value: Any) -> None:
        self.loss_events += 1
        detach = getattr(value, "detach", None)
        value = value if detach is None else detach().clone()
        (self.losses if len(self.losses) < LOSSES else self.last_losses).append(value)

    def _size(self, event: dict[str, Any], sizes: dict[int, int]) -> None:
        if "batch_size" in event:
            size: Any = event["batch_size"]
        elif "batch" in event:
            found = self._sizer.size(event["batch"])
            size, self.unsized = found.items, found.reason or self.unsized
        else:
            return
        if isinstance(size, int) and (size in sizes or len(sizes) < SIZES):
            sizes[size] = sizes.get(size, 0) + 1

    def _device(self, event: dict[str, Any]) -> None:
        """Where the work is done: where the parameters lie, else the loss."""
        if self.device is not None and len(self.ends) > 2:
            return
        parameters = getattr(self.seen.get("model"), "parameters", None)
        first = next(iter(parameters()), None) if callable(parameters) else None
        tensor = first if first is not None else (self.losses[-1] if self.losses else None)
        device = getattr(getattr(tensor, "device", None), "type", None)
        if isinstance(device, str):
            self.device = device

    def _note_keys(self, event: dict[str, Any]) -> None:
        if len(self.keys) > KEYS:
            return
        for key, value in event.items():
            self.keys.add(key)
            for inner, deeper in value.items() if isinstance(value, dict) else ():
                self.keys.add(f"{key}.{inner}")
                if isinstance(deeper, dict):
                    self.keys.update(f"{key}.{name}" for name in deeper)


def promised(ov: Overseer) -> list[tuple[str, str]]:
    """What instruments declare that they emit; those that nobody asked for promise nothing."""
    return [
        (type(one).__name__ if not hasattr(one, "__name__") else one.__name__, key)
        for one in ov.required
        if not getattr(one, "by_default", False)
        for key in getattr(one, "emits", ())
    ]


def torch_module(name: str = "torch") -> Any:
    """A module of torch's if the script has imported it."""
    return sys.modules.get(name)
