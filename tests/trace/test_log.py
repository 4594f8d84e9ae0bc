"""The log: bounded, readable wherever it ends, made a trace of by whoever comes next."""

from __future__ import annotations

import errno
import io
import json
import os
import random

import pytest

from overseer.recorder import sites as k
from overseer.trace import finish, open_trace, rows
from overseer.trace.rows import Progress, make
from overseer.trace.writer import STRUCTURE_TAG, VALUES_TAG, LogWriter, TraceLog, this_process

from .conftest import NOW, WALL, event, row, spoilt

HEAD = {**this_process(), "name": "made", "wall_ns": WALL, "now_ns": NOW}
SITES = {"sites": [{"kind": 0}, {"kind": k.INSTANT, "label": "x", "channel": "app"}]}


def starts(log):
    """When events happened, from the beginning."""
    return [
        int.from_bytes(data[at : at + 8], "little") - NOW
        for kind, data in log.events() if kind == VALUES_TAG for at in range(0, len(data), 32)
    ]  # fmt: skip


def begin(path, most=1 << 20, ring=False, told=pytest.fail, **head):
    writer = LogWriter(path, {**HEAD, **head}, most, ring, told)
    writer.rows(SITES)
    return writer


def write(path, n, *how):
    """A log of ``n`` events, ten at a time."""
    writer = begin(path, *how)
    for at in range(0, n, 10):
        writer.events(VALUES_TAG, b"".join(event(1, at + i) for i in range(10)), {})
    writer.rows({"dropped": writer.dropped})
    writer.close()
    return writer


@pytest.mark.parametrize("ring", [False, True])
def test_a_full_log_keeps_its_head_and_the_latest(tmp_path, ring):
    path, n, most = tmp_path / "trace.log", 40_000, 1 << 18
    writer, log = write(path, n, most, ring), TraceLog(path)
    kept = starts(log)
    assert log.size < most * 1.1
    assert len(kept) + writer.dropped == writer.written == n
    jumps = [at for at in range(1, len(kept)) if kept[at] != kept[at - 1] + 1]
    assert (kept[-1], len(jumps)) == (n - 1, 0 if ring else 1)
    if not ring:
        assert kept[0] == 0
        assert most // 3 < jumps[0] * 32 < most // 2, "half of it is the head"
    trace = make(log, path.with_suffix(".pftrace"))
    assert (trace.events, trace.dropped) == (len(kept), writer.dropped)
    log.remove()
    assert [one.name for one in tmp_path.iterdir()] == ["trace.pftrace"]


def test_a_segment_says_what_the_fold_knew(making):
    making.steps(3000)
    for at, (tag, data, _) in enumerate(making._records):
        state = {"made": True, "steps": {"train": at - 2}} if at > 1 else {}
        making._records[at] = tag, data, state
    trace = making.trace(most=1 << 17)
    steps = [one.args["step"] for one in row(trace, "train steps")]
    assert (steps[0], steps[-1]) == (0, 2999)
    assert len(steps) == len(set(steps)) < 3000


def test_a_log_that_ends_anywhere_has_what_comes_before(making):
    making.steps(20)
    whole = making.trace().events
    data, chosen, before = making.path.read_bytes(), random.Random(1), 0
    for cut in (8, 9, 12):
        making.path.write_bytes(data[:cut])
        with pytest.raises(ValueError):  # Without its first record it is nobody's.
            TraceLog(making.path)
    for cut in [*sorted(chosen.sample(range(300, len(data)), 22)), len(data)]:
        making.path.write_bytes(data[:cut])
        made = make(TraceLog(making.path), making.path.with_suffix(".pftrace"))
        assert before <= made.events == open_trace(made.path).events <= whole
        before = made.events
    assert before == whole


def test_damage_ends_no_reader(making):
    making.steps(20)
    making.values(event(making.site(k.NOTE, "", channel="app"), 50, what=99))
    making.write()
    data, chosen, read = making.path.read_bytes(), random.Random(2), 0
    for _ in range(60):
        making.path.write_bytes(spoilt(data, chosen, 300))
        made = finish(making.path)
        read += made is not None and open_trace(made).events > 0
    assert read > 30


