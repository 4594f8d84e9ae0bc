"""The verdict on a job: the rank that it waits for, or its communication."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model.diagnosis import MIN_DIAGNOSED_SECONDS, Diagnosis
from ..model.facts import duration, entries, main_task, number, part, percent
from ..recorder.sites import PARTS
from ..views.job import divergence_text, doing_text, kind_of_job
from .straggler import CONSTANT, ONE_OFF, RECURRING, ROTATING

#: The share of a job's time that a straggler costs, and the share of the ranks' steps that is
#: waiting for others, from which they are the verdict.
COSTS, COMMUNICATES = 0.05, 0.25
#: Groups of ranks that a verdict names.
_SHOWN = 3
#: What to look at, by the part in which a straggler loses its time.
_LOOK = {
    "loading": "its data: local disk, workers, larger items than the others have",
    "forward": "its device and its inputs: clocks, other programs, longer sequences",
    "backward": "its device and its hooks: clocks, other programs, work in backward hooks",
    "optimizer": "its share of the parameters, and its host's memory",
    "other": "Python code that only this rank runs: logging, checkpoints, metrics",
    "pause": "what only this rank does between steps, as evaluation and checkpoints: do it less",
}
#: The parts, as subjects of a sentence.
_NAMED = {
    **{name: f"{name} takes" for name in PARTS},
    "other": "other code takes",
    "pause": "pauses take",
}


def verdict(facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """The ``diagnosis`` of a job whose ranks wait for each other; None: judge it as a run.

    Args:
        facts: Those of the job, as :func:`~overseer.job.figures.job_facts` makes them.
    """
    if hangs := _hang(facts):
        return hangs
    if parted := part(facts, "job", "divergence"):
        why = divergence_text(parted, kind_of_job(facts))
        return Diagnosis("ranks diverge", why, "what this line depends on: data, ranks").as_facts()
    task = main_task(facts) or {}
    found = part(task, "straggler")
    cost = number(found, "gain") or 0.0
    if found.get("kind") in (CONSTANT, RECURRING) and cost >= COSTS:
        return Diagnosis("straggler", str(found.get("why")), _next(found)).as_facts()
    steps, step = number(task, "rate.n") or 0.0, number(task, "step_seconds.median") or 0.0
    if piped := part(task, "pipeline"):
        return _pipeline(piped) if steps * step >= MIN_DIAGNOSED_SECONDS else None
    together, mean = number(task, "ranks.waiting.together") or 0.0, _mean_waiting(task)
    if mean < COMMUNICATES or steps * step < MIN_DIAGNOSED_SECONDS:
        return None
    if together >= COMMUNICATES:
        each = duration(together * step)
        why = f"all ranks wait at once in {percent(together)} of the time, {each} a step"
        then = "larger batches per rank, gradient accumulation, a faster network between ranks"
        return Diagnosis("communication-bound", why, then).as_facts()
    why = f"ranks wait {percent(mean)} of their steps for the last one"
    if found.get("kind") == ROTATING:
        why += ", another each time"
    then = "what varies from step to step: sizes of batches, loading, other programs"
    return Diagnosis("waiting for other ranks", why, then).as_facts()


def _hang(facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """The verdict on ranks that make no step any more."""
    idle = part(facts, "job", "idle")
    doing = entries(idle, "doing")
    if not doing:
        return None
    kind = kind_of_job(facts)
    before = " before the end" if idle.get("ended") else ""
    why = f"no step for {duration(number(idle, 'seconds'))}{before}: "
    why += "; ".join(doing_text(each, kind) for each in doing[:_SHOWN])
    if parted := part(facts, "job", "divergence"):
        why = f"{divergence_text(parted, kind)}; {why}"
    then = "stacks.txt of each rank has the stacks of all threads"
    return Diagnosis("hang", why, then).as_facts()


def _pipeline(of: Mapping[str, Any]) -> dict[str, Any] | None:
    """The verdict on a pipeline: its longest stage, or its idle time."""
    bubble, ideal = number(of, "bubble") or 0.0, number(of, "ideal")
    gain = number(of, "gain") or 0.0
    if gain >= COSTS:
        each = sorted(entries(of, "each"), key=lambda one: number(one, "seconds") or 0.0)
        sets = part(of, "slowest").get("why")
        why = f"{sets}; with equal stages a run would be {percent(gain)} faster"
        then = f"move layers out of stage {each[-1]['stage']}, for example to stage "
        return Diagnosis("pipeline imbalance", why, f"{then}{each[0]['stage']}").as_facts()
    if bubble < COMMUNICATES:
        return None
    several, stages = number(of, "micro_batches") or 0.0, number(of, "stages") or 0.0
    why = f"{percent(bubble)} of the ranks' time is idle"
    if ideal is None:
        then = "more micro-batches, or a schedule that overlaps more"
    elif bubble > 2 * ideal:
        why += f", {percent(ideal)} if messages took no time"
        then = "messages between stages: their size, the network; larger micro-batches"
    else:
        ranks = number(of, "ranks") or 1.0
        least = (ranks - 1) / (2 * several * stages / ranks + ranks - 1)
        why += f", as {several:.0f} micro-batches for {ranks:.0f} ranks make it"
        then = f"more micro-batches: with {2 * several:.0f} at best {percent(least)}"
    return Diagnosis("pipeline bubble", why, then).as_facts()


def _mean_waiting(task: Mapping[str, Any]) -> float:
    """The mean share of the ranks' steps that is waiting."""
    parts = [number(task, f"breakdown.{name}") or 0.0 for name in PARTS]
    return (number(task, "breakdown.communication") or 0.0) / (sum(parts) or 1.0)


