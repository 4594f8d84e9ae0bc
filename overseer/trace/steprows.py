"""Rows of steps in a trace, from the log where the run's ``steps.npy`` does not have them all."""

from __future__ import annotations

from typing import NamedTuple

from ..model.fold import Fold
from .writer import FOLD_TAG, STRUCTURE_TAG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ..model.steps import Step


class StepRow(NamedTuple):
    """A step as a trace shows it; times are ns.

    Attributes:
        task: The task; ``number`` counts its steps from 1.
        thread: The recorder's number of the thread.
        items: Items of its batches; NaN: unknown.
        loss: The loss of its backward; NaN: unknown, or given by the script.
        loaded: Whether its loading was seen.
        loading: Time waited for batches; ``compute`` is the rest, without ``pause``.
    """

    task: str
    number: int
    thread: int
    start: int
    end: int
    items: float
    loss: float
    loaded: bool
    loading: int
    compute: int
    pause: int


def refold(
    events: Iterable[tuple[bytes, Any]], sites: list[dict[str, Any]], method: str | None
) -> Iterator[StepRow]:
    """Fold a log's events again, and yield the steps.

    Args:
        events: As :meth:`TraceLog.events` yields them.
        sites: The table of sites.
        method: The fold's.
    """
    finished: list[Step] = []

    def begin(state: dict[str, Any]) -> Fold:
        fold = Fold(sites, finished.append, method)
        fold.restore(state)
        return fold

    fold = begin({})
    for tag, data in events:
        if tag == FOLD_TAG:
            fold.finish()
        elif tag == STRUCTURE_TAG:
            try:
                fold.feed(data)
            except Exception:  # Damaged events: go on after them.
                finished.clear()
                fold = begin({})
        yield from (_row(step, fold) for step in finished)
        finished.clear()
        if tag == FOLD_TAG:
            fold = begin(data)
    fold.finish()
    yield from (_row(step, fold) for step in finished)


def _row(step: Step, fold: Fold) -> StepRow:
    own = step.backwards and not step.late and not fold.tasks[step.task].given
    return StepRow(
        step.task, step.number, step.thread, step.start, step.end, step.items,
        step.loss if own else float("nan"),
        step.loaded, step.loading, step.ns - step.loading, step.pause,
    )  # fmt: skip
