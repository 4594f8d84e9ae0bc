"""The terminal's bottom rows: a scroll region keeps the script's output above them, untouched.

The script goes on writing to the terminal itself, and never knows. Each frame is one ``write``
that saves the cursor, draws, and restores it, so that it falls between two writes of the script.
"""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from typing import Protocol

from instruments.dash.board import Board
from instruments.dash.drawing import Line
from instruments.dash.paint import Palette
from instruments.dash.view import height, lay_out

_SAVE, _RESTORE = b"\x1b7", b"\x1b8"
#: Setting or resetting the region moves the cursor home: only between save and restore.
_WHOLE = _SAVE + b"\x1b[r" + _RESTORE
#: Terminals that know synchronized output show the frame at once; others ignore these.
_BEGIN, _END = b"\x1b[?2026h", b"\x1b[?2026l"
_PLAIN, _TO_EDGE, _BELOW = b"\x1b[0m", b"\x1b[K", b"\x1b[J"
_INDEX = b"\x1bD"
#: In the scrollback there is no need to be brief.
_LAST_ROWS = 40


class Terminal(Protocol):
    """What the screen needs of a terminal."""

    def size(self) -> tuple[int, int] | None:
        """Columns and rows; None when unknown."""

    def ours(self) -> bool:
        """Whether the process may draw: not while it is a background job."""

    def write(self, data: bytes) -> None:
        """Write all of ``data``, in one piece."""


class Tty:
    """A real terminal, by file descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def size(self) -> tuple[int, int] | None:
        """Columns and rows; None when the terminal does not say."""
        try:
            columns, rows = os.get_terminal_size(self._fd)
        except OSError:
            return None
        return (columns, rows) if columns > 0 and rows > 0 else None

    def ours(self) -> bool:
        """Whether the process is in the terminal's foreground."""
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:  # Not the controlling terminal: then there are no jobs either.
            return True

    def write(self, data: bytes) -> None:
        """Write all of ``data``, also where the script has made the terminal non-blocking."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                select.select([], [self._fd], [], 1.0)


class Screen:
    """Draws boards into the bottom rows of a terminal."""

    def __init__(self, terminal: Terminal, palette: Palette) -> None:
        self._terminal = terminal
        self._palette = palette
        self._size: tuple[int, int] | None = None
        self._rows = 0
        self._frame = b""

    def draw(self, board: Board) -> None:
        """Show ``board``, if anything of it has changed."""
        size = self._terminal.size()
        if size is None or not self._terminal.ours():
            return None
        columns, rows = size
        lines = lay_out(board, columns, height(rows))
        if not lines:
            return self.restore()
        # Rows once taken stay taken: the dashboard may grow, but it does not bounce.
        taken = max(len(lines), self._rows if size == self._size else 0)
        opening = self._opening(size, taken)
        frame = self._painted(lines, rows, taken)
        if opening or frame != self._frame:
            self._terminal.write(_BEGIN + opening + frame + _END)
        self._size, self._rows, self._frame = size, taken, frame
        return None

    def _opening(self, size: tuple[int, int], taken: int) -> bytes:
        if (size, taken) == (self._size, self._rows):
            return b""
        room = _WHOLE + _INDEX * taken + b"\x1b[%dA" % taken
        # After a resize older frames may stand anywhere below the script's cursor, wherever the
        # terminal has moved or wrapped them: the cursor moved along.
        return room + _clear_below() if self._rows and size != self._size else room

    def restore(self) -> None:
        """Give the rows back and leave the terminal as it was."""
        if self._rows:
            self._rows, self._size = 0, None
            self._terminal.write(_WHOLE + _clear_below())

    def close(self, board: Board) -> None:
        """Give the rows back, and leave ``board`` behind in the normal flow of output."""
        size = self._terminal.size()
        if size is None or (board.empty and not self._rows):
            return self.restore()
        lines = lay_out(board, size[0], _LAST_ROWS)
        text = b"".join(self._palette.paint(line) + b"\r\n" for line in lines)
        self._rows = 0
        # The script's last line may be unfinished: the frame starts on one of its own.
        self._terminal.write(_WHOLE + b"\r\n" + _PLAIN + _BELOW + text)
        return None

    def _painted(self, lines: Sequence[Line], rows: int, taken: int) -> bytes:
        top = rows - taken
        # Said again each time: a script that resets the terminal loses it for one frame only.
        region = b"\x1b[1;%dr" % top
        padded = [*lines, *[()] * (taken - len(lines))]
        drawn = (
            b"\x1b[%d;1H" % (top + number) + self._palette.paint(line) + _TO_EDGE
            for number, line in enumerate(padded, 1)
        )
        return _SAVE + region + _PLAIN + b"".join(drawn) + _RESTORE


def _clear_below() -> bytes:
    """Clear the rows below the cursor's own."""
    return _SAVE + b"\x1b[B\r" + _PLAIN + _BELOW + _RESTORE
