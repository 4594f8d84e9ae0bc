"""What is installed beside this distribution: instruments that it contributes, another voir.

It is told from file names: importlib.metadata is slow.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator

from ..boundary import Report, said, where
from ..errors import Problem, UsageError
from .voirfile import callables, flat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The entry points that are instruments.
GROUP = "voir.instrument"
#: The distribution that has the package ``voir`` too: ``voir-0.2.24.dist-info``.
OTHER = re.compile(r"voir-\d[^-]*\.(?:dist|egg)-info")
REMEDY = "pip uninstall voir; then pip install --force-reinstall --no-deps voir-overseer"


def distributions() -> list[tuple[str, str]]:
    """For each installed distribution its directory of metadata, and that one's name."""
    path = tuple(sys.path)
    if path not in _found:
        _found[path] = list(_distributions(path))
    return _found[path]


#: They are asked for twice.
_found: dict[tuple[str, ...], list[tuple[str, str]]] = {}


def _distributions(path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for directory in dict.fromkeys(path):
        try:
            names = os.listdir(directory or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                yield os.path.join(directory, name), name


def look_for_another_voir(report: Report) -> None:
    """Report that the distribution ``voir`` is installed too: each overwrites the other's files.

    Raises:
        UsageError: The package ``voir`` that would be imported is the other's.
    """
    other = next((path for path, name in distributions() if OTHER.fullmatch(name)), None)
    if other is None:
        return
    version = os.path.basename(other).split("-")[1].removesuffix(".dist").removesuffix(".egg")
    what = f"voir {version} is installed too, and both have the package voir"
    if not _is_ours(_package()):
        raise UsageError("two-voirs", f"{what}; its files are in the place of ours", REMEDY)
    remedy = f"Uninstalling it will delete our files too, so do it now: {REMEDY}"
    report(Problem("two-voirs", other, what, remedy=remedy))


def _package() -> str | None:
    """The file that ``import voir`` would run."""
    module = sys.modules.get("voir")
    if module is not None:
        return getattr(module, "__file__", None)
    found = (os.path.join(directory or ".", "voir", "__init__.py") for directory in sys.path)
    return next((file for file in found if os.path.isfile(file)), None)


def _is_ours(file: str | None) -> bool:
    try:
        with open(file or "", "rb") as source:
            return b"from overseer." in source.read()
    except OSError:
        return True  # A zip, or an editable installation: not overwritten by another.


# Instruments that they contribute


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
