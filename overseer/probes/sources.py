"""Reading the source of modules, parsing and compiling it without a word."""

from __future__ import annotations

import ast
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, ModuleType
from typing import Any

_ALWAYS_FROZEN = ("importlib._bootstrap", "zipimport")


class Unreadable(Exception):
    """Why a module's code cannot be worked on; the text is for the user."""


def source_of(module: ModuleType) -> tuple[ast.Module, str]:
    """The syntax tree of a loaded module, and the filename its code objects have.

    Raises:
        Unreadable: It has no source, or it cannot be read.
    """
    name = module.__name__
    spec = getattr(module, "__spec__", None)
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
    if origin == "frozen":
        where = "frozen into the interpreter"
        if not module.__name__.startswith(_ALWAYS_FROZEN):
            return f"{where}; python -X frozen_modules=off -m voir runs it from its file"
        return f"{where}; probe what calls it"
    if origin == "built-in":
        return "built into the interpreter; probe what calls it"
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
    """The syntax tree of ``source``."""
    try:
        with silently():
            return ast.parse(source, filename)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"{filename} cannot be parsed any more: {error}") from None


def compiled(tree: ast.Module, filename: str, flags: int) -> CodeType:
    """The code of ``tree``; what the compiler has to say about it was said before."""
    with silently():
        code: CodeType = compile(tree, filename, "exec", flags, dont_inherit=True)
        return code


@contextmanager
def silently() -> Iterator[None]:
    """Show no warning of this thread, and leave the filters alone.

    ``catch_warnings`` would make the script's own warnings appear a second time.
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


__all__ = ["Unreadable", "compiled", "parsed", "silently", "source_of"]