def test_a_full_disk_costs_events_and_nothing_else(tmp_path, monkeypatch):
    path, told, real = tmp_path / "trace.log", [], os.write
    writer = begin(path, told=told.append)

    def full(fd, data):
        if len(data) > 50:
            return real(fd, data[:50])  # Half of it still fits.
        raise OSError(errno.ENOSPC, "No space left on device")

    writer.events(VALUES_TAG, event(1, 1), {})
    monkeypatch.setattr(os, "write", full)
    writer.events(VALUES_TAG, event(1, 2) + event(1, 3), {})
    writer.events(STRUCTURE_TAG, event(0, 3), {"steps": {"train": 7}})
    monkeypatch.setattr(os, "write", real)
    writer.events(VALUES_TAG, event(1, 4), {})
    writer.events(STRUCTURE_TAG, event(0, 5), {"steps": {"train": 9}})
    writer.close()
    state = [data for tag, data in TraceLog(path).events() if tag == b"FOLD"]
    assert (starts(TraceLog(path)), state) == ([1, 4], [{"steps": {"train": 9}, "gap": True}])
    assert (writer.dropped, {error.errno for error in told}) == (3, {errno.ENOSPC})


# Whoever comes next


@pytest.mark.parametrize(
    ("change", "goes_on"),
    [({}, True), ({"host": "another"}, True), ({"pid": 1 << 22}, False), ({"started": 1}, False)],
)
def test_the_log_of_a_dead_process_becomes_a_trace(tmp_path, change, goes_on):
    path = tmp_path / "rank0/trace.log"
    path.parent.mkdir()
    writer = begin(path, **change)
    writer.events(VALUES_TAG, event(1, 1), {})
    assert finish(tmp_path) == path.with_suffix(".pftrace")
    assert path.exists() == goes_on
    writer.events(VALUES_TAG, event(1, 2), {})
    writer.close()
    if goes_on:  # The trace so far is read until one is asked for.
        assert len([*open_trace(tmp_path).instants()]) < len(
            [*open_trace(finish(tmp_path)).instants()]
        )
    trace = open_trace(tmp_path)
    assert [one.label for one in trace.instants() if one.channel == "app"] == ["x"] * (1 + goes_on)


def test_a_log_beside_a_trace_elsewhere_is_found(tmp_path):
    writer = write(tmp_path / "there.log", 10)
    assert (writer.dropped, len(TraceLog(tmp_path / "there.log").files)) == (0, 1), "it is small"
    path, run = tmp_path / "there.pftrace", tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text(json.dumps({"trace": {"path": str(path)}}))
    assert finish(run) == path
    assert open_trace(run).events == 10


@pytest.mark.parametrize("data", [b"", b"a log of mine\n", b"voir logJUNK", bytes(100)])
def test_logs_of_others_are_left_alone(tmp_path, data):
    (tmp_path / "trace.log").write_bytes(data)
    assert finish(tmp_path) is None
    assert os.listdir(tmp_path) == ["trace.log"]


def test_an_interruption_leaves_the_log_and_no_half_trace(making):
    making.steps(5)
    making.write()

    def interrupt(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(TraceLog(making.path), making.path.with_suffix(".pftrace"), interrupt)
    assert os.listdir(making.path.parent) == ["made.log"]


def test_progress_is_told_up_to_the_end_and_shown_from_a_second_on(making, monkeypatch):
    making.steps(5)
    making.write()
    make(TraceLog(making.path), making.path.with_suffix(".pftrace"), (shares := []).append)
    assert shares == sorted(shares)
    assert 0.9 < shares[-1] <= 1
    stream, times = io.StringIO(), iter([1.0, 1.5, 2.5, 2.6])
    monkeypatch.setattr(rows, "perf_counter", lambda: next(times, 2.7))
    shown = Progress(stream)
    shown(0.5)
    assert stream.getvalue() == ""
    shown(0.6)
    shown(0.7)
    shown.close()
    assert stream.getvalue() == "voir: making trace.pftrace ...\n"
