"""First, last and lowest loss: cut off its graph when seen, never waited for, not kept for long."""

from __future__ import annotations

import math
import sys
import threading
from _thread import allocate_lock, get_ident, start_new_thread
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ..boundary import let_through
from ..clock import thread_time_ns
from ..errors import Problem
from ..ways import Event, Gate, Keys, Listener, Offer, Quick, Source, Taker

if TYPE_CHECKING:
    from .steps import StepModel

#: The task of a loss that names none.
TASK = "train"
#: Losses kept unread at most; of more, every other one is dropped, never the first or the last.
PENDING = 4096
#: Plain numbers too, where another thread is reading and does not come to an end of it.
CROWD = 8 * PENDING
#: How long the end of a run waits for losses to be read, and then for the very last of each task,
#: in seconds; with what the timer is given before, the five that a device has to finish.
END_SECONDS, LAST_SECONDS = 2.0, 1.0
_LATE = "at the end that took too long"
#: Boundaries that may share a device mark which lies before a loss that was given with them.
_BEHIND = 8
_TASKS = 256
#: Kinds that nobody has to wait for.
_PLAIN = frozenset({float, int, bool})
#: Of what a compiled CUDA graph returns, the next run of it makes use again.
_COPY = "Give a copy, which the next step does not overwrite: loss.clone()."


@dataclass(frozen=True)
class Loss:
    """What the losses of one task were, as far as they have been read.

    Attributes:
        first: The first that could be read.
        last: The last that could be read; it may be NaN.
        min: The lowest that is a number; None when all were NaN.
        n: How many were given.
        exact: Whether all of them were read; if not, ``min`` is that of a part.
        not_finite: How many of those read were NaN or infinite.
    """

    first: float
    last: float
    min: float | None
    n: int
    exact: bool
    not_finite: int


