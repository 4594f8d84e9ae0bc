"""What a run's figures say, in one verdict: what is wrong, why, and what to try next.

The facts are those of ``run.json``; what is absent there is not guessed. Verdicts about where
time goes compete by the share of the time that is lost; those about whether figures can be
trusted come in when no such loss is large. Thin evidence gives no verdict at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .parts import DISTURBED, Parts, as_parts, crowded, number, others_share, part, steps_alone

#: Fewer steps or seconds than these say nothing about a run.
FEWEST_STEPS, FEWEST_SECONDS = 12, 0.25
#: Shares of the time from which on they are worth a complaint.
LOADER, HOST, PAUSE, COMPUTE = 0.25, 0.35, 0.3, 0.75
#: Seconds of a step that may be mostly voir's own, or what lies between two pairs.
SHORT = 40e-6
#: A share of pauses that is worth a word: others are of the steps' time, and not of all.
WORTH = 0.01
#: A share that outweighs doubts about the figures.
LARGE = 0.5
#: How far from its limit a share must be for the next run to be on the same side, and how far when
#: other programs fill the processors: they slow down work, and not what sleeps.
NEAR, CROWDED = 0.02, 0.15
#: Forward and backward are mostly calls when they take less: seconds, and for each operation. Up to
#: so many times as much, they may be.
CALLING, CALL, PERHAPS = 50e-6, 15e-6, 2.5
#: A GPU busier than this is what limits a run; less busy than the second, it is kept waiting.
BUSY, IDLE = 0.85, 0.5
#: A GPU less busy than this is not used by the run.
IN_USE = 0.02
#: How much of the time clocks may be held down, by reason; a power cap is usual under full load.
HELD, CAPPED = 0.1, 0.5
#: A call that waits for a CPU is worth a word when it takes so much of the steps' time.
DEAR = 0.05
#: How much other programs that use the processors make steps vary.
WIDE = 1.5


class Diagnosis(NamedTuple):
    """One verdict.

    Attributes:
        verdict: One of ``loader-bound``, ``compute-bound``, ``host-bound``, ``pause-heavy``,
            ``memory growing``, ``throttled``, ``never steady``, ``nothing to complain of``.
        why: The figure it rests on.
        next: What to try; None when there is nothing to be done.
    """

    verdict: str
    why: str
    next: str | None = None

    def as_facts(self) -> dict[str, str]:
        """The ``diagnosis`` of ``run.json``."""
        return {key: value for key, value in self._asdict().items() if value is not None}


class _Loss(NamedTuple):
    """A verdict, and the share of the run's time that it is about."""

    share: float
    diagnosis: Diagnosis


def diagnose(run: Mapping[str, Any]) -> Diagnosis | None:
    """The verdict on a run; None when the evidence is thin.

    Args:
        run: What ``run.json`` holds: ``tasks``, ``host``, ``devices``, ``seconds``.
    """
    found = main_task(run)
    if found is None:
        return None
    parts = as_parts(found)
    if parts is None or parts.steps < FEWEST_STEPS or parts.seconds < SHORT * parts.steps:
        return _without_parts(run, found)
    if _settled(found, parts) < FEWEST_SECONDS:
        return _pauses(parts) if _mostly_pauses(parts) else _unsettled(run, found)
    slack = _slack(run)
    doubts = [*_memory(run, found, parts), *_throttled(run)]
    matter = _worst(_losses(run, parts, slack), doubts)
    if matter is not None:
        return matter
    unsteady = _never_steady(run, found)
    if unsteady is not None or any(_losses(run, parts, -slack)):
        return unsteady  # Or nothing, for the next run might say otherwise.
    compute = _compute(run, parts, slack)
    wavers = part(found, "steady").get("verdict") == "never steady"  # By the others, perhaps.
    return compute or (None if wavers or _compute(run, parts, -slack) else _nothing(parts))


def _worst(losses: Iterator[_Loss], doubts: list[Diagnosis]) -> Diagnosis | None:
    """What matters most, with all else that does behind it; None when nothing does."""
    ranked = sorted(losses, key=lambda loss: loss.share, reverse=True)
    lost = [loss.diagnosis for loss in ranked]
    if ranked and (not doubts or _outweighs(ranked[0])):
        return _also(lost[0], [*doubts, *lost[1:]])
    return _also(doubts[0], [*doubts[1:], *lost]) if doubts else None


