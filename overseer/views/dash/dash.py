"""Draws the dashboard at its own pace, on a thread of voir's, and cleans up at the end."""

from __future__ import annotations

import os
import signal
import sys
import threading

from ...errors import Problem
from ..text import is_terminal
from .lines import LineSink
from .screen import Screen, Tty
from .text import Palette

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TextIO

    from ...clock import Clock
    from .board import Board


#: Least interval between frames, in seconds; and the inverse of their largest share of a core.
FRAME_SECONDS, COST_PART = 0.5, 200


class Dashboard:
    """Draws a board periodically.

    Args:
        sink: The screen or lines to draw on.
        board: The board.
        facts: Computes the ``tasks`` of ``run.json``.
        clock: The run's clock.
        report: Reports failures.
    """

    def __init__(
        self,
        sink: LineSink | Screen,
        board: Board,
        facts: Callable[[], Mapping[str, Any]],
        clock: Clock,
        report: Callable[[Problem], object],
    ) -> None:
        self._sink, self._board, self._facts = sink, board, facts
        self._clock, self._report = clock, report
        self._due = clock.now_ns()
        self._lock = threading.Lock()
        self._pid, self._open = os.getpid(), True
        self._handler = self._suspend  # Each access makes another bound method.

    @property
    def on_screen(self) -> bool:
        """Whether the board is still shown on a terminal."""
        return self._open and isinstance(self._sink, Screen)

    def watch(self) -> None:
        """Release the terminal while the run is stopped by Ctrl-Z, unless the script handles that.

        The next frame takes it back.
        """
        if signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL and _is_main():
            signal.signal(signal.SIGTSTP, self._handler)

    def _suspend(self, signum: int, frame: object) -> None:
        if os.getpid() == self._pid and self._lock.acquire(timeout=1.0):
            try:
                self._guard(self._sink.restore)
            finally:
                self._lock.release()
        signal.signal(signum, signal.SIG_DFL)
        signal.raise_signal(signum)  # Returns when the run continues.
        signal.signal(signum, self._handler)

    def tick(self) -> None:
        """Draw a frame if one is due."""
        with self._lock:
            if self._open and self._clock.now_ns() >= self._due:
                began = self._clock.cpu_ns()
                self._guard(self._frame)
                cost = self._clock.cpu_ns() - began
                self._due = self._clock.now_ns() + cost * COST_PART

    def close(self, summed: bool = False) -> None:
        """Draw the last frame and release the terminal; a second call does nothing.

        In a forked child it does nothing: the terminal is the parent's.

        Args:
            summed: A summary follows: the frame omits its figures.
        """
        if os.getpid() != self._pid or not self._open:
            return
        if signal.getsignal(signal.SIGTSTP) == self._handler and _is_main():
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # A frame may block in a stopped terminal (Ctrl-S): do not wait for it.
        if not self._lock.acquire(timeout=1.0):
            return
        try:
            if self._open:
                self._guard(lambda: self._last_frame(summed))
                self._open = False
        finally:
            self._lock.release()

    def _frame(self) -> None:
        self._board.read(self._clock.now_ns() / 1e9, self._facts)
        self._sink.draw(self._board)

    def _last_frame(self, summed: bool) -> None:
        flush_script()
        self._board.read(self._clock.now_ns() / 1e9, self._facts, last=True)
        self._sink.close(self._board, summed)

    def _guard(self, draw: Callable[[], object]) -> None:
        """Draw; a terminal that cannot be written to ends the dashboard, not the run."""
        try:
            draw()
        except OSError as error:
            self._open = False
            what = f"cannot write to stderr: {error.strerror or error}"
            remedy = "The dashboard is off, the run goes on. Without a terminal, leave --dash out."
            self._report(Problem("dash-write-failed", "dash", what, remedy=remedy))
        except Exception:
            self._open = False
            self._sink.restore()
            raise


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def flush_script() -> None:
    """Flush the script's unfinished line, so that it stands above the summary."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream.isatty():
                stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # Closed, or replaced by another object.


def sink_for(stream: TextIO | None, environ: Mapping[str, str]) -> LineSink | Screen | None:
    """Choose rows on a terminal, lines elsewhere, nothing without stderr."""
    if stream is None:
        return None
    lines = LineSink(lambda line: _write_line(stream, line))
    if environ.get("TERM", "dumb") != "dumb" and is_terminal(stream, environ):
        return Screen(Tty(stream.fileno()), Palette.of(stream, environ), lines)
    return lines


def _write_line(stream: TextIO, line: str) -> None:
    try:
        stream.write(line)
        stream.flush()
    except ValueError as error:
        raise OSError(str(error)) from None
