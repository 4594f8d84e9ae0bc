"""Writes ``steps.npy``, one row per finished step, during the run."""

from __future__ import annotations

import os
from array import array

from ..clock import sleep
from ..errors import Problem
from ..files import bounded, descriptor, whole
from ..model.alike import (
    AT_END,
    AT_GIVEN_LOSS,
    AT_ITEMS,
    AT_LOSS,
    AT_PARTS,
    AT_START,
    STEP_WORDS,
    Alike,
)
from ..model.steps import UNKNOWN
from .metrics import NO_DESCRIPTORS
from .steps import (
    COMPILED,
    COUNT_OFFSET,
    DEVICE_CLOCK,
    LOADED,
    LOSS_GIVEN,
    OF_BACKWARD,
    ROW,
    ROWS_OFFSET,
    STEPS_FILE,
    TASK_BYTES,
    chunks,
    header,
    length,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from typing import Any

    from ..model.steps import Step

#: Interval between writes, ns; a SIGKILL loses at most this much.
INTERVAL_NS = 1_000_000_000
#: Shortened names in run.json, at most.
SHORTENED = 1000
#: Bytes of rows kept in memory until they can be written.
WAITING = 1 << 24
MEGABYTE = 1 << 20
#: Pause between two chunks of a copy, in which the script has the interpreter.
COPY_REST_SECONDS = 0.0005
#: Words of a row, and the words of identical steps that are copied to them. Items and loss are
#: handled separately.
_ROW_WORDS = ROW.size // 8
_COPIED = {4: AT_START, 5: AT_END, **{8 + part: AT_PARTS + part for part in range(6)}}
_ITEMS, _LOSS = 6, 7


class StepsFile:
    """Writes rows to ``steps.npy``, which is only open during a write.

    Rows are written before their count in the header, so readers see complete rows only. At its
    maximum size the file is replaced by one with every second step, and from there on only every
    second step is written; the next time, every fourth.

    Args:
        directory: Returns the run's directory, or None if there is none.
        report: Receives one problem if steps can no longer be written.
        megabytes: Maximum size of the file.
        started: The monotonic clock when the run began, ns.
        multiplier: Factor for the items of a step.
        skip: Left out of the figures at the beginning of each task; recorded in ``run.json``.

    Attributes:
        stride: Every ``stride``-th step is written.
    """

    def __init__(
        self,
        directory: Callable[[], Path | None],
        report: Callable[[Problem], object],
        megabytes: float,
        started: int,
        multiplier: int = 1,
        skip: str | float | None = None,
    ) -> None:
        self._directory, self._report, self._started = directory, report, started
        self._skip = skip
        self._most = max(int(megabytes * MEGABYTE) - ROWS_OFFSET, 2 * ROW.size) // ROW.size
        self._multiplier, self._process = multiplier, os.getpid()
        self._pending, self._due = list[bytes | bytearray](), 0
        self._names: dict[str, bytes] = {}
        self._taken: set[bytes] = set()
        self._shortened: dict[str, str] = {}
        self._number = 0
        self._off = self._made = False
        self.stride = 1
        self._written = (0, 1)

    def add(self, steps: Iterable[Step]) -> None:
        """Add finished steps, which the next :meth:`flush` writes."""
        if self._off:
            return
        # Runs for each step.
        stride, multiplier, pack, found = self.stride, self._multiplier, ROW.pack, self._names.get
        append = self._pending.append
        for step in steps:
            if isinstance(step, Alike):
                self._add_alike(step)
            elif not (number := step.number) % stride:
                flags = _flags(step)
                append(pack(
                    number, found(step.task) or self._name(step.task), step.start, step.end,
                    step.items * multiplier, step.loss if flags & OF_BACKWARD else step.told,
                    *step.parts, step.pause, step.thread, flags,
                ))  # fmt: skip

    def _add_alike(self, alike: Alike) -> None:
        """Add identical steps, column by column."""
        first = alike.number - alike.n + 1
        skipped = -first % self.stride
        numbers = array("q", range(first + skipped, alike.number + 1, self.stride))
        if not numbers:
            return
        flags, nothing = _flags(alike), (0,) * 7
        row = ROW.pack(
            0, self._name(alike.task), 0, 0, UNKNOWN, UNKNOWN, *nothing, alike.thread, flags
        )
        data = bytearray(row * len(numbers))
        rows, found = memoryview(data).cast("q"), alike.rows.cast("q")[skipped * STEP_WORDS :]
        every = STEP_WORDS * self.stride
        rows[::_ROW_WORDS] = memoryview(numbers)
        for to, of in _COPIED.items():
            rows[to::_ROW_WORDS] = found[of::every]
        rows[_LOSS::_ROW_WORDS] = found[AT_LOSS if flags & OF_BACKWARD else AT_GIVEN_LOSS :: every]
        rows[_ITEMS::_ROW_WORDS] = found[AT_ITEMS::every]
        if self._multiplier != 1:
            items = memoryview(data).cast("d")
            more = [one * self._multiplier for one in items[_ITEMS::_ROW_WORDS].tolist()]
            items[_ITEMS::_ROW_WORDS] = memoryview(array("d", more))
        self._pending.append(data)

    def _name(self, task: str) -> bytes:
        """A task's name in its rows: its own, or a unique shorter one."""
        found = self._names.get(task)
        if found is None:
            found = own = task.encode("utf-8", "replace")
            while len(found) > TASK_BYTES or b"\0" in found or found in self._taken:
                self._number += 1
                end = b"~%d" % self._number
                text = own.replace(b"\0", b"?")[: TASK_BYTES - len(end)]
                found = text.decode("utf-8", "ignore").encode() + end
            self._names[task] = found
            self._taken.add(found)
            if found != own and len(self._shortened) < SHORTENED:
                self._shortened[found.decode()] = task
        return found

    # Writing

    def tick(self, now: int) -> None:
        """Write pending rows once a second."""
        if self._pending and now >= self._due:
            self._due = now + INTERVAL_NS
            self.flush()

    def flush(self) -> None:
        """Write pending rows; the first failure is reported."""
        # The file of a forked child is its parent's.
        if self._off or not self._pending or os.getpid() != self._process:
            return
        directory = self._directory()
        if directory is not None:
            try:
                with bounded():
                    self._write(directory / STEPS_FILE)
                return
            except OSError as error:
                if error.errno not in NO_DESCRIPTORS:
                    self._fail(directory / STEPS_FILE, error)
        if sum(map(len, self._pending)) > WAITING:  # Too much to keep.
            self._off = True
        if self._off:
            self._pending.clear()

    def _write(self, path: Path) -> None:
        (rows, _), data = self._written, b"".join(self._pending)
        while rows + len(data) // ROW.size > self._most:
            stride = self.stride * 2
            rows = self._copy(path, stride) if self._made else 0
            data, self.stride = _every(data, stride), stride
            self._pending[:] = [data]
        if not self._made:
            with whole(path, durable=False) as file:
                file.write(header(len(data) // ROW.size) + data)
            self._made = True
        else:
            _append(path, rows, data)
        self._written = rows + len(data) // ROW.size, self.stride
        self._pending.clear()

    def _copy(self, path: Path, stride: int) -> int:
        """Replace the file by one with every ``stride``-th step; returns its number of rows."""
        rows, _ = self._written
        with (
            whole(path, durable=False) as file,
            open(descriptor(path, os.O_RDONLY), "rb") as old,
        ):
            old.seek(ROWS_OFFSET)
            file.write(header(0))
            for data in chunks(old, rows):
                file.write(_every(data, stride))
                sleep(COPY_REST_SECONDS)
            kept = (file.tell() - ROWS_OFFSET) // ROW.size
            # numpy.load opens a file twice. If it is replaced in between, the old file's number of
            # rows is mapped, so the new file has old rows after its own.
            old.seek(ROWS_OFFSET + kept * ROW.size)
            for data in chunks(old, rows - kept):
                file.write(data)
            file.seek(0)
            file.write(header(kept))
        self._written = kept, stride
        return kept

    def _fail(self, path: Path, error: OSError) -> None:
        self._off = True
        what = f"steps are no longer written ({error.strerror or error})"
        remedy = "Free or choose another disk: --run-dir DIR; --steps-max-mb 0 writes no steps."
        self._report(Problem("record-unwritable", str(path), what, remedy=remedy))

    def section(self) -> dict[str, Any] | None:
        """The ``steps`` of ``run.json``; None before the first row."""
        rows, stride = self._written
        if not rows:
            return None
        made: dict[str, Any] = {"path": STEPS_FILE, "rows": rows, "stride": stride}
        made["start"] = self._started
        if self._skip is not None:
            made["skip"] = self._skip
        return {**made, "names": self._shortened.copy()} if self._shortened else made


def _flags(step: Step) -> int:
    flags = LOADED if step.loaded else 0
    if step.timed:
        flags |= DEVICE_CLOCK
    if step.backwards and not (step.late or step.unknown_loss):
        flags |= OF_BACKWARD
    if step.told == step.told:
        flags |= LOSS_GIVEN
    return flags | COMPILED if step.compiled else flags


def _every(rows: bytes, stride: int) -> bytes:
    """The rows of steps whose number is a multiple of ``stride``: the same in each process."""
    numbers = memoryview(rows).cast("q")[::_ROW_WORDS].tolist()
    kept = [n * ROW.size for n, number in enumerate(numbers) if not number % stride]
    return b"".join(rows[at : at + ROW.size] for at in kept)


def _append(path: Path, rows: int, data: bytes) -> None:
    """Write more rows after ``rows`` others."""
    fd, start = descriptor(path, os.O_WRONLY), ROWS_OFFSET + rows * ROW.size
    try:
        done = 0
        while done < len(data):  # Once, unless the disk is nearly full.
            done += os.pwrite(fd, memoryview(data)[done:], start + done)
        os.pwrite(fd, length(rows + len(data) // ROW.size), COUNT_OFFSET)
    finally:
        os.close(fd)
