"""Writes ``run.json`` atomically."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from ..clock import gmtime, strftime
from ..errors import Problem
from ..files import whole
from ..recorder.encode import simplify

#: The version of the format: ``schema`` in ``run.json``. Records without it have version 1.
SCHEMA = 2
#: Limit of values in the file: packages, probes and problems may be many.
MAX_VALUES = 50_000


def write_run(
    path: Path,
    facts: Mapping[str, object],
    report: Callable[[Problem], None],
    *,
    durable: bool = True,
) -> bool:
    """Replace ``path`` atomically by ``facts`` as strict JSON; whether that succeeded.

    Readers see the old file or the new one. A failure is reported and leaves the old one.

    Args:
        path: ``run.json`` in the run directory.
        facts: The facts; ``None`` means unknown and is omitted.
        report: Reports a failure.
        durable: Sync to disk, to survive a power failure.
    """
    known = {key: value for key, value in facts.items() if value is not None}
    text = json.dumps(simplify(known, MAX_VALUES), indent=2, allow_nan=False)
    try:
        with whole(path, durable=durable) as file:
            file.write(text.encode("ascii") + b"\n")
    except OSError as error:
        what = f"it could not be written ({error.strerror or error})"
        remedy = "Free or choose another disk: --run-dir DIR; --no-record records nothing."
        report(Problem("record-unwritable", str(path), what, remedy=remedy))
        return False
    return True


def utc(wall_ns: int) -> str:
    """Format a time as in run.json: ``2026-11-21T02:56:00.123456Z``."""
    seconds, rest = divmod(wall_ns, 1_000_000_000)
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(seconds)) + f".{rest // 1000:06}Z"