def _next(found: Mapping[str, Any]) -> str:
    ranks = found.get("ranks")
    if isinstance(ranks, list) and len(ranks) > 1:
        return "what these ranks have in common: host, switch, data"
    return f"rank {found.get('rank')}: {_LOOK.get(str(found.get('part')), _LOOK['other'])}"


def described(found: Mapping[str, Any], kind: str = "rank") -> str:
    """A straggler in a sentence, with what it costs the job.

    Args:
        found: The ``straggler`` of a task.
        kind: ``rank`` or ``process``.
    """
    gain = number(found, "gain") or 0.0
    faster = f"{percent(gain)} faster" if gain < 1 else f"{1 + gain:.1f} times as fast"
    cost = f"; like the others, the job would be {faster}" if gain else ""
    return f"{_described(found, kind)}{cost}"


def _described(found: Mapping[str, Any], of: str) -> str:
    late, own = duration(number(found, "late")), duration(number(found, "own"))
    others, part_of = duration(number(found, "others")), found.get("part")
    steps, first, rank = found.get("steps"), found.get("first"), f"{of} {found.get('rank')}"
    kind, period = found.get("kind"), found.get("period")
    does = _NAMED.get(str(part_of), _NAMED["other"])
    takes = f"its {does} {own} of its own, the others' {others}"
    if kind == CONSTANT:
        during = f"{steps} steps from step {first} on" if first else "all steps"
        if found.get("gain") is not None:  # Otherwise no rank waits.
            share = percent(number(found, "last"))
            during = f"{share} of {during.removeprefix('all ')}"
        last = "arrives last in" if found.get("gain") is not None else "is slow in"
        return f"{rank} {last} {during}, {late} late: {takes}{_also(found)}"
    if kind == RECURRING:
        when = f"every {_th(period)} step" if period else f"in {steps} of {found['examined']} steps"
        return f"{rank} is {late} late {when}: {takes}"
    if kind == ONE_OFF:
        where = f"in step {first}" if steps == 1 else f"in {steps} steps from step {first} on"
        return f"{rank} is {late} late {where}: {takes}"
    return f"another {of} each time is {late} late, in {steps} steps: no straggler"


def _also(found: Mapping[str, Any]) -> str:
    ranks = found.get("ranks")
    if not isinstance(ranks, list) or len(ranks) < 2:
        return ""
    more = f" and {len(ranks) - 9} more" if len(ranks) > 9 else ""
    return f" (also {', '.join(map(str, ranks[1:9]))}{more})"


def _th(number: object) -> str:
    """An ordinal."""
    text = str(number)
    ends = {"1": "st", "2": "nd", "3": "rd"}
    return text + ("th" if text[-2:-1] == "1" else ends.get(text[-1], "th"))
