"""The format of ``steps.npy``, one row per step, and its reader, which needs no NumPy."""

from __future__ import annotations

import math
import os
import struct
from bisect import bisect_right
from contextlib import contextmanager
from types import MappingProxyType

from ..errors import VoirError
from ..files import reading
from ..model.facts import part
from ..recorder.sites import PARTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path
    from typing import IO, Any

    from ..trace.steprows import StepRow

STEPS_FILE = "steps.npy"
#: The fields of a row, with NumPy's types; times are ns.
FIELDS = [
    ("step", "<i8"), ("task", "|S24"), ("start", "<i8"), ("end", "<i8"), ("items", "<f8"),
    ("loss", "<f8"), ("loading", "<i8"), ("forward", "<i8"), ("backward", "<i8"),
    ("optimizer", "<i8"), ("communication", "<i8"), ("other", "<i8"), ("pause", "<i8"),
    ("thread", "<i4"), ("flags", "<i4"),
]  # fmt: skip
ROW = struct.Struct("<q24sqqdd6qqii")
#: Bytes of a task's name.
TASK_BYTES = 24
#: The words of a row that hold it.
_TASK_WORDS = (1, 2, 3)
#: Flags: something was compiled during the step; the device's clock timed it; its loading is known;
#: ``loss`` is that of ``backward``; the script gave a loss.
COMPILED, DEVICE_CLOCK, LOADED, OF_BACKWARD, LOSS_GIVEN = 1, 2, 4, 8, 16
#: Offsets of the rows and of their count in the header. The count is one aligned word, so a reader
#: sees the old number or the new one.
ROWS_OFFSET, COUNT_OFFSET, COUNT_DIGITS = 512, 496, 8
#: Rows per read.
CHUNK_ROWS = 4096
#: Offset and type of each field except the task's name.
_TYPES = {"<i8": "q", "<f8": "d", "<i4": "i"}
_COLUMNS = {
    name: (sum(int(size[2:]) for _, size in FIELDS[:at]), _TYPES[kind])
    for at, (name, kind) in enumerate(FIELDS)
    if kind in _TYPES
}
_MAGIC = b"\x93NUMPY\x01\x00" + struct.pack("<H", ROWS_OFFSET - 10)
_WHAT = "voir writes one row per step; docs/run-directory.md lists the fields."


def header(rows: int) -> bytes:
    """The header of a file of ``rows`` rows."""
    text = b"{'descr': %s, 'fortran_order': False, 'shape': (" % repr(FIELDS).encode()
    before = _MAGIC + text
    # The padding is inside the shape: NumPy allows spaces between tokens.
    return (
        before.ljust(COUNT_OFFSET)
        + length(rows)
        + b",)}".ljust(ROWS_OFFSET - COUNT_OFFSET - COUNT_DIGITS - 1)
        + b"\n"
    )


def length(rows: int) -> bytes:
    """The number of rows, as the header has it."""
    return b"%*d" % (COUNT_DIGITS, rows)


