"""Finds what the sides of a comparison have in common, and reasons not to trust it."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from .facts import entries, number, others_share, part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .facts import Facts

    Pairs = list[tuple[int, int]]

#: Share of the processors that other programs may use without a warning.
MAX_OTHERS = 0.2
#: Options that slow a run down and should be the same on all sides.
_UNLIKE = {"trace": "traced", "verify": "run with --verify"}

_UNPAIRED = (
    "not paired with {}: a change of the machine between their runs looks like a difference; "
    "voir bench runs pairs"
)


class ComparedSide(NamedTuple):
    """One of the things compared.

    Attributes:
        name: ``A``, ``B``, ...
        runs: ``run.json`` of each of its runs; at least one.
        bench: The bench that made the runs; empty for none.
        rounds: The round of each run in that bench: runs of one round are pairs.
        control: It is the bench's reference once more.
        losses: For some of the runs, the losses of each task by step.
        notes: Reasons not to trust it.
    """

    name: str
    runs: Sequence[Facts]
    bench: str = ""
    rounds: Sequence[int] = ()
    control: bool = False
    losses: Sequence[Mapping[str, Mapping[int, float]]] = ()
    notes: Sequence[str] = ()


def shared_tasks(sides: Sequence[ComparedSide]) -> list[str]:
    """The tasks that all runs have."""
    every = [part(run, "tasks") for side in sides for run in side.runs]
    return [name for name in every[0] if all(part(tasks, name) for tasks in every)]


def pairs_of(reference: ComparedSide, side: ComparedSide) -> Pairs:
    """Pairs of runs of two sides, by their places; empty if they are not paired.

    Runs of one bench are paired by their rounds, other runs if they alternated.
    """
    if reference.bench != side.bench:
        return []
    if side.bench:
        places = {number: at for at, number in enumerate(reference.rounds)}
        return [(places[n], at) for at, n in enumerate(side.rounds) if n in places]
    return _in_turns(reference.runs, side.runs)


def _in_turns(before: Sequence[Facts], after: Sequence[Facts]) -> Pairs:
    """Pairs of runs that alternated: both runs of each pair began before the next pair."""
    if len(before) != len(after) or len(before) < 2 or not all(map(_started, (*before, *after))):
        return []
    orders = [sorted(range(len(s)), key=lambda at, s=s: _started(s[at])) for s in (before, after)]  # type: ignore[misc]
    pairs = [*zip(*orders, strict=True)]
    times = [sorted((_started(before[a]), _started(after[b]))) for a, b in pairs]
    return pairs if all(one[1] < later[0] for one, later in pairwise(times)) else []


def _started(run: Facts) -> str:
    return str(run.get("started") or "")  # UTC, in a form that sorts by time.


def doubts(sides: Sequence[ComparedSide], reference: int = 0) -> Iterator[str]:
    """Yield reasons not to trust a comparison.

    Args:
        sides: What is compared.
        reference: The place of the side that the others are compared with.
    """
    first, of_side = sides[reference], dict[str, list[str]]()
    for at, side in enumerate(sides):
        for said in (*side.notes, *_doubts(side.runs)):
            of_side.setdefault(said, []).append(side.name)
        many = len(first.runs) + len(side.runs) > 2
        if at != reference and many and not pairs_of(first, side):
            of_side.setdefault(_UNPAIRED.format(first.name), []).append(side.name)
    yield from (f"{', '.join(names)}: {said}" for said, names in of_side.items())
    for key, said in _UNLIKE.items():
        with_it = [side.name for side in sides if any(run.get(key) for run in side.runs)]
        if with_it and any(not run.get(key) for side in sides for run in side.runs):
            yield f"{', '.join(with_it)}: {said}, the others were not"
    worlds = {s.name: sorted({str(run.get("world_size", 1)) for run in s.runs}) for s in sides}
    if len({*map(tuple, worlds.values())}) > 1:
        counts = ", ".join(f"{'/'.join(found)} in {name}" for name, found in worlds.items())
        yield f"ranks: {counts}; rates are of whole jobs"
    shared = shared_tasks(sides)
    for task in shared:
        yield from _unlike_steps(task, sides)
    everywhere = {name for side in sides for run in side.runs for name in part(run, "tasks")}
    yield from (f"some runs have no task {name}" for name in sorted(everywhere - {*shared}))


def _unlike_steps(task: str, sides: Sequence[ComparedSide]) -> Iterator[str]:
    """What makes steps of one task hard to compare: their number, and their items."""
    tasks = {side.name: [part(run, "tasks", task) for run in side.runs] for side in sides}
    steps = [{number(of, "steps") for of in each} for each in tasks.values()]
    if any(each != steps[0] for each in steps):
        yield f"{task} made different numbers of steps: last losses are not comparable"
    sizes = {name: _items_per_step(each) for name, each in tasks.items()}
    known = [size for size in sizes.values() if size]
    if len(known) == len(sizes) and max(known) > 1.01 * min(known):
        counts = ", ".join(f"{size:,.4g} in {name}" for name, size in sizes.items())
        yield f"items per step of {task}: {counts}; times of steps are not comparable"


def _items_per_step(tasks: Sequence[Facts]) -> float:
    items, steps = (sum(number(of, key) or 0.0 for of in tasks) for key in ("items", "steps"))
    return items / steps if steps else 0.0


def _doubts(side: Sequence[Facts]) -> Iterator[str]:
    if any("ended" not in run for run in side):
        yield "did not finish"
    failed = [run["exit_status"] for run in side if run.get("exit_status") not in (0, None)]
    if failed:
        status = failed[0]
        signalled = isinstance(status, int) and status < 0
        yield f"ended with {f'signal {-status}' if signalled else f'exit status {status}'}"
    busiest = max((others_share(run) or 0.0 for run in side), default=0.0)
    if busiest > MAX_OTHERS:
        yield f"other programs used {100 * busiest:.0f} % of the processors"
    tasks = [(task, part(run, "tasks", task)) for run in side for task in part(run, "tasks")]
    for task in dict.fromkeys(task for task, facts in tasks if number(facts, "rate.profiled")):
        yield f"steps of {task} were profiled, which makes them slower"
    for task in dict.fromkeys(task for task, facts in tasks if number(facts, "loss.not_finite")):
        yield f"losses of {task} were NaN or infinite"
    devices = [device for run in side for device in entries(run, "devices")]
    reasons = {reason for device in devices for reason in part(device, "throttled")}
    if reasons:
        yield f"GPUs were throttled ({', '.join(sorted(reasons))})"
