"""Layout of events and of the header, and functions that read both.

An event is 32 bytes, little-endian: start (u64, monotonic ns), value (f64), object (u32), site
(u16), thread (u16), then 48 bits of duration in ns, 8 of depth, 8 of flags. A note is an event of
kind NOTE; its text follows in slots of 30 bytes that have 0xFFFF in the place of the site.

The header is one page. During a run it is a file in ``/dev/shm`` (else in the run's directory), so
that after a kill the next command can tell what the threads were doing.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ..clock import process_start
from .sites import FORMAT

EVENT = struct.Struct("<QdIHHQ")
EVENT_SIZE = EVENT.size
NOTE_PIECE, CONTINUES = 30, 0xFFFF
LONGEST_NS, _BYTE = (1 << 48) - 1, 0xFF
HEAD = struct.Struct("<8sIIQQQQQQQQ8Q")
THREAD_STRUCT = struct.Struct("<IHBBQQQ")
HEADER_MAGIC, THREADS_AT, DIRECTORY_AT, PAGE = b"voir rec", 256, 768, 4096
CONTROL_AT = HEAD.size - 8 * 8
SHM = "/dev/shm"
#: A prime in which no small power of 256 is 1: bytes at some distance would cancel each other.
_NAMES = 2**64 - 59


class Event(NamedTuple):
    """A finished span, or a mark with duration 0; times in nanoseconds."""

    start: int
    value: float
    object: int
    site: int
    thread: int
    ns: int
    depth: int
    flags: int


def events(data: bytes) -> Iterator[Event]:
    """Yield the events in ``data``, skipping notes' text and a torn last event."""
    whole = len(data) - len(data) % EVENT_SIZE
    for start, value, what, site, thread, rest in EVENT.iter_unpack(memoryview(data)[:whole]):
        if site != CONTINUES:
            ns, depth, flags = rest & LONGEST_NS, rest >> 48 & _BYTE, rest >> 56
            yield Event(start, value, what, site, thread, ns, depth, flags)


def text_at(data: bytes, at: int, size: int) -> bytes:
    """Text of the note at offset ``at``, of ``size`` bytes; less if the note is torn."""
    text = bytearray()
    for next_at in range(at + EVENT_SIZE, len(data) - EVENT_SIZE + 1, EVENT_SIZE):
        slot = data[next_at : next_at + EVENT_SIZE]
        if len(text) >= size or slot[20:22] != b"\xff\xff":
            break
        text += slot[:20] + slot[22:]
    return bytes(text[:size])


class OpenSpan(NamedTuple):
    """A thread's outermost open span: its kind and start; kind 0 if none is open."""

    native: int
    thread: int
    kind: int
    since: int


class Header(NamedTuple):
    """The header of a run.

    Attributes:
        pid: The process id.
        started: Start time of the process, in the system's units; 0 if unknown.
        monotonic: The recorder's clock when it was opened, ns.
        epoch: The time of day then, ns since 1970.
        head: Number of events recorded in each ring.
        lost: Number of events overwritten before they were read, by ring.
        own: Nanoseconds spent on recording and voir's bus.
        control: The control words.
        threads: Open spans of up to 16 threads, the main thread first.
        directory: The run's directory.
    """

    pid: int
    started: int
    monotonic: int
    epoch: int
    head: tuple[int, int]
    lost: tuple[int, int]
    own: int
    control: tuple[int, ...]
    threads: tuple[OpenSpan, ...]
    directory: str


def header(data: bytes) -> Header:
    """Parse a header.

    Raises:
        ValueError: It is not a header, is torn, or of another version.
    """
    if len(data) < PAGE or data[:8] != HEADER_MAGIC:
        raise ValueError("it is not a run's header")
    _, form, pid, started, monotonic, epoch, *rest = HEAD.unpack_from(data)
    if form != FORMAT:
        raise ValueError(f"it is of format {form}, and this voir reads format {FORMAT}")
    threads = []
    for at in range(THREADS_AT, DIRECTORY_AT, THREAD_STRUCT.size):
        native, thread, kind, _, since, _, _ = THREAD_STRUCT.unpack_from(data, at)
        if thread:
            threads.append(OpenSpan(native, thread, kind, since))
    text = data[DIRECTORY_AT:PAGE].partition(b"\0")[0].decode("utf-8", "surrogateescape")
    head, lost = (rest[0], rest[1]), (rest[2], rest[3])
    return Header(
        pid, started, monotonic, epoch, head, lost, rest[4], tuple(rest[5:13]), tuple(threads), text
    )


