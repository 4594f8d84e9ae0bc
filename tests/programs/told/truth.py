"""What a program knows itself: a clock that only its own sleeping moves, and what it did."""

from __future__ import annotations

import threading
from time import perf_counter_ns, sleep

MS = 1_000_000


class Truth:
    """Counts what a program does; times are in milliseconds.

    Attributes:
        real: Whether time is real; else only the program's own sleeping moves the clock.
        tasks: By task, what it came to.
    """

    def __init__(self) -> None:
        self.real = False
        self.begin()

    def begin(self) -> None:
        """A new program begins."""
        self.ns = 1_000 * MS
        self.tasks: dict[str, dict[str, object]] = {}
        self._lock = threading.Lock()
        self._open = threading.local()

    def now(self) -> int:
        """The clock."""
        return perf_counter_ns() if self.real else self.ns

    def sleep(self, ms: float) -> None:
        """Time passes."""
        if self.real:
            sleep(ms / 1e3)
        else:
            with self._lock:
                self.ns += int(ms * MS)

    def _spend(self, kind: str, ms: float) -> None:
        self.sleep(ms)
        spent = self._open.__dict__.setdefault("spent", {"load": 0.0, "work": 0.0, "pause": 0.0})
        spent[kind] += ms

    def load(self, ms: float) -> None:
        """The program waits for a batch."""
        self._spend("load", ms)

    def work(self, ms: float) -> None:
        """It works on it."""
        self._spend("work", ms)

    def pause(self, ms: float) -> None:
        """It does what belongs to no step."""
        self._spend("pause", ms)

    def step(self, items: float | None, loss: float | None = None, task: str = "train") -> None:
        """A step has ended, of all that was spent on this thread since the last one."""
        spent = self._open.__dict__.pop("spent", {"load": 0.0, "work": 0.0, "pause": 0.0})
        first = task not in self._open.__dict__.setdefault("tasks", set())
        self._open.tasks.add(task)
        with self._lock:
            known = self.tasks.setdefault(task, {"steps": [], "losses": []})
            after = "train" in self.tasks and task != "train"
            steps: list[object] = known["steps"]  # type: ignore[assignment]
            steps.append({"items": items, "after": after, "first": first, **spent})
            if loss is not None:
                known["losses"].append(loss)  # type: ignore[attr-defined]

    def around(self, task: str) -> None:
        """A step of another task has ended, whatever steps of others are in it."""
        known = self.tasks.setdefault(task, {"steps": [], "losses": []})
        known["steps"].append({"at": self.now()})  # type: ignore[attr-defined]

    def done(self, task: str) -> int:
        """How many steps there have been."""
        return len(self.tasks[task]["steps"]) if task in self.tasks else 0  # type: ignore[arg-type]


T = Truth()
