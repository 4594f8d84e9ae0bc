"""``bench.json``: what a bench ran and found; written after each process, readable at any time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import VoirError
from ..files import read_json, whole
from ..model.facts import entries, number, part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "bench.json"
BENCH_SCHEMA = 1


class Measured(NamedTuple):
    """One process of a bench.

    Attributes:
        side: Its side's name.
        round: Its round: processes of one round are compared with each other.
        place: Its place in the round, from 0.
        run: Its run directory, relative to the bench.
        started: Wall time, ISO 8601 in UTC.
        seconds: Its duration.
        exit_status: Its exit status; negative for a signal.
        value: The metric; None if it has none.
        disturbed: Why its round does not count, if it could be repeated.
        machine: The machine before and after it.
        repeats: The round that its round repeats; 0 for none.
    """

    side: str
    round: int
    place: int
    run: str
    started: str
    seconds: float
    exit_status: int
    value: float | None = None
    disturbed: tuple[str, ...] = ()
    machine: Mapping[str, Any] = {}
    repeats: int = 0

    @property
    def failed(self) -> bool:
        """Whether it ended with an error."""
        return self.exit_status != 0

    def as_facts(self) -> dict[str, Any]:
        """The process as ``bench.json`` stores it; what is unknown is absent."""
        return {key: value for key, value in self._asdict().items() if value not in (None, (), {})}


def write(directory: Path, facts: Mapping[str, Any], name: str = FILE) -> None:
    """Replace the record of a bench.

    Raises:
        OSError: It cannot be written.
    """
    with whole(directory / name) as file:
        file.write(json.dumps(facts, indent=1, default=str).encode() + b"\n")


def read(directory: Path) -> dict[str, Any]:
    """The content of a bench's record; of its directory, or the file itself.

    Raises:
        VoirError: It cannot be read, or is no bench's.
    """
    path = directory / FILE if directory.is_dir() else directory
    remedy = "Name a directory that voir bench has written."
    try:
        facts = read_json(path)
    except (OSError, ValueError) as error:
        raise VoirError("run-unreadable", f"{path} cannot be read: {error}", remedy) from None
    if not isinstance(facts, dict) or not isinstance(facts.get("processes"), list):
        raise VoirError("run-unreadable", f"{path} is not the record of a bench", remedy)
    if facts.get("schema") != BENCH_SCHEMA:
        what = f"{path} has schema {facts.get('schema')}, and this voir reads {BENCH_SCHEMA}"
        raise VoirError("run-unreadable", what, "Use the voir that wrote it.")
    return facts


def counted(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The processes that count: of rounds in which none failed, and that were not run again.

    Round 0 warms up.
    """
    every = [each for each in entries(facts, "processes") if round_of(each)]
    void = {round_of(each, "repeats") for each in every} - {None}
    void |= {round_of(each) for each in every if each.get("exit_status") not in (0, None)}
    return [each for each in every if round_of(each) not in void]


def round_of(process: Mapping[str, Any], key: str = "round") -> int | None:
    """The round of a process, or the one that it ``repeats``; None if that is no number above 0."""
    found = number(process, key)
    return int(found) if found and found > 0 else None


def values(facts: Mapping[str, Any], side: str = "A") -> list[float]:
    """The values of a side's processes that count."""
    found = [number(each, "value") for each in counted(facts) if each.get("side") == side]
    return [value for value in found if value is not None]


def metric_of(facts: Mapping[str, Any]) -> tuple[str, str]:
    """The metric of a bench: key and unit."""
    metric = part(facts, "metric")
    return str(metric.get("key", "")), str(metric.get("unit", ""))
