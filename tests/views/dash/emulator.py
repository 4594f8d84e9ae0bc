"""A terminal in memory; the script and the dashboard write to it alike."""

from __future__ import annotations

import pyte


class Emulator:
    """What the screen draws on, with scrollback."""

    def __init__(self, columns=80, rows=24):
        self.foreground, self.keys = True, False
        self.writes, self.held, self.repaints = [], [], 0
        self._start(columns, rows)

    def _start(self, columns, rows):
        self.screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.5)
        self._stream = pyte.ByteStream(self.screen)

    # What the dashboard asks of a terminal

    def size(self):
        return self.screen.columns, self.screen.lines

    def ours(self):
        return self.foreground

    def reads_keys(self):
        return self.keys

    def repaint(self):
        self.repaints += 1

    def hold(self, held):
        if self.held[-1:] != [held]:
            self.held.append(held)

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
    def everything(self):
        history = [
            "".join(line[x].data for x in range(self.screen.columns)).rstrip()
            for line in self.screen.history.top
        ]
        return history + self.rows

    def resize(self, columns, rows):
        """Change the size as terminals do: margins are lost, the cursor moves with its line."""
        lines, cursor = self.everything, self.screen.cursor
        at = len(lines) - self.screen.lines + cursor.y
        top = min(max(len(lines) - self.screen.lines, at - rows + 1), at)
        self._start(columns, rows)
        above = [line[:columns] for line in lines[:top]] + [""] * rows
        self._stream.feed("\r\n".join(above).encode())
        for line in list(self.screen.history.top)[top:]:
            self.screen.history.top.remove(line)
        shown = [line[:columns] for line in lines[top : top + rows]]
        self._stream.feed(b"\x1b[H\x1b[J" + "\r\n".join(shown).encode())
        self._stream.feed(b"\x1b[%d;%dH" % (at - top + 1, min(cursor.x, columns - 1) + 1))