class Steps:
    """The rows of a ``steps.npy``; each iteration reads the file again.

    Attributes:
        path: The file.
        rows: Their number when the file was opened.
        names: Full names of tasks whose names are shortened in the file.
    """

    def __init__(self, path: str | Path, rows: int, names: Mapping[str, Any]) -> None:
        self.path, self.rows, self.names = path, rows, names

    def __len__(self) -> int:
        return self.rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield each row as a dictionary by field; the task's name is text."""
        names = [name for name, _ in FIELDS]
        with _opened(self.path) as (file, rows):
            for data in chunks(file, rows):
                for values in ROW.iter_unpack(data):
                    row = dict(zip(names, values, strict=True))
                    row["task"] = self._name(row["task"])
                    yield row

    def stretches(
        self, most: int | None = None, places: int = 1, first: int = 0
    ) -> Iterator[Stretch]:
        """Yield the rows by column and task, up to ``CHUNK_ROWS`` at a time.

        Args:
            first: Without the rows before this one.
            most: If there are more rows, read only this many, in ``places`` runs of equal length
                that are evenly spread from the first row to the last; None: all.
            places: Their number.
        """
        with _opened(self.path) as (file, rows):
            rows = max(rows - first, 0)
            if most is None or rows <= most:
                begins, each = [0], rows
            else:
                each = max(most // places, 1)
                begins = [(rows - each) * at // max(places - 1, 1) for at in range(places)]
            for begin in begins:
                file.seek(ROWS_OFFSET + (first + begin) * ROW.size)
                for data in chunks(file, each):
                    yield from self._stretches(data)

    def row_at(self, moment: int) -> int:
        """The number of rows before the first step that ends after a moment, in ns."""
        with _opened(self.path) as (file, rows):

            def end(row: int) -> int:
                file.seek(ROWS_OFFSET + row * ROW.size + _COLUMNS["end"][0])
                return int.from_bytes(file.read(8), "little", signed=True)

            return bisect_right(range(rows), moment, key=end)

    def _stretches(self, data: bytes) -> Iterator[Stretch]:
        words, row = memoryview(data).cast("q"), ROW.size // 8
        if all(len({*words[word::row].tolist()}) == 1 for word in _TASK_WORDS):
            yield Stretch(self._name(data[8 : 8 + TASK_BYTES]), data)
            return
        tasks: dict[bytes, list[int]] = {}
        for at in range(0, len(data), ROW.size):
            tasks.setdefault(data[at + 8 : at + 8 + TASK_BYTES], []).append(at)
        for task, begins in tasks.items():
            own = b"".join([data[at : at + ROW.size] for at in begins])
            yield Stretch(self._name(task), own)

    def _name(self, task: bytes) -> str:
        name = task.rstrip(b"\0").decode("utf-8", "replace")
        return str(self.names.get(name, name))


class Stretch:
    """Rows of one task, in order, by column.

    Attributes:
        task: The task's name.
        data: The rows.
    """

    def __init__(self, task: str, data: bytes) -> None:
        self.task, self.data = task, data
        self._columns: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return len(self.data) // ROW.size

    def __getitem__(self, field: str) -> list[Any]:
        """The values of a field other than ``task``."""
        found = self._columns.get(field)
        if found is None:
            at, kind = _COLUMNS[field]
            values: Any = memoryview(self.data).cast(kind)  # type: ignore[call-overload]
            found = values[at // values.itemsize :: ROW.size // values.itemsize].tolist()
            self._columns[field] = found
        return found


def read_steps(path: str | Path, names: Mapping[str, Any] = MappingProxyType({})) -> Steps:
    """The complete rows of a file, in whatever state its process left it.

    Args:
        path: The file.
        names: Full names of shortened tasks: ``steps.names`` of ``run.json``.

    Raises:
        VoirError: The file has another format (``steps-damaged``), or cannot be read
            (``run-unreadable``).
    """
    with _opened(path) as (_, rows):
        return Steps(path, rows, names)


def steps_of(directory: Path, facts: Mapping[str, Any]) -> Steps | None:
    """The steps of a run; None if it has no file of them.

    Args:
        directory: The run's.
        facts: Those of its ``run.json``.

    Raises:
        VoirError: As :func:`read_steps`.
    """
    path = directory / STEPS_FILE
    return read_steps(path, part(facts, "steps", "names")) if path.exists() else None


def step_rows(steps: Steps, given: Collection[str]) -> Iterator[StepRow]:
    """Steps as a trace shows them.

    Args:
        steps: The steps.
        given: Tasks whose losses the script gives: they are not the steps' own.
    """
    return (_step_row(row, row["task"] in given) for row in steps)


def _step_row(row: dict[str, Any], given: bool) -> StepRow:
    from ..trace.steprows import StepRow  # Few readers need it.

    return StepRow(
        row["task"], row["step"], row["thread"], row["start"], row["end"], row["items"],
        math.nan if given else row["loss"], bool(row["flags"] & LOADED), row["loading"],
        sum(row[name] for name in PARTS[1:]), row["pause"],
    )  # fmt: skip


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[IO[bytes], int]]:
    """Open the file after its header; yields it and its number of rows."""
    try:
        with reading(path) as file:
            said = _length(path, file.read(ROWS_OFFSET))
            there = max(os.fstat(file.fileno()).st_size - ROWS_OFFSET, 0) // ROW.size
            yield file, min(said, there)
    except OSError as error:
        what = f"{path} cannot be read: {error.strerror or error}"
        raise VoirError("run-unreadable", what, "Name a file that you may read.") from None


def chunks(file: IO[bytes], rows: int) -> Iterator[bytes]:
    """Yield up to ``rows`` rows in chunks; fewer if the file has become shorter."""
    while rows > 0 and (data := file.read(min(rows, CHUNK_ROWS) * ROW.size)):
        yield data[: len(data) - len(data) % ROW.size]
        rows -= CHUNK_ROWS


def _length(path: str | Path, head: bytes) -> int:
    """The number of rows according to the header."""
    if head[:6] != _MAGIC[:6]:
        raise _damaged(path, "it is not a NumPy file")
    if len(head) < ROWS_OFFSET:
        raise _damaged(path, "it ends within its header")
    number = head[COUNT_OFFSET : COUNT_OFFSET + COUNT_DIGITS]
    if not number.strip().isdigit() or head != header(int(number)):
        raise _damaged(path, "voir did not write its header")
    return int(number)


def _damaged(path: str | Path, why: str) -> VoirError:
    return VoirError("steps-damaged", f"{path} is not a file of steps: {why}", _WHAT)
