"""Hooks for ``torch.distributed.pipelining``: marks where schedules and passes of stages begin."""

from __future__ import annotations

from functools import cache, partial
from types import MethodType

from overseer.engine.overseer import active
from overseer.recorder import recorder, table
from overseer.recorder import sites as k

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from overseer import Overseer

    from ..places import Places
    from .parallel import DataParallel

#: Methods of a stage that are passes.
PASSES = {
    "forward_one_chunk": "forward",
    "backward_one_chunk": "backward",
    "backward_weight_one_chunk": "weight",
}
LIBRARY = "torch.distributed.pipelining"


class Marked:
    """A method that is marked when it is looked up on an object, which then calls it.

    Errors in a wrapper would show its frame.

    Args:
        inner: The method.
        site: Returns the number of the site of an object's marks; may raise.
    """

    def __init__(self, inner: Any, site: Callable[[Any], int]) -> None:
        self._inner, self._site = inner, site

    def __get__(self, one: Any, kind: Any = None) -> Any:
        """The method of ``one``."""
        if one is None:
            return self._inner
        try:
            site = self._site(one)
            recorder.put(k.STRUCTURE, k.STAGE, site, recorder.now(), 0, float("nan"), 0, 0)
        except Exception:  # Then the stage has no times; the script goes on.
            pass
        return MethodType(self._inner, one)


def place(ov: Overseer, places: Places, batches: DataParallel, schedules: Any) -> None:
    """Mark the runs of schedules and the passes of stages; note that ranks share their batches.

    Args:
        ov: The run.
        places: Where callables are placed.
        batches: Keeps what is known of which batches this rank sees.
        schedules: ``torch.distributed.pipelining.schedules``.
    """
    stage, schedule = schedules._PipelineStageBase, schedules._PipelineSchedule
    timed: Overseer | None = None

    @cache
    def site(label: str, **more: Any) -> int:
        return table.add(k.STAGE, label, **more)

    def passes(label: str, one: Any) -> int:
        return site(label, stage=one.stage_index)

    for name, label in PASSES.items():
        _mark(places, stage, name, partial(passes, label))

    def begins(one: Any) -> int:
        nonlocal timed
        run = active() or ov  # A forked process has a run of its own.
        if timed is not run:
            timed = run
            _time(run)
            stages = one._stages if hasattr(one, "_stages") else [one._stage]
            batches.pipeline(stages[0].group_size)
        counts = {"stages": one._num_stages, "micro_batches": one._n_microbatches}
        return site(name_of(type(one)), by=LIBRARY, **counts)

    _mark(places, schedule, "_split_inputs", begins)  # The first method that each run calls,
    _mark(places, schedule, "_update_losses", lambda _: site("end"))  # and the last one.


def _time(run: Overseer) -> None:
    """Time the stages in a run's events from here on."""
    from overseer.model.stages import StageTimes

    times = StageTimes(table.rows)
    run.measuring.read(times.read)
    told = run.context.live.get("pipeline", lambda: None)  # By a voirfile.
    run.context.live["pipeline"] = lambda: times.section() or told()


def _mark(places: Places, owner: Any, name: str, site: Callable[[Any], int]) -> None:
    inner = vars(owner).get(name)
    if inner is not None:
        places.put(owner, name, Marked(inner, site))


def name_of(schedule: type) -> str:
    """A schedule's name: ``1F1B``; that of a class outside of the library as it is written.

    Empty for the class that runs a schedule from a file.
    """
    if not schedule.__module__.startswith(LIBRARY):
        return f"{schedule.__module__}.{schedule.__qualname__}"
    return "" if schedule.__name__.startswith("_") else schedule.__name__.removeprefix("Schedule")
