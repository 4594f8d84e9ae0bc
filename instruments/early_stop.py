"""``--stop N`` and ``early_stop``: end the run after so many steps, in good order."""

from __future__ import annotations

import sys
import threading
from _thread import get_ident
from collections.abc import Callable, Generator
from typing import Any

from overseer import Overseer, OverseerAbort, StopProgram, instrument_definition
from overseer.coroutines import coroutine
from overseer.errors import Problem, UsageError, VoirError

from .meter import measuring_of, method_in

#: The task of events that name none.
TASK = "train"
#: What gives events with a key that is none of the script's variables.
REMEDIES = {
    "step": "For example: ov.probe('//train_epoch > #endloop_inp as step').give()",
    "rate": "For example: ov.require(rate(interval=10)): one every 10 steps but those skipped.",
}
#: What is given of windows of steps, which are known when the step behind them has ended.
WINDOWS = frozenset({"rate", "loading_share", "compute_share"})
#: How often threads that go on are stopped again: one that swallows every stop is let go then.
TIMES = 1000


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
        key: What to count; ``step`` counts steps, whichever way they are shown.
        n: How many to let happen.
        task: Count only events of this task; those that name none are of ``train``.
        signal: What to raise; or the name of an event to log instead.

    Raises:
        UsageError: An argument is none of these.
    """
    n = _checked(key, n, signal)
    yield ov.phases.init
    counter = _Steps(ov, n, task, signal) if key == "step" else _Counter(ov, key, n, task, signal)
    ov.expect_stop()
    if key in WINDOWS:
        measuring_of(ov).at_once = True
    counter.listen()
    try:
        yield ov.phases.run_script(priority=200)  # Before others ask whether it was stopped.
    except GeneratorExit:
        raise
    except BaseException as error:
        counter.settle(error)
    else:
        counter.settle(None)
    yield ov.phases.finalize
    counter.complain()


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
        self._left = TIMES
        self._over = False
        self._raised: BaseException | None = None
        self._coroutine: int | None = None
        self.reason = f"after {n} events with {key!r}"

    def listen(self) -> None:
        """Begin to count."""
        self.ov.listen(self, self.key)

    def __call__(self, event: dict[str, Any]) -> None:
        wrap = event.get("$wrap")
        if self.other(event) or (wrap is not None and wrap["step"] == "begin"):
            return
        if self.seen < self.n:
            self.count(event[self.key])
        else:
            self.again(event[self.key])

    def other(self, event: dict[str, Any]) -> bool:
        """Whether it is of a task that does not count."""
        return self.task is not None and event.get("task", TASK) != self.task

    def count(self, value: object) -> None:
        """One more; the last one stops the script."""
        self.seen += 1
        self.ov.publish(task="early_stop", progress=(self.seen, self.n))
        if self.seen == self.n:
            self._stop(value)

    def again(self, value: object) -> None:
        """A step after the last: stop what goes on, or has begun another work."""
        if isinstance(self.signal, str):
            return
        if get_ident() == threading.main_thread().ident and coroutine() in (None, self._coroutine):
            return  # There, the stop is on its way.
        if self._left and not _stops(sys.exc_info()[1]):
            self._left -= 1
            raise _made(self.signal, value)
        if not self._left:
            self.ov.goes_on()

    def complain(self) -> None:
        """Say so, when there was nothing to count."""
        if self.seen == 0 and self.ov.exit_status == 0:
            self.ov.report(_nothing_to_count(self.key, self.n, self.task))

    def _stop(self, value: object) -> None:
        if isinstance(self.signal, str):
            self.ov.log({"$event": self.signal})
            return
        if self._over:
            return  # What is known only now has stopped nothing.
        self._raised, self._coroutine = _made(self.signal, value), coroutine()
        self.ov.stopped_early = self.reason
        raise self._raised

    def settle(self, error: BaseException | None) -> None:
        """The script has ended, by ``error``: it was not stopped if it has swallowed the signal.

        Nothing swallows a ``StopProgram``: that is raised anew until it has left the script.
        """
        raised, self._over = self._raised, True
        if raised is None or isinstance(raised, (StopProgram, OverseerAbort)):
            return
        if raised is not error and not _got_out(raised):
            self.ov.stopped_early = None


class _Shown:
    """What has shown the steps of one task in one thread, or coroutine of it: events, or pairs.

    Attributes:
        seen: How many steps that came to.
    """

    __slots__ = ("events", "opened", "pairs", "seen")

    def __init__(self) -> None:
        self.opened: dict[str, None] = {}
        self.events = self.pairs = self.seen = 0


class _Steps(_Counter):
    """Counts steps by their events; where a task has none, by the pairs around them.

    Of pairs within one another the outermost is the step. Where only events or only pairs are to
    be steps (``--metric``), only those count.
    """

    def __init__(
        self,
        ov: Overseer,
        n: int,
        task: str | None,
        signal: Callable[[object], BaseException] | str,
    ) -> None:
        from overseer.measure.steps import STEP_PAIRS, without_batch

        super().__init__(ov, "step", n, task, signal)
        steps = f"{n} steps" if n > 1 else "a step"
        self.reason = f"after {steps}" + (f" of {task!r}" if task is not None else "")
        self._names, self._without_batch = STEP_PAIRS, without_batch
        self._shown: dict[tuple[int, int | None, str], _Shown] = {}
        self._method: str | None = ""  # Not known before the script runs.

    def listen(self) -> None:
        """Begin to count."""
        super().listen()
        self.ov.listen(self.pair, "$wrap")

    def __call__(self, event: dict[str, Any]) -> None:
        if "$wrap" not in event and not self.other(event) and self._are_steps("step"):
            shown = self._of(event)
            shown.events += 1
            self._reach(shown, shown.events, event["step"])

    def pair(self, event: dict[str, Any]) -> None:
        """One end of a pair."""
        wrap = event["$wrap"]
        name = wrap.get("name")
        if name not in self._names or self.other(event) or not self._are_steps("wrap"):
            return
        shown = self._of(event)
        if shown.events:
            return
        opened = shown.opened
        if wrap["step"] == "begin":
            opened.pop(name, None)
            opened[name] = None
        elif next(iter(opened), None) == name:
            opened.clear()
            if not (name == "step" and self._without_batch(event)):
                shown.pairs += 1
                self._reach(shown, shown.pairs, event.get("batch"))

    def _of(self, event: dict[str, Any]) -> _Shown:
        """What has shown the steps of an event's task on this thread."""
        key = (get_ident(), coroutine(), str(event.get("task", TASK)))
        shown = self._shown.get(key)
        if shown is None:
            shown = self._shown[key] = _Shown()
        return shown

    def _are_steps(self, method: str) -> bool:
        """Whether what shows steps in this way is one."""
        if self._method == "":
            self._method = method_in(self.ov)
        return self._method is None or self._method == method

    def _reach(self, shown: _Shown, n: int, value: object) -> None:
        """A task on a thread has been told to have ``n`` steps."""
        if self.seen >= self.n:
            self.again(value)
        elif shown.seen < n:  # The first pair may have been told of by both.
            shown.seen = n
            self.count(value)

    def _stop(self, value: object) -> None:
        if not isinstance(self.signal, str) and not self._over:
            self.ov.stopped_on = get_ident(), coroutine()
        super()._stop(value)


