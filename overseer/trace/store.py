"""The trace's file: packets appended whole, full segments compressed, the middle left out.

New packets are appended in one write, so a file that is cut off anywhere has lost its end only.
Segments are compressed by writing the file anew beside itself and renaming it: at every moment
there is a whole file under the name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from .encoder import NOTHING_OPEN, Open
from .wire import message

#: TracePacket.compressed_packets
_COMPRESSED = 50
#: How much of a file is copied at once.
_PIECE = 8 << 20
#: What the file is called while it is written anew.
SEALING = ".sealing"


#: Makes what stands where events are missing: how many, the spans open before and after.
Notice = Callable[[int, Open, Open], bytes]


@dataclass
class Segment:
    """A stretch of the file that can be read by itself.

    Attributes:
        size: Its bytes in the file.
        events: How many events it holds.
        sealed: Whether it is compressed.
        before: The spans that are open where it begins.
        after: And where it ends.
    """

    size: int = 0
    events: int = 0
    sealed: bool = False
    before: Open = NOTHING_OPEN
    after: Open = NOTHING_OPEN


#: A segment as it will be, what is to be written for it unless it is copied, and where it was.
Ready = tuple[Segment, bytes | None, int]


class Store:
    """One trace file.

    Args:
        path: The file; it must not exist.
        most: How many bytes the file may have; the first and the last segments are kept.
        notice: Makes what stands where events are missing.
        ring: The last segments only are kept: what is new takes the place of the oldest.

    Attributes:
        dropped: Events left out because the file would have become too large.

    Raises:
        OSError: The file cannot be made.
    """

    def __init__(self, path: str, most: int, notice: Notice, ring: bool = False) -> None:
        self.path = path
        self.most = most
        self._notice = notice
        self._ring = ring
        self._segments: list[Segment] = [Segment()]
        self._gap: int | None = None  # Before which segment some are missing.
        self._bridge = b""
        self.dropped = 0
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))

    @property
    def segment(self) -> Segment:
        """The one that is being written."""
        return self._segments[-1]

    @property
    def size(self) -> int:
        """How many bytes the file should have."""
        return len(self._bridge) + sum(segment.size for segment in self._segments)

    @property
    def segment_bytes(self) -> int:
        """How long a segment is before it is compressed."""
        return min(max(self.most // 16, 1 << 14), 1 << 20)

    def append(self, packets: bytes, events: int) -> None:
        """Write whole packets at the end.

        Raises:
            OSError: None of them has been written.
        """
        fd = self._opened()
        try:
            _write(fd, packets)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(fd, self.size)
            raise
        finally:
            os.close(fd)
        self.segment.size += len(packets)
        self.segment.events += events

    def _opened(self) -> int:
        """The file, opened for one write: a script that closes descriptors has none of ours."""
        fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        size = os.fstat(fd).st_size
        if size == self.size:
            return fd
        os.close(fd)
        raise OSError(errno.ESTALE, f"somebody else has changed it ({size} bytes)")

    def begin_segment(self, opened: Open) -> None:
        """What is appended from here on can be read by itself.

        Args:
            opened: The spans that are open now.
        """
        if self.segment.size:
            self.segment.after = opened
            self._segments.append(Segment(before=opened))

    def due(self) -> bool:
        """Whether so much is not compressed that it is time to do it."""
        plain = sum(segment.size for segment in self._segments[:-1] if not segment.sealed)
        sealed = self.size - plain
        # In proportion, so that copying what is compressed costs little however long it becomes.
        return plain > min(max(4 * self.segment_bytes, sealed // 2), self.most // 4)

    def seal(
        self, everything: bool = False, meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        """Compress the segments that are full, and leave out the middle of a file too large.

        Args:
            everything: The last segment too.
            meanwhile: Called again and again while this takes its time; may append.

        Raises:
            OSError: The file is as it was.
        """
        beside = self.path + SEALING
        source = os.open(self.path, os.O_RDONLY)
        try:
            target = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            try:
                plan = self._rewrite(source, target, everything, meanwhile)
            finally:
                os.close(target)
            os.replace(beside, self.path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
        finally:
            os.close(source)
        self._segments, self._gap, self._bridge, self.dropped = plan

    def _rewrite(
        self, source: int, target: int, everything: bool, meanwhile: Callable[[], object]
    ) -> tuple[list[Segment], int | None, bytes, int]:
        """Write the file anew; what the file then holds."""
        old = list(self._segments)
        ready = self._compress(source, old, len(old) - (not everything), meanwhile)
        kept, gap = self._choose([segment for segment, _, _ in ready])
        dropped = self.dropped + sum(
            segment.events for index, (segment, _, _) in enumerate(ready) if index not in kept
        )
        bridge, copied = b"", self.size
        for place, index in enumerate(kept):
            segment, data, start = ready[index]
            if place == gap:
                before = ready[kept[place - 1]][0].after if place else NOTHING_OPEN
                bridge = self._notice(dropped, before, segment.before)
                _write(target, bridge)
            if data is not None:
                _write(target, data)
            else:
                size = copied - start if segment is old[-1] else segment.size
                _copy(source, start, size, target, meanwhile)
        os.fsync(target)
        # What has been appended to the old file while the new one was written.
        meanwhile()
        if self.size > copied:
            _copy(source, copied, self.size - copied, target)
        return (
            [ready[index][0] for index in kept] + self._segments[len(old) :],
            gap,
            bridge,
            dropped,
        )

    def _compress(
        self, source: int, old: list[Segment], last: int, meanwhile: Callable[[], object]
    ) -> list[Ready]:
        """The segments before ``last`` compressed, in memory: then it is known what has room."""
        ready: list[Ready] = []
        at = 0
        for index, segment in enumerate(old):
            at += len(self._bridge) if index == self._gap else 0
            fresh, data, size = segment, None, segment.size
            if not segment.sealed and index < last and size:
                plain = _read(source, at, size)
                data = message(1, message(_COMPRESSED, zlib.compress(plain, 6)))
                fresh = _sealed(segment, len(data))
                meanwhile()
            ready.append((fresh, data, at))
            at += size
        return ready

    def _choose(self, segments: list[Segment]) -> tuple[list[int], int | None]:
        """Which segments stay, and before which of those that stay some are missing."""
        # What is appended until the next time must have room too.
        room = self.most - self.most // 4 - 4 * self.segment_bytes
        everything = list(range(len(segments)))
        if self._gap is None and sum(segment.size for segment in segments) <= max(room, 0):
            return everything, None
        if self._ring:
            first = []
        elif self._gap is not None:
            first = everything[: self._gap]
        else:
            first = _within(everything, segments, room // 2) or everything[:1]
        used = sum(segments[index].size for index in first)
        rest = everything[len(first) :]
        last = _within(rest[::-1], segments, room - used)[::-1] or rest[-1:]
        missing = self._gap is not None or len(last) < len(rest)
        return first + last, len(first) if missing else None


def _within(order: list[int], segments: list[Segment], room: int) -> list[int]:
    """As many, in this order, as there is room for."""
    kept = []
    for index in order:
        room -= segments[index].size
        if room < 0:
            break
        kept.append(index)
    return kept


def _sealed(segment: Segment, size: int) -> Segment:
    return Segment(size, segment.events, True, segment.before, segment.after)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _read(fd: int, at: int, size: int) -> bytes:
    data = os.pread(fd, size, at)
    if len(data) != size:
        raise OSError(errno.ESTALE, "somebody else has cut it off")
    return data


def _copy(
    source: int, at: int, size: int, target: int, meanwhile: Callable[[], object] = lambda: None
) -> None:
    while size:
        data = _read(source, at, min(size, _PIECE))
        _write(target, data)
        at, size = at + len(data), size - len(data)
        if size:
            os.fsync(target)  # A little at a time: all at once could take seconds.
            meanwhile()
