"""What a rank did, in the order in which it did it: one letter for each thing.

Ranks of a job that wait for each other do the same things in the same order.
"""

from __future__ import annotations

from ..recorder import sites as k
from ..recorder.log import EVENT_SIZE, events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


class Did:
    """The letters: a batch, a new epoch, the end of a loader, a model call that learns, one that
    evaluates, a backward pass, the end of an optimizer's step, a checkpoint.
    """

    LOADS, BEGINS, EMPTIES, CALLS, EVALUATES, DIFFERENTIATES, STEPS, SAVES = "lixfebos"


#: Places of the site and the flags in an event.
_SITE, _FLAGS = 20, 31
#: Letters, and collectives, that are kept.
MOST_LETTERS, MOST_COLLECTIVES = 4096, 64


def as_doings(
    data: bytes, rows: Sequence[Mapping[str, Any]], before: int = 0
) -> dict[str, Any] | None:
    """What the events say that a process did; None for nothing.

    Args:
        data: Events in the order of the ring, the oldest first.
        rows: The table of sites.
        before: The number of steps before these events.

    Returns:
        ``step``: the number of steps so far, as the letters count them, so that it is the same on
        all ranks; ``did``: the letters, of which an ``o`` ends a training step; ``collectives``:
        of the latest ones, the group, the number in it, the name and the bytes.
    """
    letters, collectives = list[str](), list[list[object]]()
    for event in events(data):
        kind = rows[event.site]["kind"] if event.site < len(rows) else 0
        if kind == k.COMMUNICATION:
            if event.object:
                row = rows[event.site]
                size = int(event.value) if event.value == event.value else 0
                name = row["label"].rpartition(".")[2]
                collectives.append([row.get("group", ""), event.object, name, size])
        elif letter := _letter(kind, event.flags):
            letters.append(letter)
    if not letters and not collectives:
        return None
    return {
        "step": before + letters.count(Did.STEPS),
        "did": "".join(letters[-MOST_LETTERS:]),
        "collectives": collectives[-MOST_COLLECTIVES:],
    }


def steps_in(data: bytes, rows: Sequence[Mapping[str, Any]]) -> int:
    """The number of training steps in events, as the letters count them."""
    whole = memoryview(data)[: len(data) - len(data) % EVENT_SIZE]
    sites = whole.cast("H")[_SITE // 2 :: EVENT_SIZE // 2].tolist()
    known = {site for site in {*sites} if site < len(rows)}  # Notes have none.
    optimizers = {site for site in known if rows[site]["kind"] == k.OPTIMIZER}
    flags = whole[_FLAGS::EVENT_SIZE].tolist()
    nested = k.IN_OPTIMIZER
    return sum(
        not flag & nested for site, flag in zip(sites, flags, strict=True) if site in optimizers
    )


def _letter(kind: int, flags: int) -> str:
    if kind == k.FORWARD:
        return {k.LEARNING: Did.CALLS, k.EVALUATION: Did.EVALUATES}.get(k.CALLS[flags], "")
    if kind == k.LOADING:
        return Did.EMPTIES if flags & (k.ENDED | k.FAILED) == k.ENDED else Did.LOADS
    if kind == k.OPTIMIZER:
        return "" if flags & k.IN_OPTIMIZER else Did.STEPS
    return {k.ITERATE: Did.BEGINS, k.BACKWARD: Did.DIFFERENTIATES, k.SAVE: Did.SAVES}.get(kind, "")
