"""The dashboard at work: draws at its own pace, on a thread of voir's, and cleans up at the end."""

from __future__ import annotations

import os
import signal
import sys
import threading

from ...errors import Problem
from ..text import is_terminal
from .lines import Lines
from .screen import Screen, Tty
from .text import Palette

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TextIO

    from ...clock import Clock
    from .board import Board


#: Seconds between frames, at least; and frames take at most one part in so many of a core.
FRAME_SECONDS, COST_PART = 0.5, 200


class Dashboard:
    """Draws a board now and then.

    Args:
        sink: Where it is shown.
        board: The board.
        facts: Computes the ``tasks`` of ``run.json``.
        clock: The run's clock.
        report: Told of what fails.
    """

    def __init__(
        self,
        sink: Lines | Screen,
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
        self._handler = self._suspend  # A bound method is another one each time.

    @property
    def on_screen(self) -> bool:
        """Whether the board is shown on a terminal still."""
        return self._open and isinstance(self._sink, Screen)

    def watch(self) -> None:
        """Give the terminal back while the run is stopped by Ctrl-Z, unless the script sees to it.

        The next frame takes it again.
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
        signal.raise_signal(signum)  # It returns when the run goes on.
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
        """Draw the last frame and give the terminal back; harmless if done twice.

        In the child of a fork it does nothing: the terminal is still the parent's.

        Args:
            summed: A summary follows; the frame has only what that has not.
        """
        if os.getpid() != self._pid or not self._open:
            return
        if signal.getsignal(signal.SIGTSTP) == self._handler and _is_main():
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        # A frame may hang in a stopped terminal (Ctrl-S); the end of the run does not wait.
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
        """Draw; a terminal that cannot be written ends the dashboard, not the run."""
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
    """Let out what the script has printed without a newline, so that it stands above."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream.isatty():
                stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # Closed, or replaced by something that is no stream.


def sink_for(stream: TextIO | None, environ: Mapping[str, str]) -> Lines | Screen | None:
    """Rows on a terminal, lines elsewhere; nothing without stderr."""
    if stream is None:
        return None
    lines = Lines(lambda line: _write_line(stream, line))
    if environ.get("TERM", "dumb") != "dumb" and is_terminal(stream, environ):
        return Screen(Tty(stream.fileno()), Palette.of(stream, environ), lines)
    return lines


def _write_line(stream: TextIO, line: str) -> None:
    try:
        stream.write(line)
        stream.flush()
    except ValueError as error:
        raise OSError(str(error)) from None
