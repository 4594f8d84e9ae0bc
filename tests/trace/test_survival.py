"""Whatever becomes of the process, the disk or the file, the trace opens; the script goes on."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from overseer.clock import FakeClock
from overseer.errors import VoirError
from overseer.trace import channel, open_trace
from overseer.trace.process import this_process
from overseer.trace.reading import Trace
from overseer.trace.recorder import INSTANT, recorder
from overseer.trace.tracks import Track
from overseer.trace.writer import Writer

from .conftest import Tracing
from .processor import Processor

Begin = Callable[..., Tracing]

#: Perfetto takes a tenth of a second to load: of the bytes before the last 16, one in so many.
STRIDE = 97
#: How many writers are killed.
KILLS = int(os.environ.get("VOIR_TEST_KILLS", "4"))
COUNT = "select count(*) as n from slice"
#: Records without end; says after each flush how much is in the file for certain.
WORKER = """
import sys, time
from overseer.clock import Clock
from overseer.trace.emit import channel
from overseer.trace.process import this_process
from overseer.trace.recorder import recorder
from overseer.trace.writer import Writer

writer = Writer(sys.argv[1], this_process("worker", Clock()), recorder, 200_000, print)
recorder.start()
app = channel("app")
loss = app.counter("Loss")
with app.span("everything"):
    while True:
        for number in range(200):
            with app.span("step", number=number):
                loss.add(number)
        writer.flush()
        print(writer.events, writer.dropped, flush=True)
