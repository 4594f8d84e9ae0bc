"""Descriptors: some held back for the end of a run, and room for those that are out of the way."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

#: From here on, so that the script gets the numbers python would give; low, since a script that
#: lowers its limit makes no use of what is above it.
FIRST = 24
#: The end imports, reads and writes files on a few threads, and asks git by way of pipes.
MANY = 12
#: From here on are those that stay open, so that the script gets the numbers python would give.
HIGH = 400


def make_room() -> None:
    """Have the table of descriptors reach to :data:`HIGH`; to be called before there are threads.

    Once there are, Linux takes some 10 ms to enlarge it, on whichever thread happens to need that.
    """
    if sys.platform != "linux" or _identity(HIGH) is not None:
        return
    with suppress(OSError):  # The limit is too low, and nothing will be put there.
        low = os.open(os.devnull, os.O_RDONLY)
        try:
            os.close(os.dup2(low, HIGH, inheritable=False))
        finally:
            os.close(low)


class Spare:
    """Holds descriptors until :meth:`release`; none where there are none to be had."""

    def __init__(self) -> None:
        self._held: list[int] = []
        self._identity: tuple[int, int] | None = None
        try:
            self._hold()
        except (ImportError, OSError):
            pass  # Not a POSIX system; or the limit is too low, and the end gets what there is.

    def _hold(self) -> None:
        import fcntl

        reading, writing = os.pipe()  # No other file can be mistaken for it.
        try:
            self._identity = _identity(reading)
            for _ in range(MANY):
                self._held.append(fcntl.fcntl(reading, fcntl.F_DUPFD_CLOEXEC, FIRST))
        finally:
            os.close(reading)
            os.close(writing)

    def release(self) -> None:
        """Close what is held, but for numbers the script has closed and used for its own files."""
        held, self._held = self._held, []
        for number in held:
            if _identity(number) == self._identity:
                os.close(number)


def _identity(number: int) -> tuple[int, int] | None:
    """What file a descriptor stands for; None for none."""
    try:
        stat = os.fstat(number)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
