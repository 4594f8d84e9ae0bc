"""Instruments that installed distributions contribute: entry points of group voir.instrument."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..boundary import Report, said, where
from ..errors import Problem
from .installed import distributions
from .voirfile import callables, flat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GROUP = "voir.instrument"


def contributed(report: Report) -> list[Callable[..., Any]]:
    """Load the instruments of every installed distribution that declares any."""
    # importlib.metadata would parse all of them, and importing it costs as much as the rest of a
    # start; hardly any environment has what is looked for.
    files = (os.path.join(place, "entry_points.txt") for place, _ in distributions())
    if not any(map(_declares, files)):
        return []
    from importlib.metadata import entry_points

    instruments = []
    for point in entry_points(group=GROUP):
        instruments.extend(_load(point, report))
    return instruments


def _load(point: Any, report: Report) -> list[Callable[..., Any]]:
    who = f"entry point {point.name}"
    try:
        return callables(flat(point.value, point.load()), who, report)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        what = f"{point.value} failed to load: {said(error)}"
        report(Problem("entry-point", who, what, where(error), "It is left out."))
        return []


def _declares(path: str) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY)  # A file object takes twice as long, for each of them.
    except OSError:
        return False
    try:
        return f"[{GROUP}]".encode() in os.read(fd, os.fstat(fd).st_size)
    finally:
        os.close(fd)
