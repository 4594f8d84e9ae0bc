"""What voir says on stderr: problems, explanations, the summary."""

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
#: Exit statuses: wrong usage, ``--verify`` failed, ``--strict`` found something.
USAGE, UNVERIFIED, STRICT = 2, 3, 4
#: The descriptor of stderr.
STDERR = 2


def _indented(line: str) -> str:
    """A line without what a terminal would obey; its indentation stays."""
    rest = line.lstrip(" ")
    return line[: len(line) - len(rest)] + clean(rest)


def size_of(stream: TextIO | None) -> tuple[int, int]:
    """The columns and lines of a terminal; zeros where there is none, or it does not say."""
    try:
        return os.get_terminal_size(stream.fileno()) if stream else (0, 0)
    except (OSError, ValueError, AttributeError):
        return 0, 0


def screen(
    run: Mapping[str, Any], width: int, colour: bool = False, height: int = 0, whole: bool = False
) -> str:
    """What stands at the end of a run: its checks under ``--verify``, else its summary."""
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
        """How many columns there are to write in: the terminal's, or 80."""
        return self._columns() or 80

    def height(self) -> int:
        """How many lines the terminal has; 0 where there is none, or it does not say."""
        return size_of(self._stream)[1]

    def _columns(self) -> int:
        return size_of(self._stream)[0]

    def new_line(self) -> str:
        """What has the next text begin a line, whatever the script has left its last one at."""
        if columns := self._columns():  # Where a line has been begun, these reach the next one.
            return " " * (columns - 1) + "\r"
        with suppress(Exception):  # The script's own; a bar that is not closed has no newline yet.
            bars = sys.modules["tqdm.std"].tqdm._instances
            if any(not bar.disable for bar in [*bars]):
                return "\n"
        return "\n" if self._stream and _ends_within_line(self._stream) else ""

    def problem(self, problem: Problem | VoirError) -> None:
        """Show a problem, or a mistake that ends voir: what, where, what to do."""
        first, *rest = str(problem).split("\n")
        colour = YELLOW if isinstance(problem, Problem) else BOLD_RED
        self.line("\n".join([f"{first} [{problem.slug}]", *rest]), colour)

    def line(self, text: str, colour: str = DIM) -> None:
        """Say a line, or several, without what a terminal would obey."""
        text = "\n".join(map(_indented, text.split("\n")))
        self.write(f"{colour}voir:{RESET} {text}\n" if self.colour else f"voir: {text}\n")

    def write(self, text: str) -> None:
        """Write ``text`` as it is; what stderr lacks is in ASCII, or escaped."""
        if self._stream is None:
            return
        try:
            with bounded():
                _put(self._stream, encodable(text, getattr(self._stream, "encoding", None)))
        except (OSError, ValueError):
            self._stream = None  # Nobody listens; the script is not troubled with it.


def _put(stream: TextIO, text: str) -> None:
    """Write all of ``text``, past the stream's buffer: what is left there would fail at the end.

    Raises:
        OSError: It cannot be written, or stderr is a file of the script's by now.
        ValueError: The stream is closed.
    """
    if not _is_stderr(stream):
        stream.write(text)
        stream.flush()
        return
    # What the script has opened since it closed stderr; what is put there by dup2() is inherited.
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
    """Whether the file that stderr is has no newline at its end; a pipe's end is not known."""
    if not _is_stderr(stream):
        return False
    try:
        status = os.fstat(STDERR)
        at = os.lseek(STDERR, 0, os.SEEK_CUR) if S_ISREG(status.st_mode) else 0
        if not at:
            return False
        fd = os.open(f"/proc/self/fd/{STDERR}", os.O_RDONLY | os.O_CLOEXEC)  # It is for writing.
        try:
            return os.pread(fd, 1, at - 1) not in (b"\n", b"")
        finally:
            os.close(fd)
    except OSError:
        return False
