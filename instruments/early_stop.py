"""``--stop N`` and ``early_stop``: end the run after so many steps, in good order."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from overseer import Overseer, StopProgram, instrument_definition
from overseer.errors import Problem, VoirError


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
    counter = _Counter(ov, key, n, task, signal)
    ov.listen(counter, key)
    yield ov.phases.finalize
    if counter.seen == 0 and ov.exit_status == 0:
        ov.report(_nothing_to_count(key, n, task))


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


def _nothing_to_count(key: str, n: int, task: str | None) -> Problem:
    which = f"event with {key!r}" + (f" for task {task!r}" if task is not None else "")
    what = f"no {which} was ever given, so the script was not stopped after {n}"
    remedy = f"For example: ov.probe('//train_epoch > #endloop_inp as {key}').give()"
    return Problem("nothing-given", "early_stop", what, remedy=remedy)


def instrument_stop(ov: Overseer) -> Generator[Any, Any, None]:
    """Offer ``--stop N``: end the run after N steps."""
    yield ov.phases.init
    ov.argparser.add_argument(
        "--stop", type=_count, metavar="N", help="end the script after N steps, with status 0"
    )
    yield ov.phases.parse_args
    if ov.options.stop is not None and "--stop" not in ov.argparser.taken:
        ov.require(early_stop("step", ov.options.stop))


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        what = f"--stop is {text!r}, which is no number of steps"
        raise VoirError("option-value", what, "Give a whole number from 1, for example --stop 100.")
    return int(text)
