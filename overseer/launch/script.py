"""Locates the program that a target names: a script file, standard input, or a module."""

from __future__ import annotations

import marshal
import os
import sys
from contextlib import suppress
from importlib.machinery import PathFinder, SourceFileLoader, SourcelessFileLoader
from importlib.util import MAGIC_NUMBER
from types import CodeType

from .program import (
    CannotRun,
    MainProgram,
    NoSuchFile,
    Program,
    Target,
    absolute,
    current_directory,
    fresh_main,
    replace_first_path,
    script_directory,
)
from .source import Instrument, parse_main

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FILE_INPUT = 257  # Py_file_input


def locate(target: Target) -> Program:
    """Find the program that ``target`` names, without running or importing any of it.

    Raises:
        CannotRun: The file does not exist or cannot be read. Errors in modules and directories are
            raised later, by ``load``.
    """
    if target.kind == "module":
        from .modules import Module

        return Module(target, module_file(target.name))
    if target.kind == "function":
        from .modules import Function

        return Function(target, module_file(target.name.partition(":")[0], main=False))
    if target.name == "-":
        return Stdin(target)
    filename = absolute(target.name)
    if _has_importer(filename):
        from .modules import MainOf

        inside = os.path.join(filename, "__main__.py")
        return MainOf(target, inside if os.path.exists(inside) else filename, filename)
    return Script(target, filename, _read(filename))


def _has_importer(path: str) -> bool:
    """True if ``path`` is a directory or zip file, whose ``__main__`` is the script."""
    sys.path_importer_cache[path] = None
    for hook in sys.path_hooks:
        with suppress(ImportError):
            sys.path_importer_cache[path] = hook(path)
            return True
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
    from difflib import get_close_matches

    directory, name = os.path.split(filename)
    with suppress(OSError):
        files = [file for file in os.listdir(directory) if file.endswith(".py")]
        for nearest in get_close_matches(name, files, 1, 0.7):
            return f"Did you mean {os.path.join(directory, nearest)}?"
    return "Check the path; voir's own options come before it, the script's after it."


def module_file(name: str, main: bool = True) -> str | None:
    """File of a module, found without importing its packages; ``None`` if unknown.

    Args:
        name: The module's full name.
        main: For a package, return its ``__main__``.
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
        return None  # A custom finder raised; Python raises it again when it loads the module.
    return spec.origin if spec is not None and spec.has_location else None


class Script(MainProgram):
    """``voir script.py``: source or compiled code, recognised by its content."""

    def __init__(self, target: Target, filename: str, data: bytes) -> None:
        super().__init__(target, filename)
        self._filename, self._data = filename, data
        self._compiled = filename.endswith(".pyc") or data[:2] == MAGIC_NUMBER[:2]

    def load(self, instrument: Instrument | None = None) -> None:
        """Prepare ``sys`` and ``__main__`` as for a file, parse it, and run the prefix."""
        self._set_stage()
        try:
            if not self._compiled:
                self._parse()
            self.run_prefix(instrument)
        except BaseException:
            _flush()
            raise

    def run(self) -> object:
        """Run the rest, then flush its output before Python exits."""
        try:
            return super().run()
        finally:
            _flush()

    def run_whole(self) -> None:
        """Run compiled code, or source too large for a syntax tree."""
        if self._compiled:
            self.execute(_load_compiled(self._data))
        else:
            _run_file(self._data, self._filename, self.main.__dict__)

    def clear_main(self) -> None:
        """Delete ``__file__`` and ``__cached__``, as Python does before exit functions run."""
        self.main.__dict__.pop("__file__", None)
        self.main.__dict__.pop("__cached__", None)

    def _set_stage(self) -> None:
        sys.argv = [self.target.name, *self.target.argv]
        directory = "" if self.file is None else script_directory(self.file)
        replace_first_path(None if sys.flags.safe_path else directory)
        self.main = fresh_main()
        self.main.__dict__.update(__file__=self._filename, __cached__=None)
        if self.file is not None:  # For stdin, Python leaves __loader__ as it is.
            kind = SourcelessFileLoader if self._compiled else SourceFileLoader
            self.main.__loader__ = kind("__main__", self.file)

    def _parse(self) -> None:
        refusal = None
        try:
            self._main_source = parse_main(self._data, self._filename)
        except SyntaxError as error:
            refusal = error
        except (ValueError, RecursionError, MemoryError):
            pass  # Too large or too deep for a syntax tree: run it unsplit.
        if refusal is not None:
            try:  # Let Python word the error.
                _run_file(self._data, self._filename, self.main.__dict__)
            except (ImportError, AttributeError, OSError):  # No ctypes, or another C library.
                raise refusal from None


class Stdin(Script):
    """``voir -``: a program read from standard input."""

    def __init__(self, target: Target) -> None:
        super().__init__(target, "<stdin>", b"")
        self.file = None

    def load(self, instrument: Instrument | None = None) -> None:
        """Read standard input, then load it."""
        if sys.stdin is not None:
            self._data = sys.stdin.buffer.read()
        super().load(instrument)


def _run_file(data: bytes, filename: str, namespace: dict[str, Any]) -> None:
    """Parse, compile and run ``data`` as the file ``filename``, with ``PyRun_FileExFlags``.

    Only the interpreter's file parser words errors about encodings, null bytes and the like exactly
    as ``python script.py`` does.

    Raises:
        ImportError: This Python has no ctypes.
        BaseException: An error in the source, or one raised by the script.
    """
    import ctypes

    libc, python = ctypes.CDLL(None), ctypes.py_object
    libc.fdopen.restype = ctypes.c_void_p
    run = ctypes.PyDLL(None).PyRun_FileExFlags
    run.restype = python
    run.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, python, python, ctypes.c_int]
    run.argtypes += [ctypes.c_void_p]
    file = ctypes.c_void_p(libc.fdopen(_descriptor(data, filename), b"rb"))
    run(file, os.fsencode(filename), _FILE_INPUT, namespace, namespace, 1, None)


def _descriptor(data: bytes, filename: str) -> int:
    if sys.platform != "linux":
        return os.open(filename, os.O_RDONLY)
    # The script may have come through a pipe, which cannot be read twice.
    descriptor = os.memfd_create("script")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _load_compiled(data: bytes) -> CodeType:
    if len(data) < 16 and sys.version_info >= (3, 13):
        raise EOFError("EOF read where not expected")
    if data[:4] != MAGIC_NUMBER:
        raise RuntimeError("Bad magic number in .pyc file")
    try:
        code = marshal.loads(data[16:])
    except (EOFError, ValueError, TypeError):
        code = None
    if not isinstance(code, CodeType):
        raise RuntimeError("Bad code object in .pyc file")
    return code


def _flush() -> None:
    """Flush both streams, as Python does at this point; ignore errors."""
    for name in ("stderr", "stdout"):
        try:
            getattr(sys, name).flush()
        except BaseException:
            pass  # Python ignores it here, and reports it at the final flush.
