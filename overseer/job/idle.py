"""Ranks that make no step any more: of a job that hangs, or hung when it was ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model.facts import main_task, number, part
from ..model.hangs import place_text
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
        ``seconds``, the least of a rank; ``doing``, a list of ``ranks``, ``what`` they are in, if
        it is known, and whether they may be waiting for others there (``waits``); ``ended``,
        whether they have ended. None if no rank hangs.
    """
    running = [member for member in members if member.facts.get("now")]
    found: dict[tuple[bool, str], list[int]] = {}
    least = []
    for member in running or members:
        idle = part(member.facts, "idle")
        seconds = number(idle, "seconds") if idle.get("step") or "still" in idle else None
        typical = number(main_task(member.facts) or {}, "step_seconds.median") or 0.0
        if seconds is not None and seconds >= max(IDLE_SECONDS, IDLE_STEPS * typical):
            least.append(seconds)
            waits = bool(part(idle, "collective")) or idle.get("doing") in _WAITS
            what = place_text(idle).removeprefix("in ") or str(idle.get("doing") or "")
            found.setdefault((waits, what), []).append(member.rank)
    if not least:
        return None
    told = [
        {"ranks": ranks, **({"what": what} if what else {}), **({"waits": True} if waits else {})}
        for (waits, what), ranks in sorted(found.items(), key=lambda each: each[0][0])
    ]
    return {"seconds": min(least), "ended": not running, "doing": told}
