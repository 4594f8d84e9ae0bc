"""The run's phases as spans on a row of their own."""

from __future__ import annotations

from overseer.clock import Clock
from overseer.trace.emit import Channel
from overseer.trace.recorder import BEGIN, END
from overseer.trace.tracks import Track


class PhaseRow:
    """A span for each phase, from the end of the one before.

    Args:
        channel: Where they are recorded.
        clock: The run's.
    """

    def __init__(self, channel: Channel, clock: Clock) -> None:
        self._channel, self._clock = channel, clock
        self._track = Track("phases")
        self._open = ""

    def happened(self, name: str, begin: int, end: int) -> None:
        """A phase that was over before anybody recorded."""
        self._channel.at(begin, BEGIN, self._track, name)
        self._channel.at(end, END, self._track, name)

    def begin(self, name: str) -> None:
        """The phase ``name`` begins, and with it the one before has ended."""
        self.end()
        self._open = name
        self._channel.at(self._clock.now_ns(), BEGIN, self._track, name)

    def end(self) -> None:
        """The phase that is open has ended."""
        if self._open:
            self._channel.at(self._clock.now_ns(), END, self._track, self._open)
            self._open = ""
