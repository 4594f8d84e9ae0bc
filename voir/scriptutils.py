"""A script in two parts: what defines things, and what does things."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import CodeType

from overseer.launch import Target, locate
from overseer.launch.source import read_unit

__all__ = ["resolve_script", "split_script"]


def resolve_script(
    script: str | os.PathLike[str], module_name: str | None = None
) -> Callable[[], object]:
    """Load a script as ``__main__``: its leading imports and definitions have run.

    Args:
        script: Its path.
        module_name: Load this module as ``__main__`` instead, as ``python -m`` would.

    Returns:
        A function that runs the rest.
    """
    kind, name = ("module", module_name) if module_name else ("script", os.fspath(script))
    program = locate(Target(kind, name, tuple(sys.argv[1:])))
    program.load()
    return program.run


def split_script(script: str | os.PathLike[str]) -> tuple[CodeType, CodeType]:
    """The leading imports and definitions of a script, and the rest of it, both compiled.

    Unlike in voir 0.2, nothing that stands above a later definition runs before its turn.
    """
    with open(script, "rb") as file:
        unit = read_unit(file.read(), os.fspath(script))
    return unit.prefix(None), unit.rest(None)
