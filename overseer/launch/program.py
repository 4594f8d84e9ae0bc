"""What to run: as the command line names it, and as a program that runs in two steps.

The first step is what defines things, the second what does things. And what a script finds when it
starts: ``sys.argv``, ``sys.path[0]``, a fresh ``__main__``.
"""

# Paths are strings here, as python shows them to the script: pathlib would normalise them.

from __future__ import annotations

import builtins
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from importlib.machinery import BuiltinImporter
from types import CodeType, FrameType, ModuleType, TracebackType

from .. import apart
from ..boundary import chain, entries_of
from ..errors import UsageError
from .source import Instrument, MainSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from pathlib import Path

#: Where voir was started. Python looks into it after an exception has ended the process, without
#: holding on to it.
_started_in = sys.modules.get("__main__")


def started_as_command() -> bool:
    """Whether it is the command ``voir`` that runs, rather than ``python -m voir``."""
    return getattr(_started_in, "__spec__", None) is None


class Target:
    """What the user asked to run.

    Attributes:
        kind: ``script`` is also a directory or zip with a ``__main__``, or ``-`` for stdin.
        name: A path, a module, or ``module:function``.
        argv: The script's own arguments.
    """

    __slots__ = ("argv", "kind", "name")

    def __init__(self, kind: str, name: str, argv: tuple[str, ...] = ()) -> None:
        self.kind, self.name, self.argv = kind, name, argv

    @property
    def title(self) -> str:
        """What the user typed: ``main.py``, ``-m package.module``."""
        return self.name if self.kind == "script" else f"-m {self.name}"


class CannotRun(UsageError):
    """The target is not there or is not a program; python's words, and its exit status.

    Attributes:
        system_error: What the system said of the file, if it is that.
    """

    system_error: OSError | None = None

    def __init__(self, slug: str, what: str, remedy: str | None = None, status: int = 1) -> None:
        super().__init__(slug, what, remedy)
        self.status = status


class NoSuchFile(CannotRun, FileNotFoundError):
    """There is no such script."""


class Program:
    """What was located: ``load`` it, then ``run`` it, each once, in that order.

    Both raise whatever the script raises; :class:`Ending` knows what to do with it.

    Attributes:
        target: What the user asked for.
        file: The script's file, when it has one.
        adapt: Changes the syntax tree of a script in place, before any of it is compiled.
        ready: Called once, right before any code of the script, or of its packages, runs.
    """

    adapt: Callable[[ast.Module], object] | None = None
    ready: Callable[[], object] = bool

    def __init__(self, target: Target, file: str | None) -> None:
        self.target = target
        self.file = file

    @property
    def origin(self) -> Path | None:
        """The same as a path."""
        from pathlib import Path  # It takes 3 ms to import.

        return None if self.file is None else Path(self.file)

    @property
    def plain(self) -> CodeType | None:
        """All of ``__main__``, compiled as python would have run it; None: it is not known."""
        return None

    def load(self, instrument: Instrument | None = None) -> None:
        """Set the stage, read and parse, and run the leading imports and definitions.

        Args:
            instrument: ``instrument(tree, module_name, filename)`` is called with the syntax tree
                of each part right before that is compiled, and returns the tree to compile. It
                must not raise.
        """

    def run(self) -> object:
        """Run the rest; the program's value, which only a function has."""

    def begin(self) -> None:
        """Code of the script is about to run."""
        ready, self.ready = self.ready, bool
        ready()

    def retire(self) -> None:
        """Take from ``__main__`` what python takes from it when a script has ended."""


class MainProgram(Program):
    """A program whose code runs in ``__main__``: a script, or what runpy finds.

    Attributes:
        under: Traceback entries that python would show above the script's own.
    """

    main: ModuleType
    _main_source: MainSource | None = None
    _instrument: Instrument | None = None

    def __init__(self, target: Target, file: str | None) -> None:
        super().__init__(target, file)
        self.under: list[TracebackType] = []

    @property
    def plain(self) -> CodeType | None:
        """All of the script, compiled as python would have run it, where there is its source."""
        return self._main_source.code if self._main_source is not None else None

    def run_prefix(self, instrument: Instrument | None) -> None:
        """Run the first part of the unit, if there is one."""
        self._instrument = instrument
        if self._main_source is not None:
            if self.adapt is not None:
                self.adapt(self._main_source.tree)
            self.execute(self._main_source.prefix(instrument))

    def run(self) -> object:
        """Run the second part of the unit, or the whole code where there is no source."""
        if self._main_source is not None:
            self.execute(self._main_source.rest(self._instrument))
        else:
            self.run_whole()
        return None

    def run_whole(self) -> None:
        """Run a program that cannot be split."""

    def execute(self, code: CodeType) -> None:
        """Execute ``code`` in ``__main__``, with as much stack as python would leave it."""
        self.begin()
        try:
            with as_deep_as(1 + len(self.under)):
                try:
                    exec(code, self.main.__dict__)
                finally:
                    mend()
        except BaseException as error:
            _, *entries = entries_of(error.__traceback__)  # The first is this frame.
            error.__traceback__ = chain([*self.under, *entries])
            raise


