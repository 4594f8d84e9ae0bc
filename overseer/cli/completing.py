"""Completing the commands that run no script, and their options, in the shell."""

from __future__ import annotations

import argparse
import os
from importlib import import_module

from .main import COMMANDS


def candidates(words: list[str]) -> list[str] | None:
    """What the last of ``words`` may become, if it is of a command; nothing: a file's name.

    Args:
        words: What stands behind ``voir``, the last of them begun or empty.

    Returns:
        None when it is of no command: voir's own options are another's business.
    """
    *before, begun = words or [""]
    if before:
        return _of(before, begun) if before[0] in COMMANDS else None
    found = [name for name in COMMANDS if begun and name.startswith(begun)]
    # A script or its directory, which is what voir is for, is not hidden by a command.
    here = os.listdir(os.curdir) if found else []
    return None if not found or any(name.startswith(begun) for name in here) else found


def _of(before: list[str], begun: str) -> list[str]:
    parser: argparse.ArgumentParser = import_module(f".{before[0]}", __package__).parser()
    within = _subparsers(parser)
    for word in before[1:]:
        if word in within:
            parser, within = within[word], {}
    last = parser._option_string_actions.get(before[-1])
    if last is not None and last.nargs is None:
        found = [str(choice) for choice in last.choices or ()]
    elif begun.startswith("-"):
        found = sorted(parser._option_string_actions)
    else:
        found = list(within)
    return [word for word in found if word.startswith(begun)]


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return {name: inner for action in actions for name, inner in action.choices.items()}
