"""Makes and reads files in directories where somebody else may have laid something in the way.

A directory of runs may be shared. So a file is made under a name that nobody can foresee, never
through a symbolic link, and is renamed when it is whole; and only regular files are read, up to a
size. What completes a run is made in directories of the caller's own only (:func:`is_own`).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import errno
import os
from contextlib import contextmanager, suppress
from stat import S_ISREG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, Any

    Place = str | os.PathLike[str]

#: Bytes of a ``run.json``, and of what else is read whole.
MAX_FILE_BYTES = 1 << 26
#: Numbers below are those of the standard streams, also where these are closed.
_FIRST = 3
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def descriptor(path: Place, flags: int, mode: int = 0o666) -> int:
    """A descriptor of a file, which is no symbolic link, above those of the standard streams.

    Raises:
        OSError: It cannot be opened.
    """
    return _above(os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode))


def new(path: Place) -> int:
    """A descriptor of a new file.

    Raises:
        OSError: It exists, or cannot be made.
    """
    return descriptor(path, _NEW)


def _above(fd: int) -> int:
    below = []
    try:
        while fd < _FIRST:
            below.append(fd)
            fd = os.dup(fd)
    finally:
        for each in below:
            os.close(each)
    return fd


@contextmanager
def whole(path: Place, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """A new file, which takes the place of ``path`` when it has been written; else it is removed.

    Its ``name`` is its path until then.

    Args:
        path: What is made or replaced. A symbolic link is replaced, not followed.
        durable: Wait until the disk has it.

    Raises:
        OSError: It cannot be written.
    """
    directory, name = os.path.split(os.fspath(path))
    draft = os.path.join(directory, f".{name[:200]}.{os.urandom(8).hex()}.part")
    try:
        file = open(draft, "wb", opener=lambda named, flags: new(named))  # noqa: SIM115
    except OSError as error:
        error.filename = os.fspath(path)  # The draft's name says nothing to anybody.
        raise
    try:
        with bounded(), file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def reading(path: Place, most: int | None = None) -> IO[bytes]:
    """A regular file, open to be read; no other kind is waited for.

    Args:
        path: A symbolic link is followed.
        most: How many bytes it may have.

    Raises:
        OSError: It cannot be opened, is no regular file, or too large.
    """
    fd = _above(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    try:
        status = os.fstat(fd)
        if not S_ISREG(status.st_mode):
            kind = errno.EISDIR if os.path.isdir(path) else errno.EINVAL
            raise OSError(kind, "it is no regular file", os.fspath(path))
        if most is not None and status.st_size > most:
            said = f"it has {status.st_size:,} bytes; {most:,} are read at most"
            raise OSError(errno.EFBIG, said, os.fspath(path))
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def read(path: Place, most: int = MAX_FILE_BYTES) -> bytes:
    """What is in a regular file.

    Raises:
        OSError: As :func:`reading`.
    """
    with reading(path, most) as file:
        return file.read()  # Its size is known; a buffer of ``most`` may be more than there is.


def read_json(path: Place, most: int = MAX_FILE_BYTES) -> Any:
    """The value in a file of JSON.

    Raises:
        OSError: As :func:`reading`.
        ValueError: It is no JSON, or nested too deeply to be read.
    """
    return parsed(read(path, most))


def parsed(data: bytes) -> Any:
    """The value that ``data`` is in JSON.

    Raises:
        ValueError: It is no JSON, or nested too deeply to be read.
    """
    import json

    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def is_own(path: Place) -> bool:
    """Whether what is there, and a link to it, belong to whoever runs voir; all else is left."""
    try:
        owners = {os.lstat(path).st_uid, os.stat(path).st_uid}
        return not hasattr(os, "geteuid") or owners == {os.geteuid()}
    except OSError:
        return False


@contextmanager
def bounded() -> Iterator[None]:
    """Within, a write beyond the process's limit of file sizes fails, and no SIGXFSZ comes of it.

    Python ignores that signal; a script may have put its default back, or a handler of its own.
    """
    number = getattr(_signal, "SIGXFSZ", 0)
    if not number or _signal.getsignal(number) == _signal.SIG_IGN:
        yield
        return
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, (number,))
    try:
        yield
    finally:
        if number not in before:
            _signal.sigtimedwait((number,), 0)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
