"""What speaks against comparing runs as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .parts import at, number, others_share, part

Facts = Mapping[str, Any]
#: What other programs may use of the processors before figures are doubted.
BUSY = 0.2
#: What makes a run slower, and should be alike on both sides.
_UNLIKE = {
    "trace": "only one side was traced",
    "verify": "only one side was run with --verify",
}


def in_both(before: Sequence[Facts], after: Sequence[Facts]) -> list[str]:
    """The tasks that every run of both sides has."""
    every = [part(run, "tasks") for run in (*before, *after)]
    return [name for name in every[0] if all(part(tasks, name) for tasks in every)]


def doubts(before: Sequence[Facts], after: Sequence[Facts]) -> Iterator[str]:
    """What speaks against trusting the figures, a sentence each."""
    shared = in_both(before, after)
    for name, side in (("A", before), ("B", after)):
        yield from _doubts(name, side)
    for key, said in _UNLIKE.items():
        found = [{bool(run.get(key)) for run in side} for side in (before, after)]
        if found[0] != found[1]:
            yield said
    worlds = [sorted({str(run.get("world_size", 1)) for run in side}) for side in (before, after)]
    if worlds != [["1"], ["1"]]:
        yield f"figures are of rank 0, of {'/'.join(worlds[0])} and {'/'.join(worlds[1])} ranks"
    for name in shared:
        steps = [
            {number(part(part(run, "tasks"), name).get("steps")) for run in side}
            for side in (before, after)
        ]
        if steps[0] != steps[1]:
            yield f"{name} made different numbers of steps: losses are not of the same moment"
    missing = {name for run in (*before, *after) for name in part(run, "tasks")}
    for name in sorted(missing.difference(shared)):
        yield f"not every run has a task {name}"


def _doubts(name: str, side: Sequence[Facts]) -> Iterator[str]:
    if any("ended" not in run for run in side):
        yield f"{name} did not come to its end"
    failed = [run for run in side if run.get("exit_status") not in (0, None)]
    if failed:
        yield f"{name} ended with exit status {failed[0]['exit_status']}"
    shares = [share for run in side if (share := others_share(run)) is not None]
    if shares and max(shares) > BUSY:
        yield f"{name}: other programs used {100 * max(shares):.0f} % of the processors"
    for task in dict.fromkeys(task for run in side for task in part(run, "tasks")):
        tasks = [part(part(run, "tasks"), task) for run in side]
        if any(number(at(facts, "rate.profiled")) for facts in tasks):
            yield f"{name}: steps of {task} were profiled, which makes them slower"
    devices = [run["devices"] for run in side if isinstance(run.get("devices"), list)]
    reasons = {reason for some in devices for one in some for reason in part(one, "throttled")}
    if reasons:
        yield f"{name}: its GPU was throttled ({', '.join(sorted(reasons))})"
