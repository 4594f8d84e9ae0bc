"""Reports unknown figures of a run, each with the line to add to a voirfile."""

from __future__ import annotations

from overseer.errors import Problem
from overseer.model.facts import main_name
from overseer.model.tasks import WHY_BATCH
from overseer.recorder import recorder, table
from overseer.recorder import sites as k

from .advice import GIVE_BATCH_SIZE, Advice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from overseer import Overseer
    from overseer.measure.windows import RateRequest
    from overseer.model.fold import Fold

FEWER = "Steps of a few microseconds are faster than voir can read them: give one in a hundred."
WITHIN = "No time passes between the given pairs: give the code that loads batches"


def problems(
    ov: Overseer,
    fold: Fold,
    tasks: Mapping[str, Any],
    requests: list[RateRequest],
    method: str | None,
) -> list[Problem]:
    """Problems to report at the end of a run.

    Args:
        ov: Knows the script, whose names the remedies use.
        fold: The fold, at its end.
        tasks: The ``tasks`` of ``run.json``.
        requests: The windows that were requested.
        method: The value of ``--metric``.
    """
    advice = Advice(ov)
    steps = sum(task.get("steps", 0) for task in tasks.values())
    found = []
    if fold.lost:
        n = sum(task.steps for task in fold.tasks.values())
        what = f"events were lost, too many to read: at least {n:,} steps, no other figure is known"
        return [Problem("lost-steps", "the recorder", what, remedy=FEWER)]
    if fold.unused > 1 and not steps:
        what = f"backward was called {fold.unused} times, but no optimizer stepped"
        found.append(Problem("no-step", "auto", what, remedy=_remedy(advice, "step")))
    for request in requests:
        if request.skip and steps and not request.tasks:
            what = f"skipping {request.skip} leaves out all {steps} steps"
            anyway = "Skip fewer; voir finds the warm-up itself."
            found.append(Problem("no-rate", "rate", what, remedy=anyway))
            break
        found += _without(advice, request, method)
    main = main_name({name: task.get("steps", 0) for name, task in tasks.items()})
    if main is not None and "items_unknown" in tasks[main]:
        what = f"the items of {main} are unknown: {tasks[main]['items_unknown']}"
        kind, why = recorder.unread()[1], fold.tasks[main].why
        what += f" ({kind})" if why == WHY_BATCH and kind else ""
        remedy = _with_batch(advice, why)
        found.append(Problem("batch-size", "step model", what, remedy=remedy))
    unread = sum(task.unread for task in fold.tasks.values())
    if unread:
        what = f"{unread} given losses cannot be read: {recorder.unread()[0]}"
        remedy = "Give a number or a tensor of one element, for example float(loss)."
        found.append(Problem("loss-unread", "step model", what, remedy=remedy))
    return found


def _with_batch(advice: Advice, why: str) -> str:
    """The remedy for steps with unknown items."""
    line = advice.line("step")
    if line is None or "batch" not in line:
        if why == WHY_BATCH:
            return GIVE_BATCH_SIZE
        rows = (row for row in table.rows if row["kind"] == k.STEP and "selector" in row)
        selectors = (str(row["selector"]) for row in rows)
        code, _, step = next(selectors, "//FUNCTION > #endloop_BATCH as step").partition(" > ")
        line = f'ov.probe("{code.partition("(")[0]}(BATCH as batch) > {step}").give()'
    return f"Give the batch with each step, for example {line}"


def ignored(method: str | None) -> str | None:
    """The remedy where ``--metric`` ignores the kind of step that is given."""
    kind, what = (k.PAIR, "pairs") if method == "step" else (k.STEP, "step events")
    if method is None or not any(row["kind"] == kind for row in table.rows):
        return None
    return f"--metric {method} ignores {what}: leave it out"


def _without(advice: Advice, request: RateRequest, method: str | None) -> list[Problem]:
    """Problems of flags whose figure never had a value."""
    found = []
    for key in request.logged:
        if key not in request.emitted:
            what, role = "no events from which this rate can be computed", "loading"
            if key == "train_rate":
                role = "step"
                if method is not None:
                    what = f"no events that --metric {method} counts as steps"
            remedy = ignored(method) or _remedy(advice, role)
            found.append(Problem("no-rate", f"--{key.replace('_', '-')}", what, remedy=remedy))
    return found


def _remedy(advice: Advice, role: str) -> str | None:
    """The remedy for a run without ``step`` or ``loading`` events."""
    line, what = (
        advice.line(role),
        "Give each step" if role == "step" else "Give the loading of batches",
    )
    if role == "loading" and any(row["kind"] == k.PAIR for row in table.rows):
        what = WITHIN
    return f"{what}, for example {line}" if line is not None else None
