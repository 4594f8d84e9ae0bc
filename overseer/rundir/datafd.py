"""``DATA_FD``: what the run logs, as JSON lines to a descriptor that the parent process reads.

When that is stdout or stderr, which the script writes to as well, the lines are hidden in escape
sequences: a terminal shows nothing of them, and whoever reads the stream can take them out again.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ..errors import Problem
from ..files import bounded
from ..recorder.encode import encode
from .smuggle import pieces

#: How long a reader of a non-blocking descriptor may take before it is given up.
PATIENCE_MS = 5_000

_A_NUMBER = "Set it to the number of a descriptor that you opened for it, or unset it."
_PASS_IT = "Open it for writing and pass it on to the process (subprocess: pass_fds), or unset it."
_SEE_WHY = "The run goes on; see why the process that reads the descriptor stopped."


class DataFd:
    """Writes logged events to the descriptor that ``DATA_FD`` names, and to no other ever.

    Without the variable nothing is written anywhere. What cannot be written is reported once, and
    nothing more is written; the run goes on.

    Args:
        environ: The environment the run was started with.
        report: Told what is wrong with the descriptor, or that its reader has gone.
        owned: Whether the descriptor is to be closed at the end.
    """

    def __init__(
        self, environ: Mapping[str, str], report: Callable[[Problem], None], *, owned: bool = False
    ) -> None:
        self._value, self._report, self._owned = environ.get("DATA_FD", ""), report, owned
        self._lock = threading.RLock()  # Reporting a loss may log in its turn.
        self._process, self._error = os.getpid(), ""
        self._fd: int | None = None
        if self._value:
            self._take()

    @property
    def enabled(self) -> bool:
        """Whether there is a descriptor to write to."""
        return self._fd is not None

    def write(self, event: Mapping[str, object]) -> None:
        """Write the event's line; a loss that is NaN stays a number to whoever reads it."""
        if self._fd is None or os.getpid() != self._process:  # A forked child's run is not its own.
            return
        line = encode(event, nan=True)
        with self._lock:
            if self._fd is None:
                return
            try:
                if _file(self._fd) != self._opened:  # Closed; the number is another file's.
                    raise OSError(errno.EBADF, "closed by the script")
                with _no_sigpipe():
                    for piece in pieces(line) if self._fd in (1, 2) else [line]:
                        _write(self._fd, piece)
            except OSError as error:
                self._fd = None
                why = error.strerror or str(error)
                self._refuse(f"what the script logs no longer reaches its reader ({why})", _SEE_WHY)

    def failure(self) -> dict[str, object] | None:
        """What went wrong, as an entry for ``instruments`` in run.json; ``None`` if nothing did."""
        if not self._error:
            return None
        return {"name": f"DATA_FD={self._value}", "state": "failed", "error": self._error}

    def close(self) -> None:
        """Write no more; the descriptor is closed if it is owned and no standard stream."""
        fd, self._fd = self._fd, None
        if fd is not None and self._owned and fd > 2 and os.getpid() == self._process:
            os.close(fd)

    def _take(self) -> None:
        try:
            fd = int(self._value)
        except ValueError:
            return self._refuse("it is not a number; the run goes on without", _A_NUMBER)
        try:
            self._opened = _file(fd)
            self._fd, why = (fd, "") if _writable(fd) else (None, "open for reading only")
        except (OSError, OverflowError):
            why = "not open here"
        if why:
            self._refuse(f"descriptor {fd} is {why}; the run goes on without", _PASS_IT)
        return None

    def _refuse(self, what: str, remedy: str) -> None:
        self._error = what
        self._report(Problem("data-fd", f"DATA_FD={self._value}", what, remedy=remedy))


def opened(logfile: str | int | os.PathLike[str]) -> int:
    """The descriptor of ``logfile``, which is one or the path of a file to be written anew.

    Raises:
        OSError: The file cannot be written.
    """
    if isinstance(logfile, int):
        return logfile
    return os.open(logfile, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)


def _file(fd: int) -> tuple[int, int]:
    """What file a descriptor stands for."""
    stat = os.fstat(fd)
    return stat.st_dev, stat.st_ino


def _writable(fd: int) -> bool:
    import fcntl

    return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY


def _write(fd: int, data: bytes) -> None:
    while data:  # Once, unless the pipe is full.
        try:
            with bounded():
                data = data[os.write(fd, data) :]
        except BlockingIOError:
            import select

            poll = select.poll()
            poll.register(fd, select.POLLOUT)
            if not poll.poll(PATIENCE_MS):
                raise


@contextmanager
def _no_sigpipe() -> Iterator[None]:
    """Make a reader that has gone an error, also in a script that lets SIGPIPE end it."""
    if signal.getsignal(signal.SIGPIPE) != signal.SIG_DFL:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
    try:
        yield
    except BrokenPipeError:
        if signal.SIGPIPE in signal.sigpending():  # The write has just raised it.
            signal.sigwait({signal.SIGPIPE})
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
