"""Finds and loads instruments: from voirfiles that apply, and from other distributions.

Voirfiles must be trustworthy. Installed distributions are found by their file names, because
importlib.metadata is slow.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from ..boundary import Report, acting, name_of, said, where
from ..errors import Problem, UsageError, VoirError
from .phases import instrument_definition, makes_instruments, uncalled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FILENAME = "voirfile.py"
PREFIX = "instrument_"
EXPLICIT = "__instruments__"
ROOTS = (".git", "pyproject.toml")
#: The package that voirfiles of old Milabench import, and the current one.
OLD, OLD_INSTRUMENT, HOME = "milabench", "instrument_argparse", "voir.instruments"
#: The group of entry points that are instruments.
GROUP = "voir.instrument"


class Found:
    """A voirfile that applies, with the reason."""

    __slots__ = ("path", "why")

    def __init__(self, path: str, why: str) -> None:
        self.path, self.why = path, why


def find(
    given: Iterable[str], environ: Mapping[str, str], cwd: str, script: str | None, report: Report
) -> list[Found]:
    """Find the voirfiles that apply, in the order in which they are loaded, each once.

    Args:
        given: Paths from ``--voirfile``; they are trusted, and no others are searched for.
        environ: ``VOIRFILE`` may name several, separated by spaces or the path separator.
        cwd: The current directory.
        script: The script's file, if known.
        report: Reports each voirfile that is not trusted.

    Raises:
        UsageError: A named voirfile does not exist.
    """
    if named := list(given):
        return [_existing(path, "--voirfile") for path in named]
    if "VOIRFILE" in environ:
        return [_existing(path, "VOIRFILE") for path in _paths(environ["VOIRFILE"])]
    found, seen = list[Found](), set[str]()
    for one in _places(cwd, script):
        real = os.path.realpath(one.path)
        if real in seen or not os.path.isfile(real):
            continue
        if script and os.path.exists(script) and os.path.samefile(real, script):
            continue  # It runs once, as the script.
        seen.add(real)
        if reason := distrust(one.path):
            remedy = f"It was not run. If you trust it: --voirfile {one.path}"
            report(Problem("voirfile-untrusted", one.path, reason, remedy=remedy))
        else:
            found.append(one)
    return found


def _paths(text: str) -> list[str]:
    """The paths in VOIRFILE; a path with spaces must be the only one."""
    return [text] if os.path.isfile(text) else text.replace(os.pathsep, " ").split()


def _existing(path: str, why: str) -> Found:
    if not os.path.isfile(path):
        remedy = "Give the path of a voirfile, or --no-voirfile to run without one."
        raise UsageError("voirfile-missing", f"{why} {path}: there is no such file", remedy)
    try:
        return Found(os.path.abspath(path), why)
    except OSError:  # The current directory has been deleted.
        return Found(path, why)


def _places(cwd: str, script: str | None) -> Iterator[Found]:
    if not cwd:  # The current directory has been deleted.
        return
    home = os.path.dirname(os.path.abspath(script)) if script else cwd
    yield Found(os.path.join(cwd, FILENAME), "it is in the current directory")
    yield Found(os.path.join(home, FILENAME), "it is in the script's directory")
    for start, whose in ((home, "script's"), (cwd, "current")):
        for directory in _parents_in_project(start):
            yield Found(os.path.join(directory, FILENAME), f"it is above the {whose} directory")


def _parents_in_project(start: str) -> list[str]:
    """The directories above ``start``, up to the project's root; empty outside a project."""
    above = [os.path.realpath(start)]
    while not any(os.path.exists(os.path.join(above[-1], mark)) for mark in ROOTS):
        parent = os.path.dirname(above[-1])
        if parent == above[-1]:
            return []
        above.append(parent)
    return above[1:]


def distrust(path: str) -> str | None:
    """The reason why another user could have written the file at ``path``, or ``None``.

    The file and its directory, and those of the target if it is a link, must belong to the user or
    to root. They must not be writable by everyone, nor by a group that the user is not in.
    """
    if not hasattr(os, "geteuid"):
        return None
    try:
        real = os.path.realpath(path)
        homes = dict.fromkeys([os.path.dirname(os.path.abspath(path)), os.path.dirname(real)])
        found = [_fault(place, "its directory") for place in homes] + [_fault(real, "it")]
    except OSError as error:
        return f"it cannot be examined: {error.strerror}"
    return next((fault for fault in found if fault is not None), None)


def _fault(place: str, what: str) -> str | None:
    status = os.stat(place)
    if status.st_mode & 0o002:
        return f"{what} can be written by others (mode {status.st_mode & 0o7777:04o})"
    if status.st_mode & 0o020 and status.st_gid not in {0, os.getegid(), *os.getgroups()}:
        return f"{what} can be written by a group that you are not in (gid {status.st_gid})"
    if status.st_uid not in (os.geteuid(), 0):
        return f"{what} belongs to another user (uid {status.st_uid}, yours is {os.geteuid()})"
    return None


def load(found: Iterable[Found], report: Report) -> list[Callable[..., Any]]:
    """Run voirfiles and collect their instruments; a failing one is reported and ignored."""
    each = (_run(one.path, f"__voir{n or ''}__", report) for n, one in enumerate(found))
    return [instrument for instruments in each for instrument in instruments]


def _run(path: str, name: str, report: Report) -> list[Callable[..., Any]]:
    """Return the instruments that a voirfile defines; empty if it fails."""
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    directory = os.path.dirname(path)
    sys.path.insert(0, directory)
    try:
        with open(path, "rb") as file:
            source = file.read()
        code = compile(source, path, "exec", dont_inherit=True)
        with acting(path), _old_names(source):
            exec(code, module.__dict__)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        report(_failed(path, error))
        return []
    finally:
        if directory in sys.path:
            sys.path.remove(directory)
    return _collected(path, vars(module), report)


