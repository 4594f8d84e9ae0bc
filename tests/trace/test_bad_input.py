"""Labels, arguments and values of any kind: the script never notices, the trace stays sound."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from overseer.trace import channel, channels, open_trace
from overseer.trace.describe import annotation, described
from overseer.trace.recorder import recorder

from .conftest import Tracing
from .processor import Processor

Begin = Callable[..., Tracing]


class Hostile:
    """Raises whatever is asked of it."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__

    def __float__(self) -> float:
        raise RuntimeError("no")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def cyclic() -> list[Any]:
    found: list[Any] = [1]
    found.append(found)
    return found


def deep() -> list[Any]:
    found: list[Any] = []
    for _ in range(100_000):
        found = [found]
    return found


VALUES = {
    "none": None,
    "nan": math.nan,
    "infinity": -math.inf,
    "large": 1 << 64,
    "huge": 10**6000,
    "long": "x" * 10_000_000,
    "surrogates": "\ud800 \udfff",
    "nul": "a\0b\x1b[2J",
    "bytes": b"\xff\0",
    "cyclic": cyclic(),
    "deep": deep(),
    "hostile": Hostile(),
    "type": Hostile,
    "decimal": Decimal("1.5"),
    "many": list(range(100_000)),
}


@pytest.mark.parametrize("name", VALUES)
def test_any_label_argument_and_value(name: str, tracing: Begin, processor: Processor) -> None:
    value = VALUES[name]
    trace = tracing()
    app = channel("app")
    with app.span(value, value=value):
        app.instant(value, value=value)
        app.begin(value)
        app.end(value)
    app.counter(value, "x" * 1000).add(value)
    channel(value).instant("now")
    data = trace.end()
    assert len(data) < 20_000
    read = open_trace(trace.path)
    assert sum(1 for _ in read.slices()) == 2
    assert read.unfinished == 0
    processor.load(data)
    assert (processor.error, processor.errors()) == ("", {})
    assert processor.query("select count(*) as n from slice where dur > 0") == [{"n": 2}]
    assert trace.problems == []


def test_tensors_are_described_and_not_kept(tracing: Begin) -> None:
    torch = pytest.importorskip("torch")
    trace = tracing()
    app = channel("app")
    batch, loss = torch.zeros(4, 3), torch.tensor(0.5, requires_grad=True)
    loss_of_step = loss * 2
    with app.span("step", batch=batch, loss=loss_of_step, scalar=torch.tensor(3)):
        app.counter("Loss").add(loss_of_step)
    with torch.no_grad():
        loss.fill_(9.0)
    app.counter("Loss").add(batch)
    app.counter("Loss").add(torch.zeros(1, device="meta"))
    trace.end()
    read = open_trace(trace.path)
    (step,) = read.slices()
    assert step.args == {"batch": "Tensor[4, 3] float32", "loss": 1.0, "scalar": 3}
    assert read.counters["Loss"].values == [1.0]
    assert sum(one.label == "Loss: no number" for one in read.instants()) == 2


def test_what_holds_much_is_described_without_looking_at_all_of_it() -> None:
    torch = pytest.importorskip("torch")
    looked = 0

    class Counting:
        def __repr__(self) -> str:
            nonlocal looked
            looked += 1
            return "x"

    value: Any = Counting()
    for _ in range(4):
        value = [value] * 20
    assert len(described(value)) <= 1000
    assert looked <= 200
    assert described([torch.zeros(2), b"x" * 500]).startswith("[Tensor[2] float32, b'xxx")
    assert len(described([b"x" * 500])) < 200
    assert len(described(b"x" * 500)) < 200


def test_long_texts_are_not_kept_until_they_are_written(tracing: Begin) -> None:
    tracing()
    app, text = channel("app"), "x" * 100_000
    with app.span(text, value=text):
        app.instant(text, value=text)
    app.begin(text, value=text)
    app.end(text)
    kept = str(recorder._buffer)
    assert "xxx" in kept
    assert len(kept) < 10_000


def test_no_more_arguments_than_some(tracing: Begin) -> None:
    trace = tracing()
    channel("app").instant("now", **{f"key {number}": number for number in range(1000)})
    trace.end()
    (instant,) = (one for one in open_trace(trace.path).instants() if one.channel == "app")
    assert list(instant.args) == [f"key {number}" for number in range(64)]


def test_units_and_series_of_any_type(tracing: Begin, processor: Processor) -> None:
    trace = tracing()
    for value in VALUES.values():
        counter = channel("app").counter(f"counter of {type(value).__name__}", value)  # type: ignore[arg-type]
        counter.series(value).add(1)
    processor.load(trace.end())
    assert (processor.error, processor.errors(), trace.problems) == ("", {}, [])
    assert trace.writer.dropped == 0


