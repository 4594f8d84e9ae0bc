"""The source of modules: found, parsed and compiled in silence."""

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
    """Why a module's code cannot be worked on; the text is for the user."""


def source_of(module: ModuleType) -> tuple[ast.Module, str]:
    """The syntax tree of a loaded module, and the filename its code objects have.

    Raises:
        Unreadable: It has no source, or it cannot be read.
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
    """The syntax tree of ``source``.

    Raises:
        Unreadable: It is not Python any more.
    """
    try:
        with _silently():
            return ast.parse(source, filename)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"{filename} cannot be parsed any more: {error}") from None


def compiled(tree: ast.Module, filename: str) -> CodeType:
    """The code of ``tree``; what the compiler warns of, it has warned of before.

    Raises:
        Unreadable: With inserted calls there are too many blocks in each other, say.
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
    """Show no warning of this thread.

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
