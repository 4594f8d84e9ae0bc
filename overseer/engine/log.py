"""``ov.log``: what leaves the process."""

from __future__ import annotations

from .bus import Bus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .operators import LogStream

    Event = dict[str, Any]


class Log:
    """``ov.log``: call it with an event to send it out; or use giving's operators on it."""

    def __init__(self, stream: Bus) -> None:
        self._stream = stream
        self._proxy: LogStream | None = None

    def __call__(self, data: Event) -> None:
        """Send an event out of the process: to the record, to ``DATA_FD``, to the dashboard."""
        self._stream.push(data)

    def _operators(self) -> LogStream:
        if self._proxy is None:
            from .operators import LogStream

            self._proxy = LogStream(self._stream)
        return self._proxy

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "on_next":
            raise AttributeError(name)
        return getattr(self._operators(), name)

    def __rshift__(self, subscriber: Any) -> Any:
        return self._operators() >> subscriber

    def __getitem__(self, key: Any) -> Any:
        return self._operators()[key]

    def __or__(self, other: Any) -> Any:
        return self._operators() | other