def test_a_record_that_makes_no_sense_does_not_take_others_along(
    tracing: Begin, processor: Processor
) -> None:
    from overseer.trace.recorder import BEGIN, END, INSTANT
    from overseer.trace.tracks import Track

    trace, app, row = tracing(), channel("app"), Track("row")
    with app.span("outer"):
        app.at("no time", INSTANT, row, "x")  # type: ignore[arg-type]
        app.at(1, BEGIN, row, 3.5)
        app.at(2, END, row, 3.5)
        with app.span("inner"):
            pass
    processor.load(trace.end())
    assert (processor.error, processor.errors()) == ("", {})
    read = open_trace(trace.path)
    assert [one.label for one in read.slices()] == ["outer", "inner"]
    assert (read.dropped, trace.writer.dropped) == (2, 2)


def test_any_values_make_a_histogram(tracing: Begin) -> None:
    numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    trace = tracing()
    norms = channel("app").histogram("norms", [0, 1, math.nan, 1, 2])
    for values in (numpy.full((2, 2), 0.5), torch.tensor(1.5), torch.ones(3, requires_grad=True)):
        norms.add(values)
    for odd in (*VALUES.values(), {"a": 1}, [0.5, None, "x"]):
        norms.add(odd)
    channel("app").histogram("near", [1.00000001, 1.00000002]).add([1.0, 1.000000015, 2.0, 3.0])
    trace.end()
    counters = open_trace(trace.path).counters
    assert counters["norms: [0, 1)"].values[0] == 4
    assert counters["norms: [1, 2)"].values[1:3] == [1, 3]
    assert len(counters["norms: below 0"].values) == 3 + len(VALUES) + 2
    near = [one.values for name, one in counters.items() if name.startswith("near")]
    assert near == [[1.0], [1.0], [2.0]]


def test_numbers_of_numpy_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    assert described(numpy.int64(3)) == 3
    assert described(numpy.float32(0.5)) == 0.5
    assert described(numpy.zeros((2, 3))) == "ndarray[2, 3] float64"


def test_a_value_that_is_no_number_is_marked_beside_the_graph(tracing: Begin) -> None:
    trace = tracing()
    loss = channel("app").counter("Loss")
    for value in (1.0, math.nan, math.inf, "three", 2.0):
        loss.add(value)
    trace.end()
    read = open_trace(trace.path)
    assert read.counters["Loss"].values == [1.0, 2.0]
    marks = [one.label for one in read.instants() if one.channel == "app"]
    assert marks == ["Loss: nan", "Loss: inf", "Loss: no number"]


def test_every_annotation_has_a_kind_that_perfetto_knows() -> None:
    messages = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")

    def kind(value: object) -> Any:
        parsed = messages.DebugAnnotation.FromString(annotation(value))
        return parsed.WhichOneof("value"), getattr(parsed, parsed.WhichOneof("value"))

    assert kind(True) == ("bool_value", True)
    assert kind(-(1 << 63)) == ("int_value", -(1 << 63))
    assert kind(1 << 63) == ("string_value", str(1 << 63))
    assert kind(0.5) == ("double_value", 0.5)
    assert kind("\ud800") == ("string_value", "\\ud800")
    assert kind(None) == ("string_value", "None")


def test_a_million_labels_take_no_more_memory_than_some(tracing: Begin) -> None:
    trace = tracing(most=1 << 20)
    app = channel("app")
    for number in range(60_000):
        app.instant(f"label {number}")
        if number % 5000 == 0:
            trace.flush()
    trace.end()
    assert len(trace.writer._encoder._strings) < 30_000
    assert trace.path.stat().st_size <= 1 << 20


def test_channels_without_number_share_one(tracing: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overseer.trace.emit.CHANNELS", 100)
    trace = tracing()
    for number in range(1000):
        channel(f"channel {number}").instant("here")
    assert len(channels()) == 101
    trace.end()
    found = [one.channel for one in open_trace(trace.path).instants()]
    assert found.count("(other channels)") == 900


def test_series_without_number_share_one(tracing: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overseer.trace.emit.SERIES", 10)
    trace = tracing()
    app = channel("app")
    for number in range(100):
        app.counter(f"counter {number}").add(number)
        app.counter("one").series(f"series {number}").add(number)
    trace.end()
    assert len(open_trace(trace.path).counters) <= 25


def test_time_that_runs_backwards_is_put_in_order(tracing: Begin, processor: Processor) -> None:
    from overseer.trace.recorder import INSTANT
    from overseer.trace.tracks import Track

    trace = tracing()
    row = Track("row")
    for time in (1000, 10, -(10**19), 10**19, 500):
        channel("app").at(time, INSTANT, row, f"at {time}")
    data = trace.end()
    assert sum(one.channel == "app" for one in open_trace(trace.path).instants()) == 5
    assert processor.load(data).error == ""


def test_nothing_is_recorded_when_no_trace_is_written() -> None:
    app = channel("app")
    with app.span("a"), app.span("b", x=1) as span:
        app.instant("now")
        app.counter("Loss").add(1)
        app.begin("c")
        app.end("c")
    assert span is not None
    assert not app.recording
    assert recorder.take() == []
