"""What a listener is told that has a way of its own of taking a probe's events.

A call costs as much as all that a listener does in it. So what stands around a listener, in the
stream and in the probe, is handed to it where it is alone: it then does in one call what three
would do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

Event = dict[str, Any]
Listener = Callable[[Event], object]
#: The keys of an event, in order.
Keys = tuple[str, ...]


class Gate(NamedTuple):
    """What the stream wants of each event, besides having it listened to.

    Attributes:
        up: Counts the events: each takes one step, but those that go ``aside``.
        wanted: Not empty while somebody else wants the next event too: it then goes ``aside``.
        inherits: Not None once events may inherit keys: all of them then go ``aside``.
        aside: Counts an event, and returns whether it has been delivered for good.
        failed: Told what the listener raised, and on which event.
    """

    up: Iterator[object]
    wanted: list[bool]
    inherits: object
    aside: Callable[[Event], bool]
    failed: Callable[[BaseException, Event], object]


class Ends(NamedTuple):
    """What a probe wants of each end of a pair that is passed.

    Attributes:
        name: The pair's name.
        begins: Whether this is where pairs begin.
        opened: The pair that each frame has open, by the frame's id.
        tally: Numbers the events, and so counts them: each takes one step.
        depth: How many calls the inserted code is away from who is called.
        mark: Marks an event as an end of the pair of this number.
    """

    name: str
    begins: bool
    opened: dict[int, int]
    tally: Iterator[int]
    depth: int
    mark: Callable[[Event, int], Event]
