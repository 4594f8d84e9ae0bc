"""From chunks of bytes to whole lines, in time that grows with the bytes and nothing else."""

from __future__ import annotations


class Lines:
    """Cuts a stream into lines, each with its newline; a begun line waits for its end."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []

    def feed(self, chunk: bytes) -> bytes:
        """The whole lines that ``chunk`` completes, in one piece; the rest is kept."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            if chunk:
                self._begun.append(chunk)  # Joined when it ends: a line may be very long.
            return b""
        whole = b"".join((*self._begun, chunk[:end]))
        self._begun = [chunk[end:]] if end < len(chunk) else []
        return whole

    def rest(self) -> bytes:
        """What came after the last newline, at the end of the stream."""
        begun, self._begun = self._begun, []
        return b"".join(begun)


def texts(whole: bytes) -> list[str] | list[str | bytes]:
    """The lines of ``whole`` as text, each with its newline; those that are no UTF-8 as bytes."""
    try:
        return _split(whole.decode("utf-8"))
    except UnicodeDecodeError:
        return [_text(line) for line in _cut(whole)]


def _split(text: str) -> list[str]:
    # Not splitlines(): to that, many more characters than the newline end a line.
    lines = text.split("\n")
    last = lines.pop()
    lines = [line + "\n" for line in lines]
    return [*lines, last] if last else lines


def _cut(whole: bytes) -> list[bytes]:
    lines = whole.split(b"\n")
    last = lines.pop()
    return [*(line + b"\n" for line in lines), *([last] if last else [])]


def _text(line: bytes) -> str | bytes:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line
