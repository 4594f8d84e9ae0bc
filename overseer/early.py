"""Events from before the run can be recorded: instruments may give and log in ``init``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .stream import Event, EventStream

if TYPE_CHECKING:
    from .recording import Recording

#: How many are kept; who gives more than this in ``init`` is doing something else.
MOST = 10_000


class EarlyEvents:
    """Keeps what is given and logged until there is a recording to hand it to."""

    def __init__(self, given: EventStream, logged: EventStream) -> None:
        self._kept: list[tuple[bool, Event]] = []
        self._listening = [
            given.listen(self._keeper(False), who="the record"),
            logged.listen(self._keeper(True), who="the record"),
        ]

    def _keeper(self, logged: bool) -> Callable[[Event], None]:
        def keep(event: Event) -> None:
            if len(self._kept) < MOST:
                self._kept.append((logged, event))

        return keep

    def deliver(self, recording: Recording | None) -> None:
        """Hand over what was kept, in order, and listen no longer."""
        for listening in self._listening:
            listening.dispose()
        seen: dict[tuple[str, ...], int] = {}
        for logged, event in self._kept if recording is not None else ():
            assert recording is not None
            keys = tuple(event)
            seen[keys] = seen.get(keys, 0) + 1
            if logged:
                recording.log(event)
            else:
                recording.given(event, seen[keys])
        self._kept.clear()
