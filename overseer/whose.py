"""Whose event it is that is being delivered: voir's own, or somebody else's.

The frames that it comes from tell, and only when somebody asks: giving an event costs nothing more.
"""

from __future__ import annotations

import os
import sys

from .boundary import in_plumbing, of_instruments
from .plans import Plan
from .script import iterating
from .stream import Event

_DELIVERS = Plan._rest.__code__
#: Its operators give what a user has made of an event, whoever gave that one.
_OPERATORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "given.py")


def own(event: Event) -> bool:
    """Whether ``event`` is on its way on this thread, and voir itself has given it.

    That is what instruments of voir's give, automatic ones and monitors included, and the progress
    and steps of ``voir.iterate``. What has been made of such an event is not.
    """
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not _DELIVERS:
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None or frame.f_locals["event"] is not event:
        return False
    while frame is not None:
        if of_instruments(frame) or frame.f_code is iterating.__code__:
            return True
        if not in_plumbing(frame) or frame.f_code.co_filename == _OPERATORS:
            return False
        frame = frame.f_back  # type: ignore[assignment]
    return False
