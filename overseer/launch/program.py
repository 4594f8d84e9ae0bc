"""Targets named on the command line, and programs, which are loaded and then run.

Loading executes leading imports and definitions; running executes the rest. Also prepares what a
script finds when it starts: ``sys.argv``, ``sys.path[0]``, a fresh ``__main__``.
"""

# Paths are strings here, as Python shows them to the script; pathlib would normalise them.

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

#: The original ``__main__``. Python uses it after an exception has ended the process, but holds no
#: reference.
_started_in = sys.modules.get("__main__")

#: Programs that start the processes of a job: modules, and the scripts that run them.
LAUNCHERS = {
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch",
    "torchrun", "accelerate", "accelerate-launch",
}  # fmt: skip


def started_as_command() -> bool:
    """True for the command ``voir``, False for ``python -m voir``."""
    return getattr(_started_in, "__spec__", None) is None


def is_launcher(target: list[str]) -> bool:
    """Test whether a command's program starts the processes of a job."""
    if target[:1] == ["-m"]:
        return target[1:2] != [] and target[1] in LAUNCHERS
    return bool(target) and os.path.basename(target[0].removeprefix("-m")) in LAUNCHERS


class Target:
    """The program named on the command line.

    Attributes:
        kind: ``script``, ``module`` or ``function``. A script may be a directory or zip file with a
            ``__main__``, or ``-`` for stdin.
        name: A path, a module, or ``module:function``.
        argv: The script's arguments.
    """

    __slots__ = ("argv", "kind", "name")

    def __init__(self, kind: str, name: str, argv: tuple[str, ...] = ()) -> None:
        self.kind, self.name, self.argv = kind, name, argv

    @property
    def title(self) -> str:
        """The target as typed: ``main.py``, ``-m package.module``."""
        return self.name if self.kind == "script" else f"-m {self.name}"


class CannotRun(UsageError):
    """The target does not exist or is not a program; has Python's message and exit status.

    Attributes:
        system_error: The error from opening the file, if any.
    """

    system_error: OSError | None = None

    def __init__(self, slug: str, what: str, remedy: str | None = None, status: int = 1) -> None:
        super().__init__(slug, what, remedy)
        self.status = status


class NoSuchFile(CannotRun, FileNotFoundError):
    """The script does not exist."""


class Program:
    """A located program: call ``load``, then ``run``, each once.

    Both raise what the script raises; :class:`Ending` handles it.

    Attributes:
        target: The target.
        file: The script's file, if it has one.
        adapt: Modifies the script's syntax tree in place before it is compiled.
        ready: Called once, right before the first code of the script or its packages runs.
    """

    adapt: Callable[[ast.Module], object] | None = None
    ready: Callable[[], object] = bool

    def __init__(self, target: Target, file: str | None) -> None:
        self.target = target
        self.file = file

    @property
    def origin(self) -> Path | None:
        """:attr:`file` as a path."""
        from pathlib import Path  # Importing it takes 3 ms.

        return None if self.file is None else Path(self.file)

    @property
    def plain(self) -> CodeType | None:
        """All of ``__main__``, compiled without inserted calls; None without source."""
        return None

    def load(self, instrument: Instrument | None = None) -> None:
        """Prepare, read and parse the program; run its leading imports and definitions.

        Args:
            instrument: ``instrument(tree, module_name, filename)`` is called with the syntax tree
                of each part before it is compiled, and returns the tree to compile. It must not
                raise.
        """

    def run(self) -> object:
        """Run the rest; returns a function's return value, else None."""

    def begin(self) -> None:
        """Call ``ready``, the first time code of the script is about to run."""
        ready, self.ready = self.ready, bool
        ready()

    def clear_main(self) -> None:
        """Remove the names from ``__main__`` that Python removes after a script."""


class MainProgram(Program):
    """A program that runs in ``__main__``: a script, or code found by runpy.

    Attributes:
        under: Traceback entries that Python would show above the script's.
    """

    main: ModuleType
    _main_source: MainSource | None = None
    _instrument: Instrument | None = None

    def __init__(self, target: Target, file: str | None) -> None:
        super().__init__(target, file)
        self.under: list[TracebackType] = []

    @property
    def plain(self) -> CodeType | None:
        """All of the script, compiled without inserted calls; None without source."""
        return self._main_source.code if self._main_source is not None else None

    def run_prefix(self, instrument: Instrument | None) -> None:
        """Run the source's leading definitions; without source, nothing."""
        self._instrument = instrument
        if self._main_source is not None:
            if self.adapt is not None:
                self.adapt(self._main_source.tree)
            self.execute(self._main_source.prefix(instrument))

    def run(self) -> object:
        """Run the rest of the source; without source, the whole code."""
        if self._main_source is not None:
            self.execute(self._main_source.rest(self._instrument))
        else:
            self.run_whole()
        return None

    def run_whole(self) -> None:
        """Run a program that cannot be split into definitions and rest."""

    def execute(self, code: CodeType) -> None:
        """Execute ``code`` in ``__main__``, at the recursion depth it would have without voir."""
        self.begin()
        try:
            with script_recursion_limit(1 + len(self.under)):
                try:
                    exec(code, self.main.__dict__)
                finally:
                    restore_builtins()
        except BaseException as error:
            _, *entries = entries_of(error.__traceback__)  # The first is this frame.
            error.__traceback__ = chain([*self.under, *entries])
            raise


