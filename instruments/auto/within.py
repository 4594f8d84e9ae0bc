"""What a thread is in the middle of: the forward of an outermost module."""

from __future__ import annotations

from typing import Any

from .forward import Forward
from .sizing import Given


class Within:
    """An outermost module at work.

    Args:
        way: What of a step is its forward.

    Attributes:
        way: The same.
        bare: A module without parameters at work that is timed; those within it may be models.
        module: It; None while none is.
        passing: A compiled module at work that is no model.
        given: What a compiled model was called with.
        begin: When its forward began.
        grad: Gradients are recorded.
        evaluated: It was known at its beginning that nothing is learned from it.
    """

    __slots__ = ("bare", "begin", "evaluated", "given", "grad", "module", "passing", "way")

    def __init__(self, way: Forward) -> None:
        self.way = way
        self.bare: Any = None
        self.module: Any = None
        self.passing: Any = None
        self.given = Given(None, False)
        self.begin = 0
        self.grad = self.evaluated = False
