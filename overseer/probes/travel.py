"""Pickles functions by value without inserted calls.

cloudpickle, and joblib and Ray through it, send the code of functions in ``__main__`` to other
processes. Inserted calls use names that exist only in this process, so the original code is sent.
"""

from __future__ import annotations

from types import CodeType

from .names import OURS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


def plain(code: CodeType, script: CodeType) -> CodeType:
    """Find the original of ``code`` in ``script``; returns ``code`` if nothing was inserted.

    Args:
        code: A function's code.
        script: The whole script, compiled without inserted calls.
    """
    if any(name.startswith(OURS) for each in _within(code) for name in each.co_names):
        key = _key(code)
        return next((each for each in _within(script) if _key(each) == key), code)
    return code


def reducer(reduce: Callable[[CodeType], Any], script: Callable[[], CodeType | None]) -> Any:
    """Wrap a pickler's reducer for code objects so that it pickles the original code."""

    def reduced(code: CodeType) -> Any:
        whole = script()
        return reduce(code if whole is None else plain(code, whole))

    return reduced


def _key(code: CodeType) -> tuple[object, ...]:
    return code.co_filename, code.co_qualname, code.co_firstlineno, code.co_freevars


def _within(code: CodeType) -> Iterator[CodeType]:
    """Yield ``code`` and all code nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _within(constant)
