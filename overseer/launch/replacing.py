"""``os.execv``: before another program takes the script's place, the run is finalized."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import wraps

from .signals import in_child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


@contextmanager
def before_exec(finalize: Callable[[], object]) -> Iterator[None]:
    """Within, ``finalize()`` is called before a program is executed that can be.

    The two functions by which all others of ``os`` do it are replaced: an audit hook would be
    called for all else that the script does too, and cannot be taken away. In a forked child, as
    of ``subprocess`` and its like, nothing is different.
    """
    functions = os.execv, os.execve
    ours = tuple(_finalizing(function, finalize) for function in functions)
    os.execv, os.execve = ours
    try:
        yield
    finally:
        if (os.execv, os.execve) == ours:  # Else the script has put something of its own there.
            os.execv, os.execve = functions


def _finalizing(execute: Any, finalize: Callable[[], object]) -> Any:
    @wraps(execute)
    def replace(path: Any, *args: Any, **kwargs: Any) -> Any:
        if not in_child() and _can_be(path):
            finalize()
        return execute(path, *args, **kwargs)

    return replace


def _can_be(path: Any) -> bool:
    """Whether it is a program; ``os.execvp`` tries one directory after the other."""
    try:
        return isinstance(path, int) or (os.path.isfile(path) and os.access(path, os.X_OK))
    except (OSError, TypeError, ValueError):
        return False
