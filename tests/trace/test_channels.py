"""What a script records by channels, read back."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from overseer.nothing import nothing
from overseer.recorder import table
from overseer.trace import Trace, channel, channels

from .conftest import Tracing

Begin = Callable[..., Tracing]


def tree(trace: Trace, row: str = "MainThread") -> list[str]:
    """The spans of a row, those within others indented."""
    threads = [thread for thread in trace.threads if thread.name == row]
    return [" " * depth + one.label for each in threads for depth, one in each.walk()]


def test_spans_lie_within_each_other_with_what_they_were_given(tracing: Begin) -> None:
    begun, app = tracing(), channel("app")
    with app.span("outer"), app.span("inner", size=3, name="x"):
        app.instant("mark", at=1.5)
        app.instant("mark")
    app.begin("by hand", left=True)
    app.begin("inside")
    app.end("by hand")
    with pytest.raises(KeyError), app.span("fails"):
        raise KeyError
    trace = begun.end()
    assert tree(trace) == ["outer", " inner", "by hand", " inside", "fails"]
    arguments = {one.label: one.args for one in trace.slices()}
    assert arguments["inner"] == {"size": 3, "name": "x"}
    assert (arguments["by hand"], arguments["fails"]) == ({"left": True}, {"failed": True})
    marks = [(one.label, one.channel, one.args) for one in trace.instants() if one.args]
    assert ("mark", "app", {"at": 1.5}) in marks
    assert trace.events == 2 * 5 + 2
    assert trace.unfinished == 0


def test_a_span_that_nobody_ends_lasts_until_the_end(tracing: Begin) -> None:
    begun = tracing()
    channel("app").begin("open")
    channel("app").end("another")
    (one,) = begun.end().slices()
    assert (one.label, one.args) == ("open", {"unfinished": True})


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, True),
        (-(1 << 63), -(1 << 63)),
        (1 << 70, str(1 << 70)),
        (10**2000, "an integer of 6644 bits"),
        (0.25, 0.25),
        (float("inf"), float("inf")),
        (None, "None"),
        ("x" * 2000, "x" * 999 + "…"),
        ("\udc80", "\\udc80"),
        ([1, [2, {"a": (3,)}]], "[1, [2, {'a': (...)}]]"),
        (b"\0" * 500, repr(b"\0" * 100) + "..."),
    ],
)
def test_arguments_are_described_in_a_few_words(
    tracing: Begin, value: object, shown: object
) -> None:
    begun = tracing()
    with channel("app").span("one", value=value):
        pass
    (one,) = begun.end().slices()
    assert one.args == {"value": shown}


def test_arrays_are_told_by_their_shape_and_somebodys_repr_may_fail(tracing: Begin) -> None:
    numpy = pytest.importorskip("numpy")

    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError

    begun = tracing()
    with channel("app").span("one", array=numpy.zeros((3, 4)), odd=Odd(), scalar=numpy.float32(2)):
        pass
    (one,) = begun.end().slices()
    odd = str(one.args["odd"])
    assert (one.args["array"], one.args["scalar"]) == ("ndarray[3, 4] float64", 2.0)
    assert odd.startswith("<Odd")


def test_labels_and_arguments_without_end_are_cut_and_counted(tracing: Begin) -> None:
    begun, app = tracing(), channel("app")
    sites = len(table.rows)
    for number in range(1200):
        with app.span(f"label {number}"):
            app.instant(f"mark {number}")
    with app.span("L" * 300, **{f"key {n}": "v" * 900 for n in range(100)}):
        pass
    assert len(table.rows) - sites <= 2 * 1000 + 3
    trace = begun.end()
    labels = [one.label for one in trace.slices()]
    assert labels[:-1] == [f"label {number}" for number in range(1200)]
    assert labels[-1] == "L" * 199 + "…"
    assert [one.label for one in trace.instants()][1:] == [f"mark {n}" for n in range(1200)]
    (wide,) = (one.args for one in trace.slices() if one.args)
    assert (len(wide), wide["..."]) == (5, "96 more")


def test_counters_series_and_histograms_are_graphs(tracing: Begin) -> None:
    begun, app = tracing(), channel("app")
    loss = app.counter("loss", "nats")
    assert app.counter("loss") is loss
    for value in (1, 0.5, float("nan")):
        loss.add(value)
        loss.series("validation").add(value * 2)
    app.histogram("norms", [0, 1, 10]).add([-1, 0.5, 0.7, 10, float("nan")])
    trace = begun.end()
    assert (trace.counters["loss"].values, trace.counters["loss"].unit) == ([1, 0.5], "nats")
    assert trace.counters["loss: validation"].values == [2, 1]
    bins = {name: one.values for name, one in trace.counters.items() if name.startswith("norms: ")}
    assert bins == {
        "norms: below 0": [1], "norms: [0, 1)": [2], "norms: [1, 10)": [0], "norms: from 10": [1],
    }  # fmt: skip
    marks = {one.label for one in trace.instants()}
    assert {"loss: nan", "loss: validation: nan"} <= marks


def test_a_tensor_is_a_number_for_a_counter(tracing: Begin) -> None:
    torch = pytest.importorskip("torch")
    from overseer.recorder.values import values

    values.know(torch)
    begun = tracing()
    channel("app").counter("loss").add(torch.tensor(1.5, requires_grad=True))
    assert begun.end().counters["loss"].values == [1.5]


def test_only_channels_that_are_wanted_record(tracing: Begin) -> None:
    begun = tracing("a*", "chosen")
    for name in ("apple", "berry", "chosen"):
        channel(name).instant(name)
    channel("berry").enable()
    channel("berry").instant("enabled")
    channel("apple").disable()
    channel("apple").instant("disabled")
    assert channel("apple").span("x") is nothing
    assert [(one.name, one.recording) for one in channels()] == [
        ("apple", False), ("berry", True), ("chosen", True),
    ]  # fmt: skip
    marks = [one.label for one in begun.end().instants()][1:]
    assert marks == ["apple", "chosen", "enabled"]


def test_nothing_is_made_while_nothing_is_traced() -> None:
    app = channel("idle")

    def function() -> None: ...

    assert app.span("x", size=3) is nothing
    assert app.span("x")(function) is function
    with app.span("x"):
        app.instant("x")
        app.begin("x")
        app.end("x")
        app.counter("x").add(object())
    app.instrument(function, "__call__")
    assert not app.recording


# Functions and methods


class Model:
    def forward(self, x: int = 1) -> int:
        return x

    @staticmethod
    def static() -> int:
        return 2

    @classmethod
    def made(cls) -> int:
        return 3

    @property
    def size(self) -> int:
        return 4

    @functools.cached_property
    def cached(self) -> int:
        return 5


def test_methods_stay_what_they_are(tracing: Begin) -> None:
    class Fresh(Model):
        forward, size, cached = Model.forward, Model.size, Model.cached
        static, made = Model.__dict__["static"], Model.__dict__["made"]

    begun, app, one = tracing(), channel("app"), Fresh()
    names = ["static", "made", "forward", "size", "cached", "absent"]
    app.instrument(Fresh, names)
    assert (one.forward(7), Fresh.static(), one.static(), Fresh.made()) == (7, 2, 2, 3)
    other, second = Model(), Model()
    app.instrument(other, ["forward", "__call__", "size"])
    assert (other.forward(8), second.forward()) == (8, 1)
    trace = begun.end()
    assert tree(trace) == [
        "Fresh.forward", "Fresh.static", "Fresh.static", "Fresh.made", "Model.forward",
    ]  # fmt: skip
    refused = [one.label for one in trace.instants() if one.label.startswith("not instrumented")]
    assert refused == [
        f"not instrumented: {name}"
        for name in ("Fresh.size", "Fresh.cached", "Fresh.absent", "Model.__call__", "Model.size")
    ]


def test_a_decorated_function_stays_what_it_is(tracing: Begin) -> None:
    begun, app = tracing(), channel("app")

    @app.span("plain")
    def plain(x: int) -> int:
        """Doubles."""
        return 2 * x

    @app.span("turns")
    def turns() -> Iterator[int]:
        got = yield 1
        yield got

    @app.span("waits")
    async def waits() -> int:
        return 3

    @app.span("class")
    class Thing:
        def __init__(self, x: int) -> None:
            self.x = x

    @app.span("asynchronous")
    async def asynchronous() -> Any:
        yield 1

    assert (plain(2), plain.__doc__, plain.__name__) == (4, "Doubles.", "plain")
    generator: Any = turns()
    assert (next(generator), generator.send(7)) == (1, 7)
    with pytest.raises(StopIteration):
        next(generator)
    assert asyncio.run(waits()) == 3
    assert (Thing(5).x, isinstance(Thing, type)) == (5, True)
    assert inspect.isgeneratorfunction(turns)
    assert inspect.iscoroutinefunction(waits)
    assert inspect.isasyncgenfunction(asynchronous)
    trace = begun.end()
    assert tree(trace) == ["plain", "turns", "turns", "turns", "waits", "class"]
    assert "not instrumented: asynchronous" in [one.label for one in trace.instants()]


def test_tasks_that_take_turns_have_rows_of_their_own(tracing: Begin) -> None:
    from overseer.recorder import recorder

    begun, app = tracing(), channel("app")
    recorder.tasks(asyncio._get_running_loop, asyncio.current_task)

    async def one(n: int, until: asyncio.Event, then: asyncio.Event) -> None:
        with app.span(f"task {n}"):
            await until.wait()
            then.set()

    async def main() -> None:
        events = [asyncio.Event() for _ in range(4)]
        pairs = [one(n, events[n], events[n + 1]) for n in range(3)]
        waiting = asyncio.gather(*pairs)
        await asyncio.sleep(0)
        events[0].set()
        await waiting

    asyncio.run(main())
    trace = begun.end()
    rows = {thread.name: [one.label for one in thread.slices] for thread in trace.threads}
    assert rows["MainThread"] == ["task 0"]
    assert sorted(rows[name][0] for name in rows if "(" in name) == ["task 1", "task 2"]


def test_threads_have_rows_by_their_names(tracing: Begin) -> None:
    begun, done = tracing(), threading.Event()

    def work() -> None:
        with channel("app").span("work"):
            pass
        ready.set()
        done.wait()

    ready = threading.Event()
    helper = threading.Thread(target=work, name="helper")
    helper.start()
    ready.wait()
    trace = begun.end()
    done.set()
    helper.join()
    assert tree(trace, "helper") == ["work"]


def test_more_spans_within_each_other_than_perfetto_shows_go_beside(tracing: Begin) -> None:
    begun, app = tracing(), channel("app")

    def deeper(n: int) -> None:
        with app.span("deep"):
            if n > 1:
                deeper(n - 1)

    deeper(600)
    trace = begun.end()
    depths = {t.name: max(d for d, _ in t.walk()) + 1 for t in trace.threads if t.slices}
    assert depths == {"MainThread": 500, "MainThread (2)": 100}
