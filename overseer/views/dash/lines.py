"""The dashboard without a terminal: a line every few seconds."""

from __future__ import annotations

from .layout import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .board import Board

#: Seconds between lines where there is no terminal.
LINE_SECONDS = 5.0


class LineSink:
    """Writes the board as one line, at most every few seconds, if it has changed.

    Args:
        write: Writes a line.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._last, self._due = "", LINE_SECONDS

    def draw(self, board: Board) -> None:
        """Write the board if it is due and has changed."""
        if board.now - board.start >= self._due:
            self._due = board.now - board.start + LINE_SECONDS
            self.close(board)

    def restore(self) -> None:
        """Do nothing."""

    def close(self, board: Board, summed: bool = False) -> None:
        """Write the board if it has changed, unless a summary follows."""
        if summed:
            return
        head, told = words(board)
        if told and told != self._last:
            self._last = told
            self._write(f"{head} | {told}\n")
