"""Functions that are pickled by value go to other processes as the script has them.

cloudpickle and its kin (joblib, Ray) send a function's code. What voir has inserted into it calls
names that are of this process alone, so the code that goes is compiled anew from the source.
"""

from __future__ import annotations
import __future__

import linecache
from types import CodeType

from .names import OURS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

#: Flags of ``from __future__``.
_FUTURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


def reducers(module: Any) -> tuple[dict[Any, Any], Callable[[CodeType], Any]] | None:
    """A pickler's table by type, and what is to stand there for code; None: it has none."""
    table = getattr(getattr(module, "Pickler", None), "_dispatch_table", None)
    reduce = table.get(CodeType) if isinstance(table, dict) else None
    if reduce is None:
        return None
    return table, lambda code: reduce(plain(code))  # type: ignore[return-value]


def plain(code: CodeType) -> CodeType:
    """``code`` without what was inserted; as it is, if nothing was or its source is not there."""
    if not any(name.startswith(OURS) for each in _within(code) for name in each.co_names):
        return code
    source, flags = "".join(linecache.getlines(code.co_filename)), code.co_flags & _FUTURES
    try:
        module = compile(source, code.co_filename, "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError):
        return code
    for each in _within(module):
        there = each.co_qualname, each.co_firstlineno, each.co_freevars
        if there == (code.co_qualname, code.co_firstlineno, code.co_freevars):
            return each
    return code


def _within(code: CodeType) -> Iterator[CodeType]:
    """This code, and that of functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _within(constant)
