"""Reports what is unknown of a run's steps, with the line to write in a voirfile."""

from __future__ import annotations

from overseer.errors import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overseer.model.fold import Fold

    from .measuring import Measuring

STEP = 'ov.probe("//train_epoch(inp as batch) > #endloop_inp as step").give()'
LOADING = (
    'ov.probe("//train_epoch(inp as batch, !#loop_inp as compute_start, '
    '!!#endloop_inp as compute_end)").give()'
)
FEWER = "Steps of some microseconds come faster than they can be read: give every hundredth."
LINES = {
    "train_rate": f"Give each step, for example {STEP}",
    "loading_rate": f"Give the work on each batch as a pair, for example {LOADING}",
    "compute_rate": f"Give the work on each batch as a pair, for example {LOADING}",
}


def problems(measuring: Measuring, fold: Fold) -> list[Problem]:
    """What to report at the end of a run."""
    tasks = measuring.ov.summary.get("tasks", {})
    steps = sum(task.get("steps", 0) for task in tasks.values())
    found = []
    if fold.lost:
        n = sum(task.steps for task in fold.tasks.values())
        what = (
            f"more events came than could be read: at least {n:,} steps, no other figure is known"
        )
        found.append(Problem("lost-steps", "the recorder", what, remedy=FEWER))
    if fold.unused > 1 and not steps:
        what = f"backward was called {fold.unused} times, but no optimizer stepped"
        found.append(Problem("no-step", "auto", what, remedy=LINES["train_rate"]))
    for windows in measuring.windows:
        if windows.skip and steps and not windows.tasks:
            what = f"a skip of {windows.skip} leaves out all {steps} steps"
            remedy = "Skip fewer; the warm-up is found anyway."
            found.append(Problem("no-rate", "rate", what, remedy=remedy))
            break
        found += _without(measuring, windows.logged, windows.told)
    main: dict[str, Any] = tasks.get("train") or next(iter(tasks.values()), {})
    if "items" not in main and main.get("steps") and any(w.logged for w in measuring.windows):
        what = "how many items a batch holds is not known: rates are of steps"
        found.append(Problem("batch-size", "step model", what, remedy=LINES["train_rate"]))
    return found


def _without(measuring: Measuring, logged: tuple[str, ...], told: set[str]) -> list[Problem]:
    """Figures that flags asked for, and that never came."""
    found = []
    for key in logged:
        if key not in told:
            what, line = "the run showed nothing that it could be told from", LINES[key]
            if measuring.method is not None and key == "train_rate":
                what = f"nothing was given that --metric {measuring.method} takes for a step"
                line = LINES["compute_rate"] if measuring.method == "wrap" else line
            found.append(Problem("no-rate", f"--{key.replace('_', '-')}", what, remedy=line))
    return found
