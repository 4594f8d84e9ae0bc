"""What a frame is about to do, or has just done, by its instruction: versions of python differ."""

from __future__ import annotations

from opcode import opmap
from types import CodeType, FrameType


def _opcodes(*names: str) -> frozenset[int]:
    """The numbers of those instructions that this python has."""
    return frozenset(opmap[name] for name in names if name in opmap)


#: What handlers begin with.
_HANDLES = _opcodes("PUSH_EXC_INFO")
#: What a coroutine waits at, and what ends by the exception that iterators end by.
_YIELDS = _opcodes("YIELD_VALUE")
_ITERATES = _opcodes("FOR_ITER", "END_FOR", "SEND", "END_SEND")
#: What may come first where a ``with`` is left, and what a call consists of.
_BEFORE = _opcodes("NOP", "SWAP")
_CALLS = _opcodes("CACHE", "CALL", "PRECALL")


def enters_handler(frame: FrameType) -> bool:
    """Whether a handler begins: that of ``except``, ``finally`` or ``with``."""
    return frame.f_code.co_code[frame.f_lasti] in _HANDLES


def exhausts(frame: FrameType, kind: type[BaseException]) -> bool:
    """Whether an exception only tells a loop or an ``await`` of its end, and nobody handles it."""
    return kind is StopIteration and frame.f_code.co_code[frame.f_lasti] in _ITERATES


def waits(frame: FrameType) -> bool:
    """Whether a frame that is left has come to a ``yield`` or ``await``, not to its end."""
    # Python 3.13 has done what it waits at.
    code, at = frame.f_code.co_code, max(frame.f_lasti, 2)
    return not _YIELDS.isdisjoint(code[at - 2 : at + 2 : 2])


def leaves_with(frame: FrameType) -> bool:
    """Whether a line begins that leaves a ``with`` in good order, or that is being done.

    It calls ``__exit__`` with three times None. A line of the script's cannot begin by loading
    these: what it calls comes first. Of calls that are being done, its own of such a form are
    taken for one, too.
    """
    code, at = frame.f_code.co_code, max(frame.f_lasti, 0)
    nothing = _nothing(frame.f_code)
    begin = at
    while code[begin] in _BEFORE:
        begin += 2
    while at > 0 and code[at] in _CALLS:
        at -= 2
    return code.startswith(nothing, begin) or code.endswith(nothing, 0, at + 2)


def _nothing(code: CodeType) -> bytes:
    """The instructions that load None three times."""
    constants = enumerate(code.co_consts)
    index = next((i for i, constant in constants if constant is None), 0)
    load = bytes([opmap["LOAD_CONST"], index & 255])
    if index > 255:
        load = bytes([opmap["EXTENDED_ARG"], index >> 8 & 255]) + load
    return load * 3


def may_handle(code: CodeType) -> bool:
    """Whether there may be a ``try`` or a ``with`` in some code."""
    return bool(code.co_exceptiontable)
