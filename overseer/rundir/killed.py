"""Runs without an end: what a live one is doing, and how a killed one ended.

A process that dies by SIGKILL, a segmentation fault or ``os._exit`` says nothing. Its header is
still there: what the main thread was in, how many steps there were, when the last one ended, and
when voir last was alive. Nothing is written here: that is what ``finishing`` does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..clock import boottime_ns, now_ns, process_start, time_ns
from ..errors import Problem, VoirError
from ..files import is_own, read_json
from ..model.facts import main_task, part
from ..recorder import sites as k
from ..recorder.log import Header, lives, read_header
from .runfile import utc
from .steps import NAME

#: What a run is doing of which nothing is known.
RUNNING = "running"
#: So many ns after a step nobody can say what lay between: voir itself looks ten times a second.
SOON = 50_000_000


def as_it_is(directory: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a run, completed where its record has no end.

    If the process was killed, ``ended`` and ``ended_by`` say so. If it lives, ``now`` says what it
    is doing. On another machine than the run's nobody knows, and the facts are as they were.

    Args:
        directory: Of the run.
        facts: What its ``run.json`` says.
    """
    if "ended" in facts or part(facts, "provenance").get("hostname") != os.uname().nodename:
        return facts
    found = read_header(os.fspath(directory))
    if found is None:
        return facts if _goes_on(facts) else _ended(directory, facts, None)
    if lives(found):
        return {**facts, "now": now_doing(found)}
    return _ended(directory, facts, found)


def finished(directory: str) -> bool:
    """Whether a run's record has an end."""
    try:
        return "ended" in read_json(Path(directory, "run.json"))
    except (OSError, ValueError, TypeError):
        return False


def now_doing(found: Header) -> str:
    """What a run is doing: ``in loading for 12 s``, or how long ago its last step was."""
    doing, since = _open(found)
    if doing:
        return f"in {doing} for {_seconds(now_ns() - since)}"
    return _after(found, now_ns()) or RUNNING


def how(found: Header) -> str:
    """How a run ended that was killed: ``killed in loading, 0.4 s after step 3,201``."""
    doing, _ = _open(found)
    after = _after(found, found.control[k.WORD_BEAT])
    killed = f"killed in {doing}" if doing else "killed"
    return f"{killed}{', ' if doing else ' '}{after}" if after else killed


def _open(found: Header) -> tuple[str, int]:
    """What the main thread is in, and since when; empty if nothing that is known."""
    main = next((each for each in found.threads if each.native == found.pid), None)
    return (k.KINDS[main.kind].doing, main.since) if main and main.kind in k.KINDS else ("", 0)


def _after(found: Header, now: int) -> str:
    steps, ns = found.control[k.WORD_STEPS], now - found.control[k.WORD_STEPPED]
    if not steps:
        return ""
    return f"{_seconds(ns) if ns >= SOON else 'right'} after step {steps:,}"


def _seconds(ns: int) -> str:
    seconds = max(ns, 0) / 1e9
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:,.0f} s"


def is_ours(directory: Path) -> bool:
    """Whether a run is of whoever runs voir; another user's is never finished."""
    return is_own(directory) and is_own(directory / "run.json")


def _goes_on(facts: dict[str, Any]) -> bool:
    """Whether a run whose header has gone still has its process: the pid may be another's now."""
    pid, started = facts.get("pid"), facts.get("started")
    if not isinstance(pid, int) or not isinstance(started, str):
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    ticks = process_start(pid)
    if ticks <= 0 or boottime_ns is None:
        return not ticks
    begun = time_ns() - boottime_ns() + ticks * 10**9 // os.sysconf("SC_CLK_TCK")
    return utc(begun - 10**9) <= started


def _ended(directory: Path, facts: dict[str, Any], found: Header | None) -> dict[str, Any]:
    ended = (directory / "run.json").stat().st_mtime_ns
    if found is not None and found.epoch and found.control[k.WORD_BEAT]:
        ended = found.epoch + found.control[k.WORD_BEAT] - found.monotonic
    by = how(found) if found is not None else "killed"
    facts = _recounted(directory, facts)
    steps = (main_task(facts) or {}).get("steps")
    if found is not None and isinstance(steps, int) and steps < found.control[k.WORD_STEPS]:
        by += f"; figures up to step {steps:,}"
    if not is_ours(directory):
        by += "; it is another user's, and left as it is"
    return {**facts, "ended": utc(min(ended, time_ns())), "ended_by": by}


def _recounted(directory: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """The facts with the figures of the steps file; where that is damaged, with a problem."""
    if not (directory / NAME).exists():
        return facts
    from .recount import recounted

    try:
        tasks = recounted(directory, facts)
    except VoirError as error:
        problem = Problem(error.slug, NAME, error.what, remedy=error.remedy).as_facts()
        return {**facts, "problems": [*_listed(facts.get("problems")), problem]}
    return {**facts, "tasks": tasks} if tasks else facts


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
