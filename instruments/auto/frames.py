"""Tracebacks through a module that has our hook, as they are through one without.

Where a module has hooks, torch calls its ``forward`` from a function within ``_call_impl``, and
where it has none from ``_call_impl`` itself: one entry more, and another line.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, TracebackType
from typing import Any

#: What torch calls the two functions, and the variable that holds ``forward``.
OUTER, INNER, FORWARD = "_call_impl", "inner", "forward_call"


def mend(error: BaseException, only_ours: Callable[[Any], bool]) -> None:
    """Take out of ``error`` what our hooks put into its traceback.

    Args:
        error: It has come through calls of modules.
        only_ours: Whether a module has no hooks but ours, and there are none for all.
    """
    entries: list[TracebackType] = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    following: TracebackType | None = None
    while entries:
        entry = entries.pop()
        if entries and _hooked(entries[-1], entry, only_ours):
            entry = entries.pop()
            entry.tb_next = following  # Python 3.10 goes on raising with this very entry.
            following = _direct(entry, following)
        else:
            entry.tb_next = following
            following = entry
    if following is not error.__traceback__:
        error.__traceback__ = following


def _hooked(entry: TracebackType, inner: TracebackType, only_ours: Callable[[Any], bool]) -> bool:
    """Whether these are the call of a module and, within, torch's function for hooks."""
    code, within = entry.tb_frame.f_code, inner.tb_frame.f_code
    if code.co_name != OUTER or within.co_name != INNER or within not in code.co_consts:
        return False
    return only_ours(entry.tb_frame.f_locals.get("self"))


def _direct(entry: TracebackType, following: TracebackType | None) -> TracebackType:
    """The entry, at the call that there would have been without hooks."""
    found = _call(entry.tb_frame.f_code)
    if found is None:
        return entry
    return TracebackType(following, entry.tb_frame, *found)


def _call(code: CodeType) -> tuple[int, int] | None:
    """Where ``forward`` is called: the instruction's offset, and its line."""
    import dis

    loaded = False
    for made in dis.get_instructions(code):
        if made.opname == "LOAD_DEREF" and made.argval == FORWARD:
            loaded = True
        elif loaded and made.opname == "CALL_FUNCTION_EX":
            lines = [line for start, end, line in code.co_lines() if start <= made.offset < end]
            return made.offset, lines[0] or code.co_firstlineno
    return None
