"""What voir says on stderr while the script runs: problems, and what --debug explains."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress

from ..errors import Problem, VoirError
from ..views.text import coloured, encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

BOLD_RED, YELLOW, DIM, RESET = "\x1b[1;31m", "\x1b[33m", "\x1b[2m", "\x1b[0m"


class Notices:
    """Writes problems and explanations to stderr; never fails, never touches stdout."""

    def __init__(self, stream: TextIO | None, environ: Mapping[str, str] = os.environ) -> None:
        self._stream = stream
        self.colour = coloured(stream, environ)

    def width(self) -> int:
        """How many columns there are to write in: the terminal's, or 80."""
        return self._columns() or 80

    def _columns(self) -> int:
        """The terminal's columns; 0 where there is none, or it does not say."""
        try:
            return os.get_terminal_size(self._stream.fileno()).columns if self._stream else 0
        except (OSError, ValueError, AttributeError):
            return 0

    def new_line(self) -> str:
        """What has the next text begin a line, whatever the script has left its last one at."""
        if columns := self._columns():  # Where a line has been begun, these reach the next one.
            return " " * (columns - 1) + "\r"
        with suppress(Exception):  # The script's own; a bar that is not closed has no newline yet.
            bars = sys.modules["tqdm.std"].tqdm._instances
            return "\n" if any(not bar.disable for bar in [*bars]) else ""
        return ""

    def problem(self, problem: Problem) -> None:
        """Show a problem: what, where, what to do."""
        first, *rest = str(problem).split("\n")
        self._say(YELLOW, f"{first} [{problem.slug}]", rest)

    def error(self, error: VoirError) -> None:
        """Show a mistake that ends voir."""
        first, *rest = str(error).split("\n")
        self._say(BOLD_RED, f"{first} [{error.slug}]", rest)

    def line(self, text: str) -> None:
        """Say a line as it is."""
        self._say(DIM, text, [])

    def _say(self, colour: str, first: str, rest: list[str]) -> None:
        head = f"{colour}voir:{RESET}" if self.colour else "voir:"
        self.write("\n".join([f"{head} {first}", *rest]) + "\n")

    def write(self, text: str) -> None:
        """Write ``text`` as it is; what stderr lacks is in ASCII, or escaped."""
        if self._stream is None:
            return
        try:
            self._stream.write(encodable(text, getattr(self._stream, "encoding", None)))
            self._stream.flush()
        except (OSError, ValueError):
            self._stream = None  # Nobody listens; the script is not troubled with it.
