"""The recursion limit as the script sees it: voir's frames below it do not count.

The interpreter counts all frames of a thread. So while the script runs, its limit is greater by the
number of voir's, and the two functions of ``sys`` leave them out.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager, suppress
from functools import wraps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_get, _set = sys.getrecursionlimit, sys.setrecursionlimit
#: voir's frames, while the script runs.
_extra = 0
#: The script's limit while voir's code runs between its parts; 0: none is kept.
_own = 0
_DEPTH = re.compile(r"(?<=depth )\d+")
#: What voir's code needs to end a run.
ENOUGH = 1000


@wraps(_get)
def _getrecursionlimit() -> int:
    return _get() - _extra


@wraps(_set)
def _setrecursionlimit(limit: int, /) -> None:
    if not isinstance(limit, int) or limit < 1:
        _set(limit)  # Which it refuses.
        return
    try:
        _set(limit + _extra)
    except RecursionError as error:
        text = str(error).replace(f" to {limit + _extra} ", f" to {limit} ")
        found = _DEPTH.search(text)
        depth = int(found[0]) - _extra - 1 if found else limit  # This frame is one of them.
    else:
        return
    if depth >= limit:
        raise RecursionError(_DEPTH.sub(str(depth), text))
    _set(limit + _extra + 1)


@contextmanager
def as_deep_as(plain: int) -> Iterator[None]:
    """Within, the script has as much stack as python would leave it.

    Args:
        plain: The depth of the script's module when python runs it.
    """
    global _extra, _own
    frame: FrameType | None = sys._getframe(2)
    frames = entered = 0
    while frame is not None:
        frames += 1
        # C code has entered python anew, here and below the first frame.
        entered += frame.f_back is None or frame.f_code.co_name in ("<module>", "__call__")
        frame = frame.f_back
    _extra = frames + 1 - plain
    if sys.version_info < (3, 12):  # There, calls through C count as well.
        _extra += entered - (plain > 1)
    _set((_own or _get()) + _extra)
    _own = 0
    sys.getrecursionlimit, sys.setrecursionlimit = _getrecursionlimit, _setrecursionlimit
    try:
        yield
    finally:
        lift()


def lift() -> None:
    """The script does not run, or no more: voir's code has enough."""
    global _extra, _own
    if _extra:
        _own, _extra = max(_get() - _extra, 1), 0
        _set(max(_own, ENOUGH))
    if sys.getrecursionlimit is _getrecursionlimit:
        sys.getrecursionlimit = _get
    if sys.setrecursionlimit is _setrecursionlimit:
        sys.setrecursionlimit = _set


def hand_back() -> None:
    """What the script does when python ends has the limit that it has set."""
    if _own:
        with suppress(RecursionError):  # There are more frames already.
            _set(_own)
