"""``steps.npy`` is read without NumPy, in any state that a process may leave it in."""

from __future__ import annotations

import io
import os
import random
import tracemalloc
from pathlib import Path

import pytest

from overseer.errors import VoirError
from overseer.rundir.steps import CHUNK_ROWS, FIELDS, ROW, ROWS_OFFSET, header, read_steps

np = pytest.importorskip("numpy")


def rows(count: int, seed: int = 0) -> bytes:
    """Rows of random numbers, the step's own apart."""
    chance = random.Random(seed)
    return b"".join(
        ROW.pack(
            n + 1, chance.choice([b"train", b"eval", "é".encode() * 12]), n, n + 1,
            chance.choice([8.0, float("nan")]), chance.uniform(-1, 1),
            *[chance.randrange(1 << 62) for _ in range(7)], chance.randrange(1 << 16), 3,
        )
        for n in range(count)
    )  # fmt: skip


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("count", [0, 1, 2, 100, CHUNK_ROWS, 2 * CHUNK_ROWS + 1])
def test_the_rows_are_those_that_numpy_loads(tmp_path: Path, count: int) -> None:
    path = written(tmp_path / "steps.npy", header(count) + rows(count))
    loaded = np.load(path, mmap_mode="r")
    assert loaded.dtype.descr == FIELDS
    assert loaded.dtype.itemsize == ROW.size and not ROW.size % 8 and not loaded.offset % 64
    read = read_steps(path)
    assert (len(read), read.rows) == (count, count) == (len(loaded), len(loaded))
    for mine, theirs in zip(read, loaded, strict=True):
        task = bytes(theirs["task"]).decode()
        assert repr(mine) == repr({**dict(zip(mine, theirs.tolist(), strict=True)), "task": task})


def test_a_file_that_ends_anywhere_has_its_whole_rows(tmp_path: Path) -> None:
    data = header(3) + rows(3)
    whole = [*read_steps(written(tmp_path / "whole.npy", data))]
    for size in range(ROWS_OFFSET, len(data) + 1):
        read = read_steps(written(tmp_path / "steps.npy", data[:size]))
        assert repr([*read]) == repr(whole[: (size - ROWS_OFFSET) // ROW.size])
    # Rows that were written before their number.
    read = read_steps(written(tmp_path / "steps.npy", header(2) + data[ROWS_OFFSET:] + b"more"))
    assert repr([*read]) == repr(whole[:2])


def test_a_header_that_claims_too_much_takes_no_memory(tmp_path: Path) -> None:
    path = written(tmp_path / "steps.npy", header(10_000_000) + rows(5))
    tracemalloc.start()
    assert len([*read_steps(path)]) == 5
    os.truncate(path, 10_000_000_000)  # Nor does a file that has holes.
    read = iter(read_steps(path))
    assert [next(read)["step"] for _ in range(9)] == [1, 2, 3, 4, 5, 0, 0, 0, 0]
    read.close()  # type: ignore[attr-defined]
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


def test_some_rows_can_be_read_that_are_spread_over_the_file(tmp_path: Path) -> None:
    read = read_steps(written(tmp_path / "steps.npy", header(100) + rows(100)))

    def numbers(*arguments: int) -> list[int]:
        return sorted(n for stretch in read.stretches(*arguments) for n in stretch["step"])

    assert numbers() == numbers(100, 5) == [*range(1, 101)]
    assert numbers(12, 3) == [*range(1, 5), *range(49, 53), *range(97, 101)]
    assert numbers(7, 2) == [1, 2, 3, 98, 99, 100]
    assert numbers(4, 1) == [1, 2, 3, 4]
    assert len(numbers(2, 5)) == 5


def saved(array: object) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


FOREIGN = {
    "empty": b"", "text": b"step,loss\n1,2\n", "one byte": b"\x93", "magic": b"\x93NUMPY\x01\x00",
    "array": saved([1, 2]), "header": header(3)[:300], "number": header(3).replace(b"  3", b" x3"),
    "zeros": header(3).replace(b" 3,", b"03,"), "field": header(3).replace(b"loss", b"cost"),
    "zip": b"PK\x03\x04" + bytes(1000), "nothing": bytes(1000),
}  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_another_file_is_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "steps.npy", FOREIGN[name])
    with pytest.raises(VoirError, match=r"steps\.npy is not a file of steps: ") as refused:
        read_steps(path)
    assert refused.value.slug == "steps-damaged"


def test_any_byte_of_a_file_may_be_another(tmp_path: Path) -> None:
    chance, data = random.Random(1), header(9) + rows(9)
    for _ in range(300):
        changed = bytearray(data)
        changed[chance.randrange(len(data))] = chance.randrange(256)
        path = written(tmp_path / "steps.npy", bytes(changed[: chance.randrange(len(data) + 1)]))
        try:
            assert len([*read_steps(path)]) <= 9
        except VoirError as refused:
            assert refused.slug == "steps-damaged"


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "nothing.npy"):
        with pytest.raises(VoirError) as refused:
            read_steps(path)
        assert refused.value.slug == "run-unreadable"
