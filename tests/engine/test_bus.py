"""Each event reaches each subscriber once, at once, from any thread."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from overseer.boundary import OverseerAbort, StopProgram, acting
from overseer.engine.bus import MAX_KEY_SETS, Bus, inherited_keys
from overseer.engine.probe import Probe
from overseer.errors import Problem
from overseer.probes import PlacedProbe
from overseer.probes.selector import read
from overseer.recorder import log, recorder, table
from overseer.recorder import sites as k

Event = dict[str, Any]


class Stream(Bus):
    """A stream that keeps what it reports."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        super().__init__(self.problems.append)


@pytest.fixture
def stream() -> Stream:
    return Stream()


@pytest.fixture
def seen() -> list[Event]:
    return []


def raising(error: BaseException) -> Callable[..., object]:
    def fail(*event: Event) -> None:
        raise error

    return fail


def in_threads(*functions: Callable[[], object]) -> None:
    """Call each function on a thread of its own, all at once."""
    threads = [threading.Thread(target=function, daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)


def locked(free: list[bool]) -> Callable[..., object]:
    """Notes whether another thread could deliver now."""

    def note() -> None:
        free.append(Bus.lock.acquire(blocking=False))
        if free[-1]:
            Bus.lock.release()

    return lambda *event: in_threads(note)


# Delivery


def test_an_event_is_delivered_at_once_to_subscribers_of_its_keys_in_their_order(
    stream: Stream,
) -> None:
    heard: list[tuple[str, Event]] = []
    first, second, third = {"step": 1}, {"batch": 2}, {"batch": 3, "step": 4, "x": 5}
    stream.push(first)
    for name, keys in (("all", ()), ("both", ("step", "batch")), ("also", ("step",))):
        stream.listen(lambda event, name=name: heard.append((name, event)), *keys)  # type: ignore[misc]
    stream.push(second)
    assert heard == [("all", second)]
    stream.push(third)
    assert heard[1:] == [("all", third), ("both", third), ("also", third)]
    assert stream.events == 3


def test_what_a_subscriber_gives_is_delivered_within(stream: Stream, seen: list[Event]) -> None:
    stream.listen(lambda event: stream.push({"twice": 2 * event["x"]}), "x")
    stream.listen(seen.append)
    stream.push({"x": 1})
    assert seen == [{"twice": 2}, {"x": 1}]


def test_threads_deliver_each_on_itself(stream: Stream) -> None:
    heard: list[int] = []
    stream.listen(lambda event: heard.append(threading.get_ident()))

    def push() -> None:
        for number in range(200):
            stream.push({"i": number})

    in_threads(push, push, push, push)
    assert (len(heard), stream.events) == (800, 800)
    assert threading.get_ident() not in heard


def test_while_a_subscriber_runs_no_other_thread_can_deliver(stream: Stream) -> None:
    free: list[bool] = []
    stream.listen(locked(free))
    stream.push({})
    assert free == [False]


def test_more_combinations_of_keys_than_are_remembered_are_still_delivered(
    stream: Stream, seen: list[Event]
) -> None:
    stream.listen(seen.append, "x")
    for number in range(MAX_KEY_SETS + 10):
        stream.push({"x": 1, f"key {number}": 1})
    assert len(seen) == MAX_KEY_SETS + 10
    assert len(stream._by_keys) == MAX_KEY_SETS


def test_two_streams_that_push_into_each_other_do_not_wait_for_each_other() -> None:
    there, back, both = Stream(), Stream(), threading.Barrier(2)
    there.listen(lambda event: back.push({"second": 1}), "first")
    back.listen(lambda event: there.push({"second": 1}), "first")

    def push(stream: Stream) -> None:
        for _ in range(300):
            both.wait(10)
            stream.push({"first": 1})

    in_threads(lambda: push(there), lambda: push(back))
    assert (there.events, back.events) == (600, 600)


def test_a_subscriber_that_has_left_hears_nothing_more(stream: Stream, seen: list[Event]) -> None:
    def once(event: Event) -> None:
        seen.append(event)
        own.dispose()
        other.dispose()

    own, other = stream.listen(once), stream.listen(raising(AssertionError()))
    last = stream.listen(seen.append)
    stream.push({"x": 1})
    assert seen == [{"x": 1}] * 2
    last.dispose()
    last.dispose()
    stream.push({"x": 2})
    stream.listen(seen.append)
    stream.clear()
    stream.push({"x": 3})
    assert seen == [{"x": 1}] * 2
    assert (stream.subscriptions, stream.problems) == ((), [])


# Failures, and the end


def test_a_subscriber_that_fails_is_reported_once_and_the_others_go_on(
    stream: Stream, seen: list[Event]
) -> None:
    def bad(event: Event) -> None:
        raise ValueError("no")

    with acting("instrument_x"):
        stream.listen(bad)
    stream.listen(bad, completed=lambda: seen.append({"end": 1}))
    stream.listen(seen.append)
    stream.push({"x": 1})
    stream.push({"x": 2})
    stream.complete()
    assert seen == [{"x": 1}, {"x": 2}]
    what, line = "a subscriber failed: ValueError: no", bad.__code__.co_firstlineno + 1
    found = [(p.who, p.what, p.where) for p in stream.problems]
    assert found == [(who, what, f"{__file__}:{line}") for who in ("instrument_x", "bad")]


@pytest.mark.parametrize("kind", [StopProgram, OverseerAbort, KeyboardInterrupt])
def test_a_wish_is_raised_once_the_others_have_had_the_event_and_have_ended(
    stream: Stream, seen: list[Event], kind: type[BaseException]
) -> None:
    for word in ("first", "second"):
        error = kind(word)
        stream.listen(raising(error), completed=raising(error))
    stream.listen(seen.append, completed=lambda: seen.append({"end": 1}))
    with pytest.raises(kind, match="first"):
        stream.push({"x": 1})
    with pytest.raises(kind, match="first"):
        stream.complete()
    assert (seen, stream.problems, stream.closed) == ([{"x": 1}, {"end": 1}], [], True)
    free: list[bool] = []
    locked(free)()
    assert free == [True]


def test_at_the_end_each_is_told_once_and_what_it_gives_is_delivered(
    stream: Stream, seen: list[Event]
) -> None:
    stream.listen(lambda event: None, who="x", completed=raising(ValueError("no")))
    stream.listen(lambda event: None, completed=lambda: stream.push({"total": 3}))
    stream.listen(seen.append)
    stream.complete()
    stream.complete()
    assert seen == [{"total": 3}]
    (problem,) = stream.problems
    assert (problem.slug, problem.who) == ("reduction", "x")
    assert problem.what == "a reduction failed at the end: ValueError: no"


# Forks


def child(fn: Callable[[], object]) -> object:
    """Whether ``fn`` is true in a child that is forked here; one that hangs is killed."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        try:
            os._exit(0 if fn() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_the_child_is_silent_also_one_of_a_subscriber(stream: Stream, seen: list[Event]) -> None:
    def silent() -> bool:
        before = list(seen)
        stream.push({"x": 1})
        stream.complete()
        return seen == before and stream.subscriptions == ()

    children: list[object] = []
    stream.listen(lambda event: children.append(child(silent)))
    stream.listen(seen.append, completed=lambda: seen.append({"end": 1}))
    assert child(silent)
    stream.push({"x": 2})
    assert (children, seen) == ([True], [{"x": 2}])


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_the_child_can_give_though_another_thread_held_the_lock(stream: Stream) -> None:
    held, enough = threading.Event(), threading.Event()

    def hold() -> None:
        with Bus.lock:
            held.set()
            enough.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(20)

    def give() -> bool:
        stream.push({"x": 1})
        return True

    try:
        assert child(give)
    finally:
        enough.set()
        thread.join()


# What is recorded


@pytest.mark.parametrize(
    ("wrap", "said"),
    [
        (3, "TypeError: 'int' object is not subscriptable"),
        ({"step": "end"}, "it has no 'name'"),
        ({"name": "step"}, "it has no 'step'"),
        ({"name": "step", "step": "end", "id": []}, "TypeError: unhashable type: 'list'"),
    ],
)
def test_a_pair_that_nobody_can_read_is_left_out_and_reported_once(
    seen: list[Event], wrap: object, said: str
) -> None:
    problems: list[Problem] = []
    bus = Bus(problems.append, records=True)
    bus.listen(seen.append)
    for _ in range(2):
        bus.give({"$wrap": wrap, "x": 1})
        bus.push({"$wrap": wrap, "x": 1})
    bus.push({"x": 2})
    assert [said in problem.what for problem in problems] == [True]
    assert seen == [{"x": 2}]


@pytest.fixture
def bus() -> Iterator[Bus]:
    recorder.open(256, 256)
    yield Bus(lambda problem: None, records=True)
    recorder.close()


def recorded(ring: int = 0) -> list[tuple[int, object, object]]:
    """Of each event in a ring the kind, the task and the value."""
    events = [event for event in log.events(recorder.drain(ring, 0)[0]) if event.site]
    rows = [(table.rows[event.site], event.value) for event in events]
    return [(row["kind"], row.get("task"), None if v != v else v) for row, v in rows]


def test_the_stock_numbers_of_events_are_recorded_whoever_subscribes(bus: Bus) -> None:
    bus.give({"step": 1, "batch": [1, 2, 3]})
    bus.give({"step": True, "batch_size": 4, "loss": 0.5})
    bus.give({"loss": 0.25, "task": "eval"})
    bus.give({"loss": 1, "task": "train"})
    bus.give({"batch": [1]})
    for event in ({"accuracy": 0.5}, {"options": object()}, {"size": 3}):
        bus.give(event)
    assert recorded() == [
        (k.STEP, None, 3.0),
        (k.LOSS, None, 0.5),
        (k.STEP, None, 4.0),
        (k.LOSS, "eval", 0.25),
        (k.LOSS, "train", 1.0),
        (k.BATCH, None, 1.0),
    ]
    assert recorded(1) == [(k.VALUE, None, 0.5), (k.VALUE, None, None), (k.VALUE, None, 3.0)]


def test_pairs_are_recorded_by_their_names(bus: Bus) -> None:
    for name in ("step", "loading", "pause", "epoch"):
        for step in ("begin", "end"):
            bus.give({"$wrap": {"name": name, "step": step, "id": 1}, "batch": [1, 2]})
    begun = k.PAIR_BEGINS, k.PAIR, k.LOADING_BEGINS, k.LOADING, k.PAUSE_BEGINS, k.PAUSE
    assert [kind for kind, *_ in recorded()] == [*begun]
    assert [kind for kind, *_ in recorded(1)] == [k.SPAN]


def test_inherited_keys_are_part_of_an_event(bus: Bus, seen: list[Event]) -> None:
    bus.listen(seen.append)
    token = inherited_keys.set({"task": "eval"})
    bus.give({"loss": 1})
    bus.enable_inheritance()
    bus.give({"loss": 2})
    inherited_keys.reset(token)
    assert seen == [{"loss": 1}, {"task": "eval", "loss": 2}]


def test_of_a_given_probe_s_events_only_those_that_somebody_wants_call_python(
    stream: Stream, seen: list[Event]
) -> None:
    sampled: list[tuple[object, int]] = []
    stream.samplers.append(lambda event, n: sampled.append((event["loss"], n)))
    placed = PlacedProbe(read("//f > loss"), stream.report)
    (site,) = placed.sites
    Probe(placed, stream, stream.report).give()
    stream.listen(seen.append, "rate")
    for n in range(200):
        site.event(n)
    assert sampled == [(n, n + 1) for n in range(100)]
    stream.sample()
    site.event(200)
    site.event(201)
    assert sampled[100:] == [(200, 201)]
    subscription = stream.listen(seen.append, "loss")
    site.event(1)
    subscription.dispose()
    site.event(2)
    assert seen == [{"loss": 1}]