"""


def small(tracing: Begin) -> tuple[bytes, bytes]:
    """A small trace in two segments: not compressed, and compressed in part."""
    trace = tracing()
    app = channel("app")
    with app.span("outer", text="é"), app.span("inner"):
        app.counter("Loss", "nats").add(1.5)
    plain = trace.flush().path.read_bytes()
    sealed = trace.end()
    return plain, sealed + plain


def test_a_file_cut_off_anywhere_opens_in_perfetto(tracing: Begin, processor: Processor) -> None:
    plain, both = small(tracing)
    for data in (plain, both):
        found = []
        for end in [*range(0, len(data) - 16, STRIDE), *range(len(data) - 16, len(data) + 1)]:
            processor.load(data[:end])
            assert processor.error == "", end
            found.append(processor.query(COUNT)[0]["n"])
        assert all(before <= after for before, after in pairwise(found))
        assert found[-1] == 3 * (1 + (data is both))


def test_a_file_cut_off_anywhere_opens_here(tracing: Begin, tmp_path: Path) -> None:
    file = tmp_path / "cut.pftrace"
    for data in small(tracing):
        events = []
        for end in range(len(data) + 1):
            file.write_bytes(data[:end])
            read = open_trace(file)
            events.append(read.events)
            assert read.torn_bytes == read.tail_bytes
        assert all(before <= after for before, after in pairwise(events))
        assert events[-1] > 0
        assert open_trace(file).torn_bytes == 0


def test_what_looks_like_a_packet_at_the_end_of_one_cut_off_is_none(tmp_path: Path) -> None:
    file = tmp_path / "cut.pftrace"
    file.write_bytes(b"\x0a\x20\x40\x05" + b"\x0a\x02\x40\x01")  # Of 32 bytes there are 6.
    read = open_trace(file)
    assert (read.events, read.torn_bytes, read.tail_bytes) == (0, 8, 8)


def test_flipped_bits_never_crash_the_reader(tracing: Begin, tmp_path: Path) -> None:
    file = tmp_path / "flipped.pftrace"
    chance = random.Random(7)
    plain, both = small(tracing)
    refused = 0
    for data in (plain, both):
        for bit in chance.sample(range(8 * len(data)), 1200):
            damaged = bytearray(data)
            damaged[bit // 8 % len(data)] ^= 1 << bit % 8
            file.write_bytes(damaged)
            try:
                assert isinstance(open_trace(file), Trace)
            except VoirError as error:
                assert error.slug == "not-a-trace"
                refused += 1
    assert refused < 20


def test_a_torn_middle_loses_only_what_is_torn(tracing: Begin, tmp_path: Path) -> None:
    trace = tracing()
    app = channel("app")
    for number in range(100):
        app.instant(f"mark {number}")
    data = bytearray(trace.flush().path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 20] = bytes(20)
    file = tmp_path / "torn.pftrace"
    file.write_bytes(data)
    read = open_trace(file)
    assert 90 < sum(one.label.startswith("mark") for one in read.instants()) < 100
    assert read.torn_bytes > 0


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 5000, b"PK\x03\x04" + bytes(500), b'{"traceEvents": [', b"\x1f\x8b\x08"]
)
def test_other_files_are_refused_or_empty(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "other.pftrace"
    file.write_bytes(data)
    if data.strip(b"\0"):
        with pytest.raises(VoirError, match="no Perfetto trace"):
            open_trace(file)
    else:
        assert open_trace(file).events == 0


def test_a_killed_writer_loses_nothing_that_was_flushed(
    tmp_path: Path, processor: Processor
) -> None:
    chance = random.Random(3)
    lost = []
    for number in range(KILLS):
        file = tmp_path / f"{number}.pftrace"
        command = [sys.executable, "-c", WORKER, str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            for _ in range(chance.randrange(1, 12)):
                said = worker.stdout.readline()
            worker.send_signal(signal.SIGKILL)
            said = (worker.stdout.read().splitlines() or [said])[-1]
        events, dropped = map(int, said.split())
        read = open_trace(file)
        lost.append(max(events - max(dropped, read.dropped) - read.events, 0))
        assert read.torn_bytes == read.tail_bytes
        assert any(one.label == "everything" for one in read.slices())
        processor.load(file.read_bytes())
        assert processor.error == ""
        assert processor.query(COUNT)[0]["n"] == sum(1 for _ in read.slices()) + sum(
            1 for _ in read.instants()
        )
    print(f"killed {KILLS} writers: {sum(lost)} events lost that had been flushed")
    assert sum(lost) == 0, lost


def failing(monkeypatch: pytest.MonkeyPatch, after: int) -> Callable[[], None]:
    """Let the disk be full once ``after`` bytes are written; returns what frees it."""
    real, room = os.write, [after]

    def write(fd: int, data: Any) -> int:
        if room[0] <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(fd, bytes(data[: room[0]]))
        room[0] -= written
        return written

    monkeypatch.setattr("overseer.trace.store.os.write", write)

    def free() -> None:
        room[0] = 1 << 40

    return free


def test_a_full_disk_is_told_once_and_writing_goes_on(
    tracing: Begin, processor: Processor, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tracing()
    free = failing(monkeypatch, after=1000)
    app = channel("app")
    for number in range(20):
        for _ in range(10):
            with app.span(f"step {number}"):
                pass
        trace.flush()
    free()
    with app.span("there is room again"):
        pass
    data = trace.end()
    assert [problem.slug for problem in trace.problems] == ["trace-unwritable"]
    assert trace.writer.dropped > 100
    names = {r["name"] for r in processor.load(data).query("select name from slice")}
    assert processor.error == ""
    assert {"step 0", "there is room again"} <= names
    assert open_trace(trace.path).dropped == trace.writer.dropped


def test_a_directory_that_disappears_is_told_once(tmp_path: Path, tracing: Begin) -> None:
    trace = tracing()
    trace.path.unlink()
    channel("app").instant("nobody will know")
    trace.flush().flush()
    trace.writer.close()
    assert [problem.slug for problem in trace.problems] == ["trace-unwritable"]
    assert not trace.path.exists()
    trace.path.touch()


def trace_extent(read: Trace) -> int:
    """How long it is from the first to the last thing of the channel ``app``."""
    times = [t for one in read.slices() for t in (one.start, one.start + (one.duration or 0))]
    return max(times) - min(times)


def test_the_first_and_the_last_are_kept(tracing: Begin, processor: Processor) -> None:
    most = 1 << 19
    trace = tracing(most=most)
    app = channel("app")
    chance = random.Random(1)
    largest = 0
    with app.span("everything"):
        for number in range(600):
            with app.span("epoch", number=number):
                for _ in range(100):
                    app.counter("Loss").add(chance.random())
            largest = max(largest, trace.flush().path.stat().st_size)
    data = trace.end()
    assert largest <= most
    assert trace.writer.dropped > 10_000
    read = open_trace(trace.path)
    assert read.dropped == trace.writer.dropped
    assert read.unfinished == 0
    numbers = [one.args["number"] for one in read.slices() if one.label == "epoch"]
    assert numbers[0] == 0
    assert numbers[-1] == 599
    assert len(numbers) < 600
    assert read.events - trace.writer.events in range(0, 10)
    assert trace.writer.recorded == 2 + 600 * 102
    found = processor.load(data).query("select name, dur from slice where name = 'everything'")
    (whole,) = (one for one in read.slices() if one.label == "everything")
    assert found == [{"name": "everything", "dur": whole.duration}]
    assert whole.duration == trace_extent(read)
    assert processor.errors() == {}


def test_in_a_ring_the_last_are_kept_in_the_place_of_the_oldest(
    tracing: Begin, processor: Processor
) -> None:
    most = 1 << 18
    trace = tracing(most=most, ring=True)
    app = channel("app")
    chance = random.Random(1)
    largest = 0
    with app.span("everything"):
        for number in range(400):
            with app.span("epoch", number=number):
                for _ in range(50):
                    app.counter("Loss").add(chance.random())
            largest = max(largest, trace.flush().path.stat().st_size)
    data = trace.end()
    assert largest <= most
    read = open_trace(trace.path)
    assert read.dropped == trace.writer.dropped > 1000
    assert read.events - trace.writer.events in range(0, 10)
    assert trace.writer.recorded == 2 + 400 * 52
    numbers = [one.args["number"] for one in read.slices() if one.label == "epoch"]
    assert len(numbers) > 50
    assert numbers == list(range(numbers[0], 400))
    found = processor.load(data).query("select name, dur from slice where name = 'everything'")
    assert [row["dur"] > 0 for row in found] == [True]
    assert processor.errors() == {}


def test_spans_left_open_and_ends_without_a_begin(tracing: Begin, processor: Processor) -> None:
    trace = tracing()
    app = channel("app")
    app.end("nothing")
    app.end()
    app.begin("outer")
    app.begin("left open")
    app.begin("inner")
    app.end("outer")
    app.end("inner")
    app.begin("last")
    data = trace.end()
    found = processor.load(data).query("select name, dur from slice where category = 'app'")
    assert {r["name"]: r["dur"] >= 0 for r in found} == {
        "outer": True,
        "left open": True,
        "inner": True,
        "last": False,
    }
    assert processor.errors() == {}
    assert trace.writer._encoder.unbalanced == 3


def test_an_exception_goes_through_nested_spans(tracing: Begin) -> None:
    trace = tracing()
    app = channel("app")
    with pytest.raises(KeyError), app.span("outer"), app.span("inner"):
        raise KeyError("x")
    trace.end()
    read = open_trace(trace.path)
    assert {one.label: one.args for one in read.slices()} == {
        "outer": {"error": "KeyError"},
        "inner": {"error": "KeyError"},
    }
    assert read.unfinished == 0


def test_a_thousand_spans_within_each_other(tracing: Begin, processor: Processor) -> None:
    trace = tracing()
    app = channel("app")
    for number in range(1000):
        app.begin(f"{number}")
    for number in reversed(range(1000)):
        app.end(f"{number}")
    with app.span("after"):
        pass
    data = trace.end()
    read = open_trace(trace.path)
    assert max(depth for thread in read.threads for depth, _ in thread.walk()) == 499
    assert (read.unfinished, read.dropped) == (0, 1000)
    found = processor.load(data).query("select name, depth from slice where name = 'after'")
    assert found == [{"name": "after", "depth": 0}]
    assert processor.errors() == {}


def test_threads_that_record_at_once_each_keep_their_order(tracing: Begin) -> None:
    trace = tracing()
    app = channel("app")

    def work() -> None:
        for number in range(2000):
            with app.span("outer", number=number), app.span("inner"):
                pass

    threads = [threading.Thread(target=work, name=f"worker {n}") for n in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        trace.flush()
    trace.end()
    rows = {t.name: t for t in open_trace(trace.path).threads if t.tid is not None}
    assert sorted(rows) == [f"worker {n}" for n in range(4)]
    for row in rows.values():
        assert [one.args["number"] for one in row.slices] == list(range(2000))
        assert all([c.label for c in one.children] == ["inner"] for one in row.slices)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_leaves_the_trace_alone(tracing: Begin) -> None:
    trace = tracing()
    app = channel("app")
    with app.span("parent"):
        for number in range(5):
            app.instant(f"before {number}")
            child = os.fork()
            if child == 0:
                app.instant("child")
                trace.writer.flush()
                os._exit(0 if app.recording is False else 1)
            assert os.waitpid(child, 0)[1] == 0
    trace.end()
    read = open_trace(trace.path)
    assert [one.label for one in read.instants() if one.channel == "app"] == [
        f"before {n}" for n in range(5)
    ]
    assert read.torn_bytes == 0


def test_a_writer_that_is_too_slow_loses_and_counts(
    tracing: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overseer.trace.recorder.MOST", 1000)
    trace = tracing()
    app = channel("app")
    for _ in range(2000):
        app.instant("quick")
    recorder.relieve()  # What the writer does now and then.
    for _ in range(500):
        app.instant("lost")
    trace.flush()
    app.instant("heard again")
    trace.end()
    labels = [one.label for one in open_trace(trace.path).instants()]
    assert labels.count("quick") == 2000
    assert "lost" not in labels
    assert "heard again" in labels
    assert trace.writer.dropped == 500
    assert open_trace(trace.path).dropped == 500


def test_of_what_comes_too_fast_the_last_is_kept(
    tracing: Begin, processor: Processor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overseer.trace.writer.AT_ONCE", 100)
    monkeypatch.setattr("overseer.trace.writer.BEHIND", 4000)
    monkeypatch.setattr("overseer.trace.writer.CAUGHT_UP", 2000)
    trace = tracing()
    app = channel("app")
    app.begin("everything")
    app.begin("beginning")
    trace.flush()
    app.end("beginning")
    app.begin("second half")
    for number in range(3000):
        with app.span("turn", number=number):
            pass
    app.begin("rest")
    app.instant("last mark")
    trace.flush()
    for name in ("rest", "second half", "everything"):
        app.end(name)
    processor.load(trace.end())
    assert (processor.error, processor.errors(), trace.problems) == ("", {}, [])
    read = open_trace(trace.path)
    assert read.dropped == trace.writer.dropped == 4100
    assert (read.unfinished, trace.writer.recorded) == (0, 6009)
    (everything,) = (one for row in read.threads for one in row.slices)
    assert [one.label for one in everything.children] == ["beginning", "second half"]
    turns = everything.children[1].children
    assert [one.args["number"] for one in turns[:-1]] == list(range(2049, 3000))
    assert turns[-1].label == "rest"
    (second,) = processor.query("select name, dur from slice where name = 'second half'")
    assert second["dur"] == everything.children[1].duration
    assert "last mark" in [one.label for one in read.instants()]


def test_what_comes_while_room_is_made_waits(
    tracing: Begin, processor: Processor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overseer.trace.writer.BEHIND", 500)
    monkeypatch.setattr("overseer.trace.writer.CAUGHT_UP", 300)
    trace = tracing(most=1 << 18)
    app, writer = channel("app"), trace.writer
    app.begin("everything")
    while writer._has_room():
        for _ in range(50):
            app.instant("before")
        writer._write_recorded()
    writer._sealing = True
    for number in range(700):
        app.instant("meanwhile", number=number)
        writer._write_recorded()
    writer._sealing = False
    app.end("everything")
    processor.load(trace.end())
    assert (processor.error, processor.errors(), trace.problems) == ("", {}, [])
    assert writer.size <= 1 << 18
    read = open_trace(trace.path)
    numbers = [one.args["number"] for one in read.instants() if one.label == "meanwhile"]
    assert numbers == list(range(201, 700))
    assert (read.dropped, read.unfinished) == (writer.dropped, 0)


def test_what_comes_while_a_full_file_is_written_anew_stays_in_order(
    tracing: Begin, processor: Processor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("overseer.trace.writer.AT_ONCE", 50)
    monkeypatch.setattr("overseer.trace.writer.BEHIND", 3000)
    monkeypatch.setattr("overseer.trace.writer.CAUGHT_UP", 2000)
    trace = tracing(most=1 << 16)
    app, store, seal, turns = channel("app"), trace.writer._store, trace.writer._store.seal, [0]

    def record(count: int) -> None:
        for _ in range(count):
            with app.span("turn", number=turns[0]):
                turns[0] += 1

    def sealing(**options: Any) -> None:
        if turns[0] < 30_000:
            record(1200)
        seal(**options)

    monkeypatch.setattr(store, "seal", sealing)
    app.begin("everything")
    while turns[0] < 30_000:
        record(900)
        trace.flush()
    app.end("everything")
    processor.load(trace.end())
    assert (processor.error, processor.errors(), trace.problems) == ("", {}, [])
    assert trace.writer._skipped > 1000
    read = open_trace(trace.path)
    assert (read.unfinished, trace.writer._encoder.unbalanced) == (0, 0)
    assert trace.writer.recorded == 2 + 2 * turns[0]
    (everything,) = (one for row in read.threads for one in row.slices)
    numbers = [one.args.get("number") for one in everything.children]
    assert (numbers[0], numbers[-1]) == (0, turns[0] - 1)
    assert not any(one.children for one in everything.children)


def test_where_writing_failed_spans_are_not_mixed_up(
    tracing: Begin, processor: Processor, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tracing()
    app, store = channel("app"), trace.writer._store
    app.begin("whole")
    app.begin("first")
    trace.flush()

    def full(packets: bytes, events: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(store, "append", full)
        app.end("first")
        app.begin("second")
        app.instant("lost")
        trace.flush()
        app.begin("lost too")
        app.end("lost too")
        trace.flush()
    for name in ("third", "second", "whole"):
        if name == "third":
            app.begin(name)
        app.end(name)
    processor.load(trace.end())
    assert (processor.error, processor.errors(), len(trace.problems)) == ("", {}, 1)
    read = open_trace(trace.path)
    assert (read.unfinished, read.dropped, trace.writer.dropped) == (0, 5, 5)
    (whole,) = (one for row in read.threads for one in row.slices)
    assert [one.label for one in whole.children] == ["first", "second"]
    assert [one.label for one in whole.children[1].children] == ["third"]


def test_a_clock_that_is_set_changes_nothing(tmp_path: Path) -> None:
    clock = FakeClock(now_ns=10**12)
    process = this_process("test", clock)
    began = clock.wall_ns()
    writer = Writer(str(tmp_path / "t.pftrace"), process, recorder, 1 << 20, pytest.fail)
    recorder.start()
    app, row = channel("app"), Track("row")
    for seconds in range(3):
        app.at(clock.now_ns(), INSTANT, row, f"{seconds}")
        writer.flush()
        clock.advance(1)
        clock.set_wall(began - seconds * 10**15)
    writer.close()
    recorder.stop()
    marks = [one for one in open_trace(tmp_path / "t.pftrace").instants() if one.channel == "app"]
    assert [one.start - began for one in marks] == [0, 10**9, 2 * 10**9]


def test_what_comes_while_segments_are_compressed_is_written(
    tracing: Begin, processor: Processor
) -> None:
    trace = tracing(most=1 << 23)
    app = channel("app")
    writer, store = trace.writer, trace.writer._store
    came = []

    def meanwhile() -> None:
        for _ in range(5_000):
            app.instant(f"meanwhile {len(came)}")
        came.append(len(came))
        writer._write_recorded()

    while not store.due():
        for _ in range(1000):
            with app.span("step"):
                pass
        writer._write_recorded()
    writer._sealing = True
    store.seal(meanwhile=meanwhile)
    writer._sealing = False
    with app.span("after"):
        pass
    data = trace.end()
    assert len(came) >= 3
    found = processor.load(data).query("select name, count(*) as n from slice group by name")
    counts = {row["name"]: row["n"] for row in found}
    assert processor.error == ""
    assert counts["step"] >= 10_000
    assert counts["after"] == 1
    assert all(counts[f"meanwhile {number}"] == 5_000 for number in came)
    assert writer.dropped == 0
    assert open_trace(trace.path).torn_bytes == 0
