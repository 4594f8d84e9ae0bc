"""A program in a terminal: its screen is read, and keys are pressed."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import pyte

from tests.running import VOIR, environment

#: Seconds that a screen has to show something.
PATIENCE = 60.0


class Terminal:
    """``voir`` with arguments, in a terminal of so many columns and rows."""

    def __init__(self, place: Path, *arguments: str, columns: int = 80, rows: int = 24) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._fd, ours = pty.openpty()
        self.resize(columns, rows)
        env = environment({"TERM": "xterm-256color", "PYTHONUTF8": "1"})
        env.pop("CI", None)
        self.process = subprocess.Popen(
            [*VOIR, *arguments], stdin=ours, stdout=ours, stderr=ours, cwd=place, env=env,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(ours)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        if self._fd >= 0:
            os.close(self._fd)

    @property
    def rows(self) -> list[str]:
        """The rows of the screen."""
        return [row.rstrip() for row in self.screen.display]

    @property
    def text(self) -> str:
        """The screen."""
        return "\n".join(self.rows)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def until(self, shown: Callable[[str], object]) -> str:
        """The screen once it shows something."""
        end = time.monotonic() + PATIENCE
        while not shown(self.text):
            assert time.monotonic() < end, self.text
            if not self._more():
                assert shown(self.text), self.text
        return self.text

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._fd, keys.encode())

    def ignore(self, seconds: float) -> None:
        """Read what is shown for so long, without looking at it, which takes time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self._fd], [], [], left)[0]:
                os.read(self._fd, 65536)

    def hang_up(self) -> None:
        """Close the terminal."""
        os.close(self._fd)
        self._fd = -1

    def left(self) -> int:
        """The exit status, once the program has ended; its last output is on the screen."""
        while self._more():
            pass
        return self.process.wait(PATIENCE)

    def _more(self) -> bool:
        if not select.select([self._fd], [], [], 0.1)[0]:
            return self.process.poll() is None
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # The program has closed it.
            return False
        self._stream.feed(data)
        return bool(data)