class Losses:
    """Collects losses; ``read`` turns what has been collected into numbers.

    A loss that hangs on a graph is detached at once: keeping it would keep the graph, and with
    it every activation, alive. A loss on a device stays there until :meth:`read`, which may wait
    for the device and is therefore called from a timer; at the end :meth:`read_all` waits too, but
    not for long. One in the host's memory is read at once: that takes half the time of
    detaching it, and nothing is kept.

    Args:
        report: Told once about each kind of loss that can't be read, and why.

    Attributes:
        plain: torch's own kind of tensor, once one has come: others may do anything when they are
            read.
    """

    def __init__(self, report: Callable[[Problem], object] | None = None) -> None:
        self._report = report
        self._tasks: dict[str, _Task] = {}
        #: Copies, when a thread that reads those has been given up: it may still change them.
        self._parted: dict[str, _Task] | None = None
        self._reading, self._taking = allocate_lock(), allocate_lock()
        self._told: set[str] = set()
        self._seen: tuple[int, dict[str, int]] = (0, {})
        self.plain: list[Any] = [None]

    #: Any thread may call it, also while another does.
    free = True

    def __call__(self, event: Event) -> None:
        """An event that has ``loss``."""
        task = event.get("task", TASK)
        of = self._tasks.get(task) if type(task) is str else None
        if of is None:
            of = self._of(str(task))
        value = event["loss"]
        try:
            value = self._cut(value)
        except BaseException as exc:
            let_through(exc)
            self._unread(value, f"{type(exc).__name__}: {exc}")
            return
        of.pending.append(value)
        if len(of.pending) > PENDING:
            self._thin(of)

    def for_keys(self, keys: Keys) -> Listener:
        """What takes losses that come with just these keys: the same, with less to look up."""
        if "task" in keys:
            return self

        def take(event: Event) -> None:
            value = event["loss"]
            try:
                if type(value) is plain[0]:
                    append(value.item() if value.is_cpu else value.detach())
                else:
                    append(cut(value))
            except BaseException as error:
                let_through(error)
                self(event)
                return
            if len(pending) > PENDING:
                self._thin(of)

        of, plain, cut = self._of(TASK), self.plain, self._cut
        pending, append = of.pending, of.pending.append
        return take

    def for_values_alone(self, keys: Keys, gate: Gate, source: Source) -> Taker | None:
        """What takes a loss that comes alone, where no other listens; None for other events."""
        if keys != ("loss",) or source.pair is not None:
            return None
        tally = source.tally
        up, wanted, inherits, aside, failed, _ = gate

        def take(value: Any) -> None:
            next(tally)
            if not wanted and (inherits is None or not inherits()):
                next(up)
            elif aside({"loss": value}):
                return
            else:
                resume()
            try:
                if type(value) is plain[0]:
                    append(value.item() if value.is_cpu else value.detach())
                else:
                    append(cut(value))
                if len(pending) > PENDING:
                    self._thin(of)
            except BaseException as first:
                try:
                    let_through(first)
                    self({"loss": value})
                except BaseException as error:
                    failed(error, {"loss": value})

        of, plain, cut = self._of(TASK), self.plain, self._cut
        pending, append = of.pending, of.pending.append
        resume = self._offer(source.quick, gate, pending)
        return take

    def _offer(self, quick: Quick | None, gate: Gate, pending: deque[Any]) -> Callable[[], object]:
        """Let inserted code take losses by itself; returns what to call when that may begin."""
        if quick is None or gate.inherits is not None:
            return list

        def ready() -> bool:
            few = len(pending) <= PENDING
            return few and self.plain[0] is not None and not gate.wanted

        keep = pending.append

        def values() -> dict[str, Any]:
            base = sys.modules["torch"]._C.TensorBase
            cpu = base.is_cpu.__get__
            return {"keep": keep, "up": gate.up, "item": base.item, "cpu": cpu, "cut": base.detach}

        gate.notes(quick)
        quick.offer(Offer(ready, values, list))
        return quick.resume

    def read(self, given: dict[str, int] | None = None) -> bool:
        """Read the losses collected so far, which may wait for the device they lie on.

        Args:
            given: So many of each task, from its first on; all, if it is not there.

        Returns:
            Whether that was done; not while another thread is reading.
        """
        if not self._reading.acquire(False):
            return False
        try:
            self._read_each(given)
        finally:
            self._reading.release()
        return True

    def keep_up(self, model: StepModel) -> None:
        """Read what can be read without waiting: what a device in use has computed.

        It has once it has passed a step that was noted later. To read earlier would be to wait, or,
        as torch reads in another stream than the script may compute in, to read what is not there.
        Of a device that is left alone nothing is read before the end, for all would wait.
        """
        with model.marks.aside():
            if model.marks.device is None and not model.marks.hangs:
                if not model.marks.left_alone or all(map(_plain, self._pending())):
                    self.read()
                return
            noted, given = self._seen
            if not given or model.notes - model.waiting > noted + _BEHIND:
                self.read(given)
                self._seen = (model.notes, {name: of.n for name, of in list(self._tasks.items())})

    def read_all(
        self,
        model: StepModel,
        charge: Callable[[int], object] = id,
        hurried: bool = False,
    ) -> bool:
        """The script has ended: read the rest, as far as that does not take long.

        What may have to be waited for is read by another thread. When it takes too long, the very
        last of each task is tried, unless it lies on a device that is known to hang. Ctrl-C ends
        the waiting, not the run: what was measured is still to be told.

        Args:
            model: Knows the device.
            charge: Told the processor nanoseconds that the other thread used.
            hurried: There was a Ctrl-C: wait for nothing.

        Returns:
            Whether there was none.
        """
        if all(map(_plain, self._pending())) and self.read():
            return not hurried
        hangs = model.marks.hangs
        work = partial(self.keep_up if hangs else self._read_rest, model)
        try:
            if not hurried and within(END_SECONDS, work, charge) and not hangs:
                return True
        except KeyboardInterrupt:
            hurried = True
        with self._taking:
            self._parted = {name: task.parted() for name, task in list(self._tasks.items())}
        tasks = list(self._parted.values())
        try:
            if not hangs and not hurried:
                within(LAST_SECONDS, partial(self._read_last, tasks), charge)
        except KeyboardInterrupt:
            hurried = True
        late = "the waiting for them was interrupted" if hurried else _LATE
        self._give_up(tasks, "their device hangs" if hangs else late)
        return not hurried

    def _pending(self) -> list[deque[Any]]:
        return [task.pending for task in list(self._tasks.values())]

    def _read_rest(self, model: StepModel) -> None:
        """Read everything, after whoever is reading now."""
        with model.marks.aside(), self._reading:
            for pending in self._pending():
                _settle(list(pending))
            self._read_each(None)

    def _read_last(self, tasks: list[_Task]) -> None:
        for task in tasks:
            if task.taken_up:
                self._read_one(task, task.taken_up.pop())

    def _give_up(self, tasks: list[_Task], why: str) -> None:
        """Let go of what is unread, and say how many that are."""
        for task in tasks:
            task.taken_up.clear()
            task.exact = task.exact and not task.unread
        unread, n = sum(task.unread for task in tasks), sum(task.n for task in tasks)
        if unread and self._report is not None:
            what = f"{unread} of {n} could not be read: {why}"
            remedy = "Give the loss less often, or as a number." if why == _LATE else None
            self._report(Problem("loss", "loss", what, remedy=remedy))

    def summary(self) -> dict[str, Loss]:
        """What is known of each task that has a loss that could be read."""
        tasks = self._tasks if self._parted is None else self._parted
        return {
            name: Loss(task.first, task.last, task.min, task.n, task.exact, task.not_finite)
            for name, task in list(tasks.items())
            if task.first is not None and task.last is not None
        }

    def _cut(self, value: Any) -> Any:
        """``value`` without its graph, or as a number if it is one in the host's memory.

        Raises:
            Exception: Whatever a tensor raises when it is looked at.
        """
        kind = type(value)
        if kind is float:
            return value
        torch: Any = sys.modules.get("torch")
        if kind is getattr(torch, "Tensor", None):
            self.plain[0] = kind
            if value.is_cpu and value.numel() == 1:
                return value.item()
        detach = getattr(value, "detach", None)
        return value if detach is None else detach()

    def _of(self, task: str) -> _Task:
        if task not in self._tasks and len(self._tasks) >= _TASKS:
            task = TASK
        return self._tasks.setdefault(task, _Task())

    def _thin(self, task: _Task) -> None:
        """Halve what is pending: nobody has read for long, and a script must not wait for it."""
        if type(task.pending[-1]) in _PLAIN and self._read_plain(task):
            return
        with self._taking:
            values = task.taken()
            task.pending.extendleft(reversed([*values[:-1:2], *values[-1:]]))
            task.dropped += max(0, len(values) - 1) // 2
            task.exact = False

    def _read_plain(self, task: _Task) -> bool:
        """Read if that is to wait for nothing; whether it was, or will soon be, done."""
        if not self._reading.acquire(False):
            return len(task.pending) <= CROWD
        try:
            with self._taking:
                return task.take_plain()
        finally:
            self._reading.release()

    def _read_each(self, given: dict[str, int] | None) -> None:
        for name, task in list(self._tasks.items()):
            self._read(task, None if given is None else given.get(name, 0))

    def _read(self, task: _Task, given: int | None) -> None:
        with self._taking:
            values = task.take_up(given)
        try:  # Tensors of one number each, as nearly always; in as few steps as there can be.
            task.take_all(_numbers(values))
            task.taken_up.clear()
            return
        except Exception:
            pass  # One by one it is seen which of them is something else.
        del values
        for value in task.each():  # What has been read is kept, should the next one hang.
            self._read_one(task, value)

    def _read_one(self, task: _Task, value: Any) -> None:
        try:
            task.take(as_number(value))
        except BaseException as exc:
            let_through(exc)
            task.exact = False
            task.done += 1
            self._unread(value, said(value, exc))

    def _unread(self, value: object, why: str) -> None:
        if self._report is None or why in self._told or len(self._told) >= 8:
            return
        self._told.add(why)
        remedy = _COPY if "CUDAGraphs" in why else "Give a number, or a tensor that holds one."
        self._report(Problem("loss", "loss", f"it can't be read: {why}", remedy=remedy))


