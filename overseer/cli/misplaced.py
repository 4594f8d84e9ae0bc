"""Detects an option of voir's after the script, which the script rejected."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence

from ..boundary import entries_of
from ..errors import Problem

#: argparse's exit status for an invalid command line.
REFUSED = 2


def misplaced(
    error: BaseException | None, arguments: Sequence[str], options: Collection[str]
) -> Problem | None:
    """Return a problem if the script exited because it does not know an option that voir has.

    Only the script's argparse error shows it: an option that the script accepts is not misplaced.

    Args:
        error: The exception that ended the script.
        arguments: The script's arguments.
        options: Names of voir's options.
    """
    if not isinstance(error, SystemExit) or error.code != REFUSED:
        return None
    ours = [name for each in arguments if (name := each.partition("=")[0]) in options]
    refused = {word.partition("=")[0].strip(".,:'\"") for word in _complaint(error)}
    found = [name for name in ours if name in refused]
    if not found:
        return None
    name = found[0]
    what = f"the script does not know {name}, which is an option of voir's"
    remedy = f"voir's options come before the script: voir {name} ... SCRIPT"
    return Problem("option-after-script", name, what, remedy=remedy)


def _complaint(error: SystemExit) -> Iterator[str]:
    """The words of argparse's error message."""
    for entry in entries_of(error.__traceback__):
        frame = entry.tb_frame
        if os.path.basename(frame.f_code.co_filename) == "argparse.py":
            yield from str(frame.f_locals.get("message")).split()
