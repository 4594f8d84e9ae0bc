"""First, last and lowest loss: cut off its graph when seen, never waited for, not kept for long."""

from __future__ import annotations

import math
import sys
from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import Problem
from ..ways import Event, Gate, Keys, Listener, Offer, Quick, Source, Taker

if TYPE_CHECKING:
    from .steps import StepModel

#: The task of a loss that names none.
TASK = "train"
#: Losses kept unread at most; of more, every other one is dropped, never the first or the last.
PENDING = 4096
#: Boundaries that may share a device mark which lies before a loss that was given with them.
_BEHIND = 8
_TASKS = 256
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
    for the device and is therefore called from a timer, or when the run is over. One in the host's
    memory is read at once: that takes half the time of detaching it, and nothing is kept.

    Args:
        report: Told once about each kind of loss that can't be read, and why.
    """

    def __init__(self, report: Callable[[Problem], object] | None = None) -> None:
        self._report = report
        self._tasks: dict[str, _Task] = {}
        self._reading, self._taking = allocate_lock(), allocate_lock()
        self._told: set[str] = set()
        self._seen: tuple[int, dict[str, int]] = (0, {})
        #: torch's own kind of tensor, once one has come; others may do anything when they are read.
        self._plain: list[Any] = [None]

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
        except Exception as exc:
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
            except Exception:
                self(event)
                return
            if len(pending) > PENDING:
                self._thin(of)

        of, plain, cut = self._of(TASK), self._plain, self._cut
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
            except Exception:
                try:
                    self({"loss": value})
                except BaseException as error:
                    failed(error, {"loss": value})

        of, plain, cut = self._of(TASK), self._plain, self._cut
        pending, append = of.pending, of.pending.append
        resume = self._offer(source.quick, gate, pending)
        return take

    def _offer(self, quick: Quick | None, gate: Gate, pending: deque[Any]) -> Callable[[], object]:
        """Let inserted code take losses by itself; returns what to call when that may begin."""
        if quick is None or gate.inherits is not None:
            return list

        def ready() -> bool:
            few = len(pending) <= PENDING
            return few and self._plain[0] is not None and not gate.wanted

        keep = pending.append

        def values() -> dict[str, Any]:
            base = sys.modules["torch"]._C.TensorBase
            cpu = base.is_cpu.__get__
            return {"keep": keep, "up": gate.up, "item": base.item, "cpu": cpu, "cut": base.detach}

        gate.notes(quick)
        quick.offer(Offer(ready, values, list))
        return quick.resume

    def read(self, given: dict[str, int] | None = None) -> None:
        """Read the losses collected so far; may wait for the device they lie on.

        Args:
            given: So many of each task, from its first on; all, if it is not there.
        """
        if self._reading.acquire(False):
            try:
                for name, task in list(self._tasks.items()):
                    self._read(task, None if given is None else given.get(name, 0))
            finally:
                self._reading.release()

    def keep_up(self, model: StepModel) -> None:
        """Read what can be read without waiting: what a device in use has computed.

        It has once it has passed a step that was noted later. To read earlier would be to wait, or,
        as torch reads in another stream than the script may compute in, to read what is not there.
        """
        with model.marks.aside():
            if model.marks.device is None and not model.marks.hangs:
                self.read()
                return
            noted, given = self._seen
            if not given or model.notes - model.waiting > noted + _BEHIND:
                self.read(given)
                self._seen = (model.notes, {name: of.n for name, of in list(self._tasks.items())})

    def read_all(self, model: StepModel) -> None:
        """The script has ended: read the rest, but from a device that hangs."""
        if model.marks.hangs:
            self.keep_up(model)
        else:
            self.read()

    def summary(self) -> dict[str, Loss]:
        """What is known of each task that has a loss that could be read."""
        return {
            name: Loss(task.first, task.last, task.min, task.n, task.exact, task.not_finite)
            for name, task in list(self._tasks.items())
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
            self._plain[0] = kind
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
        last = task.pending[-1]
        if type(last) is float or not hasattr(last, "device"):
            self.read()  # Plain numbers: nothing to wait for.
            return
        with self._taking:
            values = task.taken()
            task.pending.extendleft(reversed([*values[:-1:2], *values[-1:]]))
            task.dropped += max(0, len(values) - 1) // 2
            task.exact = False

    def _read(self, task: _Task, given: int | None) -> None:
        with self._taking:
            values = task.taken(given)
        task.seen += len(values)
        try:  # Tensors of one number each, as nearly always; in as few steps as there can be.
            task.take_all(_numbers(values))
            return
        except Exception:
            pass  # One by one it is seen which of them is something else.
        for value in values:
            try:
                number = as_number(value)
            except Exception as exc:
                task.exact = False
                self._unread(value, said(value, exc))
                continue
            task.take(number)

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
        self.first: float | None = None
        self.last: float | None = None
        self.min: float | None = None
        self.seen = self.dropped = 0
        self.exact = True
        self.not_finite = 0

    @property
    def n(self) -> int:
        """How many were given."""
        return self.seen + self.dropped + len(self.pending)

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

    def take(self, number: float) -> None:
        self.first = number if self.first is None else self.first
        self.last = number
        if not math.isfinite(number):
            self.not_finite += 1
        elif self.min is None or number < self.min:
            self.min = number


def _numbers(values: list[Any]) -> list[Any]:
    """The numbers that tensors hold; numbers as they are.

    Each ``item()`` lets another thread have the interpreter, and then waits until it is given back,
    and for a device: what lies in one memory is copied together first, and read at once.

    Raises:
        Exception: Some are no such tensors.
    """
    kinds = set(map(type, values))
    if kinds <= {float, int, bool}:
        return values
    torch: Any = sys.modules.get("torch")
    plain = torch is not None and kinds == {torch.Tensor}
    if plain and len({(value.dtype, value.device) for value in values}) == 1 and _together(values):
        together: list[Any] = torch._C._VariableFunctions.stack(values).tolist()
        return together
    return [value.item() for value in values]


def _together(values: list[Any]) -> bool:
    """Whether numbers are copied together: one wait in place of many, for one more small kernel."""
    kind = values[0].device.type
    return kind == "cpu" or (kind in {"cuda", "xpu"} and len(values) > 1)


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
        shape = tuple(getattr(value, "shape", ()))
        if math.prod(shape) != 1:
            raise TypeError(f"{type(value).__name__} of shape {shape} is not one number")
        value = item()
    if isinstance(value, complex):
        raise TypeError("a complex loss is not one number")
    return float(value)


def said(value: object, exc: Exception) -> str:
    """Why ``value`` could not be read, in one short line."""
    text = str(exc) if isinstance(exc, TypeError) else f"{type(exc).__name__}: {exc}"
    return text.splitlines()[0][:200] if text else type(value).__name__
