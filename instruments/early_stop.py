"""``--stop N`` and ``early_stop``: end the script cleanly after N steps or events."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator

from overseer import Overseer, StopProgram, instrument_definition
from overseer.boundary import announce_requested, put_off
from overseer.engine.ending import MAX_RERAISES
from overseer.errors import Problem, UsageError, VoirError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Task of events without one.
TASK = "train"
#: Lines that give events with a key that is not a variable of the script.
REMEDIES = {
    "step": "For example: ov.probe('//train_epoch > #endloop_inp as step').give()",
    "rate": "For example: ov.require(rate(interval=10)): one every 10 steps after the skip.",
}


@instrument_definition
def early_stop(
    ov: Overseer,
    key: str = "step",
    n: int = 100,
    task: str | None = None,
    signal: Callable[[object], BaseException] | str = StopProgram,
) -> Generator[Any, Any, None]:
    """Stop the script at the ``n``-th step or at the ``n``-th event with ``key``.

    Args:
        ov: The overseer.
        key: Key of the events to count; ``step`` counts steps, from hooks or from a voirfile.
        n: Number of steps or events.
        task: Count only this task; events without a task belong to ``train``.
        signal: Exception class to raise, or the name of an event to log instead.

    Raises:
        UsageError: An argument is invalid.
    """
    n = _checked(key, n, signal)
    yield ov.phases.init
    stop = _Stop(ov, key, n, task, signal)
    if key == "step":
        ov.measuring.stop_at(n, task, stop.reached)
    else:
        ov.listen(stop.count, key)
    yield ov.phases.run_script(priority=200)  # Before others ask whether it was stopped.
    yield ov.phases.finalize
    others = ov.recording is not None and ov.recording.joined
    if not (stop.seen or stop.done or ov.exit_status or stop.steps() or others):
        ov.report(_nothing_to_count(key, n, task))


class _Stop:
    """Counts events and ends the script at the last one.

    Attributes:
        seen: Number of events so far; the fold counts steps.
        done: The script has been asked to end.
    """

    def __init__(self, ov: Overseer, key: str, n: int, task: str | None, signal: Any) -> None:
        self._ov, self._key, self._n, self._task, self._signal = ov, key, n, task, signal
        self.seen, self.done, self._left = 0, False, MAX_RERAISES

    def steps(self) -> int:
        """Number of steps so far."""
        fold = self._ov.measuring.fold
        return fold.steps(self._task) if fold is not None and self._key == "step" else 0

    def count(self, event: dict[str, Any]) -> None:
        """Count an event with the key; a pair counts once, at its end."""
        wrap = event.get("$wrap")
        other = self._task is not None and event.get("task", TASK) != self._task
        if other or (isinstance(wrap, dict) and wrap.get("step") == "begin"):
            return
        self.seen += 1
        if self.seen >= self._n:
            self.reached(event[self._key])

    def reached(self, value: object = None) -> None:
        """End the script at the requested step or event, and again in threads that go on.

        Raises:
            BaseException: The ``signal``.
        """
        if isinstance(self._signal, str):
            if not self.done:
                self._ov.log({"$event": self._signal})
            self.done = True
            return
        main = threading.current_thread() is threading.main_thread()
        if self.done and (main or not self._left):
            return  # Main thread: the stop is propagating. Others: all retries were swallowed.
        self._left -= self.done
        self.done = True
        of = f" of {self._task!r}" if self._task is not None else ""
        steps = f"{self._n} steps" if self._n > 1 else "a step"
        reason = f"{steps}{of}" if self._key == "step" else f"{self._n} events with {self._key!r}"
        self._ov.stopped_early = f"after {reason}"
        error = self._signal(self._n if value is None else value)
        BaseException.__setattr__(error, "__voir_requested__", True)
        if isinstance(error, StopProgram):
            error.agreed = self._key == "step"  # Events of ranks may differ.
        if not put_off(error):
            announce_requested(error)
        raise error


def _checked(key: object, n: Any, signal: object) -> int:
    """Check the arguments of :func:`early_stop`; return ``n``."""
    example = "For example: early_stop(n=100)"
    if not isinstance(key, str):
        first = not isinstance(key, bool) and isinstance(key, (int, float)) and key >= 1
        remedy = f"The key comes first: early_stop(n={key!r:.40})" if first else example
        what = f"early_stop(key) is {key!r:.60}, which is not the key of an event"
        raise UsageError("option-value", what, remedy)
    whole = isinstance(n, float) and n.is_integer()
    if isinstance(n, bool) or not (isinstance(n, int) or whole) or n < 1:
        what = f"early_stop(n) is {n!r:.60}, which is not a number of events"
        raise UsageError("option-value", what, f"Give a whole number from 1. {example}")
    if not isinstance(signal, str) and not callable(signal):
        what = f"early_stop(signal) is {signal!r:.60}, which can be neither raised nor logged"
        remedy = 'Give an exception class or the name of an event: early_stop(signal="stop")'
        raise UsageError("option-value", what, remedy)
    return int(n)


def _nothing_to_count(key: str, n: int, task: str | None) -> Problem:
    which = f"event with {key!r}" + (f" for task {task!r}" if task is not None else "")
    what = f"no {which} was given, so the script was not stopped after {n}"
    remedy = REMEDIES.get(key, f"For example: ov.probe('//train_epoch > {key}').give()")
    return Problem("nothing-given", "early_stop", what, remedy=remedy)


def instrument_stop(ov: Overseer) -> Generator[Any, Any, None]:
    """Offer ``--stop N``: end the run after N steps."""
    yield ov.phases.init
    ov.argparser.add_argument(
        "--stop", type=_count, metavar="N", help="end the script after N steps, with status 0"
    )
    yield ov.phases.parse_args
    if ov.options.stop is not None and "--stop" not in ov.argparser.taken:
        ov.require(early_stop(n=ov.options.stop))


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        what = f"--stop is {text!r}, which is not a number of steps"
        raise VoirError("option-value", what, "Give a whole number from 1, for example --stop 100.")
    return int(text)
