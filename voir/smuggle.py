"""Data hidden in a stream of text, and readers that take both apart."""

from __future__ import annotations

from collections import deque
from typing import Any, BinaryIO

from overseer.record.smuggle import HIDDEN_DIGITS as newhex
from overseer.record.smuggle import PLAIN_DIGITS as oldhex
from overseer.record.smuggle import (
    Separator,
    SmuggleWriter,
    decode_escape_sequence,
    encode_as_escape_sequence,
)
from voir.proc.lines import Lines, texts

__all__ = [
    "Decoder",
    "LineAccumulator",
    "MultimodalFile",
    "SmuggleWriter",
    "decode_escape_sequence",
    "encode_as_escape_sequence",
    "hexsub",
    "hexsub_back",
    "newhex",
    "oldhex",
    "utf8_length",
]

hexsub = dict(zip(oldhex, newhex, strict=True))
hexsub_back = dict(zip(newhex, oldhex, strict=True))


class LineAccumulator:
    """Collects text into whole lines."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque()
        self.current = ""

    def process(self, char: str) -> None:
        """Add a character, or more."""
        *whole, self.current = (self.current + char).split("\n")
        self.lines.extend(f"{line}\n" for line in whole)


class Decoder:
    """Reads a stream in which data is hidden.

    Args:
        principal: The stream, of bytes.

    Attributes:
        out: The lines that it shows.
        data: The lines that are hidden in it.
    """

    def __init__(self, principal: BinaryIO) -> None:
        self.principal = principal
        self.out, self.data = LineAccumulator(), LineAccumulator()
        self._separator, self._lines = Separator(), {"out": Lines(), "data": Lines()}

    def process_char(self, char: str) -> None:
        """Take a character as if it had been read."""
        self._take(char.encode("utf-8"))

    def readline(self, which: str) -> str | None:
        """The next line of ``out`` or ``data``; ``None`` while there is none."""
        while (line := self.getline(which)) is None:
            chunk = self._read()
            if not chunk:
                return None
            self._take(chunk)
        return line

    def getline(self, which: str) -> str | None:
        """The next line that has been read already; ``None`` while there is none."""
        lines = self.data.lines if which == "data" else self.out.lines
        return lines.popleft() if lines else None

    def close(self) -> None:
        """Close the stream."""
        self.principal.close()

    def _read(self) -> bytes:
        read: Any = getattr(self.principal, "read1", self.principal.read)
        return read(65536) or b""

    def _take(self, chunk: bytes) -> None:
        shown, hidden = self._separator.feed(chunk)
        for kept, piece, into in (("out", shown, self.out), ("data", hidden, self.data)):
            for line in texts(self._lines[kept].feed(piece)):
                into.process(line if isinstance(line, str) else line.decode("utf-8", "replace"))


class MultimodalFile:
    """One half of a stream in which data is hidden, as a file to read lines from.

    Args:
        decoder: Reads the stream.
        which: ``out`` or ``data``.
        name: What ``fileno`` returns, as of a file that was opened by its descriptor.
    """

    def __init__(self, decoder: Decoder, which: str, name: int | str) -> None:
        self.decoder, self.which, self.name = decoder, which, name

    def readline(self) -> str | None:
        """The next line; ``None`` while there is none."""
        return self.decoder.readline(self.which)

    def fileno(self) -> int | str:
        """The stream's descriptor."""
        return self.name

    def close(self) -> None:
        """Close the stream."""
        self.decoder.close()


def utf8_length(char: bytes) -> int:
    """How many bytes a character has in UTF-8, by its first; 1 if none begins so."""
    for length, mask, lead in ((2, 0xE0, 0xC0), (3, 0xF0, 0xE0), (4, 0xF8, 0xF0)):
        if ord(char) & mask == lead:
            return length
    return 1
