"""A training program of known truth: time passes only where it says so, on a fake clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from overseer.clock import FakeClock
from overseer.measure.device import FakeDevice
from overseer.measure.step import Step
from overseer.measure.steps import StepModel
from overseer.measure.summary import Tasks


class Tensor:
    """What the step model sees of a tensor."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape


class Program:
    """Runs a loop, tells a step model about it in one way or another, and keeps the truth.

    Args:
        form: How the loop shows itself: any of :data:`FORMS`.
        device: Compute runs on a fake device, and the host goes on at once.
    """

    def __init__(self, form: str = "pair", device: bool = False, **options: Any) -> None:
        self.clock = FakeClock(now_ns=5_000_000_000)
        self.form = form
        self.device = FakeDevice(self.clock) if device else None
        find = (lambda: self.device) if device else None
        self.problems: list[Any] = []
        self.thread = 1
        self.model = StepModel(
            self.clock,
            find_device=find,
            report=self.problems.append,
            thread=lambda: self.thread,
            **options,
        )
        self.steps: list[Step] = []
        self.tasks = Tasks()
        self.model.sinks += [self.steps.extend, self.tasks]
        self.loading = self.compute = self.paused = 0.0
        self.items = self.count = self.pauses = 0
        self.ids = count()
        self.task: str | None = None

    def give(self, **event: Any) -> None:
        if self.task is not None:
            event["task"] = self.task
        self.model(event)

    def wrap(self, name: str, edge: str, ident: int, **event: Any) -> None:
        self.give(**{"$wrap": {"name": name, "step": edge, "id": ident}}, **event)

    def work(self, seconds: float) -> None:
        """Compute: on the device if there is one, which takes the host an instant, else here."""
        if self.device is not None:
            self.device.launch(seconds)
            self.clock.advance(0.000_005)
        else:
            self.clock.advance(seconds)

    def pause(self, seconds: float) -> None:
        """Nothing the step model is told about; the device is idle meanwhile."""
        self.synchronize()
        self.clock.advance(seconds)
        self.paused += seconds
        self.pauses += 1

    def synchronize(self) -> None:
        if self.device is not None:
            self.clock.advance(self.device.synchronize())

    def batches(self, n: int, seconds: float, size: int = 32) -> Iterator[Tensor]:
        """A loader: each batch takes ``seconds``."""
        watched = "loader" in self.form
        for _ in range(n):
            if watched:
                self.model.loading_begins("train")
            idle = seconds if self.device is None else seconds - self.device.synchronize()
            self.clock.advance(seconds)
            self.loading += max(0.0, idle)
            if watched:
                self.model.loading_ends("train")
            yield Tensor(size, 8)
        if watched:
            self.model.loading_begins("train")
            self.model.loading_ends("train", exhausted=True)

    @contextmanager
    def body(self, call: int, batch: Tensor) -> Iterator[None]:
        """The body of the loop, as the voirfile shows it."""
        pair = "pair" in self.form or "wrap" in self.form
        name = "step" if "wrap" in self.form else "compute_start"
        ident = next(self.ids) if "wrap" in self.form else call
        if pair:
            self.wrap(name, "begin", ident)
        yield
        if "step" in self.form:
            self.give(step=True, batch=batch)
        if pair:
            bare = "step" in self.form
            self.wrap(name, "end", ident, **({} if bare else {"batch": (batch, Tensor(32))}))

    def epoch(
        self,
        n: int,
        load: float = 0.004,
        compute: Callable[[int], float] | float = 0.010,
        checkpoint: Callable[[int], float] | None = None,
    ) -> None:
        """One call of ``train_epoch``."""
        call = next(self.ids)
        for batch in self.batches(n, load):
            with self.body(call, batch):
                seconds = compute(self.count) if callable(compute) else compute
                self.work(seconds)
                self.compute += seconds
                self.items += batch.shape[0]
                if checkpoint is not None and (saving := checkpoint(self.count)):
                    self.pause(saving)
                self.count += 1
            if self.device is not None and self.count % 4 == 0:
                self.synchronize()  # A script reads its loss now and then.

    def finish(self) -> None:
        self.synchronize()
        self.model.finish()

    def section(self, task: str = "train") -> Any:
        return self.tasks.section(self.model.clock_name)[task]


#: Ways to show a loop: step events, ptera's pair with or without them, giving's wrap; and all of
#: these with a loader that is watched.
FORMS = (
    "step",
    "pair",
    "pair, step",
    "wrap",
    "loader, step",
    "loader, pair",
    "loader, pair, step",
    "loader, wrap",
)
