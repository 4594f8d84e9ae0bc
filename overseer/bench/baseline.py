"""Stored results: one file a name, which can be committed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..model.intervals import of_unpaired
from . import judging, record
from .judging import Verdict
from .metric import Chosen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: The directory of stored results, in the current directory.
DIRECTORY = "voir-baselines"
_NAME = re.compile(r"[\w.][\w.+-]{0,99}\Z")


def path_of(name: str) -> Path:
    """The file of that name.

    Raises:
        UsageError: It is no name for a file.
    """
    if not _NAME.match(name):
        what = f"{name!r} is no name of a baseline"
        raise UsageError("usage", what, "Use letters, digits, '.', '-' and '_'.")
    return Path(DIRECTORY) / f"{name}.json"


def save(name: str, facts: Mapping[str, Any]) -> Path:
    """Store the record of a bench; an older one of that name is replaced.

    Raises:
        OSError: It cannot be written.
    """
    path = path_of(name)
    path.parent.mkdir(exist_ok=True)
    record.write(path.parent, facts, path.name)
    return path


def read(name: str) -> dict[str, Any]:
    """The stored record.

    Raises:
        VoirError: There is none, or it cannot be read.
    """
    path = path_of(name)
    if not path.exists():
        known = sorted(each.stem for each in Path(DIRECTORY).glob("*.json"))
        there = f"{DIRECTORY}/ has {', '.join(known)}." if known else ""
        remedy = f"{there} Store one: voir bench --save-baseline {name} SCRIPT".strip()
        raise UsageError("usage", f"there is no baseline {name}", remedy)
    return record.read(path)


def is_of_another_metric(stored: Mapping[str, Any], chosen: Chosen) -> bool:
    """Whether a stored result cannot be compared with processes that are measured now."""
    return record.metric_of(stored) != (chosen.key, chosen.unit)


def judged(
    stored: Mapping[str, Any], chosen: Chosen, values: Sequence[float], threshold: float
) -> Verdict:
    """The verdict on processes against stored ones, which are no pairs."""
    if is_of_another_metric(stored, chosen):
        had = " in ".join(record.metric_of(stored))
        why = f"the baseline has {had}, these processes {chosen.key} in {chosen.unit}"
        return Verdict(judging.UNMEASURED, why, "", "processes")
    found = of_unpaired(record.values(stored), values)
    if found.n < 2:  # One process of a side says nothing of its spread.
        found = found._replace(interval=None)
    return judging.judged(found, chosen.better, threshold, "processes")


def doubts(stored: Mapping[str, Any]) -> Iterator[str]:
    """Why a stored result is worth less than a side that is run in turns."""
    when = str(stored.get("started", ""))[:10]
    yield (
        f"the baseline is of {when}, and no pair: another day or machine looks like a difference; "
        "--ref COMMIT runs both in turns"
    )
    bad = sum(bool(each.get("disturbed")) for each in record.counted(stored))
    if bad:
        yield f"{bad} processes of the baseline were disturbed"