def header_paths(directory: str) -> list[str]:
    """Possible paths of a run's header: in shared memory, or in ``directory``."""
    # A remainder instead of hashlib, which logs tracebacks if OpenSSL cannot allocate memory.
    name = int.from_bytes(os.fsencode(os.path.realpath(directory)), "big") % _NAMES
    return [
        os.path.join(SHM, f"voir-{_user()}-{name:016x}"),
        os.path.join(directory, "header"),
    ]


def read_header(directory: str) -> Header | None:
    """Read a run's header; None if it is missing, unreadable, or another user's."""
    for path in header_paths(directory):
        with suppress(OSError, ValueError):
            found = header(_own_bytes(path))
            if _is_of(found, path, directory):
                return found
    return None


def _is_of(found: Header, path: str, directory: str) -> bool:
    """Whether a header in shared memory is that of this directory, as far as its text has room."""
    if not path.startswith(SHM):
        return True
    text, own = os.fsencode(found.directory), os.fsencode(os.path.realpath(directory))
    if len(text) >= PAGE - DIRECTORY_AT - 1:
        return own.startswith(text)
    return os.fsencode(os.path.realpath(text)) == own


def set_control(directory: str, word: int, value: int) -> bool:
    """Set a control word of a run; returns whether its header could be written."""
    for path in header_paths(directory):
        with suppress(OSError, ValueError), _own(path, os.O_RDWR) as fd:
            found = header(os.read(fd, PAGE))
            if not _is_of(found, path, directory):
                continue
            os.pwrite(fd, value.to_bytes(8, "little"), CONTROL_AT + 8 * word)
            return True
    return False


def published() -> list[str]:
    """The directories of this user's live runs on this machine whose headers are shared."""
    found = []
    for path in _in_shared_memory():
        with suppress(OSError, ValueError):
            one = header(_own_bytes(path))
            if lives(one):
                found.append(one.directory)
    return found


def _in_shared_memory() -> list[str]:
    prefix = f"voir-{_user()}-"
    try:
        return [os.path.join(SHM, name) for name in os.listdir(SHM) if name.startswith(prefix)]
    except OSError:
        return []


@contextmanager
def _own(path: str, how: int) -> Iterator[int]:
    """Open a file of this user.

    Raises:
        OSError: It cannot be opened.
        ValueError: It belongs to another user.
    """
    fd = os.open(path, how | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if os.fstat(fd).st_uid != _user():
            raise ValueError("it belongs to another user")
        yield fd
    finally:
        os.close(fd)


def _own_bytes(path: str) -> bytes:
    with _own(path, os.O_RDONLY) as fd:
        return os.read(fd, PAGE)


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def lives(found: Header) -> bool:
    """True if the header's process is still running."""
    return is_alive(found.pid, found.started)


def is_alive(pid: int, started: int) -> bool:
    """True if a process is still running.

    Args:
        pid: Its id, which may have been reused.
        started: Its start time, from :func:`~overseer.clock.process_start`; 0 if unknown.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    now = process_start(pid)
    return not (started and now) or now == started


def remove_dead(finished: frozenset[str] = frozenset()) -> list[str]:
    """Remove this user's headers of dead processes from shared memory, if no longer needed.

    Args:
        finished: Directories of runs whose record is complete.

    Returns:
        Directories of killed runs with an incomplete record; their headers are kept.
    """
    killed = []
    for path in _in_shared_memory():
        with suppress(OSError, ValueError):
            found = header(_own_bytes(path))
            if lives(found):
                continue
            if found.directory in finished or not os.path.isdir(found.directory):
                os.unlink(path)
            else:
                killed.append(found.directory)
    return killed


def publish(directory: str) -> str:
    """Move this process's header to a file for other processes; returns its path.

    Raises:
        OSError: It can be created neither in shared memory nor in the directory.
    """
    from .choice import recorder

    first, second = header_paths(directory)
    for path in (first, second):
        with suppress(OSError):  # Left by a killed run whose directory has been deleted.
            os.unlink(path)
    try:
        recorder.publish(first, directory)
        return first
    except OSError:
        recorder.publish(second, directory)
        return second
