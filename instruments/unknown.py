"""Reports what is unknown of a run's steps, with the line to write in a voirfile."""

from __future__ import annotations

from overseer.errors import Problem
from overseer.model.facts import main_name
from overseer.model.tasks import BATCH
from overseer.recorder import recorder, table
from overseer.recorder import sites as k

from .advice import GIVE_BATCH_SIZE, Advice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overseer.model.fold import Fold

    from .measuring import Measuring, Windows

FEWER = "Steps of some microseconds come faster than they can be read: give every hundredth."
WITHIN = "Nothing waits between the pairs that are given: show what is loading"


def problems(measuring: Measuring, fold: Fold) -> list[Problem]:
    """What to report at the end of a run."""
    tasks, advice = measuring.ov.summary.get("tasks", {}), Advice(measuring.ov)
    steps = sum(task.get("steps", 0) for task in tasks.values())
    found = []
    if fold.lost:
        n = sum(task.steps for task in fold.tasks.values())
        what = (
            f"more events came than could be read: at least {n:,} steps, no other figure is known"
        )
        return [Problem("lost-steps", "the recorder", what, remedy=FEWER)]
    if fold.unused > 1 and not steps:
        what = f"backward was called {fold.unused} times, but no optimizer stepped"
        found.append(Problem("no-step", "auto", what, remedy=_remedy(advice, "step")))
    for windows in measuring.windows:
        if windows.skip and steps and not windows.tasks:
            what = f"a skip of {windows.skip} leaves out all {steps} steps"
            anyway = "Skip fewer; the warm-up is found anyway."
            found.append(Problem("no-rate", "rate", what, remedy=anyway))
            break
        found += _without(measuring, advice, windows)
    main = main_name({name: task.get("steps", 0) for name, task in tasks.items()})
    if main is not None and "items_unknown" in tasks[main]:
        what = f"the items of {main} are unknown: {tasks[main]['items_unknown']}"
        kind, why = recorder.unread()[1], fold.tasks[main].why
        what += f" ({kind})" if why == BATCH and kind else ""
        remedy = _with_batch(advice, why)
        found.append(Problem("batch-size", "step model", what, remedy=remedy))
    unread = sum(task.unread for task in fold.tasks.values())
    if unread:
        what = f"{unread} losses that were given cannot be read: {recorder.unread()[0]}"
        remedy = "Give a number or a tensor of one element, for example float(loss)."
        found.append(Problem("loss-unread", "step model", what, remedy=remedy))
    return found


def _with_batch(advice: Advice, why: str) -> str:
    """What shows the items of steps."""
    line = advice.line("step")
    if line is None or "batch" not in line:
        if why == BATCH:
            return GIVE_BATCH_SIZE
        rows = (row for row in table.rows if row["kind"] == k.STEP and "selector" in row)
        selectors = (str(row["selector"]) for row in rows)
        code, _, step = next(selectors, "//FUNCTION > #endloop_BATCH as step").partition(" > ")
        line = f'ov.probe("{code.partition("(")[0]}(BATCH as batch) > {step}").give()'
    return f"Give the batch with each step, for example {line}"


def ignored(measuring: Measuring) -> str | None:
    """What to do where ``--metric`` leaves out the kind of step that is given."""
    kind, what = (k.PAIR, "pairs") if measuring.method == "step" else (k.STEP, "step events")
    if measuring.method is None or not any(row["kind"] == kind for row in table.rows):
        return None
    return f"--metric {measuring.method} ignores {what}: leave it out"


def _without(measuring: Measuring, advice: Advice, windows: Windows) -> list[Problem]:
    """Figures that flags asked for, and that never came."""
    found = []
    for key in windows.logged:
        if key not in windows.told:
            what, role = "no events from which this rate can be computed", "loading"
            if key == "train_rate":
                role = "step"
                if measuring.method is not None:
                    what = f"nothing was given that --metric {measuring.method} takes for a step"
            remedy = ignored(measuring) or _remedy(advice, role)
            found.append(Problem("no-rate", f"--{key.replace('_', '-')}", what, remedy=remedy))
    return found


def _remedy(advice: Advice, role: str) -> str | None:
    """What to do where no ``step`` or ``loading`` was shown."""
    line, what = advice.line(role), "Give each step" if role == "step" else "Give what is loading"
    if role == "loading" and any(row["kind"] == k.PAIR for row in table.rows):
        what = WITHIN
    return f"{what}, for example {line}" if line is not None else None
