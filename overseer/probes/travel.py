"""Functions that are pickled by value go to other processes as the script has them.

cloudpickle and its kin (joblib, Ray) send the code of functions of ``__main__``. What voir has
inserted into it calls names that are of this process alone, so the code that python would have run
goes in its place.
"""

from __future__ import annotations

from types import CodeType

from .names import OURS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


def plain(code: CodeType, script: CodeType) -> CodeType:
    """The code in ``script`` that ``code`` was made of; ``code`` itself if nothing was inserted.

    Args:
        code: That of a function.
        script: All of the script, compiled as python would have run it.
    """
    if any(name.startswith(OURS) for each in _within(code) for name in each.co_names):
        key = _key(code)
        return next((each for each in _within(script) if _key(each) == key), code)
    return code


def reducer(reduce: Callable[[CodeType], Any], script: Callable[[], CodeType | None]) -> Any:
    """What a pickler does with code, but with the script's own."""

    def reduced(code: CodeType) -> Any:
        whole = script()
        return reduce(code if whole is None else plain(code, whole))

    return reduced


def _key(code: CodeType) -> tuple[object, ...]:
    return code.co_filename, code.co_qualname, code.co_firstlineno, code.co_freevars


def _within(code: CodeType) -> Iterator[CodeType]:
    """This code, and that of functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _within(constant)
