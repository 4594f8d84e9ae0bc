"""The dashboard where there is no terminal: a line now and then."""

from __future__ import annotations

from .layout import words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .board import Board

#: Seconds between lines where there is no terminal.
LINE_SECONDS = 5.0


class Lines:
    """Writes a board as one line, at most every few seconds, and only if it says something new.

    Args:
        write: Writes a line.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._last, self._due = "", LINE_SECONDS

    def draw(self, board: Board) -> None:
        """Write the board if it is time and there is news."""
        if board.now - board.start >= self._due:
            self._due = board.now - board.start + LINE_SECONDS
            self.close(board)

    def restore(self) -> None:
        """Nothing to undo."""

    def close(self, board: Board, summed: bool = False) -> None:
        """Write the board if there is news, and no summary follows that has all of it."""
        if summed:
            return
        head, told = words(board)
        if told and told != self._last:
            self._last = told
            self._write(f"{head} | {told}\n")
