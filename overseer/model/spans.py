"""Parses ``N`` steps or ``Ns`` seconds, the values of ``--interval`` and ``--skip``."""

from __future__ import annotations

import math
import re

from ..errors import UsageError

#: Longer than any run, in seconds; more would overflow nanoseconds.
MAX_SECONDS = 1e12


class Extent:
    """A number of steps or of seconds; the other is None."""

    __slots__ = ("seconds", "steps")

    def __init__(self, steps: int | None = None, seconds: float | None = None) -> None:
        self.steps = steps
        self.seconds = None if seconds is None else min(seconds, MAX_SECONDS)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extent) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return f"{self.steps}" if self.seconds is None else f"{self.seconds:g}s"

    def __bool__(self) -> bool:
        """Whether it is more than zero."""
        return bool(self.steps or self.seconds)


def parse_span(text: str | int | float, option: str, least: int = 0) -> Extent:
    """Parse ``N`` (steps) or ``Ns`` (seconds).

    Args:
        text: The user's text; a number means steps.
        option: The option's name, for the error.
        least: The smallest valid number of steps. If above 0, seconds must be above 0 too.

    Raises:
        UsageError: The text is neither, negative, or not finite.
    """
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+(?:e\+?[0-9]+)?)\s*(s?)\s*", str(text), re.IGNORECASE)
    number = float(match[1]) if match else math.nan
    timed = bool(match and match[2])
    if math.isfinite(number) and (number > 0 or not least):
        if timed:
            return Extent(seconds=number)
        if number == int(number) and number >= least:
            return Extent(steps=int(number))
    raise UsageError(
        "bad-span",
        f"{option} {text!r} is neither a number of steps nor of seconds",
        f"Write whole steps from {least}, for example 10; or seconds, for example 5s.",
    )