def _made(signal: Callable[[object], BaseException], value: object) -> BaseException:
    """What to raise; the boundary lets it pass, whatever its class makes of attributes."""
    error = signal(value)
    BaseException.__setattr__(error, "__voir_asked__", True)
    return error


def _stops(error: BaseException | None) -> bool:
    """Whether it is what stops the script."""
    return isinstance(error, StopProgram) or getattr(error, "__voir_asked__", False) is True


def _got_out(error: BaseException) -> bool:
    """Whether it has left the script: nobody is told so of a SystemExit with status 0."""
    left = error.__traceback__
    ours = Overseer.__call__.__code__.co_filename
    return left is not None and left.tb_frame.f_code.co_filename == ours


def _checked(key: object, n: Any, signal: object) -> int:
    """How many to let happen, if it is a number of events, and the rest is what it should be."""
    example = "For example: early_stop(n=100)"
    if not isinstance(key, str):
        first = not isinstance(key, bool) and isinstance(key, (int, float)) and key >= 1
        remedy = f"The key comes first: early_stop(n={key!r:.40})" if first else example
        what = f"early_stop(key) is {key!r:.60}, which is no key of an event"
        raise UsageError("option-value", what, remedy)
    whole = isinstance(n, float) and n.is_integer()
    if isinstance(n, bool) or not (isinstance(n, int) or whole) or n < 1:
        what = f"early_stop(n) is {n!r:.60}, which is no number of events"
        raise UsageError("option-value", what, f"Give a whole number from 1. {example}")
    if not isinstance(signal, str) and not callable(signal):
        what = f"early_stop(signal) is {signal!r:.60}, which is nothing to raise or to log"
        remedy = 'Give an exception\'s class, or the name of an event: early_stop(signal="stop")'
        raise UsageError("option-value", what, remedy)
    return int(n)


def _nothing_to_count(key: str, n: int, task: str | None) -> Problem:
    which = f"event with {key!r}" + (f" for task {task!r}" if task is not None else "")
    what = f"no {which} was ever given, so the script was not stopped after {n}"
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
        what = f"--stop is {text!r}, which is no number of steps"
        raise VoirError("option-value", what, "Give a whole number from 1, for example --stop 100.")
    return int(text)
