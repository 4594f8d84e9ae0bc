"""What a script finds when it starts: ``sys.argv``, ``sys.path[0]``, a fresh ``__main__``."""

# Paths are strings here, as python shows them to the script: pathlib would normalise them.

from __future__ import annotations

import builtins
import os
import sys
from importlib.machinery import BuiltinImporter
from types import ModuleType

from .. import apart

#: Where voir was started. Python looks into it after an exception has ended the process, without
#: holding on to it.
_started_in = sys.modules.get("__main__")


def fresh_main() -> ModuleType:
    """Install a new, empty ``__main__`` with what python itself puts there before a script."""
    main = ModuleType("__main__")
    main.__loader__ = BuiltinImporter
    if sys.version_info < (3, 14):  # Later ones make it when somebody looks.
        main.__dict__.update(__annotations__={})
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return main


def safe_path() -> bool:
    """Whether python was told (-P, -I, PYTHONSAFEPATH) to keep ``sys.path[0]`` safe."""
    return bool(sys.flags.safe_path)


def replace_first_path(path: str | None) -> None:
    """Put ``path`` where python puts the script's directory, instead of what voir's start put."""
    apart.make_way()
    if sys.path and sys.path[0] in _put_there_for_voir():
        del sys.path[0]
    if path is not None:
        sys.path.insert(0, path)


def _put_there_for_voir() -> set[str]:
    if safe_path():
        return set()
    main = sys.modules.get("__main__")
    if getattr(main, "__spec__", None) is not None:
        return {current_directory(), ""}  # python -m voir
    file = getattr(main, "__file__", None)
    return {script_directory(file)} if file else {""}


def script_directory(filename: str) -> str:
    """The directory of a script, as ``sys.path[0]`` has it: with symbolic links resolved."""
    return os.path.dirname(os.path.realpath(filename))


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
