"""Reads a run, in whatever state its process left it. Nothing here writes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ..errors import UsageError, VoirError, clean
from ..files import parsed, read_json, reading
from .job import attempt_directory, attempts
from .killed import as_it_is
from .runfile import SCHEMA

_MEMBERS = "Name the directories of one job, from its different machines."
_WHICH = "Name a run as `voir runs` lists it: its directory, its --name or --tag, or -2."
#: Names of directories of a job's processes, before their number.
OF_RANK, OF_PROCESS = "rank", "process"
#: Maximum bytes of a line of ``metrics.jsonl``.
MAX_LINE_BYTES = 1 << 26


@dataclass
class Metrics:
    """The events of a ``metrics.jsonl``; each iteration reads the file again.

    Iterating raises a ``VoirError`` (``run-unreadable``) if it cannot be read.

    Attributes:
        path: The file, which need not exist.
        torn: Lines that were no JSON objects in the last iteration; a killed process leaves at
            most one, the last.
    """

    path: Path
    torn: int = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        self.torn = 0
        try:
            file = reading(self.path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise _unreadable(self.path, error) from None
        with file:
            while line := file.readline(MAX_LINE_BYTES):
                event = _event(line)
                if event is None:
                    self.torn += 1
                    if len(line) == MAX_LINE_BYTES:  # Not written by voir, nor is the rest.
                        return
                else:
                    yield event

    @property
    def cut_off(self) -> bool:
        """Whether the last line is incomplete: it is being written, or its process was killed."""
        try:
            with reading(self.path) as file:
                if not file.seek(0, os.SEEK_END):
                    return False
                file.seek(-1, os.SEEK_END)
                return file.read(1) != b"\n"
        except OSError:
            return False


def _event(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):  # Incomplete.
        return None
    try:
        event = parsed(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


@dataclass(frozen=True)
class Run:
    """One run: ``run.json``, the events, and the ranks of a job.

    A process that started others is a rank of their job if it made steps; if they are no ranks, it
    is a job only if it made none.

    Attributes:
        path: The run's directory.
        facts: ``run.json``; of a job, that of its first rank. Empty if the process was killed
            before writing it. ``now`` is the state of a live run, ``ended_by`` the end of a killed
            one.
        metrics: The events; of a job, those of its first rank.
        ranks: The job's ranks in order, those of its latest attempt; empty for a run in one
            process.
        attempts: The job's earlier attempts, as runs.
        starter: The process that started the others of the job, if it is recorded.
        unfinished: Whether its process was killed and ``run.json`` does not have its end yet.
    """

    path: Path
    facts: dict[str, Any]
    metrics: Metrics
    ranks: tuple[Run, ...] = field(default=())
    unfinished: bool = False
    attempts: tuple[Run, ...] = field(default=())
    starter: Run | None = None

    @property
    def began(self) -> float | None:
        """The start of the run, in seconds since the epoch; None if unknown."""
        try:
            return datetime.fromisoformat(str(self.facts.get("started"))).timestamp()
        except (ValueError, OverflowError):
            return None

    def seconds_of(self, event: Mapping[str, Any]) -> float | None:
        """The time of an event, in seconds since the start of the run; None if unknown.

        In records of schema 1, ``t`` is that time, and logged events have none.
        """
        at = as_number(event.get("t"))
        if at is None or "schema" not in self.facts:
            return at
        return None if self.began is None else at - self.began

    @property
    def rank(self) -> int:
        """The rank in its job, or the number of a process that is no rank; 0 for a single one."""
        known = self.facts.get("rank")
        if any(_named(self.path, kind) for kind in (OF_RANK, OF_PROCESS)):
            return _number(self.path)
        return known if isinstance(known, int) else 0

    @property
    def finished(self) -> bool:
        """Whether the run ended, and was not killed."""
        return all(
            "ended" in run.facts and not str(run.facts.get("ended_by")).startswith("killed")
            for run in self.ranks or (self,)
        )

    @property
    def missing_ranks(self) -> list[int]:
        """Ranks of the job that recorded nothing."""
        found = {run.rank for run in self.ranks}
        world = self.facts.get("world_size")
        return sorted(set(range(world)) - found) if self.ranks and isinstance(world, int) else []


def read_run(path: str | Path, facts: dict[str, Any] | None = None) -> Run:
    """Read the run in a directory, or the one of a ``run.json``.

    Nothing is written: ``finish_run`` finishes the record of a killed run.

    Args:
        path: The directory, or the file.
        facts: Those of this process's own run, which are newer than the file.

    Raises:
        VoirError: There is no run (``run-missing``, ``not-a-run``), or its ``run.json`` is damaged
            (``run-damaged``) or from a newer voir (``run-newer``).
    """
    at = Path(path)
    directory = at.parent if at.name == "run.json" else at
    if not directory.is_dir():
        raise VoirError("run-missing", f"{at}: there is no such directory", _WHICH)
    every = [attempt_directory(directory, number) for number in attempts(directory)]
    tried = [(each, ranks) for each in every if (ranks := _members(each))]
    own = _one(directory) if facts is None else _from(directory, facts)
    earlier = tuple(_job(each, ranks) for each, ranks in tried[:-1])
    if tried and not own.facts:
        return _job(directory, tried[-1][1], earlier)
    others = _members(directory, OF_PROCESS)
    if not own.facts and not own.metrics.path.exists():
        if others:
            return _job(directory, others)
        raise VoirError("not-a-run", f"{directory} holds no run: it has no run.json", _WHICH)
    return replace(_started(own, tried[-1][1] if tried else (), others), attempts=earlier)


def _started(own: Run, ranks: tuple[Run, ...], others: tuple[Run, ...]) -> Run:
    """The run of a process and of those that it started: ranks, and others."""
    trains = bool(own.facts.get("tasks"))
    if ranks and trains:
        ranks = tuple(sorted((own, *ranks), key=lambda one: one.rank))
    elif not trains:
        ranks = ranks or others
    if not ranks:
        return own
    first = own if trains else ranks[0]
    return replace(_job(own.path, ranks), facts=first.facts, metrics=first.metrics, starter=own)


def read_job(paths: Sequence[str | Path]) -> Run:
    """Read directories as one job: those of its machines, whose disks are not shared.

    Args:
        paths: Jobs' directories with different ranks of one job, or directories of its ranks.

    Returns:
        The ranks of the latest attempt that one of them has; the path is the first one's.

    Raises:
        VoirError: As :func:`read_run`; a directory has no ranks, or two have the same one.
    """
    found = list[Run]()
    for each in paths:
        run = read_run(each)
        if not run.ranks and not isinstance(run.facts.get("rank"), int):
            what = f"{run.path} is the run of one process: it has no rank"
            raise UsageError("usage", what, _MEMBERS)
        found += run.ranks or (run,)
    latest = max(_attempt(one) for one in found)
    ranks = dict[int, Run]()
    for one in found:
        if _attempt(one) == latest and ranks.setdefault(one.rank, one) is not one:
            what = f"{ranks[one.rank].path} and {one.path} are both rank {one.rank}"
            raise UsageError("usage", what, _MEMBERS)
    return _job(Path(paths[0]), tuple(ranks[number] for number in sorted(ranks)))


def _job(path: Path, ranks: tuple[Run, ...], earlier: tuple[Run, ...] = ()) -> Run:
    first = next((one for one in ranks if one.facts), ranks[0])
    return Run(path, first.facts, first.metrics, ranks, attempts=earlier)


def _members(directory: Path, kind: str = OF_RANK) -> tuple[Run, ...]:
    try:
        names = os.listdir(directory)
    except OSError:
        return ()
    found = [directory / name for name in names if name.startswith(kind)]
    kept = sorted((entry for entry in found if _named(entry, kind)), key=_number)
    return tuple(map(_member, kept))


def _member(directory: Path) -> Run:
    """A process of a job; without facts if its ``run.json`` is damaged, so that others are read."""
    try:
        return _one(directory)
    except VoirError as error:
        if error.slug != "run-damaged":
            raise
        return _from(directory, {})


def _named(directory: Path, kind: str) -> bool:
    return directory.name.startswith(kind) and directory.name[len(kind) :].isdecimal()


def _attempt(run: Run) -> int:
    attempt = run.facts.get("attempt")
    return attempt if isinstance(attempt, int) else 1


def as_number(value: object) -> float | None:
    """Convert a recorded number, including ``"NaN"`` and infinities; None for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else None