# The recursion limit as the script sees it. The interpreter counts all frames of a thread: while
# the script runs its limit is greater by the number of voir's, and two functions of ``sys`` leave
# them out.

_get, _set = sys.getrecursionlimit, sys.setrecursionlimit
#: voir's frames, while the script runs.
_extra = 0
#: The script's limit while voir's code runs between its parts; 0: none is kept.
_own = 0
_DEPTH = re.compile(r"(?<=depth )\d+")
#: What voir's code needs to end a run.
ENOUGH = 1000


@wraps(_get)
def _getrecursionlimit() -> int:
    return _get() - _extra


@wraps(_set)
def _setrecursionlimit(limit: int, /) -> None:
    if not isinstance(limit, int) or limit < 1:
        _set(limit)  # Which it refuses.
        return
    try:
        _set(limit + _extra)
    except RecursionError as error:
        text = str(error).replace(f" to {limit + _extra} ", f" to {limit} ")
        found = _DEPTH.search(text)
        depth = int(found[0]) - _extra - 1 if found else limit  # This frame is one of them.
    else:
        return
    if depth >= limit:
        raise RecursionError(_DEPTH.sub(str(depth), text))
    _set(limit + _extra + 1)


@contextmanager
def as_deep_as(plain: int) -> Iterator[None]:
    """Within, the script has as much stack as python would leave it.

    Args:
        plain: The depth of the script's module when python runs it.
    """
    global _extra, _own
    frame: FrameType | None = sys._getframe(2)
    frames = entered = 0
    while frame is not None:
        frames += 1
        # C code has entered python anew, here and below the first frame.
        entered += frame.f_back is None or frame.f_code.co_name in ("<module>", "__call__")
        frame = frame.f_back
    _extra = frames + 1 - plain
    if sys.version_info < (3, 12):  # There, calls through C count as well.
        _extra += entered - (plain > 1)
    _set((_own or _get()) + _extra)
    _own = 0
    sys.getrecursionlimit, sys.setrecursionlimit = _getrecursionlimit, _setrecursionlimit
    try:
        yield
    finally:
        lift()


def lift() -> None:
    """The script does not run, or no more: voir's code has enough."""
    global _extra, _own
    if _extra:
        _own, _extra = max(_get() - _extra, 1), 0
        _set(max(_own, ENOUGH))
    if sys.getrecursionlimit is _getrecursionlimit:
        sys.getrecursionlimit = _get
    if sys.setrecursionlimit is _setrecursionlimit:
        sys.setrecursionlimit = _set


def hand_back() -> None:
    """What the script does when python ends has the limit that it has set."""
    if _own:
        with suppress(RecursionError):  # There are more frames already.
            _set(_own)


# What the script has taken out of builtins: it can do without them; what ends the run cannot.

_builtins = vars(builtins)
_whole = dict(_builtins)
_taken: dict[str, bool] = {}


def mend() -> None:
    """Put back what has gone from ``builtins``, or is None there; none of that is used here."""
    for name, value in _whole.items():
        if value is not None and _builtins.get(name) is None:
            _taken[name] = name in _builtins
            _builtins[name] = value


def unmend() -> None:
    """Leave ``builtins`` as the script has left them: functions of its own run when python ends."""
    for name, had in _taken.items():
        if had:
            _builtins[name] = None
        else:
            del _builtins[name]
    _taken.clear()


# The stage


def fresh_main() -> ModuleType:
    """Install a new, empty ``__main__`` with what python itself puts there before a script."""
    main = ModuleType("__main__")
    main.__loader__ = BuiltinImporter
    if sys.version_info < (3, 14):  # Later ones make it when somebody looks.
        main.__dict__.update(__annotations__={})
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return main


def replace_first_path(path: str | None) -> None:
    """Put ``path`` where python puts the script's directory, instead of what voir's start put."""
    apart.make_way()
    if sys.path and sys.path[0] in _put_there_for_voir():
        del sys.path[0]
    if path is not None:
        sys.path.insert(0, path)


def _put_there_for_voir() -> set[str]:
    if sys.flags.safe_path:
        return set()
    main = sys.modules.get("__main__")
    if getattr(main, "__spec__", None) is not None:
        return {current_directory(), ""}  # python -m voir
    file = getattr(main, "__file__", None)
    return {script_directory(file)} if file else {""}


def script_directory(filename: str) -> str:
    """The directory of a script, as ``sys.path[0]`` has it: with symbolic links resolved."""
    with suppress(OSError):
        return os.path.dirname(os.path.realpath(filename))
    # The working directory has been deleted: python resolves what can be.
    with suppress(OSError):
        filename = os.path.join(os.path.dirname(filename), os.readlink(filename))
        return os.path.dirname(os.path.realpath(filename))
    return os.path.dirname(filename)


def current_directory() -> str:
    """The working directory, or ``""`` when it has been removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def absolute(name: str) -> str:
    """``name`` below the working directory, not normalised: what python makes ``__file__``."""
    directory = current_directory()
    if os.path.isabs(name) or not directory:
        return name
    if name in {"", "."}:
        return directory
    return f"{directory}{os.sep}{name}"
