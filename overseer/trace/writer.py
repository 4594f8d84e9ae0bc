"""Takes what was recorded, off the script's threads, and gets it into the file."""

from __future__ import annotations

import contextlib
import errno
import threading
from _thread import get_ident
from collections.abc import Callable, Iterator

from ..errors import Problem
from .encoder import Encoder, Open
from .process import Process
from .recorder import WIDTH, Recorder
from .store import Store

#: Records that are encoded at once, before others are let run.
AT_ONCE = 10_000
#: Records that wait: so many that the oldest are left out, and so few that no more are.
BEHIND, CAUGHT_UP = 400_000, 200_000
#: How often the writer goes on at once when it has not caught up.
ROUNDS = 20
#: Bytes that few events are larger than.
LARGE = 100
#: Seconds that the end of a trace waits for a thread that is writing it.
PATIENCE = 30.0


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
        self._unwritten = self._skipped = 0
        self._rest: list[object] = []
        self._gap: Open | None = None
        self._told = self._begun = self._behind = False
        self._closed = self._sealing = False
        self._holder = 0
        self.path = path

    @property
    def events(self) -> int:
        """How many events the file holds."""
        return self._encoder.events - self._unwritten - self._store.dropped

    @property
    def recorded(self) -> int:
        """How many events were recorded, whatever became of them."""
        return self.events + self.dropped

    @property
    def dropped(self) -> int:
        """How many events are not in the file: too many, too fast, or not writable."""
        lost = self._unwritten + self._skipped + self._recorder.lost + self._encoder.refused
        return self._store.dropped + lost

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._store.size

    def _missing(self, dropped: int, before: Open, after: Open) -> bytes:
        missing = self.dropped - self._store.dropped + dropped
        return self._encoder.bridge(before, after, missing)

    def flush(self) -> None:
        """Write what was recorded since the last time."""
        with self._alone(1.0) as alone:
            if alone and not self._closed:
                self._flush()

    @contextlib.contextmanager
    def _alone(self, patience: float) -> Iterator[bool]:
        """Keep other threads out, if they leave in time; and a signal's handler."""
        if self._holder == get_ident() or not self._lock.acquire(timeout=patience):
            yield False
            return
        self._holder = get_ident()
        try:
            yield True
        finally:
            self._holder = 0
            self._lock.release()

    def _flush(self) -> None:
        for _ in range(ROUNDS):
            self._write_recorded()
            if self._store.due():
                self._seal()
            if self._recorder.waiting <= CAUGHT_UP:
                break

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
        recorder, at_once = self._recorder, self._at_once
        if self._sealing and not self._has_room():
            self._let_wait()
            return
        rest = self._rest = recorder.take()
        while rest:
            left = self._waiting
            piece = rest[: at_once * WIDTH]
            del rest[: at_once * WIDTH]
            self._behind = left > (CAUGHT_UP if self._behind else BEHIND)
            if self._behind:
                self._skip(piece)
            else:
                self._write(piece)
            recorder.relieve()

    @property
    def _waiting(self) -> int:
        """How many records are still to be written."""
        return len(self._rest) // WIDTH + self._recorder.waiting

    @property
    def _at_once(self) -> int:
        return min(AT_ONCE, self._store.segment_bytes // 40)

    def _has_room(self) -> bool:
        return self._store.size + self._at_once * LARGE <= self._store.most

    def _let_wait(self) -> None:
        """Leave what comes until there is room; the oldest out, if that becomes too much."""
        if self._waiting > BEHIND:
            excess = self._waiting - CAUGHT_UP
            first = self._rest[: excess * WIDTH]
            del self._rest[: excess * WIDTH]
            self._skip(first + self._recorder.take(excess - len(first) // WIDTH))

    def _skip(self, records: list[object]) -> None:
        """Leave records out that there is no time for: the oldest, so that the last are kept."""
        if self._gap is None:
            self._gap = self._encoder.open()
        self._skipped += self._encoder.skip(records)

    def _write(self, records: list[object]) -> None:
        encoder, store = self._encoder, self._store
        now, header = encoder.open(), b""
        if not self._begun or encoder.full or store.segment.size > store.segment_bytes:
            store.begin_segment(self._gap or now)
            header = encoder.header()
        header += encoder.renamed()
        gap, self._gap = self._gap, None
        if gap is not None:
            header += self._missing(store.dropped, gap, now)
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
            self._gap = gap or now
            self._begun = False  # What was interned in these packets is not in the file.
            if not self._sealing:
                self._tell(error)

    def _make_room(self) -> None:
        """Leave something out.

        Raises:
            OSError: That is being done, or cannot be done.
        """
        if self._sealing:
            raise OSError(errno.EFBIG, "it came faster than room could be made")
        self._store.seal(meanwhile=self._let_wait)

    def close(self) -> None:
        """Write what is left, and compress all of it."""
        with self._alone(PATIENCE) as alone:
            if alone and not self._closed:
                self._close()

    def _close(self) -> None:
        self._flush()
        self._closed = True
        try:
            if not self._begun:
                self._store.append(self._encoder.header(), 0)
            if self._gap is not None or self.dropped > self._store.dropped:
                now = self._encoder.open()
                self._store.append(self._missing(self._store.dropped, self._gap or now, now), 0)
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
