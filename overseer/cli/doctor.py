"""``voir doctor``: checks the installation, or a run's files, and suggests remedies."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from ..errors import VoirError, clean
from ..model.facts import count
from ..rundir.reading import Metrics
from ..trace.reading import read_trace, trace_files
from ..trace.writer import TRACE_NAME, logs
from .commands import CommandParser, Terminal
from .findings import BAD, GOOD, WARNING, Finding
from .runs import RUN_HELP, finished_run, is_run, run_directory

_COPY = "If it is a copy, copy it again; everything else can be read."
_LESS = "Record less (--trace-steps, --trace-every), or allow more: --trace-max-mb."


def parser() -> CommandParser:
    """The parser of ``voir doctor``."""
    about = "Check the files of a run; without a run, the installation."
    example = "voir doctor voir-runs/RUN"
    made = CommandParser(prog="voir doctor", description=about, example=example)
    said = f"{RUN_HELP.partition(' (')[0]}, or a .pftrace file"
    made.add_argument("run", metavar="RUN", nargs="?", help=said)
    return made


def doctor(argv: list[str], terminal: Terminal) -> Iterator[str]:
    """Check what ``argv`` names; yield the output.

    Raises:
        SystemExit: With status 1, after the output, if a finding is bad.
        VoirError: There is no such directory or file.
    """
    named = parser().parse_args(argv).run
    findings = [Finding(*map(clean, finding)) for finding in _findings(named)]
    yield "".join(
        f"{state:<5} {what:<16} {said}\n" + (f"{'':<22} {remedy}\n" if remedy else "")
        for state, what, said, remedy in findings
    )
    if any(finding.state == BAD for finding in findings):
        sys.exit(1)


def _findings(named: str | None) -> Iterator[Finding]:
    if named is None:
        from .installation import installation

        yield from installation()
        return
    run = run_directory(named)
    if not run.exists():
        what = f"{run}: there is no such directory"
        raise VoirError("run-missing", what, "Name a directory in voir-runs/.")
    alone = sorted(run.glob("*.pftrace")) if not is_run(run) else []
    if alone or not run.is_dir():
        yield from map(_trace, alone or [run])
        return
    ranks = [entry for entry in run.glob("rank*") if entry.name[4:].isdecimal()]
    for each in sorted(ranks, key=lambda entry: int(entry.name[4:])) or [run]:
        name = f"{each.name}/" if each != run else ""
        for finding in (_run(each), _metrics(each), *_traces(each)):
            yield finding._replace(what=name + finding.what)


def _run(directory: Path) -> Finding:
    what = "run.json"
    if not (directory / what).exists():
        return Finding(BAD, what, "is missing: nothing was recorded, or the run is starting", _COPY)
    try:
        facts = finished_run(directory).facts
    except VoirError as error:
        return Finding(BAD, what, error.what, error.remedy or "")
    if "ended" not in facts:
        return Finding(WARNING, what, "has no end: it is running, or ran on another machine")
    problems = count(len(facts.get("problems") or []) or None, "problem")
    said = f"complete, {facts.get('ended_by') or 'exit status ' + str(facts.get('exit_status'))}"
    return Finding(GOOD, what, said + (f"; {problems} under the key problems" if problems else ""))


def _metrics(directory: Path) -> Finding:
    metrics = Metrics(directory / "metrics.jsonl")
    try:
        events = count(sum(1 for _ in metrics), "event")
    except VoirError as error:
        said = error.what.removeprefix(f"{metrics.path} ")
        return Finding(BAD, metrics.path.name, said, error.remedy or "")
    if not metrics.path.exists():
        return Finding(WARNING, metrics.path.name, "is missing: nothing was given or logged")
    if not metrics.torn:
        return Finding(GOOD, metrics.path.name, events or "")
    said = f"{events}, {count(metrics.torn, 'torn line')}"
    if metrics.torn == 1:
        return Finding(WARNING, metrics.path.name, said, "The process was killed while it wrote.")
    return Finding(BAD, metrics.path.name, said, "Something else wrote to the file or changed it.")


def _traces(directory: Path) -> Iterator[Finding]:
    try:
        yield from map(_trace, trace_files(directory))
    except VoirError as error:
        if os.path.lexists(directory / TRACE_NAME):
            yield Finding(BAD, TRACE_NAME, error.what.removeprefix(f"{directory / TRACE_NAME} "))
        elif logs(directory):
            made = f"Write it: voir trace export {directory}"
            yield Finding(WARNING, TRACE_NAME, "is not written yet; its log is there", made)
        else:
            yield Finding(WARNING, TRACE_NAME, "is not there", "voir --trace writes one.")


def _trace(file: Path) -> Finding:
    """Check a trace by the counts of its reader."""
    try:
        trace = read_trace(file)
    except VoirError as error:
        return Finding(BAD, file.name, error.what.removeprefix(f"{file} "), error.remedy or "")
    said = f"{count(trace.events, 'event')} in {count(len(trace.threads), 'row')}"
    unread = {"byte": trace.torn_bytes, "packet": trace.broken_packets}
    if any(unread.values()):
        lost = " and ".join(count(n, what) or "" for what, n in unread.items() if n)
        return Finding(BAD, file.name, f"{said}; unreadable: {lost}", _COPY)
    if trace.unfinished:
        said += f"; {count(trace.unfinished, 'span')} without an end"
    if trace.dropped:
        said += f"; {count(trace.dropped, 'event')} dropped"
    state = WARNING if trace.unfinished or trace.dropped else GOOD
    return Finding(state, file.name, said, _LESS if trace.dropped else "")
