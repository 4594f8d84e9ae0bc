"""Draws in the terminal's bottom rows; a scroll region keeps the script's output above them.

The script writes to the terminal as usual. Each frame is one ``write`` that saves the cursor, draws
and restores it, so that it falls between two writes of the script.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress

from .layout import LEAST_COLUMNS, LEAST_ROWS, courses, height, lay_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .board import Board
    from .lines import LineSink
    from .text import Line, Palette

_SAVE, _RESTORE = b"\x1b7", b"\x1b8"
#: Setting or resetting the region moves the cursor home: only between save and restore.
_WHOLE = _SAVE + b"\x1b[r" + _RESTORE
#: Terminals that know synchronized output show the frame at once; others ignore these.
_BEGIN, _END = b"\x1b[?2026h", b"\x1b[?2026l"
_PLAIN, _TO_EDGE, _BELOW = b"\x1b[0m", b"\x1b[K", b"\x1b[J"
_INDEX = b"\x1bD"

#: The shell reads until the pipe closes whether rows are held. Background jobs have /dev/null as
#: descriptor 0.
_GUARD = r"""exec 3<&0
{
    while read -r said; do held=$said; done
    [ "$held" = 1 ] && printf '\033[0m\033[r\033[9999;1H\033[?25h\033[?2026l\r\n'
} <&3 &"""


def _guard(terminal: int) -> int:
    """Start a process that releases the rows if the run dies.

    It holds the terminal and one end of a pipe. The end of the run's process, or exec, closes the
    other end; if rows are held then, the guard resets region, attributes and cursor, and leaves the
    cursor below the last frame. It is not a child of the process: a script may wait for all its
    children.

    Returns:
        The other end of the pipe.

    Raises:
        OSError: There is no shell, or no process can be started.
    """
    from subprocess import DEVNULL, Popen

    reader, pipe = os.pipe()
    try:
        shell = ["/bin/sh", "-c", _GUARD]
        Popen(
            shell, stdin=reader, stdout=terminal, stderr=DEVNULL, cwd="/", env={},
            start_new_session=True,
        ).wait()  # fmt: skip
    except BaseException:
        os.close(pipe)
        raise
    finally:
        os.close(reader)
    return pipe


def write_all(terminal: int, data: bytes) -> None:
    """Write all of ``data``, even if the script has made the terminal non-blocking."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(terminal, rest) :]
        except BlockingIOError:
            select.select([], [terminal], [], 1.0)


class Tty:
    """A real terminal, by file descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd, self._pipe, self._held = fd, -1, False
        with suppress(OSError):
            self._pipe = _guard(fd)
        os.register_at_fork(after_in_child=self._unguard)  # A child would hold the pipe open.

    def _unguard(self) -> None:
        pipe, self._pipe = self._pipe, -1
        if pipe >= 0:
            os.close(pipe)

    def size(self) -> tuple[int, int] | None:
        """Columns and rows; None: unknown."""
        try:
            columns, rows = os.get_terminal_size(self._fd)
        except OSError:
            return None
        return (columns, rows) if columns > 0 and rows > 0 else None

    def ours(self) -> bool:
        """Whether the process is in the terminal's foreground."""
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:  # Not the controlling terminal, hence no job control.
            return True

    def reads_keys(self) -> bool:
        """Whether a program reads single keys, as full-screen programs do."""
        import termios

        try:
            return not termios.tcgetattr(self._fd)[3] & termios.ICANON
        except termios.error:
            return False

    def write(self, data: bytes) -> None:
        """Write all of ``data``."""
        write_all(self._fd, data)

    def hold(self, held: bool) -> None:
        """Tell the guard whether to clean up if the process dies."""
        if held != self._held and self._pipe >= 0:
            self._held = held
            try:
                os.write(self._pipe, b"1\n" if held else b"0\n")
            except OSError:  # The guard has been killed.
                self._unguard()

    def repaint(self) -> None:
        """Make the foreground programs repaint, as after a resize."""
        with suppress(OSError):
            os.killpg(os.tcgetpgrp(self._fd), signal.SIGWINCH)


