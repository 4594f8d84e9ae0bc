"""Names that inserted code calls: looked up like builtins, invisible to the script.

They are in the namespace of ``builtins``, where a plain name is looked up last, in every module and
on every thread. They contain spaces, so no script can spell them, and a token of this process, so
code that travels to another process finds no namesake there. They stay when a run has ended,
because the code that calls them stays. ``dir(builtins)`` leaves them out.
"""

from __future__ import annotations

import builtins
import os
import sys

from ..clock import time_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Every such name begins so. Dynamo takes the values of names without `_` for builtins.
OURS = "_<voir "
_PREFIX = f"{OURS}{os.getpid():x}-{time_ns() & 0xFFFFFFFF:x} "
_space: dict[str, Any] = builtins.__dict__


def put(label: str, value: Any) -> str:
    """Put ``value`` behind the name for ``label``; returns the name."""
    name = sys.intern(f"{_PREFIX}{label}>")  # Found by identity, as the names in code objects are.
    _space[name] = value
    _space.setdefault("__dir__", _visible)
    return name


def _visible() -> list[str]:
    """What ``dir(builtins)`` shows without voir."""
    return [name for name in _space if not name.startswith(OURS) and name != "__dir__"]


#: Returns the exception that is being handled.
EXCEPTION = put("exception", sys.exception)
#: Returns whether Dynamo traces the caller: never, until torch has that.
COMPILING = put("compiling", bool)
#: Called for a loop's iterable and for each of its items; the hooks put recording versions here.
LOOP_NAME, ASYNC_LOOP_NAME = put("loop", iter), put("async loop", aiter)
CAME_NAME = put("came", bool)
#: Code may contain these names without having a probe in it.
UNPROBED_NAMES = (COMPILING, LOOP_NAME, ASYNC_LOOP_NAME, CAME_NAME)

__all__ = ["COMPILING", "EXCEPTION", "OURS", "UNPROBED_NAMES", "put"]
