"""Rates of windows of steps: the flags, and ``rate`` for voirfiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator

from overseer import Overseer, instrument_definition
from overseer.boundary import Guarded, name_of
from overseer.errors import UsageError, VoirError
from overseer.imports import on_import
from overseer.recorder import recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overseer.measure.measuring import Measuring
    from overseer.model.spans import Extent

#: Flags, by the figure of each window that they log.
FLAGS = {
    "train_rate": "log items per second for each window",
    "loading_rate": "log the loader's own rate and its share of time",
    "compute_rate": "log the compute rate and its share of time",
}
#: Libraries whose tensors the recorder reads.
TENSORS = ("torch", "numpy", "jax")
#: Size of ``steps.npy`` in megabytes: the default, and the most.
STEPS_MB, MAX_STEPS_MB = 64.0, 12_000.0
#: Methods of voir 0.2 and what they are now.
METHODS = {"delta": "step", "step": "step", "wrap": "wrap"}


def instrument_rates(ov: Overseer) -> Generator[Any, Any, None]:
    """Offer the flags for rates, and measure steps from the first event on."""
    yield ov.phases.init
    _add_options(ov.argparser)
    yield ov.phases.parse_args
    watches = [on_import(name, _know) for name in TENSORS]
    try:
        yield ov.phases.load_script(priority=-50)  # Voirfiles have made their requests.
        ov.context.configured = True
        if ov.options.metric or any(getattr(ov.options, key) for key in FLAGS):
            ov.measuring.begin()  # A flag without a figure is reported.
        elif ov.measured is not None:
            ov.measured.begin_if_due()
        yield ov.phases.run_script(
            priority=50
        )  # Before other instruments reduce the events that it gives.
    finally:
        for watch in watches:
            watch.dispose()
        if ov.measured is not None:
            if ov.measured.close():
                _report_unknown(ov, ov.measured)
            ov.measured.raise_request()


def _know(library: Any) -> None:
    """Have the recorder read a library's tensors."""
    from overseer.recorder.values import values

    values.know(library)


def _report_unknown(ov: Overseer, measuring: Measuring) -> None:
    """Report what is unknown of the run's steps."""
    from .unknown import problems

    fold, tasks = measuring.fold, ov.summary["tasks"]
    assert fold is not None
    for problem in problems(ov, fold, tasks, measuring.requests, measuring.method):
        ov.report(problem)


def _add_options(parser: Any) -> None:
    add = parser.add_argument
    for key, what in FLAGS.items():
        add(f"--{key.replace('_', '-')}", action="store_true", help=what)
    add("--metric", choices=("step", "wrap"), metavar="step|wrap",
        help="count only step events, or only pairs, as steps; logs --train-rate")  # fmt: skip
    add("--interval", "--metric-interval", type=_span("--interval", 1),
        metavar="N|Ns", help="length of a window, in steps or seconds (1s)")  # fmt: skip
    add("--skip", "--metric-skip", type=_span("--skip", 0), metavar="N|Ns",
        help="leave out N steps or seconds, not the found warm-up")  # fmt: skip
    add("--items-per-step", type=_positive, default=1, metavar="K",
        help="count the items of a batch K times, as with gradient accumulation")  # fmt: skip
    add("--steps-max-mb", type=_megabytes, default=STEPS_MB, metavar="MB",
        help=f"size of steps.npy; beyond it, every second step (default: {STEPS_MB:g}; 0: no file)")  # fmt: skip # noqa: E501


def _positive(text: str) -> int:
    if not text.isdecimal() or len(text) > 7 or not 1 <= int(text) <= 10**6:
        what = f"--items-per-step is {text!r}, which is not a number of items"
        remedy = "Give a whole number from 1 to 1000000, for example 4."
        raise VoirError("option-value", what, remedy)
    return int(text)


def _megabytes(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= MAX_STEPS_MB:
        what = f"--steps-max-mb is {text!r}, which is not a file size"
        raise VoirError("option-value", what, f"Give megabytes, from 0 to {MAX_STEPS_MB:g}.")
    return found


def _span(option: str, least: int) -> Callable[[str], str]:
    def checked(text: str) -> str:
        from overseer.model.spans import parse_span

        parse_span(text, option, least)
        return text

    return checked


@instrument_definition
def rate(
    ov: Overseer,
    interval: str | float = "1s",
    skip: str | float | None = None,
    method: str | None = None,
    batch_size_calc: Callable[[Any], Any] | int | None = None,
    sync: Callable[[], object] | None = None,
) -> Generator[Any, Any, None]:
    """Give the rate of each window: ``{"task", "rate", "units"}``, and shares if known.

    Args:
        ov: The overseer.
        interval: Length of a window: steps, or seconds as ``"5s"``.
        skip: Number of windows to leave out at the beginning of each task, or seconds: ``"5s"``.
            Default: none. An explicit 0 also keeps the warm-up in the summary.
        method: ``"delta"``: a step is the time between two events with ``step``; ``"wrap"``: a step
            is a pair and the time up to the next pair; default: both.
        batch_size_calc: The number of items in a batch, or a function that computes it.
        sync: Has no effect: steps on a device are timed by the device's clock.

    Raises:
        UsageError: An argument is invalid.
    """
    ov.require(instrument_rates)
    yield ov.phases.parse_args
    from overseer.measure.windows import RateRequest
    from overseer.model.spans import parse_span

    length = parse_span(interval, "rate(interval)", least=1)
    measuring = ov.measuring
    skipped = _skipped(0 if skip is None else skip, length)
    measuring.requests.append(RateRequest(length, skipped))
    if skip is not None and not skipped and measuring.given_skip is None:
        measuring.given_skip = skip
    measuring.given_method = _method(method) or measuring.given_method
    if batch_size_calc is not None:
        recorder.sizes(_sizes(ov, batch_size_calc))


def _skipped(skip: str | float, interval: Extent) -> Extent:
    """Parse a skip in windows or seconds."""
    from overseer.model.spans import Extent, parse_span

    span = parse_span(skip, "rate(skip)")
    if span.steps is None:
        return span
    if interval.seconds is not None:
        return Extent(seconds=span.steps * interval.seconds)
    return Extent(steps=span.steps * (interval.steps or 1))


def _method(method: str | None) -> str | None:
    if method is None:
        return None
    if method not in METHODS:
        what = f"rate(method) is {method!r}, which is not a method"
        raise UsageError("bad-method", what, "Write 'delta' or 'wrap', or leave it out.")
    return METHODS[method]


def _sizes(ov: Overseer, given: Callable[[Any], Any] | int) -> Callable[[Any], float]:
    """Computes the items of a given batch, on the script's thread."""
    count = given if callable(given) else lambda batch: given
    guarded = Guarded(count, name_of(count), ov.report)

    def size(batch: Any) -> float:
        found = guarded(batch) if batch is not None else None  # None: the wait for a batch.
        return float(found) if isinstance(found, (int, float)) else math.nan

    return size
