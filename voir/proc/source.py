"""One descriptor of one program: read without blocking, and made into entries."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from overseer.record.smuggle import Separator

from .lines import Lines, texts

Entry = Callable[..., Any]
Reading = Callable[[list[str] | list[str | bytes]], list[Any]]

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
        self._reading: Reading = list
        self._reading_hidden: Reading = list

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

    def read(self) -> list[Any]:
        """The entries of what there is to read now; at the end of the stream it is closed."""
        try:
            chunk = os.read(self.fileno(), CHUNK)
        except BlockingIOError:
            return []
        except OSError:  # A terminal whose other side is gone says so by an error.
            chunk = b""
        return self._entries(chunk) if chunk else self.finish()

    def finish(self) -> list[Any]:
        """The entries of what has no newline at its end, which nothing will complete any more."""
        if not self.open:
            return []
        tail = self._lines.feed(self._separator.rest()) if self._separator is not None else b""
        shown = self._reading(texts(tail + self._lines.rest()))
        hidden = self._reading_hidden(texts(self._hidden.rest()))
        self.close()
        return shown + hidden

    def _entries(self, chunk: bytes) -> list[Any]:
        found: list[Any] = []
        if self._separator is not None:
            chunk, hidden = self._separator.feed(chunk)
            if hidden:
                found = self._reading_hidden(texts(self._hidden.feed(hidden)))
        return found + self._reading(texts(self._lines.feed(chunk)))


def _widen(fd: int) -> None:
    """Let the pipe hold more, so that neither side wakes for every few lines."""
    try:
        from fcntl import F_SETPIPE_SZ, fcntl

        fcntl(fd, F_SETPIPE_SZ, CHUNK)
    except (ImportError, OSError):
        pass  # Not Linux, no pipe, or this user has enough large ones.


def _reader(entry: Entry, deserializer: Callable[[str], Any] | None) -> Reading:
    """What makes entries of lines: of their text, or of the objects in them."""
    make_line = partial(entry, event="line")

    def read_texts(lines: list[str] | list[str | bytes]) -> list[Any]:
        if bytes not in set(map(type, lines)):  # The usual case, by the hundred thousand.
            return [make_line(data=line) for line in lines]
        return [make_line(data=x) if isinstance(x, str) else binary(x) for x in lines]

    def read_objects(lines: list[str] | list[str | bytes]) -> list[Any]:
        return [read_object(line) if isinstance(line, str) else binary(line) for line in lines]

    def binary(line: str | bytes) -> Any:
        return entry(event="binary", data=line)

    def read_object(line: str) -> Any:
        assert deserializer is not None
        try:
            return _object(entry, deserializer(line))
        except Exception as error:
            said = {"line": line, "type": type(error).__name__, "message": str(error)}
            return entry(event="format_error", data=said)

    return read_texts if deserializer is None else read_objects


def _object(entry: Entry, found: Any) -> Any:
    """The entry of an object; one with ``$event`` says itself what event it is."""
    if not isinstance(found, (dict, list)):
        raise TypeError(f"an object is expected, not {type(found).__name__}")
    if not isinstance(found, dict) or "$event" not in found:
        return entry(event="data", data=found)
    rest = {key: value for key, value in found.items() if key not in ("$event", "$data")}
    return entry(event=found["$event"], data=found.get("$data"), **rest)