# The script's recursion limit. The interpreter counts all frames of a thread, so the limit is
# raised by the number of voir's frames while the script runs; ``sys.getrecursionlimit`` and
# ``sys.setrecursionlimit`` are replaced by functions that subtract and add that number.

_get, _set = sys.getrecursionlimit, sys.setrecursionlimit
#: Number of voir's frames while the script runs.
_extra = 0
#: The script's limit, saved while voir's code runs; 0 if none is saved.
_own = 0
_DEPTH = re.compile(r"(?<=depth )\d+")
#: Recursion limit that voir's code needs to end a run.
VOIR_RECURSION_LIMIT = 1000


@wraps(_get)
def _getrecursionlimit() -> int:
    return _get() - _extra


@wraps(_set)
def _setrecursionlimit(limit: int, /) -> None:
    if not isinstance(limit, int) or limit < 1:
        _set(limit)  # Raises the appropriate error.
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
def script_recursion_limit(plain: int) -> Iterator[None]:
    """Within the context, the script can recurse as deep as without voir.

    Args:
        plain: Depth of the script's module frame without voir.
    """
    global _extra, _own
    frame: FrameType | None = sys._getframe(2)
    frames = entered = 0
    while frame is not None:
        frames += 1
        # Entered from C code.
        entered += frame.f_back is None or frame.f_code.co_name in ("<module>", "__call__")
        frame = frame.f_back
    _extra = frames + 1 - plain
    if sys.version_info < (3, 12):  # Calls through C count, too.
        _extra += entered - (plain > 1)
    _set((_own or _get()) + _extra)
    _own = 0
    sys.getrecursionlimit, sys.setrecursionlimit = _getrecursionlimit, _setrecursionlimit
    try:
        yield
    finally:
        end_script_limit()


def end_script_limit() -> None:
    """Save the script's recursion limit and set one that suffices for voir's code."""
    global _extra, _own
    if _extra:
        _own, _extra = max(_get() - _extra, 1), 0
        _set(max(_own, VOIR_RECURSION_LIMIT))
    if sys.getrecursionlimit is _getrecursionlimit:
        sys.getrecursionlimit = _get
    if sys.setrecursionlimit is _setrecursionlimit:
        sys.setrecursionlimit = _set


def reinstate_recursion_limit() -> None:
    """Set the script's recursion limit for its exit functions."""
    if _own:
        with suppress(RecursionError):  # The stack is already deeper.
            _set(_own)


# Builtins that the script has deleted: ending the run needs them.

_builtins = vars(builtins)
_whole = dict(_builtins)
_taken: dict[str, bool] = {}


def restore_builtins() -> None:
    """Restore names that are missing from ``builtins`` or None; uses no builtins itself."""
    for name, value in _whole.items():
        if value is not None and _builtins.get(name) is None:
            _taken[name] = name in _builtins
            _builtins[name] = value


def remove_restored_builtins() -> None:
    """Undo :func:`restore_builtins`, for the script's exit functions."""
    for name, had in _taken.items():
        if had:
            _builtins[name] = None
        else:
            del _builtins[name]
    _taken.clear()


# sys and __main__


def fresh_main() -> ModuleType:
    """Install a new ``__main__`` with the names that Python sets before it runs a script."""
    main = ModuleType("__main__")
    main.__loader__ = BuiltinImporter
    if sys.version_info < (3, 14):  # Later versions create it on access.
        main.__dict__.update(__annotations__={})
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return main


def replace_first_path(path: str | None) -> None:
    """Insert ``path`` as ``sys.path[0]``, in place of the entry Python added for voir."""
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
    """Directory of a script as in ``sys.path[0]``, with symbolic links resolved."""
    with suppress(OSError):
        return os.path.dirname(os.path.realpath(filename))
    # The working directory has been deleted: Python resolves one link only.
    with suppress(OSError):
        filename = os.path.join(os.path.dirname(filename), os.readlink(filename))
        return os.path.dirname(os.path.realpath(filename))
    return os.path.dirname(filename)


def current_directory() -> str:
    """The working directory, or ``""`` if it has been removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def absolute(name: str) -> str:
    """``name`` joined to the working directory, not normalised, like Python's ``__file__``."""
    directory = current_directory()
    if os.path.isabs(name) or not directory:
        return name
    if name in {"", "."}:
        return directory
    return f"{directory}{os.sep}{name}"
