"""Takes what was recorded, off the script's threads, and gets it into the file."""

from __future__ import annotations

import contextlib
import errno
import threading
from collections.abc import Callable

from ..errors import Problem
from .encoder import Encoder
from .process import Process
from .recorder import WIDTH, Recorder
from .store import Store

#: Records that are encoded at once, before others are let run.
AT_ONCE = 10_000


class Writer:
    """Writes one trace; :meth:`flush` does the work, on whatever thread calls it.

    Nothing here raises: what cannot be written is counted, and told once.

    Args:
        path: The file; it must not exist.
        process: Whose trace it is.
        recorder: Where records come from.
        most: How many bytes the file may have.
        report: Told once when events are being lost.
        ring: What is new takes the place of the oldest; else the first and the last are kept.

    Raises:
        OSError: The file cannot be made.
    """

    def __init__(
        self,
        path: str,
        process: Process,
        recorder: Recorder,
        most: int,
        report: Callable[[Problem], object],
        ring: bool = False,
    ) -> None:
        self._recorder = recorder
        self._report = report
        self._encoder = Encoder(process)
        self._store = Store(path, most, self._missing, ring)
        self._lock = threading.Lock()
        self._unwritten = 0
        self._told = False
        self._begun = False
        self._closed = self._sealing = False
        self.path = path

    @property
    def events(self) -> int:
        """How many events the file holds, or held before some were left out."""
        return self._encoder.events - self._unwritten

    @property
    def dropped(self) -> int:
        """How many events are not in the file: too many, too fast, or not writable."""
        lost = self._unwritten + self._recorder.lost + self._encoder.refused
        return self._store.dropped + lost

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._store.size

    def _missing(self, count: int) -> bytes:
        return self._encoder.notice(f"{count} events dropped", {"dropped": count})

    def flush(self) -> None:
        """Write what was recorded since the last time."""
        # Whoever comes second, in a signal's handler perhaps, has nothing to wait for.
        if self._lock.acquire(timeout=1.0):
            try:
                if not self._closed:
                    self._flush()
            finally:
                self._lock.release()

    def _flush(self) -> None:
        self._write_recorded()
        if self._store.due():
            self._seal()

    def _seal(self) -> None:
        """Compress what is full; what is recorded while that takes its time is written too."""
        self._sealing = True
        try:
            self._store.seal(meanwhile=self._write_recorded)
        except OSError:
            pass  # Uncompressed, it goes on as it is.
        finally:
            self._sealing = False

    def _write_recorded(self) -> None:
        records = self._recorder.take()
        at_once = min(AT_ONCE, self._store.segment_bytes // 40) * WIDTH
        for start in range(0, len(records), at_once):
            self._write(records[start : start + at_once])
            self._recorder.relieve()

    def _write(self, records: list[object]) -> None:
        encoder, store = self._encoder, self._store
        header = b""
        if not self._begun or encoder.full or store.segment.size > store.segment_bytes:
            store.begin_segment(encoder.bridge())
            header = encoder.header()
        before = encoder.events
        packets = header + encoder.encode(records)
        count = encoder.events - before
        try:
            if store.size + len(packets) > store.most:
                self._make_room()
            store.append(packets, count)
            self._begun = True
        except OSError as error:
            self._unwritten += count
            self._begun = False  # What was interned in these packets is not in the file.
            self._tell(error)

    def _make_room(self) -> None:
        """Leave something out.

        Raises:
            OSError: That is being done, or cannot be done.
        """
        if self._sealing:
            raise OSError(errno.EFBIG, "it came faster than room could be made")
        self._store.seal()

    def close(self) -> None:
        """Write what is left, and compress all of it."""
        self.flush()
        if self._lock.acquire(timeout=1.0):
            try:
                self._close()
            finally:
                self._lock.release()

    def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            if not self._begun:
                self._store.append(self._encoder.header(), 0)
            if self.dropped > self._store.dropped:
                self._store.append(self._missing(self.dropped), 0)
        except OSError as error:
            self._tell(error)
        with contextlib.suppress(OSError):  # It is whole without being compressed.
            self._store.seal(everything=True)

    def _tell(self, error: OSError) -> None:
        if self._told:
            return
        self._told = True
        self._report(
            Problem(
                "trace-unwritable",
                self.path,
                f"events are missing from the trace ({error.strerror or error})",
                remedy="Free the disk or choose another: --trace-dir DIR.",
            )
        )
