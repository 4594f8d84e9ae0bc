"""What a plain script does, without a voirfile: on by default, ``--no-auto`` turns it off."""

from __future__ import annotations

import sys
from argparse import BooleanOptionalAction
from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from overseer import Overseer
from overseer.errors import Problem
from overseer.imports import on_import

from ..meter import Measuring, measuring_of
from .phases import phases_of

if TYPE_CHECKING:
    from overseer.engine.bus import Subscription

    from .breakdown import Breakdown
    from .progress import Progress
    from .steps import Steps
    from .torch_hooks import TorchHooks


REMEDY = "Run each process under voir, as `torchrun --no-python voir SCRIPT` does."
STEPPED = "Give step with batch at the end of each step if the script updates its model by itself."
#: What a module has that is PyTorch; a script may have another of that name.
PARTS = ("Tensor", "_C", "nn", "optim")


def instrument_auto(ov: Overseer) -> Generator[Any, Any, None]:
    """Watch training loops as soon as the script imports torch."""
    yield ov.phases.init
    ov.argparser.add_argument(
        "--auto",
        action=BooleanOptionalAction,
        default=True,
        help="see steps, losses and loading of PyTorch scripts without a voirfile",
    )
    yield ov.phases.parse_args
    if not ov.options.auto:
        return
    auto = Auto(ov)
    watches = [
        on_import("torch", auto.torch_imported),
        on_import("tqdm.std", auto.tqdm_imported),
    ]
    try:
        yield ov.phases.run_script(priority=60)  # Before the steps are summed up.
    finally:
        for watch in watches:
            watch.dispose()
        auto.close()


class Auto:
    """The hooks of a run and what becomes of what they see; nothing before torch is there.

    Args:
        ov: The run.
    """

    def __init__(self, ov: Overseer) -> None:
        self._ov = ov
        self._hooks: TorchHooks | None = None
        self._operations: int | None = None
        self._steps: Steps | None = None
        self._progress: Progress | None = None
        self._breakdown: Breakdown | None = None
        self._listening: Subscription | None = None
        self._measuring: Measuring = measuring_of(ov)
        self._measuring.loaders.feeds.hope()
        self._started = processes()

    def torch_imported(self, torch: Any) -> None:
        """Put the hooks in."""
        if not all(hasattr(torch, part) for part in PARTS):
            return  # Something else of that name.
        from .steps import Outlet, Steps
        from .torch_hooks import TorchHooks

        ov = self._ov
        begun = ov.clock.cpu_ns()
        asked, loaders = self._measuring, self._measuring.loaders
        self._steps = Steps(
            self._push, partial(Outlet, ov.bus), self._satisfied, asked.further_losses,
            self._awaited, asked.mark,
            asked.evaluation_begins, asked.evaluation_ends,
        )  # fmt: skip
        self._hooks = TorchHooks(ov, torch, self._steps, phases_of(ov), loaders, asked)
        self._listening = ov.listen(self._steps)
        asked.works = self._hooks.works
        loaders.listen(self._asked, self._hooks.answered, self._hooks.came)
        loaders.watch_torch()
        loaders.listen_to_waits(self._hooks.waits, self._waited, self._hooks.other)
        loaders.feeds.expect(asked_for=False)
        self._hooks.place()
        ov.charge(ov.clock.cpu_ns() - begun)

    def _satisfied(self) -> None:
        """Others tell of all steps and losses of training: leave them to it."""
        assert self._steps is not None
        assert self._listening is not None
        self._listening.dispose()
        self._listening = self._ov.listen(self._steps, "task")

    def _awaited(self) -> bool:
        """Whether a probe is to tell of steps or losses."""
        return self._ov.shows("step") or self._ov.shows("loss")

    def tqdm_imported(self, module: Any) -> None:
        """Look at tqdm's bars."""
        from .progress import Progress

        self._progress = Progress(self._ov)
        self._progress.tqdm_imported(module)

    def _asked(self, source: Any) -> None:
        """A loader is asked for a batch: from here on there is something to measure."""
        if self._hooks is not None:
            if self._breakdown is None:
                self._begin()
            self._hooks.asked(source)

    def _waited(self, begin: int, end: int) -> None:
        """A generator has kept the loop waiting: likewise."""
        if self._hooks is not None:
            if self._breakdown is None:
                self._begin()
            self._hooks.waited(begin, end)

    def _push(self, event: dict[str, Any]) -> None:
        if self._breakdown is None:
            self._begin()
        self._ov.publish(**event)

    def _begin(self) -> None:
        from .breakdown import Breakdown
        from .steps import TRAIN

        assert self._steps is not None
        with self._ov.undisturbed:  # What another thread gives meanwhile would not be heard.
            if self._breakdown is None:
                breakdown = Breakdown(TRAIN, self._steps.spent)
                self._measuring.begin().also(breakdown, self.tell)
                self._breakdown = breakdown

    def close(self) -> None:
        """The script has ended: take the hooks out, and give the step that was held back."""
        if self._progress is not None:
            self._progress.close()
        hooks, self._hooks = self._hooks, None
        if hooks is not None and self._steps is not None:
            from .steps import TRAIN  # Not of a script without PyTorch.

            hooks.remove()
            self._operations = hooks.operations
            self._steps.settle(over=True)
            if not self._steps.train and TRAIN not in self._steps.elsewhere:
                taken = hooks.gradients if self._steps.nothing else 0
                self._report_unused(hooks.unused, taken)
            if self._breakdown is None:  # Nobody else has begun to measure, and would end it.
                self._measuring.loaders.close()
                self._seek(self._steps.elsewhere)

    def _seek(self, elsewhere: set[str]) -> None:
        """Nothing was seen: say so where it went on in processes of their own."""
        n = 0 if elsewhere else processes() - self._started
        if n:
            what = f"the script has shown no step, but started {counted(n)} of which voir sees none"
            self._ov.report(Problem("other-processes", "auto", what, remedy=REMEDY))

    def _report_unused(self, backward: int, gradients: int) -> None:
        """No optimizer has used what was learned: say so, unless the script has just begun."""
        for done, n in (("backward was called", backward), ("gradients were taken", gradients)):
            if n > 1:
                what = f"{done} {n} times, but no optimizer stepped: no step is counted"
                self._ov.report(Problem("no-step", "auto", what, remedy=STEPPED))

    def tell(self) -> None:
        """Say where the time went."""
        tasks = self._ov.summary.get("tasks")
        task = tasks.get("train") if isinstance(tasks, dict) else None
        if self._breakdown is not None and isinstance(task, dict):
            if self._steps is not None and (losses := self._steps.losses()):
                task["losses"] = losses
            section = self._breakdown.section(task)
            if section:
                if self._operations:
                    section["operations"] = self._operations
                task["breakdown"] = section


def processes() -> int:
    """How many processes the script has started by :mod:`multiprocessing`."""
    started = getattr(sys.modules.get("multiprocessing.process"), "_process_counter", None)
    text = repr(started)  # It reads: count(3).
    return int(text[6:-1]) - 1 if text.startswith("count(") and text[6:-1].isdecimal() else 0


def counted(n: int) -> str:
    """So many processes."""
    return "a process" if n == 1 else f"{n} processes"
