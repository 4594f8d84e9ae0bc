"""``DATA_FD``: writes logged events as JSON lines to a descriptor that the parent process reads.

If that is stdout or stderr, shared with the script, the lines are hidden in escape sequences:
terminals do not show them, and readers of the stream can extract them.
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

#: Longest wait for the reader of a non-blocking descriptor.
PATIENCE_MS = 5_000

_A_NUMBER = "Set it to the number of a descriptor that you opened for it, or unset it."
_PASS_IT = "Open it for writing and pass it on to the process (subprocess: pass_fds), or unset it."
_SEE_WHY = "The run goes on; see why the process that reads the descriptor stopped."


class DataFd:
    """Writes logged events to the descriptor named by ``DATA_FD``.

    Without the variable nothing is written. The first failure is reported and ends writing; the run
    goes on.

    Args:
        environ: The environment the run was started with.
        report: Reports a bad descriptor, or a reader that has gone.
        owned: Close the descriptor at the end.
    """

    def __init__(
        self, environ: Mapping[str, str], report: Callable[[Problem], None], *, owned: bool = False
    ) -> None:
        self._value, self._report, self._owned = environ.get("DATA_FD", ""), report, owned
        self._lock = threading.RLock()  # Reporting a failure may log.
        self._process, self._error = os.getpid(), ""
        self._fd: int | None = None
        if self._value:
            self._take()

    @property
    def enabled(self) -> bool:
        """Whether there is a descriptor to write to."""
        return self._fd is not None

    def write(self, event: Mapping[str, object]) -> None:
        """Write the event's line, with NaN as a number."""
        if self._fd is None or os.getpid() != self._process:  # A forked child.
            return
        line = encode(event, nan=True)
        with self._lock:
            if self._fd is None:
                return
            try:
                if _file(self._fd) != self._opened:  # Closed; its number is another file's.
                    raise OSError(errno.EBADF, "closed by the script")
                with _no_sigpipe():
                    for piece in pieces(line) if self._fd in (1, 2) else [line]:
                        _write(self._fd, piece)
            except OSError as error:
                self._fd = None
                why = error.strerror or str(error)
                self._refuse(f"what the script logs no longer reaches its reader ({why})", _SEE_WHY)

    def failure(self) -> dict[str, object] | None:
        """The failure as an entry of ``instruments`` in run.json; ``None`` without one."""
        if not self._error:
            return None
        return {"name": f"DATA_FD={self._value}", "state": "failed", "error": self._error}

    def close(self) -> None:
        """Stop writing; close the descriptor if it is owned and not a standard stream."""
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
    """The descriptor ``logfile``, or one of the file at that path, truncated.

    Raises:
        OSError: The file cannot be written.
    """
    if isinstance(logfile, int):
        return logfile
    return os.open(logfile, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)


def _file(fd: int) -> tuple[int, int]:
    """The identity of a descriptor's file."""
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
    """Turn a broken pipe into an error, even if the script has SIGPIPE at its default."""
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