class _Task:
    """One task's losses."""

    def __init__(self) -> None:
        self.pending: deque[Any] = deque()
        #: What a thread that reads has taken up, and not read yet.
        self.taken_up: deque[Any] = deque()
        self.first: float | None = None
        self.last: float | None = None
        self.min: float | None = None
        self.seen = self.dropped = self.done = 0
        self.exact = True
        self.not_finite = 0

    @property
    def n(self) -> int:
        """How many were given."""
        return self.seen + self.dropped + len(self.pending)

    @property
    def unread(self) -> int:
        """How many of them nobody has come to an end with."""
        return self.seen + len(self.pending) - self.done

    def take_up(self, given: int | None = None) -> list[Any]:
        """Begin to read what is pending of the first ``given``; what there is to read."""
        values = self.taken(given)
        self.seen += len(values)
        left = bool(self.taken_up)
        self.taken_up.extend(values)
        return list(self.taken_up) if left else values

    def take_plain(self) -> bool:
        """Take in what is pending, if those are numbers as they are; whether they are."""
        values = self.taken()
        try:
            self.take_all(values)
        except Exception:
            self.pending.extendleft(reversed(values))
            return False
        self.seen += len(values)
        return True

    def each(self) -> Iterator[Any]:
        """What has been taken up; another thread may take away what is left."""
        while self.taken_up:
            try:
                value = self.taken_up.popleft()
            except IndexError:
                return
            yield value

    def parted(self) -> _Task:
        """A copy with what is unread, of which nothing is left here."""
        other = copy(self)
        other.pending, other.taken_up = deque(), deque(self.each())
        other.pending.extend(self.taken())
        other.take_up()
        return other

    def taken(self, given: int | None = None) -> list[Any]:
        """What is pending of the first ``given``, and no longer; others may go on adding to it."""
        n = len(self.pending)
        if given is not None:
            n = max(0, min(n, given - self.seen - self.dropped))
        return [self.pending.popleft() for _ in range(n)]

    def take_all(self, numbers: list[float]) -> None:
        """Take in numbers.

        Raises:
            TypeError: Some are no real numbers; none of them is taken in.
        """
        if not set(map(type, numbers)) <= {float, int, bool}:
            raise TypeError
        finite = [float(number) for number in numbers if math.isfinite(number)]
        if finite:
            lowest = min(finite)
            self.min = lowest if self.min is None else min(self.min, lowest)
        if numbers:
            self.first = float(numbers[0]) if self.first is None else self.first
            self.last = float(numbers[-1])
        self.not_finite += len(numbers) - len(finite)
        self.done += len(numbers)

    def take(self, number: float) -> None:
        """Take in one number."""
        self.first = number if self.first is None else self.first
        self.last = number
        self.done += 1
        if not math.isfinite(number):
            self.not_finite += 1
        elif self.min is None or number < self.min:
            self.min = number


