"""A terminal of its own for a board: the whole screen, and keys."""

from __future__ import annotations

import os
import re
import select
import signal
from contextlib import suppress

from .screen import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType
    from typing import Any

    from .text import Line, Palette

_OPEN, _CLOSE = b"\x1b[?1049h\x1b[?25l", b"\x1b[0m\x1b[?25h\x1b[?1049l"
#: Terminals that know synchronized output show the frame at once; others ignore these.
_BEGIN, _END = b"\x1b[?2026h\x1b[H", b"\x1b[0m\x1b[J\x1b[?2026l"
#: Interval at which the terminal's size is looked at, in seconds.
_SIZE_SECONDS = 0.25
#: Size of a terminal that does not tell it.
_USUAL = (80, 24)
#: Signals that end a program; the terminal is restored before.
_DEADLY = ("SIGTERM", "SIGHUP")
#: Keys by what a terminal sends for them.
_KEYS = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[B": "down", b"\x1bOB": "down", b"\r": "enter",
    b"\n": "enter", b"\t": "tab", b"\x1b": "escape", b"\x7f": "back", b"\x08": "back",
}  # fmt: skip
#: A sequence of a key, a control character, or text.
_PARTS = re.compile(rb"\x1b(?:\[[0-9;?<]*[ -/]*[@-~]|O.)?|[\x00-\x1f\x7f]|[^\x00-\x1f\x7f]+")
#: Seconds in which the rest of a sequence follows.
_REST_SECONDS = 0.05


class FullScreen:
    """The alternate screen of a terminal, and its keys one by one, while it is open.

    Args:
        keys: The descriptor that keys are read from; None for no keys.
        screen: The descriptor of the screen.
        palette: The terminal's abilities.

    Attributes:
        gone: The terminal has been closed.
    """

    def __init__(self, keys: int | None, screen: int, palette: Palette) -> None:
        self._keys, self._screen, self._palette = keys, screen, palette
        self._modes: Any = None
        self.gone = False
        self._handlers: dict[int, Any] = {}
        self._waiting: list[str] = []
        self._drawn: tuple[Any, ...] = ()

    def __enter__(self) -> FullScreen:
        self._take()
        for name in (*_DEADLY, "SIGTSTP"):
            number = getattr(signal, name)
            handler = self._suspend if name == "SIGTSTP" else self._end
            self._handlers[number] = signal.signal(number, handler)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        with suppress(OSError):  # The terminal may be gone.
            self._release()

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        with suppress(OSError):
            columns, rows = os.get_terminal_size(self._screen)
            if columns > 0 and rows > 0:
                return columns, rows
        return _USUAL

    def draw(self, lines: list[Line]) -> None:
        """Show lines, from the first row on.

        Raises:
            OSError: The terminal is gone.
        """
        shown = self.size(), lines
        if shown != self._drawn:
            rows = [self._palette.paint(line) + b"\x1b[0m\x1b[K" for line in lines]
            write_all(self._screen, _BEGIN + b"\r\n".join(rows) + _END)
            self._drawn = shown

    def key(self, seconds: float) -> str:
        """The next key: a character, or a name such as ``enter``.

        Returns:
            Empty if there is none within so many seconds, or the terminal's size has changed.

        Raises:
            OSError: The terminal is gone.
        """
        size = self.size()
        while not self._waiting and seconds > 0 and self.size() == size:
            part = min(seconds, _SIZE_SECONDS)
            seconds -= part
            if select.select([] if self._keys is None else [self._keys], [], [], part)[0]:
                self._waiting += _keys(self._read())
        return self._waiting.pop(0) if self._waiting else ""

    def _read(self) -> bytes:
        assert self._keys is not None
        data = os.read(self._keys, 1024)
        if data.endswith(b"\x1b") and select.select([self._keys], [], [], _REST_SECONDS)[0]:
            data += os.read(self._keys, 1024)
        if not data:
            raise OSError("the terminal is gone")
        return data

    def _take(self) -> None:
        if self._keys is not None:
            import termios

            self._modes = termios.tcgetattr(self._keys)
            modes = termios.tcgetattr(self._keys)
            modes[3] &= ~(termios.ICANON | termios.ECHO)
            termios.tcsetattr(self._keys, termios.TCSADRAIN, modes)
        self._drawn = ()
        write_all(self._screen, _OPEN)

    def _release(self) -> None:
        if self._modes is not None:
            import termios

            assert self._keys is not None
            with suppress(termios.error):
                termios.tcsetattr(self._keys, termios.TCSADRAIN, self._modes)
        write_all(self._screen, _CLOSE)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self.gone = number == getattr(signal, "SIGHUP", None)
        raise KeyboardInterrupt

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        """Release the terminal while the program is stopped by Ctrl-Z."""
        self._release()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)  # Returns when the program continues.
        signal.signal(number, self._suspend)
        self._take()


def _keys(data: bytes) -> list[str]:
    """The keys in what a terminal has sent; sequences that are no known key are left out."""
    found = list[str]()
    for part in _PARTS.findall(data):
        if part in _KEYS:
            found.append(_KEYS[part])
        elif not part.startswith(b"\x1b"):
            found += [each for each in part.decode("utf-8", "ignore") if each.isprintable()]
    return found
