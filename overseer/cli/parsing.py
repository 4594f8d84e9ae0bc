"""What commands that run no script are called with, and how they read it."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import NamedTuple

from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


class Terminal(NamedTuple):
    """What is printed to.

    Attributes:
        width: In cells.
        colour: Whether it shows colours.
    """

    width: int = 80
    colour: bool = False


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
