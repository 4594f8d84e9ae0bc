"""What is recorded is what Perfetto reads back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from overseer.trace import channel, open_trace

from .conftest import Tracing
from .processor import Processor

Begin = Callable[..., Tracing]


def rows(processor: Processor, data: bytes, sql: str) -> list[dict[str, Any]]:
    found = processor.load(data).query(sql)
    assert processor.error == ""
    assert processor.errors() == {}
    return found


def test_spans_nest_and_keep_their_arguments(tracing: Begin, processor: Processor) -> None:
    trace = tracing()
    app = channel("app")
    with app.span("epoch", number=3, rate=0.5, name="é", last=False), app.span("step"):
        pass
    found = rows(
        processor,
        trace.end(),
        "select s.name, s.category, p.name as parent, s.arg_set_id from slice s "
        "left join slice p on s.parent_id = p.id where s.category = 'app' order by s.ts",
    )
    assert [(r["name"], r["category"], r["parent"]) for r in found] == [
        ("epoch", "app", None),
        ("step", "app", "epoch"),
    ]
    arguments = processor.query(
        f"select key, display_value from args where arg_set_id = {found[0]['arg_set_id']}"
    )
    assert {r["key"]: r["display_value"] for r in arguments} == {
        "debug.number": "3",
        "debug.rate": "0.5",
        "debug.name": "é",
        "debug.last": "false",
    }


def test_counters_have_units_and_values(tracing: Begin, processor: Processor) -> None:
    trace = tracing()
    loss = channel("app").counter("Loss", "nats")
    for value in (3, 2.5, -1):
        loss.add(value)
    sql = "select t.name, t.unit, c.value from counter c join counter_track t on c.track_id = t.id"
    found = rows(processor, trace.end(), sql + " order by c.ts")
    assert [(r["name"], r["unit"], r["value"]) for r in found] == [
        ("Loss", "nats", 3.0),
        ("Loss", "nats", 2.5),
        ("Loss", "nats", -1.0),
    ]


def test_threads_have_their_names(tracing: Begin, processor: Processor) -> None:
    trace = tracing()
    app = channel("app")

    def work() -> None:
        with app.span("work"):
            pass

    thread = threading.Thread(target=work, name="loader 7")
    with app.span("main"):
        thread.start()
        thread.join()
    sql = (
        "select s.name, thread.name as thread from slice s "
        "join thread_track t on s.track_id = t.id join thread using (utid) order by s.ts"
    )
    found = rows(processor, trace.end(), sql)
    assert [tuple(r.values()) for r in found] == [("main", "MainThread"), ("work", "loader 7")]


def test_threads_may_change_their_names(tracing: Begin, processor: Processor) -> None:
    trace, app = tracing(), channel("app")

    def work() -> None:
        for name in ("before", "between", "after ✓"):
            threading.current_thread().name = name
            with app.span(name):
                pass
            trace.flush()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    processor.load(trace.end())
    threads = processor.query("select t.name from thread_track k join thread t using (utid)")
    assert threads == [{"name": "after ✓"}]
    (row,) = (one for one in open_trace(trace.path).threads if one.slices)
    assert (row.name, [one.label for one in row.slices]) == (
        "after ✓",
        ["before", "between", "after ✓"],
    )


def test_instants_and_histograms(tracing: Begin, processor: Processor) -> None:
    trace = tracing()
    app = channel("app")
    app.instant("Epoch 1 begin", epoch=1)
    app.histogram("norms", [0, 1, 2]).add([0.5, 0.6, 1.5, 9, float("nan")])
    data = trace.end()
    found = rows(processor, data, "select name, dur from slice where category = 'app'")
    assert found == [{"name": "Epoch 1 begin", "dur": 0}]
    sql = "select t.name, value from counter join counter_track t on track_id = t.id"
    assert {r["name"]: r["value"] for r in processor.query(sql)} == {
        "norms: below 0": 0.0,
        "norms: [0, 1)": 2.0,
        "norms: [1, 2)": 1.0,
        "norms: from 2": 1.0,
    }


def test_a_trace_is_the_same_before_it_is_sealed(tracing: Begin, processor: Processor) -> None:
    trace = tracing()
    app = channel("app")
    for number in range(50):
        with app.span(f"step {number}"):
            app.counter("Loss").add(number)
    plain = trace.flush().path.read_bytes()
    sql = "select ts, dur, name from slice order by ts"
    before = rows(processor, plain, sql)
    sealed = trace.end()
    assert rows(processor, sealed, sql) == before
    assert len(before) == 51
    assert len(sealed) < len(plain) / 2


def test_the_schema_is_perfettos(tracing: Begin) -> None:
    messages = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = tracing()
    app = channel("app")
    with app.span("epoch", number=-1, x=1e300, text="a", other=None):
        app.instant("now")
        app.counter("Loss", "nats").add(0.25)
    parsed = messages.Trace.FromString(trace.flush().path.read_bytes())
    unknown = [packet for packet in parsed.packet if packet.ByteSize() == 0]
    assert unknown == []
    assert not _unknown(parsed)
    kinds = [p.track_event.type for p in parsed.packet if p.HasField("track_event")]
    assert kinds == [3, 1, 3, 4, 2]  # The first tells how the clocks relate.
    assert all(p.timestamp > 1 << 56 for p in parsed.packet if p.HasField("track_event"))
    units = [p.track_descriptor.counter.unit_name for p in parsed.packet]
    assert "nats" in units


def _unknown(message: Any) -> list[str]:
    """Fields that the schema does not have, anywhere in ``message``."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    found = [str(f.field_number) for f in UnknownFieldSet(message)]
    for descriptor, value in message.ListFields():
        if descriptor.type == descriptor.TYPE_MESSAGE:
            many = value if descriptor.is_repeated else [value]
            found += [f"{descriptor.name}.{name}" for one in many for name in _unknown(one)]
    return found


def test_our_reader_finds_what_perfetto_finds(tracing: Begin, processor: Processor) -> None:
    trace = tracing()
    app = channel("app")
    for number in range(20):
        with app.span("epoch", number=number):
            for _ in range(number):
                with app.span("step"):
                    pass
            app.counter("Loss").add(number / 2)
    data = trace.end()
    theirs = rows(processor, data, "select ts, dur, name, depth from slice order by ts, depth")
    read = open_trace(trace.path)
    spans = [(s.start, s.duration, s.label, d) for t in read.threads for d, s in t.walk()]
    marks = [(s.start, 0, s.label, 0) for s in read.instants()]
    assert sorted(spans + marks) == sorted(tuple(r.values()) for r in theirs)
    assert read.counters["Loss"].values == [number / 2 for number in range(20)]
    assert [s.args for s in read.slices() if s.label == "epoch"][3] == {"number": 3}
    assert {s.channel for s in read.slices()} == {"app"}
    assert read.events == len(spans) * 2 + 20
