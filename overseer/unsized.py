"""What stands for a batch's size where the function that computes it has failed."""

from __future__ import annotations


class Unsized(str):
    """Why the number of items of a batch is not known; an event has it as its ``batch_size``."""

    __slots__ = ()
