"""Trace files: of the schema, read alike by Perfetto and by us, whatever became of them."""

from __future__ import annotations

import random
import zlib

import pytest

from overseer.recorder import sites as k
from overseer.trace import channel, open_trace, wire
from overseer.trace.reading import read_trace, whole_packets
from overseer.trace.timeline import Timeline

from .conftest import Making, event, spoilt

SLICES = """
    select s.name, s.category, s.ts, s.dur, s.depth, ltrim(coalesce(thread.name, t.name)) as row
    from slice s join track t on s.track_id = t.id
    left join thread_track tt on tt.id = t.id left join thread using (utid)
"""
COUNTERS = """
    select t.name, c.value, c.ts from counter c join counter_track t on c.track_id = t.id
"""


def ours(trace):
    """What our reader has found, as Perfetto's tells it."""
    found = [
        (one.label, one.channel, one.start, -1 if one.duration is None else one.duration, depth,
         thread.name)
        for thread in trace.threads for depth, one in thread.walk()
    ]  # fmt: skip
    values = [(c.name, value, time) for p in trace.processes for c in p.counters.values()
              for time, value in c.samples]  # fmt: skip
    return sorted(found), sorted(values)


def perfettos(processor, data):
    """The same by Perfetto's processor; instants, which it has as slices, are left out."""
    processor.load(data)
    assert processor.error == ""
    assert processor.errors() == {}
    slices = [tuple(row.values()) for row in processor.query(f"{SLICES} where s.dur != 0")]
    return sorted(slices), sorted(tuple(row.values()) for row in processor.query(COUNTERS))


def full(making):
    """A trace with everything in it."""
    making.steps(30)
    module, text = making.site(k.MODULE), making.site(k.INSTANT, "mark", channel="app")
    counter = making.site(k.VALUE, "x", channel="app", unit="B", group="app/x")
    crossing = making.site(k.SPAN, "cross", channel="app")
    making.values(
        *(event(module, 210 + 1000 * n, 80, what=21) for n in range(30)),
        *(event(module, 205 + 1000 * n, 200, what=20) for n in range(30)),
        *(event(text, 77 * n) for n in range(9)),
        *(event(counter, n, value=n / 3) for n in range(9)),
        event(crossing, 50_000, 500, thread=2), event(crossing, 49_800, 600, thread=2),
        event(crossing, 50_100, 900, thread=2),
    )  # fmt: skip
    making.trace(names=[[20, 0, "Net", "Net"], [21, 0, "Net.fc", "Linear"]], rank=1)
    return making.path.with_suffix(".pftrace").read_bytes()


def test_perfetto_reads_what_we_do(making, processor):
    data = full(making)
    trace = open_trace(making.path.with_suffix(".pftrace"))
    assert ours(trace) == perfettos(processor, data)
    assert len(ours(trace)[0]) == 30 * 9 + 1 + 3
    ranks = processor.query("select name from process where name like 'rank%'")
    assert ranks == [{"name": "rank 1: made"}]
    rows = processor.query("""
        include perfetto module viz.summary.track_event;
        select trim(name) as name from _track_event_tracks_ordered_groups
        where utid is null and name is not null order by order_id
    """)
    assert [row["name"] for row in rows][:3] == ["epochs", "train steps", "data loader"]


def test_perfetto_reads_what_a_script_records(tracing, processor):
    begun, app = tracing(), channel("app")
    for number in range(20):
        with app.span(f"step {number}", size=number), app.span("inner"):
            app.counter("n", "1").add(number)
    trace = begun.end()
    assert ours(trace) == perfettos(processor, trace.path.read_bytes())
    arguments = "select int_value as n from args where key = 'debug.size' order by n"
    assert [row["n"] for row in processor.query(arguments)] == list(range(20))


