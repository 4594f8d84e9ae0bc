"""voir's output on stderr: problems, explanations, the summary."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from stat import S_ISREG

from ..errors import Problem, VoirError, clean
from ..files import bounded
from ..views.text import coloured, encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TextIO

BOLD_RED, YELLOW, DIM, RESET = "\x1b[1;31m", "\x1b[33m", "\x1b[2m", "\x1b[0m"
#: Exit statuses: wrong usage; ``--verify`` failed; ``--strict`` failed.
USAGE, UNVERIFIED, STRICT = 2, 3, 4
#: The descriptor of stderr.
STDERR = 2


def _indented(line: str) -> str:
    """Return a line without control characters, with its indentation."""
    rest = line.lstrip(" ")
    return line[: len(line) - len(rest)] + clean(rest)


def size_of(stream: TextIO | None) -> tuple[int, int]:
    """Columns and lines of a terminal; zeros if there is none or it does not report them."""
    try:
        return os.get_terminal_size(stream.fileno()) if stream else (0, 0)
    except (OSError, ValueError, AttributeError):
        return 0, 0


def screen(
    run: Mapping[str, Any], width: int, colour: bool = False, height: int = 0, whole: bool = False
) -> str:
    """The text at the end of a run: its checks under ``--verify``, else its summary."""
    if "verify" in run:
        from ..views.checks import render as checks

        return checks(run, width, colour)
    from ..views.summary import render

    return render(run, width, colour, height, whole)


class Notices:
    """Writes problems and explanations to stderr; never fails, never touches stdout."""

    def __init__(self, stream: TextIO | None, environ: Mapping[str, str] = os.environ) -> None:
        self._stream = stream
        self.colour = coloured(stream, environ)

    def width(self) -> int:
        """Columns to write in: the terminal's, or 80."""
        return self._columns() or 80

    def height(self) -> int:
        """Lines of the terminal; 0 if there is none or it does not report them."""
        return size_of(self._stream)[1]

    def _columns(self) -> int:
        return size_of(self._stream)[0]

    def new_line(self) -> str:
        """Return text that starts a new line, wherever the script left the cursor."""
        if columns := self._columns():  # These spaces wrap to the next line unless it is empty.
            return " " * (columns - 1) + "\r"
        with suppress(Exception):  # The script's tqdm; an open progress bar has not ended its line.
            bars = sys.modules["tqdm.std"].tqdm._instances
            if any(not bar.disable for bar in [*bars]):
                return "\n"
        return "\n" if self._stream and _ends_within_line(self._stream) else ""

    def problem(self, problem: Problem | VoirError) -> None:
        """Show a problem, or an error that ends voir: what, where, what to do."""
        first, *rest = str(problem).split("\n")
        colour = YELLOW if isinstance(problem, Problem) else BOLD_RED
        self.line("\n".join([f"{first} [{problem.slug}]", *rest]), colour)

    def line(self, text: str, colour: str = DIM) -> None:
        """Write one or several lines without control characters."""
        text = "\n".join(map(_indented, text.split("\n")))
        self.write(f"{colour}voir:{RESET} {text}\n" if self.colour else f"voir: {text}\n")

    def write(self, text: str) -> None:
        """Write ``text``; characters that stderr cannot encode are replaced or escaped."""
        if self._stream is None:
            return
        try:
            with bounded():
                _put(self._stream, encodable(text, getattr(self._stream, "encoding", None)))
        except (OSError, ValueError):
            self._stream = None  # stderr is closed; the script must not notice.


def _put(stream: TextIO, text: str) -> None:
    """Write all of ``text`` and bypass the stream's buffer, whose rest would fail at exit.

    Raises:
        OSError: It cannot be written, or stderr is now a file of the script's.
        ValueError: The stream is closed.
    """
    if not _is_stderr(stream):
        stream.write(text)
        stream.flush()
        return
    # A file that the script opened after closing stderr; a descriptor from dup2() is inherited.
    if not os.get_inheritable(STDERR):
        raise OSError("stderr is closed")
    stream.flush()
    data = text.encode(stream.encoding or "utf-8", "backslashreplace")
    while data:
        data = data[os.write(STDERR, data) :]


def _is_stderr(stream: TextIO) -> bool:
    try:
        return stream.fileno() == STDERR
    except (OSError, ValueError, AttributeError):
        return False


def _ends_within_line(stream: TextIO) -> bool:
    """Test whether stderr is a file that does not end in a newline; unknown for a pipe."""
    if not _is_stderr(stream):
        return False
    try:
        status = os.fstat(STDERR)
        at = os.lseek(STDERR, 0, os.SEEK_CUR) if S_ISREG(status.st_mode) else 0
        if not at:
            return False
        fd = os.open(f"/proc/self/fd/{STDERR}", os.O_RDONLY | os.O_CLOEXEC)  # stderr is write-only.
        try:
            return os.pread(fd, 1, at - 1) not in (b"\n", b"")
        finally:
            os.close(fd)
    except OSError:
        return False
