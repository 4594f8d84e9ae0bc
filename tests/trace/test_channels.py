"""What a script records by channels, read back."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from contextlib import ExitStack

import pytest

from overseer.recorder import recorder, table
from overseer.recorder.choice import null_span
from overseer.recorder.values import values
from overseer.trace import channel, channels


def tree(trace, row="MainThread"):
    """The spans of a row, those within others indented."""
    threads = [thread for thread in trace.threads if thread.name == row]
    return [" " * depth + one.label for each in threads for depth, one in each.walk()]


def test_spans_lie_within_each_other_with_what_they_were_given(tracing):
    begun, app = tracing(), channel("app")
    with app.span("outer"), app.span("inner", size=3, name="x"):
        app.instant("mark", at=1.5)
        app.instant("mark")
    app.begin("by hand", left=True)
    app.begin("inside")
    app.end("by hand")
    with pytest.raises(KeyError), app.span("fails"):
        raise KeyError
    app.begin("open")
    app.end("another")
    trace = begun.end()
    assert tree(trace) == ["outer", " inner", "by hand", " inside", "fails", "open"]
    assert {one.label: one.args for one in trace.slices() if one.args} == {
        "inner": {"size": 3, "name": "x"}, "by hand": {"left": True}, "fails": {"failed": True},
        "open": {"unfinished": True},
    }  # fmt: skip
    marks = [(one.label, one.channel, one.args) for one in trace.instants() if one.args]
    assert ("mark", "app", {"at": 1.5}) in marks
    assert (trace.events, trace.unfinished) == (2 * 6 + 2, 0)


def test_arguments_are_described_in_a_few_words(tracing):
    numpy = pytest.importorskip("numpy")

    class Odd:
        def __repr__(self):
            raise RuntimeError

    described = [
        (True, True),
        (-(1 << 63), -(1 << 63)),
        (1 << 70, str(1 << 70)),
        (10**2000, "<integer of 6644 bits>"),
        (0.25, 0.25),
        (float("inf"), float("inf")),
        (None, "None"),
        ("x" * 2000, "x" * 999 + "…"),
        ("\udc80", "\\udc80"),
        ([1, [2, {"a": (3,)}]], '[1, [2, {"a": [3]}]]'),
        (b"\xff" * 500, '{"bytes": 500, "starts": "' + "ff" * 32 + '"}'),
        (numpy.zeros((3, 4)), '{"shape": [3, 4], "dtype": "float64"}'),
        (numpy.float32(2), 2.0),
    ]
    begun, app = tracing(), channel("app")
    for value in [*(value for value, _ in described), Odd()]:
        with app.span("one", value=value):
            pass
    *found, odd = [one.args["value"] for one in begun.end().slices()]
    assert found == [shown for _, shown in described]
    assert odd.startswith("<Odd")


def test_labels_and_arguments_without_end_are_cut_and_counted(tracing):
    begun, app = tracing(), channel("app")
    sites = len(table.rows)
    for number in range(1200):
        with app.span(f"label {number}"):
            app.instant(f"mark {number}")
    with app.span("L" * 300, **{f"key {n}": "v" * 900 for n in range(100)}):
        pass
    assert len(table.rows) - sites <= 2 * 1000 + 3
    trace = begun.end()
    *labels, last = [one.label for one in trace.slices()]
    assert (labels, last) == ([f"label {number}" for number in range(1200)], "L" * 199 + "…")
    assert [one.label for one in trace.instants()][1:] == [f"mark {n}" for n in range(1200)]
    (wide,) = (one.args for one in trace.slices() if one.args)
    assert (len(wide), wide["..."]) == (5, "96 more")


def test_counters_series_and_histograms_are_graphs(tracing):
    torch = pytest.importorskip("torch")
    values.know(torch)
    begun, app = tracing(), channel("app")
    loss = app.counter("loss", "nats")
    assert app.counter("loss") is loss
    for value in (1, 0.5, float("nan"), torch.tensor(1.5, requires_grad=True)):
        loss.add(value)
    for value in (2, float("nan")):
        loss.series("validation").add(value)
    app.histogram("norms", [0, 1, 10]).add([-1, 0.5, 0.7, 10, float("nan")])
    trace = begun.end()
    assert trace.counters["loss"].unit == "nats"
    assert {name: one.values for name, one in trace.counters.items()} == {
        "loss": [1, 0.5, 1.5], "loss: validation": [2], "norms: below 0": [1],
        "norms: [0, 1)": [2], "norms: [1, 10)": [0], "norms: from 10": [1],
    }  # fmt: skip
    assert {"loss: nan", "loss: validation: nan"} <= {one.label for one in trace.instants()}


def test_only_channels_that_are_wanted_record(tracing):
    begun = tracing("a*", "chosen")
    for name in ("apple", "berry", "chosen"):
        channel(name).instant(name)
    channel("berry").enable()
    channel("berry").instant("enabled")
    channel("apple").disable()
    channel("apple").instant("disabled")
    assert channel("apple").span("x") is null_span
    assert [(one.name, one.recording) for one in channels()] == [
        ("apple", False), ("berry", True), ("chosen", True),
    ]  # fmt: skip
    marks = [one.label for one in begun.end().instants()][1:]
    assert marks == ["apple", "chosen", "enabled"]


def test_nothing_is_made_while_nothing_is_traced():
    app = channel("idle")
    assert app.span("x", size=3) is null_span
    assert app.span("x")(tree) is tree
    with app.span("x"):
        app.instant("x")
        app.begin("x")
        app.end("x")
        app.counter("x").add(object())
    app.instrument(tree, "__call__")
    assert not app.recording


# Functions and methods


def test_methods_stay_what_they_are(tracing):
    class Model:
        def forward(self, x=1):
            return x

        static, made = staticmethod(lambda: 2), classmethod(lambda cls: 3)
        size, cached = property(lambda self: 4), functools.cached_property(lambda self: 5)

    begun, app, one, other = tracing(), channel("app"), Model(), Model()
    app.instrument(other, ["forward", "__call__", "size"])
    assert (other.forward(8), one.forward()) == (8, 1)
    app.instrument(Model, ["static", "made", "forward", "size", "cached", "absent"])
    assert (one.forward(7), Model.static(), one.static(), Model.made()) == (7, 2, 2, 3)
    trace = begun.end()
    called = ("forward", "static", "static", "made")
    assert tree(trace) == ["Model.forward", *(f"Model.{name}" for name in called)]
    refused = [one.label for one in trace.instants()][1:]
    names = ("__call__", "size", "size", "cached", "absent")
    assert refused == [f"not instrumented: Model.{name}" for name in names]


def test_a_decorated_function_stays_what_it_is(tracing):
    begun, app = tracing(), channel("app")

    @app.span("plain")
    def plain(x):
        """Doubles."""
        return 2 * x

    @app.span("turns")
    def turns():
        yield (yield 1)

    @app.span("waits")
    async def waits():
        return 3

    @app.span("asynchronous")
    async def asynchronous():
        yield 1

    thing = app.span("class")(type("Thing", (), {"__init__": lambda self: None}))
    assert (plain(2), plain.__doc__, plain.__name__) == (4, "Doubles.", "plain")
    generator = turns()
    assert (next(generator), generator.send(7), list(generator)) == (1, 7, [])
    assert (asyncio.run(waits()), type(thing()), type(thing)) == (3, thing, type)
    assert inspect.isgeneratorfunction(turns)
    assert inspect.iscoroutinefunction(waits)
    assert inspect.isasyncgenfunction(asynchronous)
    trace = begun.end()
    assert tree(trace) == ["plain", "turns", "turns", "turns", "waits", "class"]
    assert "not instrumented: asynchronous" in [one.label for one in trace.instants()]


def test_tasks_that_take_turns_have_rows_of_their_own(tracing):
    begun, app = tracing(), channel("app")
    recorder.tasks(asyncio._get_running_loop, asyncio.current_task)

    async def one(n, until, then):
        with app.span(f"task {n}"):
            await until.wait()
            then.set()

    async def main():
        events = [asyncio.Event() for _ in range(4)]
        waiting = asyncio.gather(*(one(n, events[n], events[n + 1]) for n in range(3)))
        await asyncio.sleep(0)
        events[0].set()
        await waiting

    asyncio.run(main())
    rows = {each.name: [one.label for one in each.slices] for each in begun.end().threads}
    assert rows["MainThread"] == ["task 0"]
    assert sorted(rows[name][0] for name in rows if "(" in name) == ["task 1", "task 2"]


def test_threads_have_rows_by_their_names_and_two_for_very_many_spans_within_each_other(tracing):
    begun, ready, done = tracing(), threading.Event(), threading.Event()

    def work():
        with ExitStack() as spans:
            for _ in range(600):  # Perfetto shows 512.
                spans.enter_context(channel("app").span("deep"))
        ready.set()
        done.wait()

    helper = threading.Thread(target=work, name="helper")
    helper.start()
    ready.wait()
    trace = begun.end()
    done.set()
    helper.join()
    depths = {t.name: max(d for d, _ in t.walk()) + 1 for t in trace.threads if t.slices}
    assert depths == {"helper": 500, "helper (2)": 100}
