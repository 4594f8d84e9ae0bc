"""The log: the layout of events and of the header, and reading both.

An event is 32 bytes, little-endian: start (u64, monotonic ns), value (f64), object (u32), site
(u16), thread (u16), then 48 bits of duration in ns, 8 of depth, 8 of flags. A note is an event of
kind NOTE, whose text follows in slots of 30 bytes that have 0xFFFF in the place of the site.

The header is one page. While a run is recorded it is a file in ``/dev/shm`` (else in the run's
directory), so that after a kill the next command knows what the threads were doing.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
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
SHM = "/dev/shm"


class Event(NamedTuple):
    """One finished span, or a mark, whose duration is 0; times in nanoseconds."""

    start: int
    value: float
    object: int
    site: int
    thread: int
    ns: int
    depth: int
    flags: int


def events(data: bytes) -> Iterator[Event]:
    """The events in ``data``, without notes' text; a torn last one is left out."""
    whole = len(data) - len(data) % EVENT_SIZE
    for start, value, what, site, thread, rest in EVENT.iter_unpack(memoryview(data)[:whole]):
        if site != CONTINUES:
            ns, depth, flags = rest & LONGEST_NS, rest >> 48 & _BYTE, rest >> 56
            yield Event(start, value, what, site, thread, ns, depth, flags)


def text_at(data: bytes, at: int, size: int) -> bytes:
    """The text of the note at ``at``, of ``size`` bytes; of a torn one, what is there."""
    text = bytearray()
    for next_at in range(at + EVENT_SIZE, len(data) - EVENT_SIZE + 1, EVENT_SIZE):
        slot = data[next_at : next_at + EVENT_SIZE]
        if len(text) >= size or slot[20:22] != b"\xff\xff":
            break
        text += slot[:20] + slot[22:]
    return bytes(text[:size])


class OpenSpan(NamedTuple):
    """What a thread is doing: the kind that is open since a moment; kind 0: nothing recorded."""

    native: int
    thread: int
    kind: int
    since: int


class Header(NamedTuple):
    """The header of a run.

    Attributes:
        pid: The process.
        started: When that was started, by the system's count; 0: unknown.
        monotonic: The recorder's clock when it was opened, and ``epoch`` the time of day then, ns.
        head: How many events each ring has had.
        lost: How many of them nobody read in time.
        own: Nanoseconds that recording and voir's bus have cost.
        control: The control words.
        threads: What up to 16 threads are doing, the main one first.
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
    """What a header says.

    Raises:
        ValueError: It is none, is torn, or of another version of voir.
    """
    if len(data) < PAGE or data[:8] != HEADER_MAGIC:
        raise ValueError("it is no header of a run")
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
    """Where the header of the run in ``directory`` may be: in memory, or in the directory."""
    # A remainder, for hashlib logs a traceback a hash where it finds no memory for OpenSSL.
    name = int.from_bytes(os.fsencode(os.path.realpath(directory)), "big") % (2**61 - 1)
    return [
        os.path.join(SHM, f"voir-{_user()}-{name:016x}"),
        os.path.join(directory, "header"),
    ]


def read_header(directory: str) -> Header | None:
    """The header of a run, if there is one that can be read and belongs to this user."""
    for path in header_paths(directory):
        with suppress(OSError, ValueError):
            return header(_own_bytes(path))
    return None


def _own_bytes(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if os.fstat(fd).st_uid != _user():
            raise ValueError("it belongs to another user")
        return os.read(fd, PAGE)
    finally:
        os.close(fd)


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def lives(found: Header) -> bool:
    """Whether the process of a header still runs."""
    try:
        os.kill(found.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    started = process_start(found.pid)
    return not (found.started and started) or started == found.started


def remove_dead(finished: frozenset[str] = frozenset()) -> list[str]:
    """Remove headers of this user in memory whose process is dead and whose record is done.

    Args:
        finished: Directories of runs that are known to be finished.

    Returns:
        Directories of runs that were killed and not finished: their headers stay.
    """
    killed = []
    prefix = f"voir-{_user()}-"
    try:
        names = [name for name in os.listdir(SHM) if name.startswith(prefix)]
    except OSError:
        return []
    for name in names:
        path = os.path.join(SHM, name)
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
    """Put this process's header where other processes find it; returns the path.

    Raises:
        OSError: Neither memory nor the directory takes it.
    """
    from .choice import recorder

    first, second = header_paths(directory)
    for path in (first, second):
        with suppress(OSError):  # Of a killed run in a directory that was deleted since.
            os.unlink(path)
    try:
        recorder.publish(first, directory)
        return first
    except OSError:
        recorder.publish(second, directory)
        return second
