"""Data hidden in a stream of text, in escape sequences that terminals do not show.

A sequence is ``ESC [``, the data's bytes as hexadecimal digits, ``z``. The digits are written as
the characters 0x30 to 0x3F, which ECMA-48 allows in the parameters of a control sequence; what ends
in ``z`` no terminal knows, so nothing of it is seen. Who reads the stream takes both apart again.
"""

from __future__ import annotations

import re
import sys
from typing import TextIO

#: Hexadecimal digits, and the characters that stand for them here.
PLAIN_DIGITS = "0123456789abcdef"
HIDDEN_DIGITS = "0123456789:;<=>?"

#: How many bytes go into one sequence: written at once, it is not longer than PIPE_BUF (4096), so
#: nothing that other threads or processes write to the same pipe can come between.
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
    """``data`` as sequences that are short enough to be written undivided."""
    return [hide(data[start : start + PIECE]) for start in range(0, len(data), PIECE)]


def encode_as_escape_sequence(s: str) -> str:
    """The text ``s`` as one escape sequence, to be written to a stream of text."""
    return hide(s.encode("utf-8")).decode("ascii")


def decode_escape_sequence(s: str) -> str:
    """The text in a sequence that :func:`encode_as_escape_sequence` made.

    Raises:
        ValueError: It is no such sequence.
    """
    found = _SEQUENCE.fullmatch(s.encode("utf-8"))
    if found is None:
        raise ValueError(f"{s!r:.60} is no escape sequence with data in it")
    return _revealed(found[1]).decode("utf-8")


def _revealed(digits: bytes) -> bytes:
    return bytes.fromhex(digits.translate(_SHOW).decode("ascii"))


class SmuggleWriter:
    """A file whose text is hidden in the stream that it is written to.

    Args:
        stream: For example ``sys.stdout``.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __enter__(self) -> SmuggleWriter:
        return self

    def __exit__(self, typ: object = None, exc: object = None, tb: object = None) -> None:
        """Flush; a standard stream stays open, any other is closed."""
        self.flush()
        if not _is_standard(self.stream):
            self.stream.close()

    def write(self, txt: str) -> int:
        """Hide ``txt`` in the stream; returns how many characters of it there are."""
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
    """Takes apart what a stream shows and what is hidden in it, however it is cut into chunks."""

    def __init__(self) -> None:
        self._held: list[bytes] = []  # The beginning of what may become a sequence.

    def feed(self, chunk: bytes) -> tuple[bytes, bytes]:
        """What ``chunk`` shows, and the data in it; the beginning of a sequence is kept back."""
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
        """What was kept back, at the end of the stream: it was no sequence."""
        held, self._held = b"".join(self._held), []
        return held

    def _go_on(self, chunk: bytes) -> bytes:
        """What was kept back with ``chunk``, unless all of that is still the beginning only."""
        begun = len(self._held) > 1 or len(self._held[0]) > 1
        if begun and _NO_DIGIT.search(chunk) is None:
            self._held.append(chunk)  # Joined once, at the end: a sequence may be very long.
            return b""
        held, self._held = [*self._held, chunk], []
        return b"".join(held)

    def _take(self, digits: bytes, shown: list[bytes], hidden: list[bytes]) -> None:
        try:
            hidden.append(_revealed(digits))
        except ValueError:  # An odd number of digits: somebody else's sequence.
            shown.append(b"\x1b[" + digits + b"z")

    def _keep_back(self, text: bytes) -> bytes:
        start = text.rfind(b"\x1b")
        if start < 0 or _BEGUN.fullmatch(text, start) is None:
            return text
        self._held.append(text[start:])
        return text[:start]
