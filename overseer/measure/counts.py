"""How many items an event's step holds, in the units of its task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..boundary import let_through
from .hearing import TASK
from .items import FEW, MOST, Size, Sizer, as_count, first_part

#: Task names whose units are remembered; a script that makes up more gets plain items.
TASKS = 256


class Counts:
    """Counts an event's items: ``batch_size``, or the size of its ``batch``, times a multiplier.

    Args:
        multiplier: Items count this many times: gradient accumulation, device iterations.
        batch_size: Computes a batch's size; or the number of items in every step.
        units: ``"items"``, ``"tokens"``, or ``"auto"``: tokens where a task's first batch states
            how many it has.
        unknown: Called with the reason whenever a count is not known.

    Attributes:
        multiplier: As given.
        bare: Tasks of which an event came without a batch, with the keys of the first such event.
        tensors: Kinds of tensor which, as a batch of the task that is named by default, hold so
            many items as their first dimension says.
    """

    def __init__(
        self,
        multiplier: int,
        batch_size: Callable[[Any], Any] | int | None,
        units: str,
        unknown: Callable[[str], object],
    ) -> None:
        self.multiplier = multiplier
        self._custom = callable(batch_size)
        self._fixed = None if self._custom or batch_size is None else as_count(batch_size)
        self._sizer = Sizer(batch_size if callable(batch_size) else None)
        self._most = MOST // multiplier
        self._wanted = units
        self._units: dict[str, str] = {}
        self._plain: set[str] = set()
        self.tensors: set[type] = set()
        self.bare: dict[str, list[str]] = {}
        self._unknown = unknown

    @property
    def sized_times(self) -> int:
        """How many times a ``batch_size`` that is given counts, if it is none too large for that.

        0: it may be too large, or another is prescribed.
        """
        return 1 if self._fixed is None and self.multiplier == 1 else 0

    def units(self, task: str) -> str:
        """What the items of ``task`` are."""
        return self._units.get(task, "tokens" if self._wanted == "tokens" else "items")

    def __call__(self, event: dict[str, Any], task: str) -> int | None:
        """Items in the event; None, with a reason told, when that is not known."""
        if task in self._plain and "batch_size" not in event:
            sizer = self._sizer
            try:  # What Sizer does for a batch it knows, without the call.
                batch = event["batch"]
                lead = sizer.leads[type(batch)]
                if lead is first_part and len(batch) < FEW:
                    tensor = batch[0]
                else:
                    tensor = batch if lead is None else lead(batch)
                if type(tensor) in sizer.tensors and 0 < (items := tensor.shape[0]) <= self._most:
                    if lead is None and task == TASK:
                        self.tensors.add(type(batch))
                    return items * self.multiplier  # type: ignore[no-any-return]
            except BaseException as error:
                let_through(error)  # The long way says what else it is.
        return self._count(event, task)

    def _count(self, event: dict[str, Any], task: str) -> int | None:
        count = self._found(event, task)
        if type(count) is int and count > self._most:
            count = as_count(count)  # It says so itself, but for what the multiplier makes of it.
            if type(count) is int:
                count = f"{count:.3g}, counted {self.multiplier} times, is more than it can hold"
        if type(count) is int:
            return count * self.multiplier
        if count is not None:
            self._unknown(str(count))
        return None

    def _found(self, event: dict[str, Any], task: str) -> int | str | None:
        """What the event says, or the reason why it is no number; None where it says nothing."""
        if self._fixed is not None:
            return self._fixed
        given = event.get("batch_size")
        batch = event.get("batch") if given is None else None
        if batch is not None:
            return self._counted(self._sizer.size(batch), task)
        if "batch_size" not in event:
            if "batch" not in event and task not in self.bare and len(self.bare) < TASKS:
                self.bare[task] = list(event)
            return None
        if "units" in event and self._wanted == "auto" and len(self._units) < TASKS:
            self._units.setdefault(task, str(event["units"]))
        return given if type(given) is int and 0 <= given <= MOST else as_count(given)

    def _counted(self, size: Size, task: str) -> int | str:
        units = self._units.get(task)
        if units is None:
            stated = "tokens" if size.stated else "items"
            units = stated if self._wanted == "auto" else self._wanted
            if len(self._units) < TASKS:
                self._units[task] = units
                if units == "items" and not self._custom:
                    self._plain.add(task)
        count = size.tokens if units == "tokens" else size.items
        return count if count is not None else size.reason or "it does not say its tokens"
