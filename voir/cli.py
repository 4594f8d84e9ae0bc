"""The command, and finding instruments as it does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from overseer.cli import main
from overseer.engine.voirfile import Found, contributed, find, load
from overseer.errors import Problem, VoirError

__all__ = ["collect_contrib_instruments", "collect_instruments", "find_voirfiles", "main"]

Instrument = Callable[..., Any]


def find_voirfiles(script_path: str | os.PathLike[str]) -> list[str]:
    """The voirfiles that apply to a script, or to a directory to run from.

    Raises:
        VoirError: One of them is not to be trusted.
    """
    path = os.path.abspath(os.path.expanduser(script_path))
    script = None if os.path.isdir(path) else path
    directory = os.path.dirname(path) if script else path
    return [found.path for found in find((), {}, directory, script, _refuse)]


def collect_instruments(voirfiles: Iterable[str]) -> list[Instrument]:
    """Run voirfiles; the instruments in them.

    Raises:
        VoirError: One of them fails.
    """
    return load([Found(os.path.abspath(path), "it was named") for path in voirfiles], _refuse)


def collect_contrib_instruments() -> list[Instrument]:
    """The instruments that installed distributions declare.

    Raises:
        VoirError: One of them cannot be loaded.
    """
    return contributed(_refuse)


def _refuse(problem: Problem) -> NoReturn:
    raise VoirError(problem.slug, f"{problem.who}: {problem.what}", problem.remedy)
