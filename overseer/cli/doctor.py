"""``voir doctor``: whether voir, or what a run left behind, is sound, and what to do if not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import VoirError
from ..record.reading import Metrics, read_run
from ..trace.reading import NAME
from .amounts import count
from .examined import BAD, GOOD, WARNING, Finding, examined, trace_files_of
from .parsing import CommandParser

#: What a run's directory has, and one that only traces were written to has not.
RECORD = ("run.json", "metrics.jsonl", NAME)


def parser() -> CommandParser:
    """What ``voir doctor`` takes."""
    about = "Say what a run left behind, and how sound; without a run, how voir is installed."
    example = "voir doctor voir-runs/RUN"
    made = CommandParser(prog="voir doctor", description=about, example=example)
    made.add_argument("run", metavar="RUN", nargs="?", help="a run directory, or a .pftrace file")
    return made


def doctor(argv: list[str]) -> tuple[str, int]:
    """Examine what ``argv`` names; what to print, and the exit status: 1 when something is bad.

    Raises:
        VoirError: There is no such directory or file.
    """
    findings = _findings(parser().parse_args(argv).run)
    worst = 1 if any(finding.state == BAD for finding in findings) else 0
    return "".join(_line(finding) for finding in findings), worst


def _findings(run: str | None) -> list[Finding]:
    if run is None:
        from .installation import installation

        return list(installation())
    path = Path(run)
    if not path.exists():
        what = f"{path}: there is no such directory"
        raise VoirError("run-missing", what, "Name a directory in voir-runs/.")
    return list(examine(path) if path.is_dir() else examined(path))


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
    files = trace_files_of(directory)
    if not files or any((directory / name).exists() for name in RECORD):
        yield _run(directory)
        yield _metrics(directory)
    if not files:
        yield Finding(WARNING, NAME, "is not there", "voir --trace writes one.")
    for file in files:
        yield from examined(file, _facts(directory))
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


def _facts(directory: Path) -> Mapping[str, Any] | None:
    try:
        return read_run(directory).facts
    except VoirError:
        return None


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
