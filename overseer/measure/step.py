"""A step, as everything after the step model sees it."""

from __future__ import annotations

from typing import NamedTuple

#: Of a step: nothing but its length tells that there was a pause in it.
BY_LENGTH = 2
#: Of a step: something of it was compiled first, so that its length is none of a usual step.
COMPILED = 3


class Step(NamedTuple):
    """One training step: waiting for the batch, work on it, and no pause.

    A tuple, because one is made every step and a frozen dataclass costs four times as much.
    Times are nanoseconds on one clock, the device's where there is one.

    Attributes:
        task: What the script is doing, ``"train"`` unless it says otherwise.
        number: Which step of its task, from 0.
        items: Items in the step, the multiplier included; None when not known.
        units: What ``items`` counts, ``"items"`` or ``"tokens"``.
        start_ns: When the step began, after any pause before it.
        ready_ns: When its batch had arrived and work began; None when not seen.
        end_ns: When it ended.
        loading_ns: Time spent waiting for its batch; None when not seen.
        compute_ns: Time spent on the batch; None when not seen.
        busy_ns: All of the step without pauses; None when its beginning was not seen. It may
            exceed ``loading_ns + compute_ns``: a pair may surround less than the step.
        pause_ns: Pauses before it and in it, taken out of all of the above.
        thread: The thread that ran it.
        estimated: 1 when a pause in it had no boundary of its own, so that the step was given the
            usual time; 2 when nothing but its length tells of the pause;
            3 when something was compiled in it.
    """

    task: str
    number: int
    items: int | None
    units: str
    start_ns: int
    ready_ns: int | None
    end_ns: int
    loading_ns: int | None
    compute_ns: int | None
    busy_ns: int | None
    pause_ns: int
    thread: int
    estimated: int

    @property
    def seconds(self) -> float | None:
        """All of the step without pauses."""
        return None if self.busy_ns is None else self.busy_ns / 1e9
