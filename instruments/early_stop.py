"""``--stop N`` and ``early_stop``: end the run after so many steps, in good order."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from overseer import Overseer, StopProgram, instrument_definition


@instrument_definition
def early_stop(
    ov: Overseer,
    key: str = "step",
    n: int = 100,
    task: str | None = None,
    signal: Callable[[object], BaseException] | str = StopProgram,
) -> Generator[Any, Any, None]:
    """Stop the script at the ``n``-th event that has ``key``.

    Args:
        ov: The overseer.
        key: What to count.
        n: How many to let happen.
        task: Count only events of this task.
        signal: What to raise; or the name of an event to log instead.
    """
    yield ov.phases.init
    ov.listen(_Counter(ov, key, n, task, signal), key)


class _Counter:
    """Counts events and stops at the last one; start and end of a pair count once, at the end."""

    def __init__(
        self,
        ov: Overseer,
        key: str,
        n: int,
        task: str | None,
        signal: Callable[[object], BaseException] | str,
    ) -> None:
        self.ov, self.key, self.n, self.task, self.signal = ov, key, n, task, signal
        self.seen = 0

    def __call__(self, event: dict[str, Any]) -> None:
        wrap = event.get("$wrap")
        if self.task is not None and event.get("task") != self.task:
            return
        if (wrap is not None and wrap["step"] == "begin") or self.seen >= self.n:
            return
        self.seen += 1
        self.ov.give(task="early_stop", progress=(self.seen, self.n))
        if self.seen == self.n:
            self._stop(event[self.key])

    def _stop(self, value: object) -> None:
        if isinstance(self.signal, str):
            self.ov.log({"$event": self.signal})
            return
        self.ov.stopped_early = f"after {self.n} events with {self.key!r}"
        raise self.signal(value)


def instrument_stop(ov: Overseer) -> Generator[Any, Any, None]:
    """Offer ``--stop N``: end the run after N steps."""
    yield ov.phases.init
    ov.argparser.add_argument(
        "--stop", type=_count, metavar="N", help="end the script after N steps, with status 0"
    )
    yield ov.phases.parse_args
    if ov.options.stop is not None:
        ov.require(early_stop("step", ov.options.stop))


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number
