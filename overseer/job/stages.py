"""A pipeline's figures: the time of each stage, the imbalance, and the bubble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from ..model.facts import duration, number, part
from ..model.messages import FIRST_STAGE, LAST_STAGE, MIDDLE_STAGE
from ..rundir.reading import Run
from .straggler import RankSteps, Straggler, find_straggler

#: Schedules in which ranks are idle for as long as R - 1 micro-batches take one of their stages.
FILLS_AND_DRAINS = ("GPipe", "1F1B", "LoopedBFS", "Interleaved1F1B")
#: The parts of a step that are a stage's work if its passes are not timed.
_PASSES = ("forward", "backward")


class _Rank(NamedTuple):
    """A rank's part of a pipeline: seconds in a run of the schedule, by stage and pass."""

    rank: int
    own: Mapping[int, Mapping[str, float]]
    seconds: float
    facts: Mapping[str, Any]

    @property
    def busy(self) -> float:
        return sum(sum(passes.values()) for passes in self.own.values())


def pipeline_of(members: Sequence[Run], task: str) -> dict[str, Any] | None:
    """The ``pipeline`` of a task of a job; None if its processes run no stages.

    Stages that several ranks run, each for other batches, have the mean of their times.

    Args:
        members: The processes of the job.
        task: The task.

    Returns:
        ``schedule``, ``by`` (what tells), ``stages`` (number), ``ranks`` (number of those that
        share the stages), ``micro_batches``, ``batch`` (items of one), ``accumulated`` (runs of the
        schedule in a step), ``items`` of a step of one pipeline, ``seconds`` of a run, ``each``
        stage (``stage``, ``ranks``, ``seconds``, ``forward``), and, if the times of all stages are
        known: ``slowest`` (``stages``, ``ranks`` and ``why`` of the longest part), ``imbalance``
        (the longest part over the mean), ``bubble`` (the share of the ranks' time in a run that is
        idle), ``ideal`` (the same with equal stages and free messages), ``gain`` (by how much a run
        would be faster with equal stages), ``ramp_up`` (seconds until the first micro-batch
        reaches the last stage).
    """
    told = _told(members)
    known = [_rank(m, of, part(m.facts, "tasks", task)) for m, of in told if m.facts.get("tasks")]
    if not known:
        return None
    facts, tasks = known[0].facts, [part(m.facts, "tasks", task) for m in members]
    stages, several = int(facts["stages"]), int(number(facts, "micro_batches") or 0)
    runs = max((number(one.facts, "runs") or 0.0 for one in known), default=0.0)
    steps = max((number(each, "steps") or 0.0 for each in tasks), default=0.0)
    first = min(known, key=lambda one: min(one.own, default=stages))
    batch = int(number(first.facts, "batch") or 0)
    accumulated = max(1, round(runs / steps)) if runs and steps else None
    made = {
        "schedule": facts.get("schedule"),
        "by": facts.get("by"),
        "stages": stages,
        "micro_batches": several or None,
        "batch": batch or None,
        "accumulated": accumulated,
        "items": batch * several * accumulated if batch and several and accumulated else None,
        **_times(known, stages, several, facts.get("schedule")),
    }
    return {key: value for key, value in made.items() if value is not None}


