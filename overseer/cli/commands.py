"""The commands that run no script: which there are, and how each ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from io import TextIOWrapper

from ..errors import VoirError
from ..views.colours import coloured
from ..views.text import encodable
from .notices import Notices

USAGE, INTERRUPTED = 2, 130


def command(argv: list[str], notices: Notices) -> int:
    """Do what ``argv`` asks for; the exit status."""
    if isinstance(sys.stdout, TextIOWrapper):  # What it cannot encode is escaped.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        if argv[0] == "doctor":
            from .doctor import doctor

            text, status = doctor(argv[1:])
            print(text, end="")
            return status
        for part in _said(argv[0], argv[1:], notices.width()):
            print(encodable(part, sys.stdout.encoding), end="", flush=True)
    except VoirError as error:
        notices.error(error)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # Piped into head, say; nothing more can be said there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _said(name: str, argv: list[str], width: int) -> Iterable[str]:
    """What the command of that name says."""
    if name == "compare":
        from .compare import compare

        return [compare(argv, width)]
    if name == "init":
        from .init import init

        return init(argv, width)
    if name == "runs":
        from .runs import runs

        return [runs(argv)]
    if name == "show":
        from .show import show

        return show(argv, width, coloured(sys.stdout, os.environ))
    if name == "sql":
        from .sql import sql

        return [sql(argv, width)]
    from .trace import trace

    return trace(argv)
