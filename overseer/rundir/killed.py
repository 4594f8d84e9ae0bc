"""Runs without an end: the state of a live one, and the end of a killed one.

SIGKILL, a segmentation fault or ``os._exit`` leave no end in the record. The header remains: what
the main thread was doing, the number of steps, when the last one ended, and when voir last ran.
This module only reads; ``finishing`` writes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..clock import boottime_ns, now_ns, process_start, time_ns
from ..errors import Problem, VoirError
from ..files import is_own, read_json
from ..model.facts import main_task, number, part
from ..model.hangs import hang_of, place_text
from ..recorder import sites as k
from ..recorder.log import Header, lives, read_header
from .runfile import utc
from .steps import STEPS_FILE
from .workers import STOPPED, state_of

#: The state of a run about which nothing else is known.
RUNNING = "running"
#: The state of a run that SIGSTOP or Ctrl-Z has stopped.
SUSPENDED = "stopped by a signal"
#: What a run is doing is told once it has made no step for so many seconds.
STILL_SECONDS = 2.0
#: What a run is doing outside of all that is recorded.
OTHER_CODE = "other code"
#: A run makes no step any more if none has ended for this long: seconds, and typical steps.
IDLE_SECONDS, IDLE_STEPS = 10.0, 20
#: A run hangs if in addition its main thread has not moved for this long: seconds, typical steps.
HANG_SECONDS, HANG_STEPS = 60.0, 10
#: What a run may do for minutes, as ``doing`` names it.
LONG = frozenset({k.KINDS[k.SAVE].doing, k.KINDS[k.COMPILE].doing})
#: The stacks of all threads; and the place that another process has seen.
STACKS_FILE, PLACE_FILE = "stacks.txt", "place.json"
#: Up to so many ns, a kill is soon after a step: steps are counted ten times a second.
SOON = 50_000_000


def as_it_is(directory: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a run, completed if its record has no end.

    For a killed process, ``ended``, ``ended_by`` and ``idle`` are added, and figures are computed
    from ``steps.npy``. For a live one, ``now`` is its state, with ``idle``. On another machine than
    the run's the facts stay as they are.

    Args:
        directory: The run's directory.
        facts: The content of its ``run.json``.
    """
    if "ended" in facts or part(facts, "provenance").get("hostname") != os.uname().nodename:
        return facts
    found = read_header(os.fspath(directory))
    if found is None:
        return facts if _goes_on(facts) else _ended(directory, facts, None)
    if lives(found):
        return _live(directory, facts, found)
    return judged(_ended(directory, facts, found))


def finished(directory: str) -> bool:
    """Whether a run's record has an end."""
    try:
        return "ended" in read_json(Path(directory, "run.json"))
    except (OSError, ValueError, TypeError):
        return False


def has_ended(directory: Path) -> bool:
    """Whether a run's process is over, as far as this machine can tell.

    A process of another machine is over if its record has an end. A directory without ``run.json``
    is of a process that is about to write it.
    """
    try:
        facts = read_json(directory / "run.json")
        if "ended" in facts:
            return True
        if part(facts, "provenance").get("hostname") != os.uname().nodename:
            return False
    except (OSError, ValueError, TypeError, AttributeError):
        return False
    found = read_header(os.fspath(directory))
    return not (_goes_on(facts) if found is None else lives(found))


def now_doing(found: Header) -> str:
    """The state of a live run: ``in loading for 12 s``, or the time since its last step."""
    if state_of(found.pid) == STOPPED:
        return SUSPENDED
    if 0.0 <= idle_of(found, now_ns()).get("seconds", -1.0) < STILL_SECONDS:
        return RUNNING  # What it does between two steps is of no interest.
    doing, since = _open(found)
    if doing:
        return f"in {doing} for {_seconds(now_ns() - since)}"
    return _after(found, now_ns()) or RUNNING


def now_at(found: Header, idle: Mapping[str, Any]) -> str:
    """The state of a live run with its place, as far as its ``idle`` tells it."""
    doing, place = now_doing(found), place_text(idle)
    still = place and doing not in (RUNNING, SUSPENDED)
    return f"{doing}: {place}" if still else doing


def how(found: Header) -> str:
    """The end of a killed run: ``killed in loading, 0.4 s after step 3,201``."""
    doing, _ = _open(found)
    after = _after(found, found.control[k.WORD_BEAT])
    killed = f"killed in {doing}" if doing else "killed"
    return f"{killed}{', ' if doing else ' '}{after}" if after else killed


