"""``DATA_FD``: what the run logs, as JSON lines to a descriptor that the parent process reads.

When that is stdout or stderr, which the script writes to as well, the lines are hidden in escape
sequences: a terminal shows nothing of them, and whoever reads the stream can take them out again.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..errors import Problem
from ..smuggle import pieces
from .encode import encode
from .lines import LineWriter, Report, identity

if TYPE_CHECKING:
    from collections.abc import Iterator

#: How long a reader of a non-blocking descriptor may take before a line is given up.
PATIENCE_MS = 5_000


class DataFd(LineWriter):
    """Write logged events to the descriptor that ``DATA_FD`` names, and to no other ever.

    Without the variable nothing is written anywhere. A value that is no open, writable descriptor
    is reported when the object is made, and the run goes on without.

    Args:
        environ: The environment the run was started with.
        report: Told once what is wrong with the descriptor, or that its reader has gone.
        owned: Whether the descriptor is to be closed at the end.
    """

    def __init__(self, environ: Mapping[str, str], report: Report, *, owned: bool = False) -> None:
        super().__init__(report)
        self._value = environ.get("DATA_FD", "")
        self._owned = owned
        self._fd: int | None = None
        self._identity = (-1, -1)
        self._torn = False
        if self._value:
            self._take()

    @property
    def enabled(self) -> bool:
        """Whether there is a descriptor to write to."""
        return self._fd is not None

    def write(self, event: Mapping[str, object]) -> None:
        """Write the event's line; a loss that is NaN stays a number to whoever reads it."""
        self.write_line(encode(event, nan=True))

    def write_line(self, line: bytes) -> None:
        """Write one line, its newline included; nothing when no descriptor was given."""
        if self._fd is not None:
            super().write_line(line)

    def _take(self) -> None:
        try:
            fd = int(self._value)
        except ValueError:
            return self._refuse("it is not a number", _A_NUMBER)
        try:
            self._identity = identity(fd)
            writable = _writable(fd)
        except (OSError, OverflowError):
            return self._refuse(f"descriptor {fd} is not open here", _PASS_IT)
        if not writable:
            return self._refuse(f"descriptor {fd} is open for reading only", _PASS_IT)
        self._fd = fd
        return None

    def _refuse(self, what: str, remedy: str) -> None:
        self._error = what
        who = f"DATA_FD={self._value}"
        self._report(Problem("data-fd", who, f"{what}; the run goes on without", remedy=remedy))

    def _descriptor(self) -> int:
        assert self._fd is not None
        if identity(self._fd) != self._identity:  # The script closed it; its number is another's.
            raise OSError(errno.EBADF, "closed by the script")
        return self._fd

    def _put(self, fd: int, line: bytes) -> None:
        line = b"\n" + line if self._torn else line
        with _no_sigpipe():
            for piece in pieces(line) if fd in (1, 2) else [line]:
                super()._put(fd, piece)

    def _some(self, fd: int, line: bytes) -> int:
        try:
            written = super()._some(fd, line)
        except BlockingIOError:
            if not _writable_soon(fd):
                raise
            return 0
        self._torn = written < len(line)  # Until the rest of it follows.
        return written

    def close(self) -> None:
        """Write no more; the descriptor is closed if it is owned and no standard stream."""
        fd, self._fd = self._fd, None
        if fd is not None and self._owned and fd > 2 and os.getpid() == self._pid:
            os.close(fd)

    def _name(self) -> str:
        return f"DATA_FD={self._value}"

    def _problem(self, error: str) -> Problem:
        return Problem(
            "data-fd",
            self._name(),
            f"what the script logs no longer reaches its reader ({error})",
            remedy="The run goes on; see why the process that reads the descriptor stopped.",
        )


def opened(logfile: str | int | os.PathLike[str]) -> int:
    """The descriptor of ``logfile``, which is one or the path of a file to be written anew.

    Raises:
        OSError: The file cannot be written.
    """
    if isinstance(logfile, int):
        return logfile
    return os.open(logfile, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)


_A_NUMBER = "Set it to the number of a descriptor that you opened for it, or unset it."
_PASS_IT = "Open it for writing and pass it on to the process (subprocess: pass_fds), or unset it."


def _writable(fd: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows: writing will tell.
        return True
    return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY


def _writable_soon(fd: int) -> bool:
    import select

    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(PATIENCE_MS))


@contextmanager
def _no_sigpipe() -> Iterator[None]:
    """A reader that has gone is an error here, also in a script that lets SIGPIPE kill it."""
    if not hasattr(signal, "SIGPIPE") or signal.getsignal(signal.SIGPIPE) != signal.SIG_DFL:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
    try:
        yield
    except BrokenPipeError:
        if hasattr(signal, "sigtimedwait"):
            signal.sigtimedwait([signal.SIGPIPE], 0)  # The one just raised for this thread.
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
