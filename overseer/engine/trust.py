"""Whether a file that was found, not named, can be trusted: nobody else can have written it."""

from __future__ import annotations

import os
import stat


def distrust(path: str) -> str | None:
    """Why somebody else could have written the file at ``path``, or ``None``.

    The file and the directories that it and, if it is a link, its target are in must belong to
    the user or to root, and must not be writable by everybody.
    """
    if not hasattr(os, "geteuid"):
        return None
    try:
        real = os.path.realpath(path)
        homes = dict.fromkeys([os.path.dirname(os.path.abspath(path)), os.path.dirname(real)])
        found = [_fault(place, "its directory") for place in homes] + [_fault(real, "it")]
    except OSError as error:
        return f"it cannot be examined: {error.strerror}"
    return next((fault for fault in found if fault is not None), None)


def _fault(place: str, what: str) -> str | None:
    status = os.stat(place)
    if status.st_mode & stat.S_IWOTH:
        return f"{what} can be written by others (mode {stat.S_IMODE(status.st_mode):04o})"
    if status.st_uid not in (os.geteuid(), 0):
        return f"{what} belongs to somebody else (uid {status.st_uid}, yours is {os.geteuid()})"
    return None
