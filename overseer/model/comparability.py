"""Finds what runs have in common, and reasons not to trust their comparison."""

from __future__ import annotations

from itertools import pairwise

from .facts import entries, number, others_share, part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .facts import Facts

#: Share of the processors that other programs may use without a warning.
MAX_OTHERS = 0.2
#: Options that slow a run down and should be the same on both sides.
_UNLIKE = {
    "trace": "only one side was traced",
    "verify": "only one side was run with --verify",
}


def shared_tasks(before: Sequence[Facts], after: Sequence[Facts]) -> list[str]:
    """The tasks that all runs have."""
    every = [part(run, "tasks") for run in (*before, *after)]
    return [name for name in every[0] if all(part(tasks, name) for tasks in every)]


def in_turns(
    before: Sequence[Facts], after: Sequence[Facts]
) -> tuple[Sequence[Facts], Sequence[Facts]] | None:
    """Both sides sorted by time, if their runs alternated; otherwise None.

    Runs alternated (A B A B, or A B B A) if both runs of each pair began before the next pair.
    """
    sides = [sorted(side, key=_started) for side in (before, after)]
    pairs = [sorted(map(_started, pair)) for pair in zip(*sides, strict=False)]
    turns = all(earlier[1] < later[0] for earlier, later in pairwise(pairs))
    even = len(before) == len(after) > 1
    return (sides[0], sides[1]) if even and turns and pairs[0][0] else None


def _started(run: Facts) -> str:
    return str(run.get("started") or "")  # UTC, in a form that sorts by time.


def doubts(before: Sequence[Facts], after: Sequence[Facts]) -> Iterator[str]:
    """Yield reasons not to trust a comparison."""
    for name, side in (("A", before), ("B", after)):
        yield from _doubts(name, side)
    for key, said in _UNLIKE.items():
        if {bool(run.get(key)) for run in before} != {bool(run.get(key)) for run in after}:
            yield said
    dated = min(len(before), len(after)) > 1 and all(map(_started, (*before, *after)))
    if dated and in_turns(before, after) is None:
        yield "the runs did not alternate: other changes over time look like a difference"
    worlds = [sorted({str(run.get("world_size", 1)) for run in side}) for side in (before, after)]
    if worlds[0] != worlds[1]:
        a, b = ("/".join(each) for each in worlds)
        yield f"ranks: {a} in A, {b} in B; rates are of whole jobs"
    shared = shared_tasks(before, after)
    for name in shared:
        steps = [{number(part(run, "tasks", name), "steps") for run in s} for s in (before, after)]
        if steps[0] != steps[1]:
            yield f"{name} made different numbers of steps: last losses are not comparable"
    for name in sorted({name for run in (*before, *after) for name in part(run, "tasks")}):
        if name not in shared:
            yield f"some runs have no task {name}"


def _doubts(name: str, side: Sequence[Facts]) -> Iterator[str]:
    if any("ended" not in run for run in side):
        yield f"{name} did not finish"
    failed = [run["exit_status"] for run in side if run.get("exit_status") not in (0, None)]
    if failed:
        status = failed[0]
        signalled = isinstance(status, int) and status < 0
        yield f"{name} ended with {f'signal {-status}' if signalled else f'exit status {status}'}"
    busiest = max((others_share(run) or 0.0 for run in side), default=0.0)
    if busiest > MAX_OTHERS:
        yield f"{name}: other programs used {100 * busiest:.0f} % of the processors"
    tasks = [(task, part(run, "tasks", task)) for run in side for task in part(run, "tasks")]
    for task in dict.fromkeys(task for task, facts in tasks if number(facts, "rate.profiled")):
        yield f"{name}: steps of {task} were profiled, which makes them slower"
    devices = [device for run in side for device in entries(run, "devices")]
    reasons = {reason for device in devices for reason in part(device, "throttled")}
    if reasons:
        yield f"{name}: its GPU was throttled ({', '.join(sorted(reasons))})"
