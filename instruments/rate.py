"""``rate``: the rate of each window of steps, for voirfiles."""

from __future__ import annotations

from collections.abc import Callable, Generator

from overseer import Overseer, instrument_definition

from .measuring import Windows, instrument_rates, measuring_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overseer.model.spans import Span

#: What voir 0.2 called ways to see a step, and what they are called here.
METHODS = {"delta": "step", "step": "step", "wrap": "wrap"}


@instrument_definition
def rate(
    ov: Overseer,
    interval: str | float = "1s",
    skip: str | float | None = None,
    method: str | None = None,
    batch_size_calc: Callable[[Any], Any] | int | None = None,
    sync: Callable[[], object] | None = None,
) -> Generator[Any, Any, None]:
    """Give the rate of each window: ``{"task", "rate", "units"}``, and shares where known.

    Args:
        ov: The overseer.
        interval: The length of a window: steps, or seconds as ``"5s"``.
        skip: How many windows to leave out at the beginning of each task; or seconds: ``"5s"``.
            By default none; where it is said that none are, they are not out of the summary either.
        method: What a step is: ``"delta"``, the time between two events with ``step``; ``"wrap"``,
            a pair and what lies between it and the next; by default whatever there is.
        batch_size_calc: Computes the number of items in a batch; or that number.
        sync: Has no effect: a device's steps are timed by its own clock, and nothing waits for it.

    Raises:
        UsageError: An argument is none of these.
    """
    ov.require(instrument_rates)
    yield ov.phases.parse_args
    from overseer.model.spans import parse_span

    length = parse_span(interval, "rate(interval)", least=1)
    measuring = measuring_of(ov)
    skipped = _skipped(0 if skip is None else skip, length)
    measuring.windows.append(Windows(length, skipped))
    if skip is not None and not skipped and measuring.skip is None:
        measuring.skip = skip
    measuring.method = _method(method) or measuring.method
    if batch_size_calc is not None:
        measuring.batch_size = batch_size_calc


def _skipped(skip: str | float, interval: Span) -> Span:
    """What to skip, which is said in windows or in seconds."""
    from overseer.model.spans import Span, parse_span

    span = parse_span(skip, "rate(skip)")
    if span.steps is None:
        return span
    if interval.seconds is not None:
        return Span(seconds=span.steps * interval.seconds)
    return Span(steps=span.steps * (interval.steps or 1))


def _method(method: str | None) -> str | None:
    from overseer.errors import UsageError

    if method is None:
        return None
    if method not in METHODS:
        what = f"rate(method) {method!r} is no way to see a step"
        raise UsageError("bad-method", what, "Write 'delta' or 'wrap', or leave it out.")
    return METHODS[method]
