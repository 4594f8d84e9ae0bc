"""From a target to the program: which kind it is, and where its file is."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

from .program import CannotRun, NoSuchFile, Program, Target
from .script import Script, Stdin
from .stage import absolute, current_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


def locate(target: Target) -> Program:
    """The program that ``target`` names; nothing of it is run or imported yet.

    Raises:
        CannotRun: There is no such file, or it cannot be read. What modules and directories lack
            shows only when they are loaded.
    """
    if target.kind == "module":
        from .runpys import Module

        return Module(target, module_file(target.name))
    if target.kind == "function":
        from .function import Function

        return Function(target, module_file(target.name.partition(":")[0], main=False))
    if target.name == "-":
        return Stdin(target)
    filename = absolute(target.name)
    if _has_importer(filename):
        from .runpys import MainOf

        inside = os.path.join(filename, "__main__.py")
        return MainOf(target, inside if os.path.exists(inside) else filename, filename)
    return Script(target, filename, filename, _read(filename))


def _has_importer(path: str) -> bool:
    """Whether modules can be imported from ``path``, so that its ``__main__`` is the script."""
    for hook in sys.path_hooks:
        try:
            sys.path_importer_cache[path] = hook(path)
            return True
        except ImportError:
            continue
    sys.path_importer_cache[path] = None
    return False


def _read(filename: str) -> bytes:
    try:
        with open(filename, "rb") as file:
            return file.read()
    except OSError as error:
        what = f"can't open file {filename!r}: [Errno {error.errno}] {error.strerror}"
        refusal = CannotRun("no-file", what, _remedy(filename, error), status=2)
        if isinstance(error, FileNotFoundError):
            refusal = NoSuchFile("no-file", what, refusal.remedy, status=2)
        refusal.system_error = error
        raise refusal from None


def _remedy(filename: str, error: OSError) -> str:
    if not isinstance(error, FileNotFoundError):
        return "Check its permissions: voir must be able to read it."
    if nearest := _nearest_file(filename):
        return f"Did you mean {nearest}?"
    return "Check the path; voir's own options come before it, the script's after it."


def _nearest_file(filename: str) -> Path | None:
    from difflib import get_close_matches
    from pathlib import Path

    directory, name = Path(filename).parent, Path(filename).name
    try:
        matches = get_close_matches(name, [file.name for file in directory.glob("*.py")], 1, 0.7)
    except OSError:
        return None
    return directory / matches[0] if matches else None


def module_file(name: str, main: bool = True) -> str | None:
    """The file of a module, found without importing its packages; ``None`` if that is unknown.

    Args:
        name: The module's full name.
        main: Whether a package stands for its ``__main__``.
    """
    path: list[str] | None = [current_directory(), *sys.path]
    spec = None
    parts = name.split(".")
    try:
        for count in range(1, len(parts) + 1):
            spec = PathFinder.find_spec(".".join(parts[:count]), path)
            if spec is None:
                return None
            path = spec.submodule_search_locations
        if spec is not None and main and path is not None:
            spec = PathFinder.find_spec(f"{name}.__main__", path)
    except Exception:
        return None  # Somebody's finder fails; python will say so when it loads the module.
    return spec.origin if spec is not None and spec.has_location else None