def idle_of(found: Header, now: int) -> dict[str, Any]:
    """The ``idle`` of ``run.json``: how long no step has ended, and what the main thread does.

    Args:
        found: The header.
        now: The time until which it is idle: of a killed run, when voir last ran.

    Returns:
        ``seconds``, the last ``step``, and what it is ``doing``; empty before anything is known.
    """
    doing, since = _open(found)
    steps = found.control[k.WORD_STEPS]
    begun = found.control[k.WORD_STEPPED] if steps else since
    if not begun:
        return {}
    return {"seconds": max(now - begun, 0) / 1e9, "step": steps, "doing": doing or OTHER_CODE}


def judged(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts, with the verdict ``hang`` if the run hangs or hung when it was killed."""
    hangs = hang_of(facts)
    return {**facts, "diagnosis": hangs.as_facts()} if hangs is not None else facts


def _live(directory: Path, facts: dict[str, Any], found: Header) -> dict[str, Any]:
    """The facts of a live run, with what it is doing."""
    idle = _idle(directory, facts, found, now_ns())
    now = now_at(found, idle)
    return judged({**facts, "now": now, **({"idle": idle} if idle else {})})


def _idle(directory: Path, facts: dict[str, Any], found: Header, now: int) -> dict[str, Any]:
    """The ``idle`` of now, with the place that the run, or another process, has recorded."""
    beat, outside = found.control[k.WORD_BEAT], seen_from_outside(directory, found)
    silent = max(silent_for(found, now), number(outside, "silent") or 0.0)
    now = max(now, beat + round(silent * 1e9))
    idle, before = idle_of(found, now), part(facts, "idle")
    if idle and before.get("step", idle["step"]) != idle["step"]:
        before = {}  # It has gone on since.
    held = silent >= IDLE_SECONDS and state_of(found.pid) != STOPPED
    if not idle and (before or outside or held):
        idle = {"seconds": (now - found.monotonic) / 1e9, "step": 0, "doing": OTHER_CODE}
    idle = {**before, **outside, **idle}
    if held:
        idle["silent"] = silent
        typical = number(main_task(facts) or {}, "step_seconds.median") or 0.0
        if silent >= max(HANG_SECONDS, HANG_STEPS * typical) and idle["doing"] not in LONG:
            idle["hangs"] = True
    return idle


def silent_for(found: Header, now: int) -> float:
    """The seconds since voir's thread last ran; 0 if it has not run yet."""
    beat = found.control[k.WORD_BEAT]
    return max(now - beat, 0) / 1e9 if beat else 0.0


def is_mute(directory: Path) -> bool:
    """Whether a run says nothing any more: it has ended, or C code holds the interpreter's lock."""
    found = read_header(os.fspath(directory))
    return has_ended(directory) or (
        found is not None and silent_for(found, now_ns()) >= IDLE_SECONDS
    )


def seen_from_outside(directory: Path, found: Header) -> dict[str, Any]:
    """The place that another process has seen since voir's thread last ran; empty if none has."""
    try:
        at = (directory / PLACE_FILE).stat().st_mtime_ns
        if at < found.epoch + found.control[k.WORD_BEAT] - found.monotonic:
            return {}
        return dict(read_json(directory / PLACE_FILE))
    except (OSError, ValueError, TypeError):
        return {}


def _open(found: Header) -> tuple[str, int]:
    """The main thread's open span, and its start; empty if unknown."""
    main = next((each for each in found.threads if each.native == found.pid), None)
    return (k.KINDS[main.kind].doing, main.since) if main and main.kind in k.KINDS else ("", 0)


def _after(found: Header, now: int) -> str:
    steps, ns = found.control[k.WORD_STEPS], now - found.control[k.WORD_STEPPED]
    if not steps:
        return ""
    return f"{_seconds(ns) if ns >= SOON else 'soon'} after step {steps:,}"


def _seconds(ns: int) -> str:
    seconds = max(ns, 0) / 1e9
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:,.0f} s"


def is_ours(directory: Path) -> bool:
    """Whether a run belongs to the current user; others' runs are never finished."""
    return is_own(directory) and is_own(directory / "run.json")


def _goes_on(facts: dict[str, Any]) -> bool:
    """Whether the process of a run without a header still exists: its pid may be reused."""
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
    if found is not None and (idle := _idle(directory, facts, found, found.control[k.WORD_BEAT])):
        facts = {**facts, "idle": idle}
    return {**facts, "ended": utc(min(ended, time_ns())), "ended_by": by}


def _recounted(directory: Path, facts: dict[str, Any]) -> dict[str, Any]:
    """The facts with the figures of the steps file, or with a problem if that is damaged."""
    if not (directory / STEPS_FILE).exists():
        return facts
    from .recount import recounted

    try:
        tasks = recounted(directory, facts)
    except VoirError as error:
        problem = Problem(error.slug, STEPS_FILE, error.what, remedy=error.remedy).as_facts()
        return {**facts, "problems": [*_listed(facts.get("problems")), problem]}
    return {**facts, "tasks": tasks} if tasks else facts


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
