"""What commands that run no script share: the parser, the output, the exit status."""

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
    """Do what ``argv`` asks for; the exit status."""
    if isinstance(sys.stdout, TextIOWrapper):  # What it cannot encode is escaped.
        sys.stdout.reconfigure(errors="backslashreplace")
    name = argv[0]
    shown = coloured(sys.stdout, os.environ)
    terminal = Terminal(notices.width(), shown, size_of(sys.stdout)[1])
    try:
        does = getattr(import_module(f".{name}", __package__), name)
        for part in does(argv[1:], terminal):
            print(encodable(part, sys.stdout.encoding), end="", flush=True)
    except VoirError as error:
        notices.problem(error)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # Piped into head, say; nothing more can be said there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


class Terminal(NamedTuple):
    """What is printed to.

    Attributes:
        width: In cells.
        colour: Whether it shows colours.
        height: In lines; 0: there is no end to it.
    """

    width: int = 80
    colour: bool = False
    height: int = 0


class CommandParser(ArgumentParser):
    """An ``ArgumentParser`` that raises the usage error that argparse would print.

    Args:
        example: What to type instead.
    """

    def __init__(self, *args: Any, example: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})
        self._example = example

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        command = " ".join(self.prog.split()[:2])
        remedy = f"For example: {self._example}" if self._example else f"See {self.prog} --help."
        raise UsageError("usage", f"{command}: {message}", remedy)


def within(least: float, most: float, what: str, kind: Any = float) -> Callable[[str], Any]:
    """A ``type`` of an option: numbers from ``least`` to ``most``, which are ``what``."""

    def convert(text: str) -> Any:
        with suppress(ValueError):
            if least <= kind(text) <= most:
                return kind(text)
        raise ArgumentTypeError(f"{text!r} is no {what}")

    return convert