def _outweighs(lost: _Loss) -> bool:
    """Whether a loss matters more than doubts; of the host's time nobody can say if it is lost."""
    return lost.share >= LARGE and lost.diagnosis.verdict != "host-bound"


def _slack(run: Mapping[str, Any]) -> float:
    """By how much shares must exceed their limits."""
    return CROWDED if crowded(run) else NEAR


def _settled(task: Mapping[str, Any], parts: Parts) -> float:
    """The seconds of steps that are typical: without a steady state the first one is among them."""
    steady = part(task, "steady").get("verdict") == "steady"
    return parts.seconds - (0.0 if steady else number(task.get("first_step_seconds")) or 0.0)


def _mostly_pauses(parts: Parts) -> bool:
    """Whether pauses are the run, however short its steps are."""
    return parts.pause >= LARGE and parts.pause * parts.wall >= 2 * FEWEST_SECONDS


def main_task(run: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The task that a run is about: ``train`` if it has steps, else the one with the most."""
    tasks = {name: part(part(run, "tasks"), name) for name in part(run, "tasks")}
    stepped = {name: task for name, task in tasks.items() if number(task.get("steps"))}
    if not stepped:
        return None
    return stepped.get("train") or max(stepped.values(), key=lambda t: number(t["steps"]) or 0)


# Where time goes


def _losses(run: Mapping[str, Any], parts: Parts, slack: float) -> Iterator[_Loss]:
    """What costs time, by shares that exceed their limits by ``slack``."""
    stepping, busy = 1 - parts.pause, _device_busy(run, parts)
    waits = (parts.loading or 0.0) >= LOADER + slack
    if waits:
        yield _Loss((parts.loading or 0.0) * stepping, _loader(run, parts))
    yield from _paused(parts, slack)
    if parts.other is not None and parts.other >= HOST + slack:
        # What is no call of the model's may be a wait for the device that works.
        if (busy is None and not parts.device) or (busy is not None and busy < BUSY - slack):
            yield _Loss(parts.other * stepping, _host(run, parts))
    elif not waits and busy is not None and busy < IDLE - slack:
        yield _Loss((1 - busy) * stepping, _kept_waiting(run, busy))
    if _calls(run, parts, slack):
        yield _Loss((parts.work or 0.0) / 2 * stepping, _calling(parts))


def _paused(parts: Parts, slack: float) -> Iterator[_Loss]:
    if parts.pause >= PAUSE + slack:
        yield _Loss(parts.pause, _pauses(parts))


def _calls(run: Mapping[str, Any], parts: Parts, slack: float) -> bool:
    """Whether operations are so short that calling them is most of what they take."""
    if not parts.operations or not parts.operating or _used(run):
        return False
    limit = CALLING + CALL * parts.operations
    return parts.operating <= (limit if slack > 0 else PERHAPS * limit)


def _loader(run: Mapping[str, Any], parts: Parts) -> Diagnosis:
    share = parts.loading or 0.0
    each = f", {_time(share * parts.seconds / parts.steps)} a step" if parts.steps else ""
    of = "the steps' time" if parts.pause >= WORTH else "the time"
    why = f"{_percent(share)} of {of} waits for batches{each}"
    cpu = part(part(run, "host"), "cpu")
    cores, load = number(cpu.get("cores")), number(cpu.get("mean"))
    if load is not None and load >= 90 and (others_share(run) or 0.0) < DISTURBED:
        return Diagnosis(
            "loader-bound", why, "do less for each item, or once ahead: the processors are full"
        )
    workers = f"num_workers up to {max(1, int(cores) - 1)}" if cores else "a higher num_workers"
    then = f"load ahead ({workers} in a DataLoader), or less work per item"
    return Diagnosis("loader-bound", why, then)


def _pauses(parts: Parts) -> Diagnosis:
    times = "1 pause" if parts.pauses == 1 else f"{parts.pauses:,} pauses"
    why = f"{_percent(parts.pause)} of the time is in {times} between steps"
    return Diagnosis(
        "pause-heavy", why, "evaluate, save or log less often, or in a process of its own"
    )


def _host(run: Mapping[str, Any], parts: Parts) -> Diagnosis:
    share = parts.other or 0.0
    each = _time(share * parts.seconds / parts.steps)
    why = f"{_percent(share)} of a step, {each}, is Python around the model"
    if parts.loading is None and not run.get("syncs"):
        why += ", or makes batches"
        return Diagnosis(
            "host-bound", why, "voir init tells which; load ahead, or read tensors rarely"
        )
    return Diagnosis("host-bound", why, _less_waiting(run))


def _calling(parts: Parts) -> Diagnosis:
    count = parts.operations or 1
    each = _time(parts.operating / count)
    why = f"{count:,.0f} operations a step, {each} each: most of it is calling them"
    return Diagnosis(
        "host-bound", why, "larger batches, torch.compile, fewer and larger operations"
    )


def _kept_waiting(run: Mapping[str, Any], busy: float) -> Diagnosis:
    why = f"the GPU is busy {_percent(busy)} of the time, batches are there"
    return Diagnosis("host-bound", why, _less_waiting(run))


def _less_waiting(run: Mapping[str, Any]) -> str:
    """What to try where the host is the limit: the calls that wait, where they were counted."""
    found = run.get("syncs")
    if not isinstance(found, list):
        return "less .item(), print, logging each step: voir --verify names them"
    dear = [s for s in found if s.get("device") != "cpu" or (number(s.get("share")) or 0) > DEAR]
    if not dear:
        return "larger batches, torch.compile, less Python: see voir --profile"
    first, more = dear[0], len(dear) - 1
    also = f" and {more} more" if more else ""
    each = number(first.get("each")) or 1
    often = f"{each:,.0f}" if each >= 10 else f"{each:.2g}"
    return f"{first['call']} at {first['where']}, {often} a step{also}: read tensors rarely"


def _device_busy(run: Mapping[str, Any], parts: Parts) -> float | None:
    """How busy the GPUs in use were, when steps fill enough of the run for its mean to tell."""
    seconds = number(run.get("seconds"))
    if not seconds or parts.seconds < 0.6 * seconds or parts.seconds < 3:
        return None
    devices = _devices(run)
    means = [number(part(device, "utilisation").get("mean")) for device in devices]
    return max((mean for mean in means if mean), default=None)


# Whether the figures hold


def _memory(run: Mapping[str, Any], task: Mapping[str, Any], parts: Parts) -> Iterator[Diagnosis]:
    pace = _pace(task, parts)
    growth = part(part(part(run, "host"), "memory"), "process")
    yield from _growing("the script", part(growth, "growth"), pace)
    for device in _used(run):
        yield from _growing("the GPU's memory", part(part(device, "memory"), "growth"), pace)


def _pace(task: Mapping[str, Any], parts: Parts) -> float:
    """The steps a second behind the first one, pauses included, which is when growth is looked for.

    All of them: those that are judged may be fewer.
    """
    first = number(task.get("first_step_seconds"))
    steps, seconds = number(task.get("steps")) or 0.0, parts.wall - (first or 0.0)
    return (steps - (first is not None)) / seconds if seconds > 0 else 0.0


def _growing(what: str, growth: Mapping[str, Any], pace: float) -> Iterator[Diagnosis]:
    grown, seconds = number(growth.get("bytes")), number(growth.get("seconds"))
    if not grown or not seconds:
        return
    steps = pace * seconds
    each = f", {_bytes(grown / steps)} a step" if steps >= 1 else ""
    why = f"{what} grew by {_bytes(grown)} in {_time(seconds)}{each}"
    advice = "look for what is kept each step: a list of losses keeps their graphs"
    yield Diagnosis("memory growing", why, advice)


def _throttled(run: Mapping[str, Any]) -> Iterator[Diagnosis]:
    held = [
        (share, str(reason), device)
        for device in _used(run)
        for reason, value in part(device, "throttled").items()
        if (share := number(value)) and share >= (CAPPED if reason == "power cap" else HELD)
    ]
    if held:
        share, reason, device = max(held, key=lambda each: each[0])
        which = device.get("index", 0)
        why = f"gpu {which} was held back {_percent(share)} of the time: {reason}"
        advice = "mind cooling and power limit; do not compare this run's rates"
        yield Diagnosis("throttled", why, advice)


def _never_steady(run: Mapping[str, Any], task: Mapping[str, Any]) -> Diagnosis | None:
    rate = part(task, "rate")
    if part(task, "steady").get("verdict") != "never steady":
        return None
    q1, q3, n = (number(rate.get(key)) for key in ("q1", "q3", "n"))
    units = str(task.get("units") or "items").removesuffix("/s")
    why = f"{n or 0:,.0f} steps, and no level that they keep"
    if q1 and q3:
        why = f"half of {n or 0:,.0f} steps between {q1:,.0f} and {q3:,.0f} {units}/s"
    others = others_share(run)
    if others is not None and others >= DISTURBED:
        if q1 and q3 and q3 < WIDE * q1:
            return None  # The others do that much to any program.
        advice = f"a quieter machine: other programs use {_percent(others)} of the processors"
    else:
        advice = "run longer, or find what varies: batch shapes, data, logging"
    return Diagnosis("never steady", why, advice)


# Nothing wrong


def _compute(run: Mapping[str, Any], parts: Parts, slack: float) -> Diagnosis | None:
    busy = _device_busy(run, parts)
    devices = _devices(run)
    if busy is not None and busy >= BUSY + math.copysign(NEAR, slack):
        why = f"the GPU is busy {_percent(busy)} of the time"
    elif parts.work is not None and parts.work >= COMPUTE + slack:
        why = f"{parts.named_work()} of a step"
    else:
        return None
    if devices and not _used(run):
        return Diagnosis(
            "compute-bound", why, 'the GPU, which is idle: model.to("cuda"), and each batch'
        )
    device = "bfloat16, torch.compile" if devices else "a GPU, bfloat16, torch.compile"
    return Diagnosis("compute-bound", why, f"{device}, a leaner model: the rest is small")


def _nothing(parts: Parts) -> Diagnosis:
    known = [
        f"loading {_percent(parts.loading)}" if parts.loading is not None else "",
        f"pauses {_percent(parts.pause)}" if parts.pause else "",
    ]
    said = [text for text in known if text]
    why = f"{', '.join(said)} of the time" if said else "steps take their time, and no more"
    return Diagnosis("nothing to complain of", why)


def _without_parts(run: Mapping[str, Any], task: Mapping[str, Any]) -> Diagnosis | None:
    """For a task whose steps were seen, but not what they consist of: pauses and memory show."""
    alone, matter = steps_alone(task), None
    if alone is not None and alone.steps >= FEWEST_STEPS and alone.seconds >= FEWEST_SECONDS:
        matter = _worst(_paused(alone, _slack(run)), [*_memory(run, task, alone)])
    return matter or _unsettled(run, task)


def _unsettled(run: Mapping[str, Any], task: Mapping[str, Any]) -> Diagnosis | None:
    """Whether enough steps take no settled time, which is all that is asked of them."""
    steps = number(part(task, "rate").get("n")) or 0
    return _never_steady(run, task) if steps >= FEWEST_STEPS else None


def _also(chosen: Diagnosis, others: list[Diagnosis]) -> Diagnosis:
    """The verdict, with what else is the matter at the end of its reason."""
    names = [d.verdict for d in others if d.verdict != chosen.verdict]
    extra = "; also " + ", ".join(dict.fromkeys(names)) if names else ""
    return chosen._replace(why=chosen.why + extra)


def _devices(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = run.get("devices")
    return [d for d in found if isinstance(d, Mapping)] if isinstance(found, list) else []


def _used(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The devices that were not idle all the time; what is the matter with others is no matter."""
    busy = [(device, number(part(device, "utilisation").get("mean"))) for device in _devices(run)]
    return [device for device, mean in busy if mean is None or mean >= IN_USE]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else "under 1 %"


def _time(seconds: float) -> str:
    if seconds < 1e-4:
        return f"{1e6 * seconds:.0f} us"
    if seconds < 1:
        return f"{1000 * seconds:.2g} ms" if seconds < 0.1 else f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"


def _bytes(count: float) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if count >= size:
            return (
                f"{count / size:.1f} {unit}" if count < 10 * size else f"{count / size:.0f} {unit}"
            )
    return f"{count / 1024:.0f} KiB"
