"""Which voirfiles apply to a run, whether they can be trusted, and loading them."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from .boundary import Report, acting, said, where
from .errors import Problem, UsageError

NAME = "voirfile.py"
ROOTS = (".git", "pyproject.toml")


class Found(NamedTuple):
    """A voirfile that applies, and why."""

    path: str
    why: str


def find(
    given: Iterable[str], environ: Mapping[str, str], cwd: str, script: str | None, report: Report
) -> list[Found]:
    """The voirfiles that apply, in the order in which they are loaded, each once.

    Args:
        given: What ``--voirfile`` named; these are trusted, and nothing else is looked for.
        environ: ``VOIRFILE`` names several, separated by spaces or the path separator.
        cwd: The current directory.
        script: The script's file, when it is known.
        report: Told about every voirfile that is refused.

    Raises:
        UsageError: A voirfile that was named does not exist.
    """
    named = [Found(path, "--voirfile") for path in given]
    if not named and "VOIRFILE" in environ:
        paths = environ["VOIRFILE"].replace(os.pathsep, " ").split()
        named = [Found(path, "VOIRFILE") for path in paths]
        if not named:
            return []
    if named:
        return [_existing(found) for found in named]
    return [found for found in _unique(_places(cwd, script)) if _trusted(found, report)]


def _existing(found: Found) -> Found:
    if not os.path.isfile(found.path):
        raise UsageError(
            "voirfile-missing",
            f"{found.why} {found.path}: there is no such file",
            "Give the path of a voirfile, or --no-voirfile to run without one.",
        )
    return Found(os.path.abspath(found.path), found.why)


def _places(cwd: str, script: str | None) -> Iterator[Found]:
    home = os.path.dirname(os.path.abspath(script)) if script else cwd
    yield Found(os.path.join(cwd, NAME), "it is in the current directory")
    yield Found(os.path.join(home, NAME), "it is in the script's directory")
    for start, whose in ((home, "script's"), (cwd, "current")):
        for directory in _parents_in_project(start):
            yield Found(os.path.join(directory, NAME), f"it is above the {whose} directory")


def _parents_in_project(start: str) -> list[str]:
    """The directories above ``start`` up to the project's root; none outside a project."""
    above = []
    directory = os.path.realpath(start)
    while not any(os.path.exists(os.path.join(directory, mark)) for mark in ROOTS):
        parent = os.path.dirname(directory)
        if parent == directory:
            return []
        above.append(parent)
        directory = parent
    return above


def _unique(places: Iterable[Found]) -> Iterator[Found]:
    seen = set()
    for found in places:
        real = os.path.realpath(found.path)
        if real not in seen and os.path.isfile(found.path):
            seen.add(real)
            yield found


def _trusted(found: Found, report: Report) -> bool:
    reason = _distrust(found.path)
    if reason is None:
        return True
    remedy = f"It was not run. If you trust it: --voirfile {found.path}"
    report(Problem("voirfile-untrusted", found.path, reason, remedy=remedy))
    return False


def _distrust(path: str) -> str | None:
    """Why somebody else could have written this voirfile, or ``None``."""
    if not hasattr(os, "geteuid"):
        return None
    for place, what in ((os.path.dirname(path), "its directory"), (path, "it")):
        status = os.stat(place)
        if status.st_mode & stat.S_IWOTH:
            return f"{what} can be written by others (mode {stat.S_IMODE(status.st_mode):04o})"
        if status.st_uid not in (os.geteuid(), 0):
            return f"{what} belongs to somebody else (uid {status.st_uid}, yours is {os.geteuid()})"
    return None


def load(found: Iterable[Found], report: Report) -> list[Callable[..., Any]]:
    """Run voirfiles and collect their instruments; one that fails is reported and left out."""
    instruments = []
    for number, one in enumerate(found):
        name = "__voir__" if number == 0 else f"__voir{number}__"
        instruments.extend(_load_one(one.path, name, report))
    return instruments


def _load_one(path: str, name: str, report: Report) -> list[Callable[..., Any]]:
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    directory = os.path.dirname(path)
    sys.path.insert(0, directory)
    try:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        with acting(path):
            exec(code, module.__dict__)
        return collect(vars(module))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        report(_failed(path, error))
        return []
    finally:
        if directory in sys.path:
            sys.path.remove(directory)


def _failed(path: str, error: BaseException) -> Problem:
    if isinstance(error, SyntaxError) and error.filename == path:
        what, slug = f"syntax error: {error.msg}", "voirfile-syntax"
        if error.text:
            what += f": {error.text.strip()}"
    else:
        what, slug = f"it failed: {said(error)}", "voirfile-failed"
    remedy = "The script runs without it. To run without it on purpose: --no-voirfile"
    return Problem(slug, path, what, where(error), remedy)


def collect(names: Mapping[str, Any]) -> list[Callable[..., Any]]:
    """The instruments in a voirfile's names: ``__instruments__``, or all ``instrument_*``.

    Lists, tuples and dicts of instruments count, nested too.

    Raises:
        TypeError: Something named as an instrument cannot be called.
    """
    if "__instruments__" in names:
        return list(_flat("__instruments__", names["__instruments__"]))
    found = [(name, value) for name, value in names.items() if name.startswith("instrument_")]
    return [instrument for name, value in found for instrument in _flat(name, value)]


def _flat(name: str, value: Any) -> Iterator[Callable[..., Any]]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _flat(f"{name}[{key!r}]", one)
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            yield from _flat(f"{name}[{index}]", one)
    elif callable(value):
        yield value
    else:
        raise TypeError(f"{name} is {value!r:.60}, which is not an instrument: it cannot be called")