def _told(members: Sequence[Run]) -> list[tuple[Run, Mapping[str, Any]]]:
    """The processes that run stages, and their ``pipeline``.

    Of stages that are known by messages, the ranks have them in order.
    """
    told = [(m, of) for m in members if (of := part(m.facts, "pipeline"))]
    if not told or any(of.get("by") != "messages" for _, of in told):
        return [(m, of) for m, of in told if isinstance(of.get("stages"), int)]
    stages = next((n for n, (_, of) in enumerate(told, 1) if of.get("place") == LAST_STAGE), 0)
    one = [FIRST_STAGE, *[MIDDLE_STAGE] * (stages - 2), LAST_STAGE]
    sent = [
        (number(of, "messages") or 0) / (2 if of.get("place") == MIDDLE_STAGE else 1)
        for _, of in told
    ]
    several = [number(of, "micro_batches") for _, of in told]
    places = [of.get("place") for _, of in told]
    if (
        stages < 2
        or len({*zip(several, sent, strict=True)}) > 1
        or places != one * (len(told) // stages)
    ):
        return []
    order = "GPipe" if told[stages - 1][1].get("forward_first") else "1F1B"
    more = {"stages": stages, "schedule": order}
    return [(m, {**of, **more, "stage": at % stages}) for at, (m, of) in enumerate(told)]


def _rank(member: Run, facts: Mapping[str, Any], task: Mapping[str, Any]) -> _Rank:
    """A rank's part; unless its passes are timed, with the parts of a typical step."""
    own = {
        int(stage): {name: number(passes, name) or 0.0 for name in passes}
        for stage, passes in part(facts, "own").items()
        if stage.isdecimal() and isinstance(passes, Mapping)
    }
    seconds = number(facts, "seconds") or 0.0
    if not own and isinstance(facts.get("stage"), int):
        steps = number(task, "rate.n") or 1.0
        split = {name: (number(task, f"breakdown.{name}") or 0.0) / steps for name in _PASSES}
        own, seconds = {facts["stage"]: split}, number(task, "step_seconds.median") or 0.0
    return _Rank(member.rank, own, seconds, facts)


def places_of(members: Sequence[Run]) -> dict[tuple[str, ...], list[int]]:
    """The ranks by the stages that they run."""
    found: dict[tuple[str, ...], list[int]] = {}
    for member, facts in _told(members):
        stages = tuple(part(facts, "own")) or (str(facts.get("stage")),)
        found.setdefault(stages, []).append(member.rank)
    return found


def batches_of(members: Sequence[Run]) -> dict[int, int] | None:
    """The batch that each process sees, by their order, if messages tell that all run stages."""
    told = _told(members)
    if not told or len(told) < len(members) or any(of.get("by") != "messages" for _, of in told):
        return None
    return {at: at // of["stages"] for at, (_, of) in enumerate(told)}


def straggler_in(
    places: Mapping[tuple[str, ...], list[int]], steps: Sequence[RankSteps]
) -> Straggler | None:
    """The worst straggler among ranks that run the same stages.

    Args:
        places: As of :func:`places_of`.
        steps: The steps of all ranks.
    """
    alike = [[one for one in steps if one.rank in ranks] for ranks in places.values()]
    found = [find_straggler(those) for those in alike if len(those) > 1]
    return max((one for one in found if one), key=lambda one: one.late * one.steps, default=None)


def _times(known: Sequence[_Rank], stages: int, several: int, schedule: object) -> dict[str, Any]:
    """What follows from the times of stages."""
    places: dict[tuple[int, ...], list[_Rank]] = {}
    each: dict[int, list[tuple[int, Mapping[str, float]]]] = {}
    for one in known:
        places.setdefault(tuple(sorted(one.own)), []).append(one)
        for stage, passes in one.own.items():
            each.setdefault(stage, []).append((one.rank, passes))
    made: dict[str, Any] = {
        "ranks": len(places),
        "seconds": (whole := max(one.seconds for one in known)) or None,
        "each": [
            {
                "stage": stage,
                "ranks": [rank for rank, _ in those],
                "seconds": fmean(sum(passes.values()) for _, passes in those),
                "forward": fmean(passes.get("forward", 0.0) for _, passes in those),
            }
            for stage, those in sorted(each.items())
        ],
    }
    if len(each) != stages or [*sorted(each)] != [*range(len(each))] or not each or whole <= 0:
        return made
    busy = {place: fmean(one.busy for one in those) for place, those in places.items()}
    slowest, mean = max(busy, key=lambda place: busy[place]), fmean(busy.values())
    ranks = len(busy)
    those = [one.rank for one in places[slowest]]
    why = _sets_the_step(slowest, those, busy[slowest], mean)
    made["slowest"] = {"stages": [*slowest], "ranks": those, "why": why}
    made["imbalance"] = busy[slowest] / mean if mean else None
    made["bubble"] = max(0.0, 1 - mean / whole)
    if several:
        least = (ranks - 1) / (several * stages / ranks + ranks - 1)
        if schedule in FILLS_AND_DRAINS:
            made["ideal"] = least
        each_takes = [stage["seconds"] / several for stage in made["each"]]
        # The first micro-batch passes the stages before a rank, and comes back after its work; with
        # GPipe it passes those after it, too, while that rank has no work.
        through = sum(each_takes) if schedule == "GPipe" and ranks == stages else 0.0
        longest = max(
            max(sum(each_takes[: min(place)]), through - each_takes[place[0]]) + work
            for place, work in busy.items()
        )
        saved = max(0.0, longest - mean / (1 - least))
        made["gain"] = saved / (whole - saved) if whole > saved else None
        made["ramp_up"] = sum(stage["forward"] for stage in made["each"][:-1]) / several
    return made


def _sets_the_step(stages: Sequence[int], ranks: Sequence[int], own: float, mean: float) -> str:
    one, many = len(stages) == 1, len(ranks) > 1
    named = f"stage{'' if one else 's'} {', '.join(map(str, stages))}"
    more = f" and {len(ranks) - 8} more" if len(ranks) > 8 else ""
    where = f"rank{'s' if many else ''} {', '.join(map(str, ranks[:8]))}{more}"
    works = f"{duration(own)} of work a run, the mean {duration(mean)}"
    return f"{named} ({where}) set{'s' if one else ''} the step: {works}"
