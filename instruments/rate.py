"""Steps, rates and shares of every run; ``--train-rate`` and its kin log them window by window."""

from __future__ import annotations

from collections.abc import Callable, Generator

from overseer import Overseer, instrument_definition
from overseer.errors import VoirError

from .measuring import Windows, measuring_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overseer.model.spans import Span

#: Flags, by the key under which they log a figure of each window.
FLAGS = {
    "train_rate": "log items a second, window by window",
    "loading_rate": "how fast the loader alone is, and its share of time",
    "compute_rate": "how fast the work alone is, and its share of time",
}
#: What voir 0.2 called ways to see a step, and what they are called here.
METHODS = {"delta": "step", "step": "step", "wrap": "wrap"}


def instrument_rates(ov: Overseer) -> Generator[Any, Any, None]:
    """Measure steps whenever a script or a voirfile shows any."""
    yield ov.phases.init
    _add_options(ov.argparser)
    yield ov.phases.parse_args
    options, measuring = ov.options, measuring_of(ov)
    # No defaults of argparse's: it would check them at every start, and import what that needs.
    measuring.interval = options.interval or measuring.interval
    measuring.skip = options.skip if options.skip is not None else measuring.skip
    measuring.multiplier = options.items_per_step
    measuring.method = options.metric or measuring.method
    logged = (key for key in FLAGS if getattr(options, key))
    measuring.logged = tuple(logged) or (("train_rate",) if options.metric else ())
    yield from measuring.run()


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


def _add_options(parser: Any) -> None:
    add = parser.add_argument
    for key, what in FLAGS.items():
        add(f"--{key.replace('_', '-')}", action="store_true", help=what)
    add("--metric", choices=("step", "wrap"), metavar="step|wrap",
        help="take only steps, or only pairs, for steps; logs --train-rate")  # fmt: skip
    add("--interval", "--metric-interval", type=_span("--interval", 1),
        metavar="N|Ns", help="length of a window, in steps or seconds (1s)")  # fmt: skip
    add("--skip", "--metric-skip", type=_span("--skip", 0), metavar="N|Ns",
        help="leave out so many steps or seconds, instead of finding the warm-up")  # fmt: skip
    add("--items-per-step", type=_positive, default=1, metavar="K",
        help="count the items of a batch K times: gradient accumulation and the like")  # fmt: skip


def _positive(text: str) -> int:
    if not text.isdecimal() or len(text) > 7 or not 1 <= int(text) <= 10**6:
        what = f"--items-per-step is {text!r}, which is no number to count items by"
        remedy = "Give a whole number from 1 to 1000000, for example 4."
        raise VoirError("option-value", what, remedy)
    return int(text)


def _span(option: str, least: int) -> Callable[[str], str]:
    def checked(text: str) -> str:
        from overseer.model.spans import parse_span

        parse_span(text, option, least)
        return text

    return checked
