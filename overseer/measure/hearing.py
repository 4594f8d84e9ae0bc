"""Listeners of the step model: quick ones, made for events whose keys are known beforehand.

They do what :meth:`StepModel.on_step` and :meth:`StepModel.on_wrap` do for the events that probes
give all the time, written out, with what stands around a listener: calls and lookups are what the
hottest of paths costs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..ways import OTHERWISE, Event, Gate, Keys, Listener, Source, Taker, composer, first, ignore
from .items import MOST
from .notes import FULL
from .threads import BEGIN, END, STEP

if TYPE_CHECKING:
    from .steps import StepModel

#: The task of events that name none.
TASK = "train"
#: When the step ended of which an event tells late, by the host's clock.
ENDED = "$ended"
#: When the first step of which an event tells late began, and the loader whose batch was there by
#: then and is not awaited, or None; of a pair, when that began.
BEGAN = "$began"
#: The device's mark for that end, where there is one: see :meth:`.steps.StepModel.mark`.
MARK = "$mark"
#: Flags of code that may be left and gone on with: generators, coroutines, both. Before such a one
#: has begun a pair, nothing that is open can be another coroutine's, and none is asked for: that
#: would take half as long again as all the rest.
SUSPENDS = 0x20 | 0x80 | 0x100 | 0x200
#: Names of ``$wrap`` pairs that surround the work of a step.
WORK_PAIRS = frozenset({"compute_start", "compute"})


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
        if self._model.unfinished is not None and self._model.unfinished():
            return
        (self._model.on_step_before if ENDED in event else self._model.on_step)(event)

    def for_keys(self, keys: Keys) -> Listener:
        """What hears events that have just these keys."""
        if "$wrap" in keys:
            return ignore
        if self._model.unfinished is not None:
            return self
        if ENDED in keys:
            return self._model.on_step_before
        sized = "batch_size" in keys and "task" not in keys
        return _sized_steps(self._model) if sized else self._model.on_step

    def for_values_alone(self, keys: Keys, gate: Gate, source: Source) -> Taker | None:
        """What hears the values of events where no other listens; None without such."""
        if source.pair is not None or self._model.unfinished is not None:
            return None
        return _batch_first(_step_ends, 2, self._model, keys, gate, source)


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
        unfinished, wrap = self._model.unfinished, event["$wrap"]
        name = wrap.get("name")
        if BEGAN in event:
            self._model.on_begin_before(event)
            return
        ends = wrap.get("step") != "begin" and (name == "step" or name in WORK_PAIRS)
        if unfinished is None or not ends or not unfinished():
            self._model.on_wrap(event)

    def for_keys(self, keys: Keys) -> Listener:
        """What hears events that have just these keys."""
        if BEGAN in keys:
            return self._model.on_begin_before
        return self._model.on_wrap if self._model.unfinished is None else self

    def for_values_alone(self, keys: Keys, gate: Gate, source: Source) -> Taker | None:
        """What hears the values of events where no other listens; None without such."""
        if source.pair is None or source.pair.name not in WORK_PAIRS:
            return None
        if self._model.unfinished is not None:
            return None
        if source.pair.begins:
            return _batch_first(_pair_begins, 2, self._model, keys, gate, source)
        return _batch_first(_pair_ends, 3, self._model, keys, gate, source)


def _batch_first(
    make: Callable[[StepModel, Keys, Gate, Source], Taker],
    n: int,
    model: StepModel,
    keys: Keys,
    gate: Gate,
    source: Source,
) -> Taker | None:
    """What takes ``n`` values, of which one is the batch; None if the keys are others."""
    if len(keys) != n or "batch" not in keys or not OTHERWISE.isdisjoint(keys):
        return None
    if keys[0] == "batch":
        return make(model, keys, gate, source)
    ordered = ("batch", *(key for key in keys if key != "batch"))
    deeper = source._replace(depth=source.depth + 1)
    return first(keys, "batch")(make(model, ordered, gate, deeper))


def _sized_steps(model: StepModel) -> Listener:
    """What hears the ends of steps that come with their size."""
    now, ident, marks, fresh = model.now, model.thread, model.marks, model.fresh
    counts, full, most = model.counts, model.full, FULL
    what, times = model.what(STEP, TASK), counts.sized_times

    def sized_step_ends(event: Event) -> None:
        at, items = now(), event["batch_size"]
        if times and type(items) is int and 0 <= items <= MOST:
            items *= times
        else:
            items = counts(event, TASK)
        thread = ident()
        mark = None if marks.device is None else marks.mark(at, thread, True)
        model.note((what, at, thread, items, None, mark))
        if len(fresh) > most:
            full()

    return sized_step_ends


def _step_ends(model: StepModel, keys: Keys, gate: Gate, source: Source) -> Taker:
    tally = source.tally
    up, wanted, inherits, aside, failed, _ = gate
    now, ident, marks, fresh = model.now, model.thread, model.marks, model.fresh
    counts, full, most = model.counts, model.full, FULL
    sized, times = counts.tensors, counts.multiplier
    what, event, note = model.what(STEP, TASK), composer(keys)(dict), model.taker
    resume = model.offer(source.quick, gate, {"what": what}, sized=True)

    def step_ends(batch: Any, other: Any) -> None:
        at = now()
        next(tally)
        if not wanted and (inherits is None or not inherits()):
            next(up)
        elif aside(event(batch, other)):
            return
        else:
            resume()
        try:
            items = None
            if type(batch) in sized:
                try:
                    items = batch.shape[0] * times
                except Exception:
                    pass  # The long way says what it is.
            thread = ident()
            mark = None if marks.device is None else marks.mark(at, thread, True)
            items = items or counts({"batch": batch}, TASK)
            note((what, at, thread, items, None, mark))
            if len(fresh) > most:
                full()
        except BaseException as error:
            failed(error, event(batch, other))

    return step_ends


def _pair_begins(model: StepModel, keys: Keys, gate: Gate, source: Source) -> Taker:
    tally, depth, pair, _ = source
    assert pair is not None
    up, wanted, inherits, aside, failed, _ = gate
    now, ident, marks = model.now, model.thread, model.marks
    opened, called, getframe = pair.open.opened, pair.open.calls.setdefault, sys._getframe
    whose = model.coroutine
    what, event, note = model.what(BEGIN, TASK, pair.name), composer(keys)(dict), model.taker
    own = {"what": what, "opened": opened.setdefault, "called": called}
    resume = model.offer(source.quick, gate, own)

    def pair_begins(batch: Any, other: Any) -> None:
        at = now()
        here = getframe(depth)
        frame = id(here)
        number = opened[frame] = called(frame, next(tally))
        if not wanted and (inherits is None or not inherits()):
            next(up)
        elif aside(pair.mark(event(batch, other), number)):
            return
        else:
            resume()
        try:
            thread = ident()
            mark = None if marks.device is None else marks.mark(at, thread, False)
            apart = model.coroutines or here.f_code.co_flags & SUSPENDS
            note((what, at, thread, whose() if apart else None, number, mark))
        except BaseException as error:
            failed(error, event(batch, other))

    return pair_begins


def _pair_ends(model: StepModel, keys: Keys, gate: Gate, source: Source) -> Taker:
    tally, depth, pair, _ = source
    assert pair is not None
    up, wanted, inherits, aside, failed, _ = gate
    now, ident, marks, fresh = model.now, model.thread, model.marks, model.fresh
    counts, full, most = model.counts, model.full, FULL
    sized, times = counts.tensors, counts.multiplier
    close, getframe = pair.open.opened.pop, sys._getframe
    what, event, note = model.what(END, TASK, pair.name), composer(keys)(dict), model.taker
    resume = model.offer(source.quick, gate, {"what": what, "close": close}, sized=True)

    def pair_ends(batch: Any, other: Any, own: Any) -> None:
        at = now()
        number = close(id(getframe(depth)), None)
        next(tally)
        if number is None:
            return
        if not wanted and (inherits is None or not inherits()):
            next(up)
        elif aside(pair.mark(event(batch, other, own), number)):
            return
        else:
            resume()
        try:
            items = None
            if type(batch) in sized:
                try:
                    items = batch.shape[0] * times
                except Exception:
                    pass  # The long way says what it is.
            thread = ident()
            mark = None if marks.device is None else marks.mark(at, thread, True)
            items = items or counts({"batch": batch}, TASK)
            note((what, at, thread, items, number, mark))
            if len(fresh) > most:
                full()
        except BaseException as error:
            failed(error, event(batch, other, own))

    return pair_ends
