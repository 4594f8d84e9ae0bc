"""Steps, rates and shares of every run; ``--train-rate`` and its kin log them window by window."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from overseer import Overseer, instrument_definition

if TYPE_CHECKING:
    from overseer.measure.rates import Rates, Reading
    from overseer.measure.steps import StepModel

#: How often windows are looked at and losses are read, in seconds, off the script's thread.
TICK_SECONDS = 0.5
#: Flags, which are also the keys of what they log, and the figure of a window that it is.
FLAGS = {"train_rate": "rate", "loading_rate": "loading_rate", "compute_rate": "compute_rate"}
#: An event with any of these has to do with steps.
KEYS = frozenset({"step", "$wrap", "loss", "batch", "batch_size"})


def instrument_rates(ov: Overseer) -> Generator[Any, Any, None]:
    """Measure steps whenever a script or a voirfile shows any."""
    yield ov.phases.init
    _add_options(ov.argparser)
    yield ov.phases.parse_args
    options = ov.options
    logged = {key: figure for key, figure in FLAGS.items() if getattr(options, key)}
    # No defaults of argparse's: it would check them at every start, and import what that needs.
    measuring = Measuring(
        ov,
        options.interval or "1s",
        options.skip or "0",
        multiplier=options.items_per_step,
        logged=logged,
    )
    yield from measuring.run()


@instrument_definition
def rate(
    ov: Overseer,
    interval: str | float = "1s",
    skip: str | float = 0,
    batch_size: Callable[[Any], Any] | int | None = None,
) -> Generator[Any, Any, None]:
    """Log the rate of each window, ``{"task", "rate", "units"}``.

    Args:
        ov: The overseer.
        interval: The length of a window: steps, or seconds as ``"5s"``.
        skip: What to leave out at the beginning.
        batch_size: Computes the number of items in a batch; or that number.
    """
    yield ov.phases.parse_args
    measuring = Measuring(ov, interval, skip, batch_size=batch_size, logged={"rate": "rate"})
    yield from measuring.run()


class Measuring:
    """Feeds one run's events to the step model, and its figures back to the run.

    The model is made when the first step or loss comes: a run without pays nothing for it.

    Args:
        ov: The run.
        interval: The length of a window.
        skip: What to leave out at the beginning of a task.
        multiplier: Items of a step are counted this many times.
        batch_size: Computes the number of items in a batch; or that number.
        logged: Which figure of each window to log, by the key it has in the event.
    """

    def __init__(
        self,
        ov: Overseer,
        interval: str | float,
        skip: str | float,
        multiplier: int = 1,
        batch_size: Callable[[Any], Any] | int | None = None,
        logged: dict[str, str] | None = None,
    ) -> None:
        self._ov = ov
        self._interval, self._skip = interval, skip
        self._multiplier, self._batch_size = multiplier, batch_size
        self._logged = logged or {}
        self._meter: _Meter | None = None

    def run(self) -> Generator[Any, Any, None]:
        """Listen until the script has ended; then sum up."""
        waiting = self._ov.listen(self._consider)
        try:
            yield self._ov.phases.run_script(priority=50)  # Before others reduce what it gives.
        finally:
            waiting.dispose()
            if self._meter is not None:
                self._meter.close()

    def _consider(self, event: dict[str, Any]) -> None:
        """Wait for an event that has to do with steps."""
        if self._meter is None and not KEYS.isdisjoint(event):
            self._meter = _Meter(self._ov, self._model(), self._skip)
            self._meter.rates = self._rates()
            self._meter.open(event)

    def _model(self) -> StepModel:
        from overseer.measure.device import find_device
        from overseer.measure.steps import StepModel

        return StepModel(
            self._ov.clock,
            multiplier=self._multiplier,
            batch_size=self._batch_size,
            find_device=find_device,
            report=self._ov.report,
        )

    def _rates(self) -> Rates:
        from overseer.measure.rates import Rates
        from overseer.measure.spans import parse_span

        interval = parse_span(self._interval, "--interval", least=1)
        return Rates(self._window, interval, parse_span(self._skip, "--skip"))

    def _window(self, reading: Reading) -> None:
        ov, units = self._ov, f"{reading.units}/s"
        if reading.rate is not None:
            event: dict[str, Any] = {"task": reading.task, "rate": reading.rate, "units": units}
            if reading.loading_share is not None:
                event["loading_share"] = reading.loading_share
                event["compute_share"] = reading.compute_share
            ov.give(**event)
        for key, figure in self._logged.items():
            value = getattr(reading, figure)
            if value is not None:
                ov.log({"task": reading.task, key: value, "units": units})


class _Meter:
    """The step model of a run at work, with those who draw conclusions from its steps."""

    rates: Rates

    def __init__(self, ov: Overseer, model: StepModel, skip: str | float) -> None:
        from overseer.measure.losses import Losses
        from overseer.measure.spans import parse_span
        from overseer.measure.summary import Tasks

        self._ov, self._model = ov, model
        self._losses = Losses(ov.report)
        self._tasks = Tasks(parse_span(skip, "--skip"))
        self._timer = ov.every(TICK_SECONDS, self._tick, first=TICK_SECONDS)

    def open(self, event: dict[str, Any]) -> None:
        """Listen from here on; ``event`` is the first to be heard."""
        self._model.sinks += [self.rates, self._tasks]
        heard: list[tuple[Callable[[dict[str, Any]], object], tuple[str, ...]]]
        heard = [*self._model.listeners(), (self._losses, ("loss",))]
        for listener, keys in heard:
            if all(key in event for key in keys):
                listener(event)  # Who begins to listen during an event does not hear it.
            self._ov.listen(listener, *keys)
        self._timer.__enter__()
        self._ov.cost_of(lambda: self._model.notes, self._like_a_note())

    def _like_a_note(self) -> Callable[[], object]:
        """Do to another model what a note does to this one."""
        model, tasks = type(self._model)(self._ov.clock), type(self._tasks)()
        model.sinks.append(tasks)
        event = {"step": True, "batch_size": 1}
        return lambda: model.on_step(event)

    def _tick(self) -> None:
        self._model.drain()
        self._losses.read()

    def close(self) -> None:
        """The script has ended: work off what is left, and say what it came to."""
        self._timer.__exit__(None, None, None)
        self._model.finish()
        self.rates.finish()
        self._losses.read()
        losses = self._losses.summary()
        self._ov.summary["tasks"] = self._tasks.section(self._model.clock_name, losses)


def _add_options(parser: Any) -> None:
    add = parser.add_argument
    for flag, what in (("train", "items a second"), ("loading", "how fast the loader alone is"),
                       ("compute", "how fast the work alone is")):  # fmt: skip
        add(f"--{flag}-rate", action="store_true", help=f"log {what}, window by window")
    add("--interval", "--metric-interval", type=_span("--interval", 1),
        metavar="N|Ns", help="length of a window, in steps or seconds (1s)")  # fmt: skip
    add("--skip", "--metric-skip", type=_span("--skip", 0), metavar="N|Ns",
        help="leave out so many steps or seconds, instead of finding the warm-up")  # fmt: skip
    add("--items-per-step", type=int, default=1, metavar="K",
        help="count the items of a batch K times: gradient accumulation and the like")  # fmt: skip


def _span(option: str, least: int) -> Callable[[str], str]:
    def checked(text: str) -> str:
        from overseer.measure.spans import parse_span

        parse_span(text, option, least)
        return text

    return checked
