"""Descriptors held back for the end of a run, when the script may have used up all there were."""

from __future__ import annotations

import os

#: From here on, so that the script gets the numbers python would give; low, since a script that
#: lowers its limit makes no use of what is above it.
FIRST = 24
#: The end imports, reads and writes files on a few threads, and asks git by way of pipes.
MANY = 12


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
