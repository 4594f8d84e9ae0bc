"""What a task's time consists of, from its entry in ``run.json``: the facts of a diagnosis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from .device import HostDevice

#: The parts of a step, in the order in which they come.
PARTS = ("loading", "transfer", "forward", "backward", "optimizer", "other")
WORK = ("forward", "backward", "optimizer")
#: Where no module's forward was seen, what is beside the work may be one: it is up to so many times
#: as long as ``backward``.
AS_LONG = 3
#: Other programs' part of the processors from which on they disturb, and how full those are then
#: that a program is kept waiting.
DISTURBED, FULL = 0.25, 0.75


class Parts(NamedTuple):
    """A task's time.

    Attributes:
        steps: How many steps the shares are of.
        seconds: What those steps took.
        wall: From the first step to the last, pauses included.
        loading: The share of the steps spent waiting for batches; None when not seen.
        other: The share spent beside loading, transfer, model and optimizer; None when not seen.
        work: The share of model and optimizer; None when not seen.
        each: The share of each part of :data:`WORK`.
        pause: The share of pauses in ``wall``.
        pauses: How many there were.
        operations: How many operations a step consists of; None when they were not counted.
        operating: The seconds of a quick step that forward and backward take.
        device: The steps are timed by a device's clock, the parts beside loading by the host's.
    """

    steps: float
    seconds: float
    wall: float
    loading: float | None
    other: float | None
    work: float | None
    each: Mapping[str, float]
    pause: float
    pauses: int
    operations: float | None = None
    operating: float = 0.0
    device: bool = False

    def named_work(self) -> str:
        """The parts of the work: ``forward 31 %, backward 55 %, optimizer 4 %``."""
        known = (f"{name} {100 * share:.0f} %" for name, share in self.each.items() if share)
        return ", ".join(known)


def as_parts(task: Mapping[str, Any]) -> Parts | None:
    """What a task's time consists of; None when nothing but its steps is known."""
    rate, pause = part(task, "rate"), part(task, "pause")
    loading, compute = (number(part(task, key).get("seconds")) for key in ("loading", "compute"))
    shown = breakdown(task)
    whole = sum(_broken_down(task).values())
    measured = (loading or 0) + (compute or 0)
    seconds = measured or whole
    if seconds <= 0:
        return None
    steps = number(rate.get("n")) or number(task.get("steps")) or 0
    if not measured:  # Then they are all that is known, and may be fewer.
        steps = number(part(task, "breakdown").get("steps")) or steps
    waited = loading / seconds if loading is not None and compute is not None else None
    each = {name: shown[name] for name in WORK if name in shown}
    wall = _wall(task) or seconds
    paused = number(pause.get("seconds")) or 0.0
    # A quick one of many: what else the machine does comes on top of that.
    quick = number(part(task, "step_seconds").get("q1")) or (seconds / steps if steps else 0.0)
    return Parts(
        steps=steps,
        seconds=seconds,
        wall=wall,
        loading=waited if waited is not None else shown.get("loading"),
        other=_beside(shown),
        work=sum(each.values()) if each else None,
        each=each,
        pause=min(1.0, max(0.0, paused / max(wall, paused))) if paused else 0.0,
        pauses=int(number(pause.get("count")) or 0),
        operations=number(part(task, "breakdown").get("operations")),
        operating=quick * (shown.get("forward", 0.0) + shown.get("backward", 0.0)),
        device=rate.get("clock", HostDevice.name) != HostDevice.name,
    )


def steps_alone(task: Mapping[str, Any]) -> Parts | None:
    """A task's time by its steps and pauses, whatever steps consist of; None when not known.

    The steps are those behind the first one, which may be most of a short run.
    """
    wall = _wall(task)
    if wall is None:
        return None
    paused = min(wall, max(0.0, number(part(task, "pause").get("seconds")) or 0.0))
    return Parts(
        steps=number(part(task, "rate").get("n")) or 0,
        seconds=wall - paused - (number(task.get("first_step_seconds")) or 0.0),
        wall=wall,
        loading=None,
        other=None,
        work=None,
        each={},
        pause=paused / wall if wall > 0 else 0.0,
        pauses=int(number(part(task, "pause").get("count")) or 0),
    )


def breakdown(task: Mapping[str, Any]) -> dict[str, float]:
    """The share of each part of a step that is known; empty when none is."""
    seconds = _broken_down(task)
    whole = sum(seconds.values())
    return {name: value / whole for name, value in seconds.items()} if whole > 0 else {}


def _beside(shown: Mapping[str, float]) -> float | None:
    """The share beside loading and work; None where a forward that was not seen may be in it."""
    other, backward = shown.get("other"), shown.get("backward", 0.0)
    unseen = other is not None and backward and "forward" not in shown
    return None if unseen and (other or 0.0) <= AS_LONG * backward else other


def _broken_down(task: Mapping[str, Any]) -> dict[str, float]:
    """The seconds of each part of a step that is known."""
    shown = part(task, "breakdown")
    known = {name: number(shown.get(name)) for name in PARTS}
    return {name: max(0.0, value) for name, value in known.items() if value is not None}


def crowded(run: Mapping[str, Any]) -> bool:
    """Whether other programs kept this one from the processors: then no share is what it was."""
    whole = number(part(part(run, "host"), "cpu").get("mean"))
    others = others_share(run)
    return others is not None and others >= DISTURBED and (whole or 0.0) >= 100 * FULL


def others_share(run: Mapping[str, Any]) -> float | None:
    """How much of the processors other programs used; None when that was not watched."""
    cpu = part(part(run, "host"), "cpu")
    whole, own = number(cpu.get("mean")), number(part(cpu, "process").get("mean"))
    return max(0.0, whole - own) / 100 if whole is not None and own is not None else None


def _wall(task: Mapping[str, Any]) -> float | None:
    """The time from the first step to the last."""
    rate = number(part(task, "rate").get("wall"))
    amount = number(task.get("items")) or number(task.get("steps"))
    return amount / rate if rate and amount else None


def part(of: object, key: str) -> Mapping[str, Any]:
    """The mapping under ``key``; an empty one when there is none."""
    found = of.get(key) if isinstance(of, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def at(facts: Any, path: str) -> Any:
    """What stands under a dotted path, in lists by number; None when nothing does."""
    for key in path.split("."):
        if isinstance(facts, Mapping):
            facts = facts.get(key)
        else:
            short = isinstance(facts, list) and key.isdecimal() and int(key) < len(facts)
            facts = facts[int(key)] if short else None
    return facts


def number(value: Any) -> float | None:
    """``value`` when it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # A whole number beyond any float.
        return None