def _failed(path: str, error: BaseException) -> Problem:
    remedy = "The script runs without it. To ignore it: --no-voirfile"
    place, slug, what, advice = where(error), "voirfile-failed", f"it failed: {said(error)}", None
    if isinstance(error, VoirError):
        from traceback import walk_tb

        # An instrument rejects the voirfile's values: the voirfile's last line is at fault.
        frames = walk_tb(error.__traceback__)
        lines = [line for frame, line in frames if frame.f_code.co_filename == path]
        place, slug, what, advice = f"{path}:{lines[-1]}", error.slug, error.what, error.remedy
    elif isinstance(error, SyntaxError) and error.filename == path:
        slug, what = "voirfile-syntax", f"syntax error: {error.msg}"
        what += f": {error.text.strip()}" if error.text else ""
    elif isinstance(error, ImportError) and str(error.name).partition(".")[0] == OLD:
        advice = (
            f"Milabench is not installed here. Its instruments are voir's: from {HOME} import "
            f"{OLD_INSTRUMENT}; voir --help shows the rest."
        )
    return Problem(slug, path, what, place, f"{advice} {remedy}" if advice else remedy)


def _collected(path: str, names: Mapping[str, Any], report: Report) -> list[Callable[..., Any]]:
    """Return the instruments among the names that a voirfile defines.

    They are the value of ``__instruments__``, or everything named ``instrument_*``. Lists, tuples,
    sets and dicts of instruments count, nested ones too.
    """
    declared = [EXPLICIT] if EXPLICIT in names else [n for n, v in names.items() if _is_one(n, v)]
    found = [one for name in declared for one in flat(name, names[name])]
    if not found and EXPLICIT not in names:
        what = f"it has no instrument: no name in it begins with {PREFIX}"
        remedy = "Name a function like that, or list instruments under __instruments__."
        report(Problem("voirfile-empty", path, what, remedy=remedy))
    return callables(found, path, report)


def _is_one(name: str, value: object) -> bool:
    # Decorators and modules may have such names too.
    others = isinstance(value, ModuleType) or value is instrument_definition
    return name.startswith(PREFIX) and not others


def callables(
    found: Iterable[tuple[str, Any]], who: str, report: Report
) -> list[Callable[..., Any]]:
    """Return the instruments among ``found``; report other objects by name."""
    instruments = []
    for name, value in found:
        if makes_instruments(value):
            # A factory defined under such a name is called by others, as in voir 0.2.
            if (made := name_of(value)) == name:
                continue
            what = f"{made}, which is not an instrument: calling it makes one"
            remedy = uncalled(made)
        elif callable(value):
            instruments.append(value)
            continue
        else:
            what = f"{value!r:.60}, which is not an instrument: it cannot be called"
            remedy = "It is ignored. An instrument is a function that takes the overseer."
        report(Problem("not-an-instrument", who, f"{name} is {what}", remedy=remedy))
    return instruments


def flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each object in ``value``, at any depth, with the expression that leads to it."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from flat(f"{name}[{key!r}]", one)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for index, one in enumerate(value):
            yield from flat(f"{name}[{index}]", one)
    else:
        yield name, value


@contextmanager
def _old_names(source: bytes) -> Iterator[None]:
    """Within the block, ``from milabench.opt import instrument_argparse`` works without Milabench.

    An installed Milabench takes precedence. The stand-in is removed afterwards.

    Args:
        source: The voirfile's source; nothing is done unless it names Milabench.
    """
    if OLD.encode() not in source or find_spec(OLD) is not None:
        yield
        return
    package, module = ModuleType(OLD), ModuleType(f"{OLD}.opt")
    package.__path__ = []
    setattr(module, OLD_INSTRUMENT, getattr(import_module(HOME), OLD_INSTRUMENT))
    sys.modules.update({one.__name__: one for one in (package, module)})
    try:
        yield
    finally:
        del sys.modules[package.__name__], sys.modules[module.__name__]


# Stock instruments


def stock(wanted: Callable[[str, bool], bool]) -> list[Callable[..., Any]]:
    """Load stock instruments.

    Args:
        wanted: Whether to load one, by its module, and whether it works without an option.
    """
    package = import_module("instruments")
    return [
        getattr(import_module(f".{module}", package.__name__), name)
        for module, name, always in package.__instruments__
        if wanted(module, always)
    ]


# Installed distributions


def contributed(report: Report) -> list[Callable[..., Any]]:
    """Load the instruments of every installed distribution that declares any."""
    # importlib.metadata would parse all of them, and importing it takes as long as the rest of the
    # start. Few environments have such a distribution.
    if not any(map(_declares, _distributions())):
        return []
    from importlib.metadata import entry_points

    instruments = []
    for point in entry_points(group=GROUP):
        instruments.extend(_load(point, report))
    return instruments


def _distributions() -> Iterator[str]:
    """Yield the metadata directory of each installed distribution."""
    for directory in dict.fromkeys(sys.path):
        try:
            names = os.listdir(directory or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                yield os.path.join(directory, name)


def _load(point: Any, report: Report) -> list[Callable[..., Any]]:
    who = f"entry point {point.name}"
    try:
        return callables(flat(point.value, point.load()), who, report)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        what = f"{point.value} failed to load: {said(error)}"
        report(Problem("entry-point", who, what, where(error), "It is ignored."))
        return []


def _declares(distribution: str) -> bool:
    try:
        # A file object takes twice as long.
        fd = os.open(f"{distribution}/entry_points.txt", os.O_RDONLY)
    except OSError:
        return False
    try:
        return f"[{GROUP}]".encode() in os.read(fd, os.fstat(fd).st_size)
    finally:
        os.close(fd)
