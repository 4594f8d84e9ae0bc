"""Finds out from a process's messages which part of a pipeline it is.

In each step of a pipeline, micro-batches are sent forward and their gradients back:

- the *first* stage sends after a forward pass, and receives last, before a backward pass;
- the *last* one receives first, before a forward pass, and sends last, after a backward pass;
- one in the *middle* does as the last one, but also sends before its first backward pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..recorder import sites as k
from .events import RECORD

FIRST_STAGE, MIDDLE_STAGE, LAST_STAGE = "first", "middle", "last"
#: Steps that tell, and the least share of them that are alike.
STEPS_THAT_TELL, ALIKE = 3, 0.8
#: Events of a step that are looked at.
MOST_EVENTS = 1 << 14
_SEND, _RECEIVE, _FORWARD, _BACKWARD = "SRFB"
_LETTERS = {
    "ProcessGroup.send": _SEND,
    "ProcessGroup.recv": _RECEIVE,
    "ProcessGroup.recv_anysource": _RECEIVE,
}


class PipelinePart(NamedTuple):
    """A process's part of a pipeline.

    Attributes:
        place: ``FIRST_STAGE``, ``MIDDLE_STAGE`` or ``LAST_STAGE``.
        micro_batches: The number of backward passes of a step.
        messages: The number of messages that it sends in a step, and receives.
        forward_first: Whether all forward passes of a step come before the backward ones.
    """

    place: str
    micro_batches: int
    messages: int
    forward_first: bool


def part_of_step(events: str) -> PipelinePart | None:
    """The part of a process, from a step's sends, receipts and passes; None: of no pipeline.

    Args:
        events: In order, ``S``, ``R``, ``F`` and ``B``.
    """
    sent, several = events.count(_SEND), events.count(_BACKWARD)
    messages = events.replace(_FORWARD, "").replace(_BACKWARD, "")
    passes = events.replace(_SEND, "").replace(_RECEIVE, "")
    if not (sent and several and sent == len(messages) - sent and passes.startswith(_FORWARD)):
        return None
    place = FIRST_STAGE
    if messages[0] == _RECEIVE:
        if messages[-1] != _SEND or events.rindex(_SEND) < events.rindex(_BACKWARD):
            return None
        if events.index(_RECEIVE) > events.index(_FORWARD):
            return None
        place = MIDDLE_STAGE if _SEND in events[: events.index(_BACKWARD)] else LAST_STAGE
    elif (
        messages[-1] != _RECEIVE
        or events.rindex(_RECEIVE) > events.rindex(_BACKWARD)
        or not events.index(_FORWARD) < events.index(_SEND) < events.index(_BACKWARD)
    ):
        return None
    return PipelinePart(place, several, sent, passes.rindex(_FORWARD) < passes.index(_BACKWARD))


class Messages:
    """Reads the events of a process that sends or receives.

    Args:
        sites: The table of sites, indexed by number; it may grow.
    """

    def __init__(self, sites: Sequence[dict[str, Any]]) -> None:
        self._sites = sites
        self._step = list[str]()
        self._parts: Counter[PipelinePart | None] = Counter()

    def read(self, data: bytes) -> None:
        """Read the next events of the structure ring."""
        sites, step = self._sites, self._step
        for _, _, _, site, _, _, _, depth, flags in RECORD.iter_unpack(data):
            kind = sites[site]["kind"]
            if kind == k.COMMUNICATION and (letter := _LETTERS.get(sites[site]["label"])):
                step.append(letter)
            elif kind == k.BACKWARD and not depth:
                step.append(_BACKWARD)
            elif kind == k.FORWARD and not depth and k.call(flags) == k.LEARNING:
                step.append(_FORWARD)
            elif kind == k.OPTIMIZER and not depth:
                self._parts[part_of_step("".join(step[:MOST_EVENTS]))] += 1
                step.clear()
        del step[MOST_EVENTS:]

    def section(self) -> dict[str, Any] | None:
        """The ``pipeline`` of ``run.json``; None if the messages are none of a pipeline."""
        part, n = next(iter(self._parts.most_common(1)), (None, 0))
        if part is None or n < max(STEPS_THAT_TELL, ALIKE * self._parts.total()):
            return None
        return {"by": "messages", **part._asdict()}
