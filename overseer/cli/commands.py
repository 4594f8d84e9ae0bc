"""Runs a command that runs no script, and makes its exit status of how it ended."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import TextIOWrapper

from ..errors import VoirError
from ..views.text import coloured, encodable
from .main import USAGE
from .notices import Notices
from .parsing import Terminal

INTERRUPTED = 130


def command(argv: list[str], notices: Notices) -> int:
    """Do what ``argv`` asks for; the exit status."""
    if isinstance(sys.stdout, TextIOWrapper):  # What it cannot encode is escaped.
        sys.stdout.reconfigure(errors="backslashreplace")
    name = argv[0]
    terminal = Terminal(notices.width(), coloured(sys.stdout, os.environ))
    try:
        does = getattr(import_module(f".{name}", __package__), name)
        for part in does(argv[1:], terminal):
            print(encodable(part, sys.stdout.encoding), end="", flush=True)
    except VoirError as error:
        notices.error(error)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # Piped into head, say; nothing more can be said there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