def test_every_packet_is_of_perfettos_schema(making):
    schema = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    unknown = pytest.importorskip("google.protobuf.unknown_fields").UnknownFieldSet
    found = schema.Trace.FromString(full(making)).packet
    events = [packet.track_event for packet in found if packet.HasField("track_event")]
    tracks = [p.track_descriptor for p in found if p.HasField("track_descriptor")]
    uuids = {track.uuid for track in tracks}
    assert {one.track_uuid for one in events} <= uuids
    assert {uuid >> 32 for uuid in uuids} == {2}, "rank 1 has tracks of its own"
    assert {p.trusted_packet_sequence_id for p in found if p.HasField("track_event")} == {2}
    for one in (*found, *events, *tracks):
        assert len(unknown(one)) == 0


def test_ranks_of_one_machine_are_written_one_behind_the_other(tmp_path, processor):
    files = []
    for rank in range(3):
        made = Making(tmp_path / f"rank{rank}.log")
        made.steps(5)
        made.trace(rank=rank)
        files.append(tmp_path / f"rank{rank}.pftrace")
    files[1].write_bytes(files[1].read_bytes() + b"\x0a\x7f torn")
    Timeline(files).merge(tmp_path / "all.pftrace")
    whole = read_trace(tmp_path / "all.pftrace")
    assert (whole.events, whole.torn_bytes) == (3 * read_trace(files[0]).events, 0)
    assert ours(whole) == perfettos(processor, (tmp_path / "all.pftrace").read_bytes())
    assert len(processor.query("select upid from process where name like 'rank%'")) == 3


def test_a_file_that_is_cut_off_lacks_only_its_end(making, processor):
    data, file, before = full(making), making.path.with_suffix(".pftrace"), 0
    whole = read_trace(file).events
    borders = [end for _, end in whole_packets(data)][5:]
    for border in sorted(random.Random(3).sample(borders, 25)):
        for cut in (border - 1, border, border + 1):
            file.write_bytes(data[:cut])
            trace = read_trace(file)
            assert before <= trace.events <= whole
            assert trace.torn_bytes == trace.tail_bytes
            assert (trace.tail_bytes == 0) == (cut == border)
            before = trace.events
        processor.load(data[: border + 1])
        assert processor.error == ""


def test_traces_of_version_0_1_are_read(making):
    """Their packets may be compressed, and have names in full."""
    data, file = full(making), making.path.with_suffix(".pftrace")
    whole, ends = read_trace(file).events, [end for _, end in whole_packets(data)]
    half = ends[len(ends) // 2]
    file.write_bytes(data[:half] + wire.message(1, wire.message(50, zlib.compress(data[half:]))))
    assert read_trace(file).events == whole
    file.write_bytes(data[:half] + wire.message(1, wire.message(50, b"no zlib")))
    assert 0 < read_trace(file).events < whole
    named = wire.text(22, "app") + wire.text(23, "mark")
    named += wire.message(4, wire.text(10, "key") + wire.text(6, "value"))
    event_ = wire.message(11, wire.number(9, 3) + wire.number(11, 1) + named)
    file.write_bytes(wire.message(1, wire.number(8, 5) + event_))
    (one,) = read_trace(file).instants()
    assert (one.channel, one.label, one.args) == ("app", "mark", {"key": "value"})


def test_what_is_damaged_is_counted_and_ends_no_reader(making):
    data, file = bytearray(full(making)), making.path.with_suffix(".pftrace")
    whole, ends = read_trace(file).events, [end for _, end in whole_packets(bytes(data))]
    file.write_bytes(data + bytes(65536))
    trace = read_trace(file)
    assert (trace.events, trace.torn_bytes, trace.tail_bytes) == (whole, 65536, 65536)
    middle = ends[len(ends) // 2]
    file.write_bytes(data[:middle] + b"\xff" * 9 + data[middle:])
    trace = read_trace(file)
    assert (0 < trace.events < whole, trace.tail_bytes) == (True, 0)
    assert trace.torn_bytes == len(data) - middle + 9
    file.write_bytes(data + wire.message(1, wire.number(11, 5)) + wire.message(1, b"j\1x"))
    trace = read_trace(file)
    assert (trace.events, trace.broken_packets) == (whole, 2), "wrong kinds of fields"
    chosen = random.Random(4)
    for _ in range(40):
        file.write_bytes(spoilt(data, chosen, 20))
        assert read_trace(file).events <= whole
