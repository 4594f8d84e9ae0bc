"""``run.json``: what a run was and came to, replaced atomically."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from ..clock import gmtime, strftime
from ..errors import Problem
from ..files import whole
from ..recorder.encode import simplify

#: The version of the record's format: ``schema`` in ``run.json``. Records without it are of 1.
SCHEMA = 2
#: How many values the file may hold: a long list of installed packages, of probes, of problems.
MOST = 50_000


def write_run(
    path: Path,
    facts: Mapping[str, object],
    report: Callable[[Problem], None],
    *,
    durable: bool = True,
) -> bool:
    """Replace ``path`` by ``facts`` as strict JSON, in one step; whether that worked.

    A reader sees the old file or the new one, whenever the process is killed. A failure is
    reported, and leaves the old one.

    Args:
        path: ``run.json`` in the run directory.
        facts: Values that are ``None`` are left out: what is not known is absent.
        report: Told why it could not be written.
        durable: Wait until the disk has it, so that it outlives a power failure as well.
    """
    known = {key: value for key, value in facts.items() if value is not None}
    text = json.dumps(simplify(known, MOST), indent=2, allow_nan=False)
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
    """A moment as run.json gives it: ``2026-11-21T02:56:00.123456Z``."""
    seconds, rest = divmod(wall_ns, 1_000_000_000)
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(seconds)) + f".{rest // 1000:06}Z"
