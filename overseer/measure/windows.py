"""Cuts steps into windows, and makes an event of each window's rates."""

from __future__ import annotations

import math
from functools import partial

from ..context import Own
from ..model.rates import Rates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..model.fold import Fold
    from ..model.rates import Window
    from ..model.spans import Extent
    from ..model.steps import Step


RATES = ("train_rate", "loading_rate", "compute_rate")


def logged_rates(options: Namespace) -> tuple[str, ...]:
    """Figures of each window that the options ask to log."""
    rates = tuple(key for key in RATES if getattr(options, key))
    return rates or (("train_rate",) if options.metric else ())


class RateRequest:
    """A request for windows of steps: that of ``rate()`` in a voirfile, or that of the flags.

    Args:
        interval: Length of a window.
        skip: Left out at the beginning of each task.
        logged: Log these figures of each window: ``train_rate``, ``loading_rate``, ...
        given: Give each window, as ``rate`` with ``units``.

    Attributes:
        tasks: Tasks that had a window.
        emitted: Those of ``logged`` that had a value.
    """

    def __init__(
        self,
        interval: Extent,
        skip: Extent | None,
        logged: tuple[str, ...] = (),
        given: bool = True,
    ) -> None:
        self.interval, self.skip, self.logged, self.given = interval, skip, logged, given
        self.tasks: set[str] = set()
        self.emitted: set[str] = set()

    def given_events(self, window: Window) -> Iterator[Own]:
        """The event to give for a window: its rate, and shares where loading was seen."""
        rate, share = window.rate, window.loading_share
        if self.given and rate is not None:
            event = {"task": window.task, "rate": rate, "units": f"{window.units}/s"}
            if share is not None:
                event |= {"loading_share": share, "compute_share": 1 - share}
            yield _event(event, window)

    def logged_events(self, window: Window) -> Iterator[Own]:
        """An event for each figure to log that is known."""
        for key in self.logged:
            value = window.rate if key == "train_rate" else getattr(window, key)
            if value is None:
                continue
            self.emitted.add(key)
            event = {"task": window.task, key: value, "units": f"{window.units}/s"}
            share = key.replace("_rate", "_share")
            if getattr(window, share, None) is not None:
                event[share] = getattr(window, share)
            yield _event(event, window)


def _event(event: dict[str, Any], window: Window) -> Own:
    """An event of a window, dated to its last step."""
    own = Own(event)
    own.of_step = window.first + window.steps - 1
    return own


class RateWindows:
    """Cuts finished steps into the windows that were requested, and emits their events.

    Args:
        requests: The requests.
        multiplier: Items of a step count this many times.
        fold: Knows whether the items of a task are known.
        give: Called with the events to give; ``log``: with those to log.
    """

    def __init__(
        self,
        requests: list[RateRequest],
        multiplier: int,
        fold: Fold,
        give: Callable[[Own], object],
        log: Callable[[Own], object],
    ) -> None:
        self._fold, self._give, self._log = fold, give, log
        self._rates = [
            Rates(partial(self._emit, one), one.interval, one.skip, multiplier) for one in requests
        ]

    def add(self, steps: list[Step]) -> None:
        """Take in finished steps."""
        for rates in self._rates:
            rates.add(steps)

    def finish(self) -> None:
        """Close the open windows: the script has ended."""
        for rates in self._rates:
            rates.finish()

    def _emit(self, request: RateRequest, window: Window) -> None:
        request.tasks.add(window.task)
        task = self._fold.tasks.get(window.task)
        if task is None or task.items != task.items:
            window.items = math.nan
        for event in request.given_events(window):
            self._give(event)
        for event in request.logged_events(window):
            self._log(event)
