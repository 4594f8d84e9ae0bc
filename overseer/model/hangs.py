"""Says where a process is that makes no step any more, from the ``idle`` of its ``run.json``."""

from __future__ import annotations

import os
from contextlib import suppress

from .diagnosis import Diagnosis
from .facts import number, part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .facts import Facts


#: The name of DDP's own collectives, which its reducer issues in C++.
REDUCER = "DDP"


def place_text(idle: Facts) -> str:
    """``in all_reduce number 812 of group 0, main.py:40 in train``; empty if it is not known."""
    collective, worker = part(idle, "collective"), part(idle, "worker")
    name = collective.get("name")
    called = str(idle.get("call") if name == REDUCER else name or idle.get("call") or "")
    if name == REDUCER:
        called += ", where DDP waits for the other ranks"
    if "number" in collective:
        called += f" number {collective['number']}"
    if "group" in collective:
        called += f" of group {collective['group']}"
    if worker:
        known = (f"pid {worker.get('pid')}", worker.get("state"), place_text(worker))
        called += f", worker {worker.get('number')} of {worker.get('count')} has the next batch"
        called += f" ({', '.join(str(each) for each in known if each)})"
    after = f"while handling {idle['handling']}" if "handling" in idle else ""
    if after and isinstance(raised := idle.get("raised"), str):
        after += f" ({shown(raised)})"
    silent = number(idle, "silent")
    held = f"C code holds the interpreter's lock for {silent:,.0f} s" if silent is not None else ""
    return ", ".join(filter(None, (called and f"in {called}", _line(idle), after, held)))


def _line(idle: Facts) -> str:
    file, line, function = (idle.get(key) for key in ("file", "line", "function"))
    if not isinstance(file, str):
        return ""
    return f"{shown(file)}:{line} in {function}"


def shown(file: str) -> str:
    """A file as a user types it here: without the current directory."""
    with suppress(OSError):
        return file.removeprefix(os.getcwd() + os.sep)
    return file


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
