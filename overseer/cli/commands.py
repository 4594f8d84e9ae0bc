"""The parser, the output and the exit status of commands that run no script."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from typing import NamedTuple

from ..errors import UsageError, VoirError
from ..views.text import coloured, encodable
from .notices import USAGE, Notices, size_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

INTERRUPTED = 130


def command(argv: list[str], notices: Notices) -> int:
    """Run the command in ``argv``; return the exit status."""
    if sys.stdout is None:
        notices.problem(
            UsageError("usage", "stdout is closed", "Leave it open: the output is there.")
        )
        return USAGE
    if isinstance(sys.stdout, TextIOWrapper):  # Characters that it cannot encode are escaped.
        sys.stdout.reconfigure(errors="backslashreplace")
    name = f"{argv[0]}_" if argv[0] == "try" else argv[0]  # A keyword of Python.
    shown = coloured(sys.stdout, os.environ)
    terminal = Terminal(notices.width(), shown, size_of(sys.stdout)[1])
    try:
        does = getattr(import_module(f".{name}", __package__), name)
        parts = iter(does(argv[1:], terminal))
        while True:
            part = next(parts)
            _print(part)
    except StopIteration as ended:  # A command may return an exit status.
        return ended.value or 0
    except VoirError as error:
        notices.problem(error)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # For example, `voir runs | head`; nothing more can be printed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _print(part: str) -> None:
    """Print a part of the output.

    Raises:
        UsageError: It cannot be written, to a full disk for example.
    """
    try:
        print(encodable(part, sys.stdout.encoding), end="", flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        what = f"the output cannot be written: {error.strerror or error}"
        raise UsageError("usage", what, "Free the disk, or write elsewhere.") from None


class Terminal(NamedTuple):
    """The properties of the output.

    Attributes:
        width: Columns.
        colour: True if colours are supported and wanted.
        height: Lines; 0 if there is no limit.
    """

    width: int = 80
    colour: bool = False
    height: int = 0


class CommandParser(ArgumentParser):
    """An ``ArgumentParser`` that raises usage errors instead of exiting.

    Args:
        example: An example of a valid command line.
    """

    def __init__(self, *args: Any, example: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})
        self._example = example

    def error(self, message: str) -> NoReturn:
        """Raise a usage error."""
        command = " ".join(self.prog.split()[:2])
        remedy = f"For example: {self._example}" if self._example else f"See {self.prog} --help."
        raise UsageError("usage", f"{command}: {message}", remedy)


def within(least: float, most: float, what: str, kind: Any = float) -> Callable[[str], Any]:
    """Return a ``type`` for options: a number from ``least`` to ``most``, described by ``what``."""

    def convert(text: str) -> Any:
        with suppress(ValueError):
            if least <= kind(text) <= most:
                return kind(text)
        raise ArgumentTypeError(f"{text!r} is not a {what}")

    return convert
