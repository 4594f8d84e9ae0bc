"""The dashboard at work: draws at its own pace, on one thread, and always cleans up."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Protocol, TextIO

from instruments.dash.board import Board
from instruments.dash.feed import Feed
from instruments.dash.lines import Lines
from instruments.dash.paint import Palette
from instruments.dash.reader import Reader
from instruments.dash.screen import Screen, Tty
from overseer.clock import Clock
from overseer.errors import Problem

#: How often to look whether a frame is due; a resized terminal is noticed this soon.
TICK_SECONDS = 0.25
#: Seconds between frames, at least; and frames take at most one part in so many of a core.
FRAME_SECONDS, COST_PART = 0.5, 100
_NS = 1_000_000_000
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")


class Sink(Protocol):
    """Where boards are shown."""

    def draw(self, board: Board) -> None:
        """Show ``board``."""

    def restore(self) -> None:
        """Leave everything as it was found."""

    def close(self, board: Board) -> None:
        """Show ``board`` for the last time."""


class Dashboard:
    """Draws what two feeds keep.

    Args:
        known: What the run's record says of each task so far, when asked.
    """

    def __init__(
        self,
        sink: Sink,
        clock: Clock,
        title: str,
        known: Callable[[], Mapping[str, object]],
        report: Callable[[Problem], object],
    ) -> None:
        self.given, self.logged = Feed(clock), Feed(clock)
        self._reader = Reader(self.given, self.logged)
        self._sink, self._clock, self._title = sink, clock, title
        self._known, self._report = known, report
        self._start = self._due = clock.now_ns()
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._open = True

    def tick(self) -> None:
        """Draw a frame if one is due."""
        with self._lock:
            if self._open and self._clock.now_ns() >= self._due:
                self._frame()

    def close(self) -> None:
        """Draw the last frame and give the terminal back; harmless when done twice.

        In the child of a fork it does nothing: the terminal is still the parent's.
        """
        if os.getpid() != self._pid or not self._open:
            return
        # A frame may hang in a stopped terminal (Ctrl-S); the end of the run does not wait.
        if not self._lock.acquire(timeout=1.0):
            return
        try:
            if self._open:
                self._guard(self._last_frame)
                self._open = False
        finally:
            self._lock.release()

    def _frame(self) -> None:
        began = self._clock.cpu_ns()
        self._guard(lambda: self._sink.draw(self._board()))
        cost = self._clock.cpu_ns() - began
        self._due = self._clock.now_ns() + max(round(FRAME_SECONDS * _NS), cost * COST_PART)

    def _last_frame(self) -> None:
        flush_script()
        self._sink.close(self._board())

    def _board(self) -> Board:
        return self._reader.read(self._title, self._start, self._clock.now_ns(), self._known())

    def _guard(self, draw: Callable[[], object]) -> None:
        """Draw; a terminal that cannot be written ends the dashboard, not the run."""
        try:
            draw()
        except OSError as error:
            self._open = False
            self._report(_broken(error))
        except Exception:
            self._open = False
            self._sink.restore()
            raise


def _broken(error: OSError) -> Problem:
    return Problem(
        slug="dash-write-failed",
        who="dash",
        what=f"cannot write to stderr: {error.strerror or error}",
        remedy="The dashboard is off, the run goes on. Without a terminal, leave --dash out.",
    )


def flush_script() -> None:
    """Let out what the script has printed without a newline, so that it stands above."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream.isatty():
                stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # Closed, or replaced by something that is no stream.


def sink_for(stream: TextIO | None, environ: Mapping[str, str]) -> Sink | None:
    """Rows on a terminal, lines elsewhere; nothing in a job's other ranks or without stderr."""
    if stream is None or any(environ.get(name, "0") != "0" for name in _RANKS):
        return None
    if _can_draw(stream, environ):
        return Screen(Tty(stream.fileno()), Palette.of(environ, stream.encoding))
    return Lines(lambda line: _write_line(stream, line))


def _can_draw(stream: TextIO, environ: Mapping[str, str]) -> bool:
    if environ.get("TERM", "dumb") == "dumb" or environ.get("CI", "false") not in _NO:
        return False
    try:
        return stream.isatty() and Tty(stream.fileno()).size() is not None
    except (OSError, ValueError):  # A closed stream; a stream without a descriptor.
        return False


_NO = ("", "0", "false")


def _write_line(stream: TextIO, line: str) -> None:
    try:
        stream.write(f"{line}\n")
        stream.flush()
    except ValueError as error:
        raise OSError(str(error)) from None
