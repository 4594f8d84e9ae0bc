"""Asks something of a live run of this user: to stop, to trace some steps, for its stacks.

The request is a control word in the header, which the run looks at once a second and sets to 0 when
it has done what is asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ..clock import monotonic, now_ns, sleep
from ..files import read_json
from ..model.facts import part
from ..recorder.log import lives, read_header, set_control
from .killed import has_ended, is_ours, now_doing, silent_for

#: Seconds that a run has for its answer.
ANSWER_SECONDS = 5.0
#: Interval at which it is looked for.
_LOOK_SECONDS = 0.05


def refusal(directory: Path) -> str:
    """Why nothing can be asked of the run in a directory; empty if it can."""
    if has_ended(directory):
        return "it has ended"
    try:
        host = part(read_json(directory / "run.json"), "provenance").get("hostname")
    except (OSError, ValueError, AttributeError):
        host = None
    if host is not None and host != os.uname().nodename:
        return f"it runs on another machine, {host}: ask there"
    if not is_ours(directory):
        return "it belongs to another user"
    found = read_header(os.fspath(directory))
    if found is None:
        return "it cannot be reached from here: it runs in a container, or has no header"
    return "" if lives(found) else "it has ended"


def ask(
    directories: Sequence[Path],
    word: int,
    value: int,
    wait: Callable[[float], object] = sleep,
    now: Callable[[], float] = monotonic,
) -> dict[Path, str]:
    """Set a control word of several runs, and wait until all have seen it.

    Args:
        directories: Those of the runs' processes.
        word: The control word.
        value: Its value, above 0.
        wait: Sleeps for a number of seconds.
        now: The time in seconds.

    Returns:
        By directory, why a run has not done what was asked; only those that have not.
    """
    refused = {each: why for each in directories if (why := refusal(each))}
    waiting, asked = [each for each in directories if each not in refused], list[Path]()
    until = now() + ANSWER_SECONDS
    try:
        while (waiting or asked) and now() < until:
            for each in [*waiting]:
                if _unseen(each, word):  # Somebody else has asked.
                    continue
                waiting.remove(each)
                if set_control(os.fspath(each), word, value):
                    asked.append(each)
                else:
                    refused[each] = "its header cannot be written"
            asked = [each for each in asked if _unseen(each, word)]
            if waiting or asked:
                wait(_LOOK_SECONDS)
    finally:  # Also if the user does not wait any longer.
        for each in asked:
            set_control(os.fspath(each), word, 0)
    return refused | {each: _silence(each) for each in (*waiting, *asked)}


def _unseen(directory: Path, word: int) -> bool:
    found = read_header(os.fspath(directory))
    return found is not None and lives(found) and found.control[word] != 0


def _silence(directory: Path) -> str:
    found = read_header(os.fspath(directory))
    if found is not None and silent_for(found, now_ns()) < ANSWER_SECONDS / 2:
        return "it does not do this: its options forbid it, or another run has started it"
    doing = now_doing(found) if found is not None else ""
    return f"it does not answer within {ANSWER_SECONDS:g} s{doing and f' (it is {doing})'}"
