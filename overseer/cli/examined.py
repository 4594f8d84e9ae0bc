"""What ``voir doctor`` finds about one trace: how sound it is, how much is lost, what to do."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import VoirError
from ..trace.reading import NAME, Trace, elsewhere, read_trace
from .amounts import count

GOOD, WARNING, BAD = "ok", "note", "bad"
Facts = Mapping[str, Any]


class Finding(NamedTuple):
    """Something about one file, or one part of the installation.

    Attributes:
        state: ``ok``, ``note`` (nothing is wrong, but know it) or ``bad`` (something is lost).
        what: The file or part.
        said: What about it.
        remedy: What to do.
    """

    state: str
    what: str
    said: str
    remedy: str = ""


def trace_files_of(directory: Path) -> list[Path]:
    """The traces in a run's directory, and the one that it wrote elsewhere."""
    found = sorted(path for path in directory.glob("*.pftrace") if path.name != NAME)
    if os.path.lexists(directory / NAME):
        return [directory / NAME, *found]
    return elsewhere(directory) or found


def examined(file: Path, facts: Facts | None = None) -> Iterator[Finding]:
    """What there is to say about ``file``.

    Args:
        file: A trace.
        facts: What the run's record says, if there is one.
    """
    try:
        if not file.is_file():
            raise VoirError("no-trace", "is no file that can be read", "Look where it leads to.")
        trace = read_trace(file)
    except VoirError as error:
        said = error.what.removeprefix(f"{file} ")
        yield Finding(BAD, file.name, said, error.remedy or "")
        return
    size = file.stat().st_size
    yield from (finding._replace(what=file.name) for finding in _findings(trace, size, facts or {}))


def _findings(trace: Trace, size: int, facts: Facts) -> Iterator[Finding]:
    ended = "ended" in facts
    if not size:
        yield _empty(facts)
        return
    said = f"{count(trace.events, 'event')} in {count(len(trace.threads), 'row')}"
    yield _damaged(trace, said) or Finding(GOOD, "", said)
    if trace.tail_bytes:
        yield _cut_off(trace.tail_bytes, ended)
    expected = _expected(facts)
    if ended and trace.events < expected and not trace.dropped:
        said = f"{expected - trace.events:,} of {expected:,} events are missing from it"
        yield Finding(BAD, "", said, "They were there when the run ended: copy it anew.")
    if trace.unfinished:
        said = f"{count(trace.unfinished, 'span')} without an end"
        when = "ended" if ended else "was killed" if facts else "ended, or was killed"
        yield Finding(WARNING, "", said, f"They were open when the run {when}.")
    yield from _dropped(trace, facts)


def _empty(facts: Facts) -> Finding:
    if "ended" in facts and not _expected(facts):
        said = "is empty: nothing could be written"
        return Finding(BAD, "", said, "run.json says why under its key problems.")
    if "ended" in facts:
        return Finding(BAD, "", "is empty", "It was not when the run ended: copy it anew.")
    said = "is empty: the run was killed before its first events were written"
    return Finding(WARNING, "", said, "Events are written every 0.25 s.")


def _damaged(trace: Trace, said: str) -> Finding | None:
    parts = [
        count(trace.torn_bytes - trace.tail_bytes, "byte"),
        count(trace.broken_packets, "packet"),
    ]
    lost = " and ".join(part for part in parts if part and not part.startswith("0 "))
    if not lost:
        return None
    said = f"{said}; damaged: unreadable are {lost}"
    return Finding(
        BAD, "", said, "voir trace summary shows the rest. If it is a copy, copy it anew."
    )


def _cut_off(tail: int, ended: bool) -> Finding:
    if ended:
        said = f"is cut off: its last {count(tail, 'byte')} are no whole packet"
        return Finding(BAD, "", said, "It was whole when the run ended: copy it anew.")
    said = f"ends within a packet: {count(tail, 'byte')} at its end are lost"
    remedy = "The run was killed, or the machine went down; at most a second is missing."
    return Finding(WARNING, "", said, remedy)


def _expected(facts: Facts) -> int:
    found = (facts.get("trace") or {}).get("events")
    return found if isinstance(found, int) else 0


def _dropped(trace: Trace, facts: Facts) -> Iterator[Finding]:
    told = (facts.get("trace") or {}).get("dropped")
    dropped = max(trace.dropped, told if isinstance(told, int) else 0)
    if not dropped:
        return
    remedy = "Record less (--trace-steps, --trace-every), or allow more: --trace-max-mb."
    said = f"{count(dropped, 'event')} were dropped when it was written"
    for problem in facts.get("problems") or []:
        if isinstance(problem, dict) and problem.get("slug") == "trace-unwritable":
            reason = str(problem.get("what", "")).rpartition("(")[2].rstrip(")")
            said = f"{count(dropped, 'event')} could not be written: {reason}"
            remedy = str(problem.get("remedy") or remedy)
    yield Finding(WARNING, "", said, remedy)
