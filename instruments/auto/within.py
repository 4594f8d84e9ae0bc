"""What a thread is in the middle of: the forward of an outermost module."""

from __future__ import annotations

from typing import Any

from .sizing import Given


class Within:
    """An outermost module at work.

    Attributes:
        module: It; None while none is.
        passing: A compiled module at work that is no model.
        given: What a compiled model was called with.
        begin: When its forward began.
        grad: Gradients are recorded.
        evaluated: It was known at its beginning that nothing is learned from it.
    """

    __slots__ = ("begin", "evaluated", "given", "grad", "module", "passing")

    def __init__(self) -> None:
        self.module: Any = None
        self.passing: Any = None
        self.given = Given(None, False)
        self.begin = 0
        self.grad = self.evaluated = False
