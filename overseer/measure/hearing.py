"""Listeners of the step model: quick ones, made for events whose keys are known beforehand.

They do what :meth:`StepModel.on_step` and :meth:`StepModel.on_wrap` do for the events that probes
give all the time, written out: calls and lookups are what the hottest of paths costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .threads import BEGIN, END, STEP

if TYPE_CHECKING:
    from .steps import StepModel

Event = dict[str, Any]
Listener = Callable[[Event], object]
Keys = tuple[str, ...]

#: The task of events that name none.
TASK = "train"
#: Names of ``$wrap`` pairs that surround the work of a step.
WORK_PAIRS = frozenset({"compute_start", "compute"})
#: One note in so many is timed, for voir's own cost; a power of two.
TIMED = 16


class Heard:
    """A listener that any thread may call, also while another does.

    Args:
        fn: Takes any event.
        choose: Returns what takes events that have just these keys.
    """

    __slots__ = ("_choose", "_fn")
    free = True

    def __init__(self, fn: Listener, choose: Callable[[Keys], Listener]) -> None:
        self._fn = fn
        self._choose = choose

    def __call__(self, event: Event) -> None:
        """Hear an event."""
        self._fn(event)

    def for_keys(self, keys: Keys) -> Listener:
        """What hears events that have just these keys."""
        return self._choose(keys)


def ignore(event: Event) -> None:
    """Nothing is to be heard from it."""


def step_listener(model: StepModel, keys: Keys) -> Listener:
    """What hears the ends of steps that come with these keys."""
    if "$wrap" in keys:
        return ignore
    if "task" in keys or "batch_size" in keys or "batch" not in keys:
        return model.on_step
    now, ident, marks, queue = model.now, model.thread, model.marks, model.queue
    counts, noted = model.counts, model.noted
    sized, times = counts.tensors, counts.multiplier

    def on_step(event: Event) -> None:
        at = now()
        batch = event["batch"]
        try:
            items = batch.shape[0] * times if type(batch) in sized else 0
        except Exception:
            items = 0
        if not items:
            items = counts(event, TASK)
        thread = ident()
        mark = None if marks.device is None else marks.mark(at, thread, True)
        model.note((STEP, at, thread, TASK, items, None, None, mark))
        if not len(queue) % TIMED:
            noted(at)

    return on_step


def wrap_listener(model: StepModel, keys: Keys) -> Listener:
    """What hears pairs whose events have these keys."""
    if "task" in keys or "batch_size" in keys:
        return model.on_wrap
    now, ident, marks, queue = model.now, model.thread, model.marks, model.queue
    counts, noted, others = model.counts, model.noted, model.on_wrap
    sized, times = counts.tensors, counts.multiplier

    def on_wrap(event: Event) -> None:
        at = now()
        wrap = event["$wrap"]
        name = wrap["name"]
        if name not in WORK_PAIRS:
            others(event)
            return
        thread = ident()
        if wrap["step"] == "begin":
            mark = None if marks.device is None else marks.mark(at, thread, False)
            model.note((BEGIN, at, thread, TASK, None, name, wrap["id"], mark))
        else:
            try:
                batch = event["batch"]
                items = batch.shape[0] * times if type(batch) in sized else 0
            except Exception:
                items = 0
            if not items:
                items = counts(event, TASK)
            mark = None if marks.device is None else marks.mark(at, thread, True)
            model.note((END, at, thread, TASK, items, name, wrap["id"], mark))
        if not len(queue) % TIMED:
            noted(at)

    return on_wrap
