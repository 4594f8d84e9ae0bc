"""``steps.npy``: every step of a run, a row each, as a file that NumPy maps; read without NumPy."""

from __future__ import annotations

import math
import os
import struct
from contextlib import contextmanager

from ..errors import VoirError
from ..files import reading
from ..trace.steprows import StepRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path
    from typing import IO, Any

NAME = "steps.npy"
#: The fields of a row, with NumPy's types; times are ns.
FIELDS = [
    ("step", "<i8"), ("task", "|S24"), ("start", "<i8"), ("end", "<i8"), ("items", "<f8"),
    ("loss", "<f8"), ("loading", "<i8"), ("forward", "<i8"), ("backward", "<i8"),
    ("optimizer", "<i8"), ("communication", "<i8"), ("other", "<i8"), ("pause", "<i8"),
    ("thread", "<i4"), ("flags", "<i4"),
]  # fmt: skip
ROW = struct.Struct("<q24sqqdd6qqii")
#: The bytes of a task's name.
LONGEST = 24
#: Flags: something was compiled in the step; its parts are by the device's clock; its loading is
#: known; its loss is the one that ``backward`` was called on; the script gave a loss in it.
COMPILED, DEVICE, LOADED, OF_BACKWARD, LOSS_GIVEN = 1, 2, 4, 8, 16
#: Where the rows begin, where the header says how many there are, and how: one word of memory, so
#: that whoever reads it sees the old number or the new one.
BEGIN, LENGTH, DIGITS = 512, 496, 8
#: Rows that are read at once.
CHUNK = 4096
#: Where each field but the task's name is in a row, and its type.
_TYPES = {"<i8": "q", "<f8": "d", "<i4": "i"}
_COLUMNS = {
    name: (sum(int(size[2:]) for _, size in FIELDS[:at]), _TYPES[kind])
    for at, (name, kind) in enumerate(FIELDS)
    if kind in _TYPES
}
_MAGIC = b"\x93NUMPY\x01\x00" + struct.pack("<H", BEGIN - 10)
_WHAT = "voir writes one row a step, in the fields that docs/run-directory.md names."


def header(rows: int) -> bytes:
    """The beginning of a file of ``rows`` rows."""
    text = b"{'descr': %s, 'fortran_order': False, 'shape': (" % repr(FIELDS).encode()
    before = _MAGIC + text
    # Spaces may stand between any two tokens of it.
    return before.ljust(LENGTH) + length(rows) + b",)}".ljust(BEGIN - LENGTH - DIGITS - 1) + b"\n"


def length(rows: int) -> bytes:
    """How many rows there are, as the header says it."""
    return b"%*d" % (DIGITS, rows)


class Steps:
    """The rows of a ``steps.npy``, read anew each time they are iterated over.

    Attributes:
        path: The file.
        rows: How many there were when it was read.
    """

    def __init__(self, path: str | Path, rows: int) -> None:
        self.path, self.rows = path, rows

    def __len__(self) -> int:
        return self.rows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Each row by field; the task's name is text."""
        names = [name for name, _ in FIELDS]
        with _opened(self.path) as (file, rows):
            for data in chunks(file, rows):
                for values in ROW.iter_unpack(data):
                    row = dict(zip(names, values, strict=True))
                    row["task"] = _name(row["task"])
                    yield row

    def stretches(self) -> Iterator[Stretch]:
        """The same rows by column, some thousands at a time, each task's apart."""
        with _opened(self.path) as (file, rows):
            for data in chunks(file, rows):
                tasks: dict[bytes, list[int]] = {}
                for at in range(0, len(data), ROW.size):
                    tasks.setdefault(data[at + 8 : at + 8 + LONGEST], []).append(at)
                for task, begins in tasks.items():
                    if len(tasks) > 1:
                        own = b"".join([data[at : at + ROW.size] for at in begins])
                    else:
                        own = data
                    yield Stretch(_name(task), own)


class Stretch:
    """Rows of one task, in order, by column.

    Attributes:
        task: The task's name in the file.
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


def _name(task: bytes) -> str:
    return task.rstrip(b"\0").decode("utf-8", "replace")


def read_steps(path: str | Path) -> Steps:
    """The steps in a file, whatever state its process left it in: the rows that are whole.

    Raises:
        VoirError: It is no file of steps (``steps-damaged``), or cannot be read
            (``run-unreadable``).
    """
    with _opened(path) as (_, rows):
        return Steps(path, rows)


def step_rows(directory: Path, given: Collection[str]) -> Iterator[StepRow] | None:
    """The steps in a run's directory as its trace shows them; None unless all are there.

    Args:
        directory: The run's.
        given: Tasks whose losses the script gives: they are not the steps' own.
    """
    try:
        steps = read_steps(directory / NAME)
        first = next(iter(steps), None)
    except VoirError:
        return None
    # A thinned file begins with a later step than 1.
    if first is None or first["step"] != 1:
        return None
    return (_step_row(row, row["task"] in given) for row in steps)


def _step_row(row: dict[str, Any], given: bool) -> StepRow:
    parts = ("forward", "backward", "optimizer", "communication", "other")
    return StepRow(
        row["task"], row["step"], row["thread"], row["start"], row["end"], row["items"],
        math.nan if given else row["loss"], bool(row["flags"] & LOADED), row["loading"],
        sum(row[part] for part in parts), row["pause"],
    )  # fmt: skip


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[IO[bytes], int]]:
    """The file, behind its header, and how many rows it has."""
    try:
        with reading(path) as file:
            said = _length(path, file.read(BEGIN))
            there = max(os.fstat(file.fileno()).st_size - BEGIN, 0) // ROW.size
            yield file, min(said, there)
    except OSError as error:
        what = f"{path} cannot be read: {error.strerror or error}"
        raise VoirError("run-unreadable", what, "Name a file that you may read.") from None


def chunks(file: IO[bytes], rows: int) -> Iterator[bytes]:
    """So many rows, a few at a time; fewer where the file has become shorter."""
    while rows > 0 and (data := file.read(min(rows, CHUNK) * ROW.size)):
        yield data[: len(data) - len(data) % ROW.size]
        rows -= CHUNK


def _length(path: str | Path, head: bytes) -> int:
    """How many rows the header says there are."""
    if head[:6] != _MAGIC[:6]:
        raise _damaged(path, "it is no file of NumPy's")
    if len(head) < BEGIN:
        raise _damaged(path, "it ends within its header")
    number = head[LENGTH : LENGTH + DIGITS]
    if not number.strip().isdigit() or head != header(int(number)):
        raise _damaged(path, "its header is none that voir writes")
    return int(number)


def _damaged(path: str | Path, why: str) -> VoirError:
    return VoirError("steps-damaged", f"{path} holds no steps of voir's: {why}", _WHAT)
