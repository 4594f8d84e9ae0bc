"""``N`` or ``Ns``: a number of steps or of seconds, as ``--interval`` and ``--skip`` take them."""

from __future__ import annotations

import math
import re

from ..errors import UsageError

#: Longer than any run, in seconds; of more, nanoseconds cannot be counted.
LONGEST = 1e12


class Span:
    """So many steps or so many seconds; one of the two is None."""

    __slots__ = ("seconds", "steps")

    def __init__(self, steps: int | None = None, seconds: float | None = None) -> None:
        self.steps = steps
        self.seconds = None if seconds is None else min(seconds, LONGEST)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Span) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return f"{self.steps}" if self.seconds is None else f"{self.seconds:g}s"

    def __bool__(self) -> bool:
        """Whether there is at least one step in it."""
        return bool(self.steps or self.seconds)


def parse_span(text: str | int | float, option: str, least: int = 0) -> Span:
    """Read ``N`` (steps) or ``Ns`` (seconds).

    Args:
        text: What the user wrote; a number means steps.
        option: What to call it in the error.
        least: The smallest number of steps that makes sense; seconds must be above 0 if it is.

    Raises:
        UsageError: It is neither, negative, or not finite.
    """
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:e\+?[0-9]+)?)\s*(s?)\s*", str(text), re.IGNORECASE)
    number = float(match[1]) if match else math.nan
    timed = bool(match and match[2])
    if math.isfinite(number) and (number > 0 or not least):
        if timed:
            return Span(seconds=number)
        if number == int(number) and number >= least:
            return Span(steps=int(number))
    raise UsageError(
        "bad-span",
        f"{option} {text!r} is neither a number of steps nor of seconds",
        f"Write whole steps from {least}, for example 10; or seconds, for example 5s.",
    )
