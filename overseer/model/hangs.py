"""Says where a process is that makes no step any more, from the ``idle`` of its ``run.json``."""

from __future__ import annotations

import os

from .diagnosis import Diagnosis
from .facts import number, part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .facts import Facts


def place_text(idle: Facts) -> str:
    """``in all_reduce number 812 of group 0, main.py:40 in train``; empty if it is not known."""
    collective, worker = part(idle, "collective"), part(idle, "worker")
    called = str(collective.get("name") or idle.get("call") or "")
    if "number" in collective:
        called += f" number {collective['number']}"
    if "group" in collective:
        called += f" of group {collective['group']}"
    if worker:
        state = f", {worker['state']}" if "state" in worker else ""
        called += f", worker {worker.get('number')} of {worker.get('count')} has the next batch"
        called += f" (pid {worker.get('pid')}{state})"
    places = [each for each in (called and f"in {called}", _line(idle)) if each]
    return ", ".join(places)


def _line(idle: Facts) -> str:
    file, line, function = (idle.get(key) for key in ("file", "line", "function"))
    if not isinstance(file, str):
        return ""
    beside = os.getcwd() + os.sep
    return f"{file.removeprefix(beside)}:{line} in {function}"


def hang_text(idle: Facts) -> str:
    """``no step for 62 s``."""
    return f"no step for {number(idle, 'seconds') or 0.0:,.0f} s"


def hang_of(run: Facts) -> Diagnosis | None:
    """The verdict ``hang`` of a run that hangs, or hung when it was ended; None if it did not."""
    idle = part(run, "idle")
    if idle.get("hangs") is not True:
        return None
    place, doing = place_text(idle), idle.get("doing")
    why = f"{hang_text(idle)}: {place or f'in {doing}'}"
    return Diagnosis("hang", why, "stacks.txt in its record has the stacks of all threads")
