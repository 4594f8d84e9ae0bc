"""Defines the names that inserted code calls: found like builtins, invisible to the script.

They live in the namespace of ``builtins``, which Python searches last, for every module and thread.
They contain spaces, so no script can spell them, and a token of this process, so pickled code finds
nothing by that name in another process. They outlive the run, because code that calls them does.
``dir(builtins)`` hides them.
"""

from __future__ import annotations

import builtins
import os
import sys

from ..clock import time_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Prefix of these names. Dynamo would treat values of names without the `_` as builtins.
OURS = "_<voir "
_PREFIX = f"{OURS}{os.getpid():x}-{time_ns() & 0xFFFFFFFF:x} "
_space: dict[str, Any] = builtins.__dict__


def put(label: str, value: Any) -> str:
    """Bind the name for ``label`` to ``value``; returns the name."""
    name = sys.intern(f"{_PREFIX}{label}>")  # Code objects look names up by identity.
    _space[name] = value
    _space.setdefault("__dir__", _visible)
    return name


def _visible() -> list[str]:
    """Replaces ``dir(builtins)``; hides voir's names."""
    return [name for name in _space if not name.startswith(OURS) and name != "__dir__"]


#: Returns the exception that is being handled.
EXCEPTION = put("exception", sys.exception)
#: Returns whether Dynamo traces the caller; always False until Dynamo is imported.
COMPILING = put("compiling", bool)
#: Called for a loop's iterable and for each of its items; the hooks put recording versions here.
LOOP_NAME, ASYNC_LOOP_NAME = put("loop", iter), put("async loop", aiter)
CAME_NAME = put("came", bool)
#: Code may contain these names without having a probe in it.
UNPROBED_NAMES = (COMPILING, LOOP_NAME, ASYNC_LOOP_NAME, CAME_NAME)

__all__ = ["COMPILING", "EXCEPTION", "OURS", "UNPROBED_NAMES", "put"]
