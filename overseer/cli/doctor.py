"""``voir doctor RUN``: what a run left behind, what of it is damaged, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..errors import VoirError
from ..record.reading import Metrics, read_run
from ..trace.reading import NAME, open_trace
from .amounts import count
from .parsing import CommandParser

GOOD, WARNING, BAD = "ok", "note", "bad"


class Finding(NamedTuple):
    """Something about one file.

    Attributes:
        state: ``ok``, ``note`` (nothing is wrong, but know it) or ``bad`` (something is lost).
        what: The file.
        said: What about it.
        remedy: What to do.
    """

    state: str
    what: str
    said: str
    remedy: str = ""


def parser() -> CommandParser:
    """What ``voir doctor`` takes."""
    about, example = "Say what a run left behind, and how sound.", "voir doctor voir-runs/RUN"
    made = CommandParser(prog="voir doctor", description=about, example=example)
    made.add_argument("run", metavar="RUN", help="a run directory")
    return made


def doctor(argv: list[str]) -> tuple[str, int]:
    """Examine the run that ``argv`` names; what to print, and the exit status: 1 when it is bad.

    Raises:
        VoirError: There is no such directory.
    """
    path = Path(parser().parse_args(argv).run)
    if not path.is_dir():
        what = f"{path}: there is no such directory"
        raise VoirError("run-missing", what, "Name a directory in voir-runs/.")
    findings = list(examine(path))
    worst = 1 if any(finding.state == BAD for finding in findings) else 0
    return "".join(_line(finding) for finding in findings), worst


def _line(finding: Finding) -> str:
    text = f"{finding.state:<5} {finding.what:<16} {finding.said}\n"
    return text + (f"{'':<5} {'':<16} {finding.remedy}\n" if finding.remedy else "")


def examine(directory: Path) -> Iterator[Finding]:
    """What there is to say about a run's directory, those of its ranks included."""
    ranks = sorted(entry for entry in directory.glob("rank*") if entry.name[4:].isdigit())
    if ranks:
        yield Finding(GOOD, "ranks", count(len(ranks), "directory", "directories") or "")
    for rank in ranks:
        for finding in _examine(rank):
            yield finding._replace(what=f"{rank.name}/{finding.what}")
    if not ranks or (directory / "run.json").exists():
        yield from _examine(directory)


def _examine(directory: Path) -> Iterator[Finding]:
    yield _run(directory)
    yield _metrics(directory)
    yield from _trace(directory)
    for left in sorted(directory.glob("*.sealing")) + sorted(directory.glob("*.part")):
        yield Finding(WARNING, left.name, "was being written when the run was killed", "Delete it.")


def _run(directory: Path) -> Finding:
    if not (directory / "run.json").exists():
        said = "is missing: the run was killed before it recorded anything, or still begins"
        return Finding(BAD, "run.json", said, "What else is here can be read all the same.")
    try:
        run = read_run(directory)
    except VoirError as error:
        return Finding(BAD, "run.json", error.what, error.remedy or "")
    if "ended" not in run.facts:
        said = "has no end: the run was killed, or goes on"
        return Finding(WARNING, "run.json", said, "Metrics and trace reach up to that moment.")
    status = run.facts.get("exit_status")
    problems = len(run.facts.get("problems") or [])
    said = f"complete, exit status {status}"
    said += f", {count(problems, 'problem')} under its key problems" if problems else ""
    return Finding(GOOD, "run.json", said)


def _metrics(directory: Path) -> Finding:
    file = directory / "metrics.jsonl"
    if not file.exists():
        return Finding(WARNING, "metrics.jsonl", "is missing: nothing was logged")
    metrics = Metrics(file)
    try:
        events = sum(1 for _ in metrics)
    except OSError as error:
        return Finding(BAD, "metrics.jsonl", f"cannot be read: {error.strerror}")
    said = count(events, "event") or ""
    if not metrics.torn:
        return Finding(GOOD, "metrics.jsonl", said)
    said += f", {count(metrics.torn, 'torn line')}"
    if metrics.torn == 1:
        return Finding(WARNING, "metrics.jsonl", said, "The process was killed while it wrote.")
    return Finding(BAD, "metrics.jsonl", said, "Something else wrote to the file or changed it.")


def _trace(directory: Path) -> Iterator[Finding]:
    if not (directory / NAME).exists():
        if not sorted(directory.glob("*.pftrace")):
            yield Finding(WARNING, NAME, "is not there", "voir --trace writes one.")
        return
    try:
        trace = open_trace(directory)
    except VoirError as error:
        yield Finding(BAD, NAME, error.what, error.remedy or "")
        return
    said = f"{count(trace.events, 'event')} in {count(len(trace.threads), 'row')}"
    lost = trace.torn_bytes - trace.tail_bytes
    if lost or trace.broken_packets:
        said += f"; damaged: {lost:,} bytes and {trace.broken_packets:,} packets are unreadable"
        yield Finding(BAD, NAME, said, "The rest is shown by: voir trace summary. Copy it anew.")
        return
    yield Finding(GOOD, NAME, said)
    if trace.tail_bytes:
        said = f"ends within a packet: {trace.tail_bytes:,} bytes at its end are lost"
        yield Finding(WARNING, NAME, said, "The process was killed; about 0.1 s is missing.")
    if trace.unfinished:
        said = f"{count(trace.unfinished, 'span')} without an end"
        yield Finding(WARNING, NAME, said, "They were open when the process was killed.")
    if trace.dropped:
        said = f"{trace.dropped:,} events were dropped"
        remedy = "Record less (--trace-steps, --trace-every), or allow more: --trace-max-mb."
        yield Finding(WARNING, NAME, said, remedy)
