"""A terminal in memory, and a fake overseer: what the dashboard's tests draw on and run under."""

from __future__ import annotations

import io
from argparse import Namespace
from contextlib import contextmanager
from types import SimpleNamespace

import pyte

from overseer.clock import FakeClock
from overseer.options import OptionParser


class Emulator:
    """A terminal with scrollback; the script and the dashboard write to it alike."""

    def __init__(self, columns=80, rows=24):
        self.foreground = True
        self.writes = []
        self._start(columns, rows)

    def _start(self, columns, rows):
        self.screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.5)
        self._stream = pyte.ByteStream(self.screen)

    # What the dashboard asks of a terminal

    def size(self):
        return self.screen.columns, self.screen.lines

    def ours(self):
        return self.foreground

    def write(self, data):
        self.writes.append(data)
        self._stream.feed(data)

    # What a person sees and does

    def print(self, text="", end="\n"):
        """The script prints, through the terminal's line discipline."""
        self._stream.feed((text + end).replace("\n", "\r\n").encode())

    @property
    def rows(self):
        return [line.rstrip() for line in self.screen.display]

    @property
    def scrollback(self):
        return [
            "".join(line[x].data for x in range(self.screen.columns)).rstrip()
            for line in self.screen.history.top
        ]

    @property
    def everything(self):
        return self.scrollback + self.rows

    def text(self):
        return "\n".join(self.rows) + "\n"

    def resize(self, columns, rows, reflow=False, anchor="top"):
        """Change the size as terminals do: margins are lost, the cursor moves with its line."""
        history, lines, cursor = self.scrollback, self.rows, self.screen.cursor
        parts = [self._chunks(line, columns, reflow) for line in lines]
        at = len(history) + sum(len(part) for part in parts[: cursor.y])
        everything = history + [chunk for part in parts for chunk in part]
        top = len(history) if anchor == "top" else max(0, len(everything) - rows)
        top = min(max(top, at - rows + 1), at)
        self._start(columns, rows)
        above = [*everything[:top], *[""] * rows]
        self._stream.feed("\r\n".join(above).encode())
        for line in list(self.screen.history.top)[top:]:
            self.screen.history.top.remove(line)
        self._stream.feed(b"\x1b[H\x1b[J" + "\r\n".join(everything[top : top + rows]).encode())
        where = (at - top + 1, min(cursor.x, columns - 1) + 1)
        self._stream.feed(b"\x1b[%d;%dH" % where)

    @staticmethod
    def _chunks(line, columns, reflow):
        if not reflow:
            return [line[:columns].rstrip()]
        return [line[i : i + columns] for i in range(0, len(line), columns)] or [""]


class FakeOverseer:
    """Runs one instrument; timers only run when told to."""

    def __init__(self, stderr=None, clock=None):
        self.phases = SimpleNamespace(
            init="init", parse_args="parse_args", finalize=lambda priority: "finalize"
        )
        self.argparser = OptionParser()
        self.options = Namespace(SCRIPT="main.py", dash=True)
        self.clock = clock or FakeClock()
        self.stderr = io.StringIO() if stderr is None else stderr
        self.summary = {}
        self.problems = []
        self.required = []
        self.timers = []
        self.given, self.logged = [], []

    def listen(self, fn):
        return self._subscribe(self.given, fn)

    def listen_log(self, fn):
        return self._subscribe(self.logged, fn)

    @staticmethod
    def _subscribe(listeners, fn):
        listeners.append(fn)
        return SimpleNamespace(dispose=lambda: listeners.remove(fn))

    @contextmanager
    def every(self, seconds, fn):
        self.timers.append(fn)
        try:
            yield
        finally:
            self.timers.remove(fn)

    def report(self, problem):
        self.problems.append(problem)

    def require(self, *instruments):
        self.required.extend(instruments)

    # What a test does

    def start(self, instrument):
        """Run ``instrument`` up to its wait for the end of the run."""
        self.generator = instrument(self)
        for phase in self.generator:
            if phase == "init":
                continue
            if phase == "finalize":
                return

    def give(self, **event):
        for listener in list(self.given):
            listener(event)

    def log(self, **event):
        for listener in list(self.logged):
            listener(event)

    def tick(self, seconds=0.5):
        self.clock.advance(seconds)
        for timer in list(self.timers):
            timer()

    def finish(self):
        for _ in self.generator:
            pass
