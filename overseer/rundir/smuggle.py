"""Hides data in a stream of text, in escape sequences that terminals do not show.

A sequence is ``ESC [``, the data's bytes as hexadecimal digits, ``z``. The digits are characters
from 0x30 to 0x3F, which ECMA-48 allows as parameters of a control sequence; no terminal knows a
sequence that ends in ``z``, so it is not shown. Readers separate data and text again.
"""

from __future__ import annotations

import re
import sys
from typing import TextIO

#: Hexadecimal digits, and the characters that encode them.
PLAIN_DIGITS = "0123456789abcdef"
HIDDEN_DIGITS = "0123456789:;<=>?"

#: Bytes per sequence: it stays below PIPE_BUF (4096), so that writes to a pipe are atomic.
PIECE = 2040

_HIDE = bytes.maketrans(PLAIN_DIGITS.encode(), HIDDEN_DIGITS.encode())
_SHOW = bytes.maketrans(HIDDEN_DIGITS.encode(), PLAIN_DIGITS.encode())
_SEQUENCE = re.compile(rb"\x1b\[([0-9:;<=>?]*)z")
_BEGUN = re.compile(rb"\x1b(\[[0-9:;<=>?]*)?")
_NO_DIGIT = re.compile(rb"[^0-9:;<=>?]")


def hide(data: bytes) -> bytes:
    """``data`` as one escape sequence."""
    return b"\x1b[" + data.hex().encode("ascii").translate(_HIDE) + b"z"


def pieces(data: bytes) -> list[bytes]:
    """``data`` as sequences short enough for atomic writes."""
    return [hide(data[start : start + PIECE]) for start in range(0, len(data), PIECE)]


def encode_as_escape_sequence(s: str) -> str:
    """Encode the text ``s`` as one escape sequence for a stream of text."""
    return hide(s.encode("utf-8")).decode("ascii")


def decode_escape_sequence(s: str) -> str:
    """Decode the text in a sequence of :func:`encode_as_escape_sequence`.

    Raises:
        ValueError: Not such a sequence.
    """
    found = _SEQUENCE.fullmatch(s.encode("utf-8"))
    if found is None:
        raise ValueError(f"{s!r:.60} is not an escape sequence with data")
    return _revealed(found[1]).decode("utf-8")


def _revealed(digits: bytes) -> bytes:
    return bytes.fromhex(digits.translate(_SHOW).decode("ascii"))


class SmuggleWriter:
    """A file that hides its text in another stream.

    Args:
        stream: For example ``sys.stdout``.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __enter__(self) -> SmuggleWriter:
        return self

    def __exit__(self, typ: object = None, exc: object = None, tb: object = None) -> None:
        """Flush, and close the stream unless it is a standard stream."""
        self.flush()
        if not _is_standard(self.stream):
            self.stream.close()

    def write(self, txt: str) -> int:
        """Hide ``txt`` in the stream; return its length."""
        if txt:
            self.stream.write(encode_as_escape_sequence(txt))
        return len(txt)

    def flush(self) -> None:
        """Flush the stream."""
        self.stream.flush()

    def close(self) -> None:
        """Close the stream."""
        self.stream.close()


def _is_standard(stream: TextIO) -> bool:
    return stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)


class Separator:
    """Separates the shown text and the hidden data of a stream that arrives in chunks."""

    def __init__(self) -> None:
        self._held: list[bytes] = []  # The beginning of a possible sequence.

    def feed(self, chunk: bytes) -> tuple[bytes, bytes]:
        """The shown text of ``chunk`` and its data; an incomplete sequence is held back."""
        shown, hidden = list[bytes](), list[bytes]()
        if self._held:
            chunk = self._go_on(chunk)
        first, *rest = _SEQUENCE.split(chunk)
        shown.append(first)
        for digits, text in zip(rest[::2], rest[1::2], strict=True):
            self._take(digits, shown, hidden)
            shown.append(text)
        shown[-1] = self._keep_back(shown[-1])
        return b"".join(shown), b"".join(hidden)

    def rest(self) -> bytes:
        """The text held back at the end of the stream: not a sequence."""
        held, self._held = b"".join(self._held), []
        return held

    def _go_on(self, chunk: bytes) -> bytes:
        """The text held back joined with ``chunk``, unless the sequence is still incomplete."""
        begun = len(self._held) > 1 or len(self._held[0]) > 1
        if begun and _NO_DIGIT.search(chunk) is None:
            self._held.append(chunk)  # Joined once at the end: sequences may be very long.
            return b""
        held, self._held = [*self._held, chunk], []
        return b"".join(held)

    def _take(self, digits: bytes, shown: list[bytes], hidden: list[bytes]) -> None:
        try:
            hidden.append(_revealed(digits))
        except ValueError:  # An odd number of digits: another program's sequence.
            shown.append(b"\x1b[" + digits + b"z")

    def _keep_back(self, text: bytes) -> bytes:
        start = text.rfind(b"\x1b")
        if start < 0 or _BEGUN.fullmatch(text, start) is None:
            return text
        self._held.append(text[start:])
        return text[:start]
