"""What is recorded goes into one buffer, in as few instructions as there can be.

A record is six values in a row of one list: no object of its own, so that the garbage collector
has nothing more to look at than without tracing. Whoever writes the trace takes them from there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .emit import Channel

#: Time, kind, track, channel's name, label (or a counter's value), arguments; or several of these.
Record = tuple[Any, ...]
Put = Callable[[Record], object]
WIDTH = 6

#: Kinds of records.
BEGIN, END, INSTANT, VALUE = range(4)
#: Records that may wait to be written. The writer leaves the oldest out long before; many threads
#: that outrun even that lose what comes then.
MOST = 2_000_000
#: Channels that are told apart; whoever makes up more shares one.
CHANNELS = 10_000


class Recorder:
    """Switches recording on and off, for every channel at once.

    Attributes:
        on: Whether a trace is being written.
        channels: Every channel, by name.
    """

    def __init__(self) -> None:
        self._buffer: list[Any] = []
        self._lost = count()
        self._open = True
        self._shut = False
        self._full = False
        self._wanted: tuple[str, ...] = ("*",)
        self.on = False
        self.channels: dict[str, Channel] = {}

    def start(self, wanted: Iterable[str] = ("*",)) -> None:
        """Record from here on, in the channels whose names match one of ``wanted``."""
        self._wanted = tuple(wanted)
        self._buffer.clear()
        self.on, self._open, self._shut, self._full = True, True, False, False
        self._lost = count()
        for channel in list(self.channels.values()):
            channel.enabled = self.wants(channel.name)
        self._switch()

    def stop(self) -> None:
        """Record nothing any more; what has not been taken can still be."""
        self.on = False
        self._switch()

    def gate(self, opened: bool, everything: bool = False) -> None:
        """Let through what comes, or hold it off for a while (spans that are open still end).

        Args:
            opened: Whether it is let through.
            everything: Hold off channels too that record at any time.
        """
        if opened is not self._open or everything is not self._shut:
            self._open, self._shut = opened, everything
            self._switch()

    def wants(self, name: str) -> bool:
        """Whether the trace was asked to have this channel."""
        return any(fnmatchcase(name, pattern) for pattern in self._wanted)

    def put_of(self, channel: Channel) -> Put | None:
        """How ``channel`` records; ``None`` when it does not."""
        if not self.on or not channel.enabled:
            return None
        if self._full:
            return self._lose
        let_through = self._open or (channel.always and not self._shut)
        return self._buffer.extend if let_through else _ignore

    @property
    def put(self) -> Put:
        """How to record what must not be missing: the ends of spans that have begun."""
        return self._buffer.extend if self.on and not self._full else _ignore

    def _switch(self) -> None:
        for channel in list(self.channels.values()):
            channel.follow()

    def _lose(self, record: Record) -> None:
        for _ in range(0, len(record), WIDTH):
            next(self._lost)

    @property
    def lost(self) -> int:
        """How many records were lost because nobody took those before in time."""
        return int(repr(self._lost)[6:-1])

    @property
    def waiting(self) -> int:
        """How many records nobody has taken yet."""
        return len(self._buffer) // WIDTH

    def take(self, most: int | None = None) -> list[Any]:
        """What has been recorded since the last time; one thread at a time.

        Args:
            most: Leave what are more records than these for the next time.
        """
        buffer = self._buffer
        size = len(buffer) if most is None else min(len(buffer), most * WIDTH)
        taken = buffer[:size]
        del buffer[:size]
        self.relieve()
        return taken

    def relieve(self) -> None:
        """Hold records off when too many wait, and let them through again when they do not."""
        full = len(self._buffer) > MOST * WIDTH
        if full is not self._full:
            self._full = full
            self._switch()

    def forked(self) -> None:
        """Be a child's: the trace is its parent's."""
        self._buffer.clear()
        self.stop()


def _ignore(record: Record) -> None:
    """Record nothing, in place of recording."""


#: The process's own.
recorder = Recorder()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=recorder.forked)
