"""Gives finished steps to the bus's subscribers, and a sample of them to the record."""

from __future__ import annotations

from ..context import Own
from ..model.alike import each

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from ..model.fold import Fold
    from ..model.steps import Step

    class Publisher(Protocol):
        """The stream of given events.

        Attributes:
            samplers: Keep some events for the record.
        """

        samplers: list[Callable[[dict[str, Any], int], object]]

        def wants(self, keys: tuple[str, ...]) -> bool:
            """Whether events with these keys have a subscriber."""

        def push(self, event: dict[str, Any]) -> None:
            """Deliver an event now."""

        def keep(self, event: dict[str, Any], seen: int) -> None:
            """Pass an event to the samplers."""


#: The record has this many steps of a run; after these, one per interval.
SAMPLED_FIRST, SAMPLED_NS = 100, 1_000_000_000
PUBLISHED_KEYS = ("task", "step", "batch_size", "loss")


class Delivery:
    """Delivers events; a stop that a subscriber requests is raised once all work is done.

    Args:
        is_stopping: Whether the run has been asked to end.
    """

    def __init__(self, is_stopping: Callable[[], bool]) -> None:
        self._is_stopping = is_stopping
        self._request: BaseException | None = None

    def __call__(self, to: Callable[[Any], object], event: dict[str, Any]) -> None:
        """Call ``to(event)``."""
        try:
            to(event)
        except BaseException as error:
            self._request = self._request or error

    def raise_request(self) -> None:
        """Raise what a subscriber requested, unless the run is ending already."""
        request, self._request = self._request, None
        if request is not None and not self._is_stopping():
            raise request


class Publishing:
    """Gives the steps that hooks have found; those that a voirfile gave have their event already.

    Args:
        fold: Knows which tasks a voirfile gives the steps of.
        bus: Has subscribers and samplers.
        deliver: Delivers the events.
    """

    def __init__(self, fold: Fold, bus: Publisher, deliver: Delivery) -> None:
        self._fold, self._bus, self.deliver = fold, bus, deliver
        self._sampled, self._last = 0, 0

    def add(self, steps: list[Step]) -> None:
        """Publish finished steps, at least one."""
        bus = self._bus
        wanted = bus.wants(PUBLISHED_KEYS)
        if not wanted:
            if not self._samples(steps[-1].end):
                return
            steps = [step for step in steps if self._samples(step.end)]
        marked = {task for lane in self._fold.lanes.values() for task in lane.told_tasks}
        for step in each(steps):
            if step.task in marked or not (wanted or self._samples(step.end)):
                continue
            event = _event(step)
            if wanted:
                self.deliver(bus.push, Own(event))  # Not `give`: it is recorded already.
            elif bus.samplers:
                self._sampled, self._last = self._sampled + 1, step.end
                bus.keep(event, step.number)

    def _samples(self, end: int) -> bool:
        """Whether the record takes a step that ended at ``end``."""
        due = self._sampled < SAMPLED_FIRST or end - self._last >= SAMPLED_NS
        return due and bool(self._bus.samplers)


def _event(step: Step) -> dict[str, Any]:
    event: dict[str, Any] = {"task": step.task, "step": step.number}
    if step.items == step.items:
        event["batch_size"] = int(step.items)
    if step.backwards and not step.late and step.loss == step.loss:
        event["loss"] = step.loss
    return event
