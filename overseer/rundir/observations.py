"""Rates observed in a run: of windows that were logged, otherwise of single steps."""

from __future__ import annotations

from ..errors import VoirError
from ..model.facts import number, part
from ..recorder.sites import PARTS
from .steps import steps_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .reading import Run

#: Keys of logged rates: of ``--train-rate``, and as upstream's voir gives them.
_LOGGED = ("train_rate", "rate")


def observed_rates(run: Run, report: Callable[[VoirError], object]) -> dict[str, list[float]]:
    """The rates of each task, in items or steps per second; of a job, its first rank's.

    Args:
        run: The run.
        report: Receives the error of a file that is damaged.
    """
    one = run.ranks[0] if run.ranks else run
    try:
        return _logged(one) or _of_steps(one)
    except VoirError as error:
        report(error)
        return {}


def _logged(run: Run) -> dict[str, list[float]]:
    found: dict[str, dict[str, list[float]]] = {key: {} for key in _LOGGED}
    for event in run.metrics:
        for key in _LOGGED:
            if (rate := number(event.get(key))) is not None:
                found[key].setdefault(str(event.get("task", "train")), []).append(rate)
    return next(filter(None, found.values()), {})


def _of_steps(run: Run) -> dict[str, list[float]]:
    """The rates of the steps that the run's own rate is made of."""
    found: dict[str, list[float]] = {}
    steps = steps_of(run.path, run.facts)
    for rows in steps.stretches() if steps is not None else ():
        task = part(run.facts, "tasks", rows.task)
        first, items = number(task, "rate.skipped") or 0, task.get("units") == "items"
        times = map(sum, zip(*(rows[name] for name in PARTS), strict=True))
        amounts = rows["items"] if items else [1.0] * len(rows)
        found.setdefault(rows.task, []).extend(
            amount * 1e9 / ns
            for step, ns, amount in zip(rows["step"], times, amounts, strict=True)
            if step > first and ns > 0 and amount == amount
        )
    return found