def _plain(values: Iterable[Any]) -> bool:
    """Whether all are numbers as they are; what another thread adds meanwhile does not count."""
    return _PLAIN.issuperset(map(type, list(values)))


def _numbers(values: list[Any]) -> list[Any]:
    """The numbers that tensors hold; numbers as they are.

    Each ``item()`` lets another thread have the interpreter, and then waits until it is given back,
    and for a device: what lies in one memory is copied together first, and read at once.

    Raises:
        Exception: Some are to be read one by one.
    """
    kinds = set(map(type, values))
    if kinds <= _PLAIN:
        return values
    torch: Any = sys.modules.get("torch")
    plain = torch is not None and kinds == {torch.Tensor}
    if plain and len({(value.dtype, value.device) for value in values}) == 1 and _together(values):
        together: list[Any] = torch._C._VariableFunctions.stack(values).tolist()
        return together
    raise TypeError


def _together(values: list[Any]) -> bool:
    """Whether numbers are copied together: one wait in place of many, for one more small kernel."""
    kind = values[0].device.type
    return kind == "cpu" or (kind in {"cuda", "xpu"} and len(values) > 1)


def _settle(values: list[Any]) -> None:
    """Let devices do what they were given: another thread's stream does not wait for the script's.

    Only for the end of a run, and on a thread that it does not wait for.
    """
    torch: Any = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    for device in {value.device for value in values if type(value) is kind}:
        if device.type in {"cuda", "xpu"}:
            try:
                getattr(torch, device.type).synchronize(device)
            except Exception:
                pass  # What has become of the device is told when its losses are read.


def within(
    seconds: float, work: Callable[[], object], charge: Callable[[int], object] = id
) -> bool:
    """Do ``work`` on a thread which nobody waits for any longer; whether it was done by then.

    Args:
        seconds: How long to wait for it.
        work: What to do.
        charge: Told the processor nanoseconds that it used.

    Raises:
        BaseException: What ``work`` raised.
    """
    done, raised, used = allocate_lock(), list[BaseException](), list[int]()
    done.acquire()

    def run() -> None:
        began = thread_time_ns()
        try:
            work()
        except BaseException as error:
            raised.append(error)
        finally:
            # Who asks for the current thread in there has made threading list one.
            getattr(threading, "_active", {}).pop(get_ident(), None)
            used.append(thread_time_ns() - began)
            done.release()

    try:
        start_new_thread(run, ())
    except RuntimeError:
        return False  # There can be no more threads.
    if not done.acquire(timeout=seconds):
        return False
    charge(sum(used))
    if raised:
        raise raised[0]
    return True


def as_number(value: Any) -> float:
    """``value`` as a number; waits for the device it lies on.

    Raises:
        TypeError: It is no number, or more than one.
        Exception: Whatever a device that is lost raises.
    """
    if isinstance(value, str | bytes) or value is None:
        raise TypeError(f"{type(value).__name__} is not a number")
    item = getattr(value, "item", None)
    if item is not None:
        shape = getattr(value, "shape", ())
        shape = tuple(shape) if hasattr(shape, "__iter__") else ()
        if math.prod(shape) != 1:
            raise TypeError(f"{type(value).__name__} of shape {shape} is not one number")
        value = item()
    if isinstance(value, complex):
        raise TypeError("a complex loss is not one number")
    return float(value)


def said(value: object, exc: BaseException) -> str:
    """Why ``value`` could not be read, in one short line."""
    text = str(exc) if isinstance(exc, TypeError) else f"{type(exc).__name__}: {exc}"
    return text.splitlines()[0][:200] if text else type(value).__name__
