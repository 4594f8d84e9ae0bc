"""One descriptor of one program: read without blocking, and made into entries."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..smuggle import Separator
from .lines import Lines, texts

Entry = Callable[..., Any]
Reading = Callable[[str | bytes], Any]

#: How much is read at once, and asked for as the size of a pipe.
CHUNK = 1 << 20


class Source:
    """What comes out of one pipe.

    Args:
        pipe: A file with a descriptor.
        info: What its entries have besides ``event`` and ``data``: ``{"pipe": "stdout"}``.
        deserializer: Makes an object of a line; without it the line itself is the data.
        smuggled: ``info`` of the data that is hidden in the text, if there may be any.
    """

    def __init__(
        self,
        pipe: Any,
        info: dict[str, Any],
        deserializer: Callable[[str], Any] | None = None,
        smuggled: dict[str, Any] | None = None,
    ) -> None:
        self.pipe = pipe
        self.info = info
        self.deserializer = deserializer
        self.smuggled = smuggled
        self.open = True
        self._lines, self._hidden = Lines(), Lines()
        self._separator = Separator() if smuggled is not None else None
        self._reading: Reading = str
        self._reading_hidden: Reading = str

    def bind(self, entry: Entry, info: dict[str, Any]) -> None:
        """Make entries with ``entry``; each gets ``info`` of the program."""
        mine = partial(entry, **info, **self.info)
        self._reading = _reader(mine, self.deserializer)
        if self.smuggled is not None:
            self._reading_hidden = _reader(partial(entry, **info, **self.smuggled), json.loads)
        os.set_blocking(self.fileno(), False)
        _widen(self.fileno())

    def fileno(self) -> int:
        """The descriptor."""
        return int(self.pipe.fileno())

    def close(self) -> None:
        """Close the pipe."""
        self.open = False
        self.pipe.close()

    def read(self) -> Iterator[Any]:
        """The entries of what there is to read now; at the end of the stream it is closed."""
        try:
            chunk = os.read(self.fileno(), CHUNK)
        except BlockingIOError:
            return
        except OSError:  # A terminal whose other side is gone says so by an error.
            chunk = b""
        if chunk:
            yield from self._entries(chunk)
        else:
            yield from self.finish()

    def finish(self) -> Iterator[Any]:
        """The entries of what has no newline at its end, which nothing will complete any more."""
        if not self.open:
            return
        tail = self._lines.feed(self._separator.rest()) if self._separator is not None else b""
        yield from map(self._reading, texts(tail + self._lines.rest()))
        yield from map(self._reading_hidden, texts(self._hidden.rest()))
        self.close()

    def _entries(self, chunk: bytes) -> Iterator[Any]:
        if self._separator is not None:
            chunk, hidden = self._separator.feed(chunk)
            if hidden:
                yield from map(self._reading_hidden, texts(self._hidden.feed(hidden)))
        yield from map(self._reading, texts(self._lines.feed(chunk)))


def _widen(fd: int) -> None:
    """Let the pipe hold more, so that neither side wakes for every few lines."""
    try:
        from fcntl import F_SETPIPE_SZ, fcntl

        fcntl(fd, F_SETPIPE_SZ, CHUNK)
    except (ImportError, OSError):
        pass  # Not Linux, no pipe, or this user has enough large ones.


def _reader(entry: Entry, deserializer: Callable[[str], Any] | None) -> Reading:
    """What makes an entry of a line: its text, or the object in it."""
    make_line = partial(entry, event="line")

    def read_text(line: str | bytes) -> Any:
        if type(line) is str:
            return make_line(data=line)
        return entry(event="binary", data=line)

    def read_object(line: str | bytes) -> Any:
        if isinstance(line, bytes):
            return entry(event="binary", data=line)
        assert deserializer is not None
        try:
            return _object(entry, deserializer(line))
        except Exception as error:
            said = {"line": line, "type": type(error).__name__, "message": str(error)}
            return entry(event="format_error", data=said)

    return read_text if deserializer is None else read_object


def _object(entry: Entry, found: Any) -> Any:
    """The entry of an object; one with ``$event`` says itself what event it is."""
    if not isinstance(found, (dict, list)):
        raise TypeError(f"an object is expected, not {type(found).__name__}")
    if not isinstance(found, dict) or "$event" not in found:
        return entry(event="data", data=found)
    rest = {key: value for key, value in found.items() if key not in ("$event", "$data")}
    return entry(event=found["$event"], data=found.get("$data"), **rest)