def _number(directory: Path) -> int:
    return int(directory.name.lstrip("abcdefghijklmnopqrstuvwxyz"))


def _from(directory: Path, facts: dict[str, Any]) -> Run:
    return Run(directory, facts, Metrics(directory / "metrics.jsonl"))


def _one(directory: Path) -> Run:
    written = _facts(directory / "run.json")
    facts = as_it_is(directory, written)
    unfinished = "ended" in facts and "ended" not in written
    return replace(_from(directory, facts), unfinished=unfinished)


def _facts(path: Path) -> dict[str, Any]:
    try:
        facts = read_json(path)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise _unreadable(path, error) from None
    except ValueError as error:
        raise _damaged(path, str(error)) from None
    if not isinstance(facts, dict):
        raise _damaged(path, "it is not a JSON object")
    schema = facts.get("schema", 1)
    if isinstance(schema, int) and schema > SCHEMA:
        needed = f"voir {clean(facts.get('version') or '')}".strip()
        has = f"{path} has schema {schema}, and this voir reads up to {SCHEMA}"
        what = f"{needed} or newer is needed: {has}"  # Tables cut the rest.
        raise VoirError("run-newer", what, "pip install --upgrade voir-overseer")
    return facts


def _unreadable(path: Path, error: OSError) -> VoirError:
    why = error.strerror or str(error)
    return VoirError("run-unreadable", f"{path} cannot be read: {why}", _WHICH)


def _damaged(path: Path, why: str) -> VoirError:
    remedy = (
        "voir replaces the file whole, so something else changed it; metrics.jsonl still reads."
    )
    return VoirError("run-damaged", f"{path} is not a valid run.json: {why}", remedy)
