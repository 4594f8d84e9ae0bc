"""``N`` or ``Ns``: a number of steps or of seconds, as ``--interval`` and ``--skip`` take them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ..errors import UsageError


@dataclass(frozen=True)
class Span:
    """So many steps or so many seconds; one of the two is None."""

    steps: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        return f"{self.seconds:g}s" if self.seconds is not None else f"{self.steps}"

    @property
    def nothing(self) -> bool:
        """Whether there is not a single step in it."""
        return not (self.steps or self.seconds)


#: Longer than any run, in seconds; of more, nanoseconds cannot be reckoned with.
LONGEST = 1e12

#: Every step by itself.
ONE_STEP = Span(steps=1)
#: Not a single one.
NOTHING = Span(steps=0)


def lasting(seconds: float) -> Span:
    """So many seconds; as good as for ever, if there are too many to reckon with."""
    return Span(seconds=min(seconds, LONGEST))


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
    whole = timed or number == int(number) if math.isfinite(number) else False
    if not whole or number < least * (0 if timed else 1) or (timed and least and not number):
        raise UsageError(
            "bad-span",
            f"{option} {text!r} is neither a number of steps nor of seconds",
            f"Write whole steps from {least}, for example 10; or seconds, for example 5s.",
        )
    return lasting(number) if timed else Span(steps=int(number))
