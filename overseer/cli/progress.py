"""The progress bar of a bench, on stderr if that is a terminal."""

from __future__ import annotations

import os
import sys

from ..views.text import is_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self


class ProgressBar:
    """Shows how far a bench is; a context manager that removes the bar at its end.

    Args:
        rounds: Rounds at most.
    """

    def __init__(self, rounds: int) -> None:
        self._bar: Any = None
        self._rounds = rounds

    def __enter__(self) -> Self:
        if is_terminal(sys.stderr, os.environ):
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (BarColumn(20), TextColumn("{task.completed:.0f} of {task.total:.0f} rounds"),
                TimeRemainingColumn(), TextColumn("{task.description}", markup=False))  # fmt: skip
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=self._rounds)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def clear(self) -> None:
        """Remove the bar while a line is printed."""
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: int, so_far: str) -> None:
        """Show the bar again, after a process of round ``done``."""
        if self._bar is not None:
            done = min(done, self._rounds)
            self._bar.update(self._task, completed=done, description=so_far)
            self._bar.start()
