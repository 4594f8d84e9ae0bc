"""Finds, parses and compiles the source of modules, without warnings."""

from __future__ import annotations

import ast
import threading
import warnings
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, ModuleType
    from typing import Any

_ALWAYS_FROZEN = ("importlib._bootstrap", "zipimport")


class Unreadable(Exception):
    """A module's source is missing or cannot be compiled; the text is shown to the user."""


def source_of(module: ModuleType) -> tuple[ast.Module, str]:
    """Syntax tree of a loaded module, and the filename in its code objects.

    Raises:
        Unreadable: The module has no source, or reading it fails.
    """
    name, spec = module.__name__, getattr(module, "__spec__", None)
    loader = getattr(module, "__loader__", None) or getattr(spec, "loader", None)
    origin = getattr(spec, "origin", None)
    if origin not in ("built-in", "frozen"):
        origin = getattr(module, "__file__", None) or origin
    if origin in (None, "built-in", "frozen") or not isinstance(origin, str):
        raise Unreadable(f"{name} has no source file: it is {_kind(module, origin)}")
    if not origin.endswith((".py", ".pyw")):
        raise Unreadable(f"{name} comes from {origin}, not from Python source; probe what calls it")
    return parsed(_data(loader, origin, name), origin), origin


def _kind(module: ModuleType, origin: object) -> str:
    if origin == "built-in":
        return "built into the interpreter; probe what calls it"
    if origin == "frozen" and module.__name__.startswith(_ALWAYS_FROZEN):
        return "frozen into the interpreter; probe what calls it"
    if origin == "frozen":
        remedy = "python -X frozen_modules=off -m voir runs it from its file"
        return f"frozen into the interpreter; {remedy}"
    return "a namespace package" if hasattr(module, "__path__") else "made at run time"


def _data(loader: Any, origin: str, name: str) -> bytes:
    try:
        if hasattr(loader, "get_data"):
            data: bytes = loader.get_data(origin)
            return data
        with open(origin, "rb") as file:
            return file.read()
    except OSError as error:
        raise Unreadable(f"the source of {name} cannot be read: {error}") from None


def parsed(source: bytes | str, filename: str) -> ast.Module:
    """Parse ``source``.

    Raises:
        Unreadable: It is no longer valid Python.
    """
    try:
        with _silently():
            return ast.parse(source, filename)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"{filename} can no longer be parsed: {error}") from None


def compiled(tree: ast.Module, filename: str) -> CodeType:
    """Compile ``tree``; warnings are dropped, since the first compilation has shown them.

    Raises:
        Unreadable: The compiler refuses it; inserted calls may nest blocks too deeply.
    """
    try:
        with _silently():
            code: CodeType = compile(tree, filename, "exec", dont_inherit=True)
            return code
    except Exception as error:
        what = f"python cannot compile {filename} with probes in it: {error}"
        raise Unreadable(what) from None


@contextmanager
def _silently() -> Iterator[None]:
    """Suppress warnings of this thread.

    ``catch_warnings`` would show the script's own warnings a second time.
    """
    me, show = threading.get_ident(), warnings._showwarnmsg  # type: ignore[attr-defined]

    def show_others(message: Any) -> None:
        if threading.get_ident() != me:
            show(message)

    warnings._showwarnmsg = show_others  # type: ignore[attr-defined]
    try:
        yield
    finally:
        warnings._showwarnmsg = show  # type: ignore[attr-defined]
