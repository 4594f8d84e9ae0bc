"""Listeners of the step model: quick ones, made for events whose keys are known beforehand.

They do what :meth:`StepModel.on_step` and :meth:`StepModel.on_wrap` do for the events that probes
give all the time, written out, with what stands around a listener: calls and lookups are what the
hottest of paths costs.
"""

from __future__ import annotations

import sys
from itertools import repeat
from typing import TYPE_CHECKING, Any

from ..ways import Ends, Event, Gate, Keys, Listener
from .notes import FULL
from .threads import BEGIN, END, STEP

if TYPE_CHECKING:
    from .steps import StepModel

#: The task of events that name none.
TASK = "train"
#: Names of ``$wrap`` pairs that surround the work of a step.
WORK_PAIRS = frozenset({"compute_start", "compute"})
#: Keys of events that take a longer way.
_OTHERS = frozenset({"task", "batch_size"})


def ignore(event: Event) -> None:
    """Nothing is to be heard from it."""


def _raise(error: BaseException, event: Event) -> None:
    raise error


#: Of a listener that others stand around.
NO_GATE = Gate(repeat(None), [], None, bool, _raise)


class StepEnds:
    """Hears the ends of steps, on any thread, also while another does.

    Args:
        model: Whom it tells.
    """

    free = True

    def __init__(self, model: StepModel) -> None:
        self._model = model

    def __call__(self, event: Event) -> None:
        """Hear an event."""
        self._model.on_step(event)

    def for_keys(self, keys: Keys) -> Listener:
        """What hears events that have just these keys."""
        if "$wrap" in keys:
            return ignore
        return self.for_keys_alone(keys, NO_GATE) or self._model.on_step

    def for_keys_alone(self, keys: Keys, gate: Gate) -> Listener | None:
        """What hears them where no other listens, and sees to the gate; None without such."""
        if "batch" not in keys or "$wrap" in keys or not _OTHERS.isdisjoint(keys):
            return None
        return _step_ends(self._model, gate)


class Pairs:
    """Hears the ends of pairs, on any thread, also while another does.

    Args:
        model: Whom it tells.
    """

    free = True

    def __init__(self, model: StepModel) -> None:
        self._model = model

    def __call__(self, event: Event) -> None:
        """Hear an event."""
        self._model.on_wrap(event)

    def for_keys(self, keys: Keys) -> Listener:
        """What hears events that have just these keys."""
        return self._model.on_wrap

    def for_pairs_alone(self, keys: Keys, gate: Gate, ends: Ends) -> Listener | None:
        """What hears one end of a pair where no other listens, and sees to gate and pair.

        It takes events that are not marked as ends of pairs. None without such.
        """
        if ends.name not in WORK_PAIRS or not _OTHERS.isdisjoint(keys):
            return None
        return (_pair_begins if ends.begins else _pair_ends)(self._model, gate, ends)


def _step_ends(model: StepModel, gate: Gate) -> Listener:
    up, wanted, inherits, aside, failed = gate
    now, ident, marks, fresh = model.now, model.thread, model.marks, model.fresh
    counts, full, most = model.counts, model.full, FULL
    sized, times = counts.tensors, counts.multiplier
    what = model.what(STEP, TASK)

    def step_ends(event: Event) -> None:
        at = now()
        if not wanted and inherits is None:
            next(up)
        elif aside(event):
            return
        try:
            items = None
            batch: Any = event["batch"]
            if type(batch) in sized:
                try:
                    items = batch.shape[0] * times
                except Exception:
                    pass  # The long way says what it is.
            thread = ident()
            mark = None if marks.device is None else marks.mark(at, thread, True)
            model.note((what, at, thread, items or counts(event, TASK), None, mark))
            if len(fresh) > most:
                full()
        except BaseException as error:
            failed(error, event)

    return step_ends


def _pair_begins(model: StepModel, gate: Gate, ends: Ends) -> Listener:
    up, wanted, inherits, aside, failed = gate
    name, _, opened, tally, depth, pair_mark = ends
    now, ident, marks, fresh = model.now, model.thread, model.marks, model.fresh
    full, most, getframe = model.full, FULL, sys._getframe
    what = model.what(BEGIN, TASK, name)

    def pair_begins(event: Event) -> None:
        at = now()
        number = opened[id(getframe(depth))] = next(tally)
        if not wanted and inherits is None:
            next(up)
        elif aside(pair_mark(event, number)):
            return
        try:
            thread = ident()
            mark = None if marks.device is None else marks.mark(at, thread, False)
            model.note((what, at, thread, None, number, mark))
            if len(fresh) > most:
                full()
        except BaseException as error:
            failed(error, event)

    return pair_begins


def _pair_ends(model: StepModel, gate: Gate, ends: Ends) -> Listener:
    up, wanted, inherits, aside, failed = gate
    name, _, opened, tally, depth, pair_mark = ends
    now, ident, marks, fresh = model.now, model.thread, model.marks, model.fresh
    counts, full, most = model.counts, model.full, FULL
    sized, times, getframe = counts.tensors, counts.multiplier, sys._getframe
    what = model.what(END, TASK, name)

    def pair_ends(event: Event) -> None:
        at = now()
        number = opened.pop(id(getframe(depth)), None)
        next(tally)
        if number is None:
            return
        if not wanted and inherits is None:
            next(up)
        elif aside(pair_mark(event, number)):
            return
        try:
            items = None
            batch: Any = event.get("batch")
            if type(batch) in sized:
                try:
                    items = batch.shape[0] * times
                except Exception:
                    pass  # The long way says what it is.
            thread = ident()
            mark = None if marks.device is None else marks.mark(at, thread, True)
            model.note((what, at, thread, items or counts(event, TASK), number, mark))
            if len(fresh) > most:
                full()
        except BaseException as error:
            failed(error, event)

    return pair_ends
