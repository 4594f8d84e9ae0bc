"""Ranks that make no step any more: of a job that hangs, or hung when it was ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model.facts import main_task, number, part
from ..rundir.killed import IDLE_SECONDS, IDLE_STEPS
from ..rundir.reading import Run

#: Activities in which a rank may wait for others.
_WAITS = ("backward", "communication")


def idle_ranks(members: Sequence[Run]) -> dict[str, Any] | None:
    """The ``idle`` of a job: for how long ranks have made no step, and what each of them does.

    Of a job that runs, up to now; else up to the signal that ended each rank. Ranks that may wait
    for others come last.

    Args:
        members: The processes of the job.

    Returns:
        ``seconds``, the least of a rank; ``doing``, a list of ``ranks`` and ``what`` they do, if it
        is known; ``ended``, whether they have ended. None if no rank hangs.
    """
    running = [member for member in members if member.facts.get("now")]
    found: dict[str, list[int]] = {}
    least = []
    for member in running or members:
        idle = part(member.facts, "idle")
        seconds = number(idle, "seconds") if idle.get("step") or "still" in idle else None
        typical = number(main_task(member.facts) or {}, "step_seconds.median") or 0.0
        if seconds is not None and seconds >= max(IDLE_SECONDS, IDLE_STEPS * typical):
            least.append(seconds)
            what = str(part(member.facts, "idle").get("doing") or "")
            found.setdefault(what, []).append(member.rank)
    if not least:
        return None
    last = [what for what in _WAITS if what in found]
    told = [
        {"ranks": found[what], **({"what": what} if what else {})}
        for what in [*(each for each in found if each not in last), *last]
    ]
    return {"seconds": min(least), "ended": not running, "doing": told}
