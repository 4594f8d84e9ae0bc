"""Creates and reads files safely in directories that other users can write to.

A directory of runs may be shared. Files are therefore created under unpredictable names, never
through a symbolic link, and renamed when complete. Only regular files up to a size limit are
read. Records of killed runs are completed only in directories of the caller's own (:func:`is_own`).
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

#: Limit for ``run.json`` and for other files that are read whole.
MAX_FILE_BYTES = 1 << 26
#: Lower descriptors belong to the standard streams, even if these are closed.
_FIRST = 3
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


def descriptor(path: Place, flags: int, mode: int = 0o666) -> int:
    """Open a file that is not a symbolic link, with a descriptor above the standard streams.

    Raises:
        OSError: It cannot be opened.
    """
    return _above(os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode))


def new(path: Place) -> int:
    """Create a new file and return its descriptor.

    Raises:
        OSError: It exists or cannot be created.
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
    """Write a new file that replaces ``path`` once it is complete, and is removed on failure.

    Until then its ``name`` is a temporary path.

    Args:
        path: File to create or replace. A symbolic link is replaced, not followed.
        durable: Call fsync before the rename.

    Raises:
        OSError: It cannot be written.
    """
    directory, name = os.path.split(os.fspath(path))
    draft = os.path.join(directory, f".{name[:200]}.{os.urandom(8).hex()}.part")
    try:
        file = open(draft, "wb", opener=lambda named, flags: new(named))  # noqa: SIM115
    except OSError as error:
        error.filename = os.fspath(path)  # The temporary name would not help the user.
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
    """Open a regular file for reading; never block on a FIFO or device.

    Args:
        path: A symbolic link is followed.
        most: Size limit in bytes.

    Raises:
        OSError: It cannot be opened, is not a regular file, or is too large.
    """
    fd = _above(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    try:
        status = os.fstat(fd)
        if not S_ISREG(status.st_mode):
            kind = errno.EISDIR if os.path.isdir(path) else errno.EINVAL
            raise OSError(kind, "it is not a regular file", os.fspath(path))
        if most is not None and status.st_size > most:
            said = f"it has {status.st_size:,} bytes; the limit is {most:,}"
            raise OSError(errno.EFBIG, said, os.fspath(path))
        return os.fdopen(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def read(path: Place, most: int = MAX_FILE_BYTES) -> bytes:
    """Return the contents of a regular file.

    Raises:
        OSError: As :func:`reading`.
    """
    with reading(path, most) as file:
        return file.read()  # The size is known; a buffer of ``most`` bytes may exceed the memory.


def read_json(path: Place, most: int = MAX_FILE_BYTES) -> Any:
    """Return the value in a JSON file.

    Raises:
        OSError: As :func:`reading`.
        ValueError: It is not JSON, or nested too deeply.
    """
    return parsed(read(path, most))


def parsed(data: bytes) -> Any:
    """Return the value of JSON text.

    Raises:
        ValueError: It is not JSON, or nested too deeply.
    """
    import json

    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def is_own(path: Place) -> bool:
    """Test whether the file, and a link to it, belong to the user who runs voir."""
    try:
        owners = {os.lstat(path).st_uid, os.stat(path).st_uid}
        return not hasattr(os, "geteuid") or owners == {os.geteuid()}
    except OSError:
        return False


@contextmanager
def bounded() -> Iterator[None]:
    """Within the block, writing beyond the file size limit raises an OSError, without SIGXFSZ.

    Python ignores that signal, but a script may have restored its default or set a handler.
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
