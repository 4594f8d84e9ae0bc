"""What becomes of a signal while the main thread is in C, where python calls no handler.

The signal leaves a mark in a pipe, from a handler in C (``faulthandler`` has one), whatever python
does; then python's own is told. A thread that can run python sees the mark there. In C code that
keeps the interpreter's lock none can: the signal waits until that comes back.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal

#: Below are the numbers that a script's own files get.
_HIGH = 200


class Mark:
    """Is made when ``signum`` arrives, before python's handler for it is told.

    Raises:
        ImportError: This python has no ``faulthandler``.
        OSError: No descriptor is left.

    Attributes:
        seen: Whether somebody has seen that it is made.
    """

    def __init__(self, signum: int) -> None:
        import faulthandler

        self.signum, self.seen = signum, False
        self._reading, self._writing = map(_raised, os.pipe())
        os.set_blocking(self._writing, False)
        self._inode = os.fstat(self._reading).st_ino
        faulthandler.register(signum, self._writing, all_threads=False, chain=True)
        signal.siginterrupt(signum, True)  # A wait has to end for python's handler to be called.

    @property
    def made(self) -> bool:
        """Whether the signal has arrived."""
        return self._intact and bool(select.select([self._reading], [], [], 0)[0])

    @property
    def _intact(self) -> bool:
        """Whether the descriptors are ours: a script may have closed them, and opened others."""
        try:
            inodes = {os.fstat(one).st_ino for one in (self._reading, self._writing)}
        except OSError:
            return False
        return inodes == {self._inode}

    def end(self) -> None:
        """Leave the signal to python's handler alone."""
        import faulthandler

        faulthandler.unregister(self.signum)
        if self._intact:
            os.close(self._reading)
            os.close(self._writing)


def restore_default(signum: int) -> None:
    """Do what ``signal.signal(signum, SIG_DFL)`` does, on any thread."""
    import ctypes

    ctypes.CDLL(None).signal(signum, 0)


def _raised(end: int) -> int:
    try:
        return fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    finally:
        os.close(end)
