"""Says that an option of voir's stands behind the script, which has refused it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence

from ..boundary import entries_of
from ..errors import Problem

#: The exit status of argparse where a command line is wrong.
REFUSED = 2


def misplaced(
    error: BaseException | None, arguments: Sequence[str], options: Collection[str]
) -> Problem | None:
    """The problem, if the script has ended because it does not know an option that voir has.

    What a script accepts it never complains of: only the complaint of its argparse tells.

    Args:
        error: What ended the script.
        arguments: Those of the script.
        options: The names of voir's options.
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
    """The words in which argparse has refused the command line."""
    for entry in entries_of(error.__traceback__):
        frame = entry.tb_frame
        if os.path.basename(frame.f_code.co_filename) == "argparse.py":
            yield from str(frame.f_locals.get("message")).split()