class Screen:
    """Draws boards into the bottom rows of a terminal.

    Args:
        terminal: The terminal.
        palette: The terminal's abilities.
        lines: The sink for terminals that are too small.
    """

    def __init__(self, terminal: Tty, palette: Palette, lines: LineSink) -> None:
        self._terminal, self._palette, self._lines = terminal, palette, lines
        self._size: tuple[int, int] | None = None
        self._rows = 0
        self._frame = b""

    def draw(self, board: Board) -> None:
        """Show the board if it has changed."""
        terminal, size = self._terminal, self._terminal.size()
        if size is None or not terminal.ours():
            return
        if terminal.reads_keys():
            self._step_aside()
            return
        columns, rows = size
        if columns < LEAST_COLUMNS or rows < LEAST_ROWS:
            self.restore()
            self._lines.draw(board)
            return
        lines = lay_out(board, columns, height(rows))
        # The dashboard may grow but never shrinks: it must not bounce.
        taken = max(len(lines), self._rows if size == self._size else 0)
        opening, frame = self._opening(size, taken), self._painted(lines, rows, taken)
        if opening or frame != self._frame:
            terminal.hold(True)
            terminal.write(_BEGIN + opening + frame + _END)
        self._size, self._rows, self._frame = size, taken, frame

    def _step_aside(self) -> None:
        """Leave the screen to a program that reads keys, while it does.

        It may show the alternate screen, so nothing is cleared. Python's line editor writes below
        its prompt, as the script does: the region stays.
        """
        if self._size is not None and "readline" not in sys.modules:
            self._size = None
            self._terminal.write(_WHOLE)
            self._terminal.hold(False)
            self._terminal.repaint()

    def _opening(self, size: tuple[int, int], taken: int) -> bytes:
        if (size, taken) == (self._size, self._rows):
            return b""
        room = _WHOLE + _INDEX * taken + b"\x1b[%dA" % taken
        # After a resize, older frames may be anywhere below the script's cursor, wherever the
        # terminal has moved or wrapped them: the cursor moved along.
        return room + _clear_below() if self._rows and size != self._size else room

    def _painted(self, lines: list[Line], rows: int, taken: int) -> bytes:
        top = rows - taken
        padded = [*lines, *[()] * (taken - len(lines))]
        drawn = (
            b"\x1b[%d;1H" % (top + number) + self._palette.paint(line) + _TO_EDGE
            for number, line in enumerate(padded, 1)
        )
        # The region is set in each frame: a script may reset the terminal.
        return _SAVE + b"\x1b[1;%dr" % top + _PLAIN + b"".join(drawn) + _RESTORE

    def restore(self) -> None:
        """Release the rows and restore the terminal."""
        if self._rows:
            self._rows, self._size = 0, None
            self._terminal.write(_WHOLE + _clear_below())
            self._terminal.hold(False)

    def close(self, board: Board, summed: bool = False) -> None:
        """Release the rows, and leave the last board in the normal output.

        Args:
            board: The board.
            summed: A summary follows: the board omits its figures.
        """
        size = self._terminal.size()
        if size is None or size[0] < LEAST_COLUMNS or size[1] < LEAST_ROWS:
            self.restore()
            self._lines.close(board, summed)
            return
        if board.empty and not self._rows:
            return
        lines = (courses if summed else lay_out)(board, size[0], height(size[1]))
        if not lines:
            self.restore()
            return
        text = b"".join(self._palette.paint(line) + b"\r\n" for line in lines)
        self._rows = 0
        # The script's last line may be unfinished: the frame starts on a new line.
        self._terminal.write(_WHOLE + b"\r\n" + _PLAIN + _BELOW + text)
        self._terminal.hold(False)


def _clear_below() -> bytes:
    """Clear the rows below the cursor's row."""
    return _SAVE + b"\x1b[B\r" + _PLAIN + _BELOW + _RESTORE
