"""The log: bounded, readable wherever it ends, made a trace of by whoever comes next."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from overseer.recorder import sites as k
from overseer.trace import finish, open_trace
from overseer.trace.rows import make
from overseer.trace.writer import HOST, VALS, Log, LogWriter, this_process

from .conftest import NOW, WALL, Making, event

HEAD = {**this_process(), "name": "made", "wall_ns": WALL, "now_ns": NOW}


def starts(log: Log, tag: bytes = VALS) -> list[int]:
    """When events happened, from the beginning."""
    found = []
    for kind, data in log.events():
        if kind == tag:
            found += [int.from_bytes(data[at : at + 8], "little") - NOW
                      for at in range(0, len(data), 32)]  # fmt: skip
    return found


def write(path: Path, n: int, most: int, ring: bool = False, size: int = 100) -> LogWriter:
    """A log of ``n`` events, ``size`` at a time."""
    writer = LogWriter(path, HEAD, most, ring, pytest.fail)
    writer.rows({"sites": [{"kind": 0}, {"kind": k.INSTANT, "label": "x", "channel": "app"}]})
    for at in range(0, n, size):
        writer.events(VALS, b"".join(event(1, at + i) for i in range(size)), {})
    writer.rows({"dropped": writer.dropped})
    writer.close()
    return writer


@pytest.mark.parametrize("ring", [False, True])
def test_a_full_log_keeps_its_head_and_the_latest(tmp_path: Path, ring: bool) -> None:
    path, n, most = tmp_path / "trace.log", 40_000, 1 << 18
    writer = write(path, n, most, ring)
    log = Log(path)
    kept = starts(log)
    assert log.size < most * 1.1
    assert len(kept) + writer.dropped == n
    assert writer.written == n
    assert (kept[0], kept[-1]) == (kept[0] if ring else 0, n - 1)
    jumps = [at for at in range(1, len(kept)) if kept[at] != kept[at - 1] + 1]
    assert len(jumps) == (0 if ring else 1)
    if not ring:
        assert most // 3 < jumps[0] * 32 < most // 2, "half of it is the head"
    trace = make(log, path.with_suffix(".pftrace"))
    assert (trace.events, trace.dropped) == (len(kept), writer.dropped)
    log.remove()
    assert [one.name for one in tmp_path.iterdir()] == ["trace.pftrace"]


def test_a_small_log_has_no_segments_and_drops_nothing(tmp_path: Path) -> None:
    writer = write(tmp_path / "trace.log", 1000, 1 << 20)
    assert (writer.dropped, len(Log(tmp_path / "trace.log").files)) == (0, 1)


def test_a_segment_says_what_the_fold_knew(tmp_path: Path) -> None:
    making = Making(tmp_path / "trace.log")
    making.steps(3000)
    for at, (tag, data, _) in enumerate(making._records):
        state = {"made": True, "steps": {"train": at - 2}} if at > 1 else {}
        making._records[at] = tag, data, state
    making.write(most=1 << 17)
    trace = make(Log(making.path), tmp_path / "trace.pftrace")
    steps = [one.args["step"] for one in open_trace(trace.path).slices() if one.label == "step"]
    assert steps[0] == 0
    assert steps[-1] == 2999
    assert len(steps) == len(set(steps)) < 3000


def test_a_log_that_ends_anywhere_has_what_comes_before(tmp_path: Path) -> None:
    making = Making(tmp_path / "trace.log")
    making.steps(20)
    making.write()
    data = making.path.read_bytes()
    whole = make(Log(making.path), tmp_path / "whole.pftrace")
    chosen = random.Random(1)
    before = 0
    for cut in sorted(
        [8, 9, 12, *(chosen.randrange(300, len(data)) for _ in range(22)), len(data)]
    ):
        making.path.write_bytes(data[:cut])
        try:
            log = Log(making.path)
        except ValueError:
            assert cut < 300, "without its first record it is nobody's"
            continue
        made = make(log, tmp_path / "cut.pftrace")
        assert before <= made.events <= whole.events
        assert open_trace(made.path).events == made.events
        before = made.events
    assert before == whole.events


def test_damage_ends_no_reader(tmp_path: Path) -> None:
    making = Making(tmp_path / "trace.log")
    making.steps(20)
    making.values(event(making.site(k.NOTE, "", channel="app"), 50, what=99))
    making.write()
    data = making.path.read_bytes()
    chosen, read = random.Random(2), 0
    for _ in range(60):
        broken = bytearray(data)
        for _ in range(3):
            broken[chosen.randrange(300, len(data))] ^= 1 << chosen.randrange(8)
        making.path.write_bytes(broken)
        made = finish(making.path)
        read += made is not None and open_trace(made).events > 0
    assert read > 30


def test_a_full_disk_costs_events_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, told = tmp_path / "trace.log", []
    writer = LogWriter(path, HEAD, 1 << 20, False, told.append)
    writer.rows({"sites": [{"kind": 0}, {"kind": k.INSTANT, "label": "x", "channel": "app"}]})
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if len(data) > 50:
            return real(fd, data[:50])  # Half of it still fits.
        raise OSError(errno.ENOSPC, "No space left on device")

    writer.events(VALS, event(1, 1), {})
    monkeypatch.setattr(os, "write", full)
    writer.events(VALS, event(1, 2) + event(1, 3), {})
    writer.events(HOST, event(0, 3), {"steps": {"train": 7}})
    monkeypatch.setattr(os, "write", real)
    writer.events(VALS, event(1, 4), {})
    writer.events(HOST, event(0, 5), {"steps": {"train": 9}})
    writer.close()
    log = Log(path)
    assert starts(log) == [1, 4]
    assert [data for tag, data in log.events() if tag == b"FOLD"] == [
        {"steps": {"train": 9}, "gap": True}
    ]
    assert writer.dropped == 3
    assert told
    assert all(error.errno == errno.ENOSPC for error in told)


# Whoever comes next


@pytest.mark.parametrize(
    ("change", "goes_on"),
    [
        ({}, True),
        ({"host": "another machine"}, True),
        ({"pid": 1 << 22}, False),
        ({"started": 1}, False),
    ],
)
def test_the_log_of_a_dead_process_becomes_a_trace(
    tmp_path: Path, change: dict[str, Any], goes_on: bool
) -> None:
    directory = tmp_path / "rank0"
    directory.mkdir()
    path = directory / "trace.log"
    writer = LogWriter(path, {**HEAD, **change}, 1 << 20, False, pytest.fail)
    writer.rows({"sites": [{"kind": 0}, {"kind": k.INSTANT, "label": "x", "channel": "app"}]})
    writer.events(VALS, event(1, 1), {})
    assert finish(tmp_path) == directory / "trace.pftrace"
    assert path.exists() == goes_on
    writer.events(VALS, event(1, 2), {})
    writer.close()
    trace = open_trace(tmp_path)
    assert [one.label for one in trace.instants() if one.channel == "app"] == ["x"] * (1 + goes_on)


def test_a_log_beside_a_trace_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    write(tmp_path / "there.log", 10, 1 << 20, size=10)
    path = tmp_path / "there.pftrace"
    (tmp_path / "run/run.json").write_text(f'{{"trace": {{"path": "{path}"}}}}')
    assert finish(tmp_path / "run") == path
    assert open_trace(tmp_path / "run").events == 10


@pytest.mark.parametrize("data", [b"", b"a log of mine\n", b"voir logJUNK", bytes(100)])
def test_logs_of_others_are_left_alone(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "trace.log").write_bytes(data)
    assert finish(tmp_path) is None
    assert [one.name for one in tmp_path.iterdir()] == ["trace.log"]


def test_an_interruption_leaves_the_log_and_no_half_trace(making: Making) -> None:
    making.steps(5)
    making.write()

    def interrupt(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(Log(making.path), making.path.with_suffix(".pftrace"), interrupt)
    assert [one.name for one in making.path.parent.iterdir()] == ["made.log"]


def test_progress_is_told_up_to_the_end(making: Making) -> None:
    making.steps(5)
    making.write()
    shares: list[float] = []
    make(Log(making.path), making.path.with_suffix(".pftrace"), shares.append)
    assert shares == sorted(shares)
    assert 0.9 < shares[-1] <= 1
    _shown(shares.append)


def _shown(tell: Callable[[float], object]) -> None:
    """Progress is shown from a second on."""
    import io

    from overseer.trace.rows import Progress

    stream = io.StringIO()
    shown = Progress(stream)
    shown(0.5)
    assert stream.getvalue() == ""
    shown._begun -= 2
    shown(0.6)
    shown(0.7)
    shown.close()
    assert stream.getvalue() == "voir: making trace.pftrace ...\n"
