"""Off a terminal: a plain line every few seconds, for logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from instruments.dash.board import Board
from instruments.dash.words import one_line

SECONDS = 5.0


class Lines:
    """Writes a board as one line, at most every ``seconds``, and only when it says something new.

    Args:
        write: Takes a line without its end.
    """

    def __init__(self, write: Callable[[str], object], seconds: float = SECONDS) -> None:
        self._write = write
        self._seconds = seconds
        self._last: Board | None = None
        self._due = seconds

    def draw(self, board: Board) -> None:
        """Write ``board`` if it is time and there is news."""
        if board.elapsed >= self._due:
            self._due = board.elapsed + self._seconds
            self._tell(board)

    def restore(self) -> None:
        """Nothing to undo."""

    def close(self, board: Board) -> None:
        """Write the last state."""
        self._tell(board)

    def _tell(self, board: Board) -> None:
        facts = replace(board, elapsed=0.0)
        if board.empty or facts == self._last:
            return
        self._last = facts
        self._write(one_line(board))
