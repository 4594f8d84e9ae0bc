"""Each event reaches each listener once, at once, from any thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from overseer.boundary import OverseerAbort, StopProgram, acting
from overseer.engine.bus import MOST, Bus, keys_in_force
from overseer.engine.probe import Probe
from overseer.errors import Problem
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


def raising(error: BaseException) -> Callable[[Event], object]:
    def fail(event: Event) -> None:
        raise error

    return fail


def unlocked() -> bool:
    """Whether another thread could deliver now."""
    free: bool = Bus.lock.acquire(blocking=False)
    if free:
        Bus.lock.release()
    return free


def in_a_thread(fn: Callable[[], object]) -> None:
    thread = threading.Thread(target=fn)
    thread.start()
    thread.join()


class TestDelivery:
    def test_an_event_is_delivered_once_before_push_returns(
        self, stream: Stream, seen: list[Event]
    ) -> None:
        stream.listen(seen.append)
        stream.push({"x": 1})
        assert seen == [{"x": 1}]
        assert stream.events == 1

    def test_an_event_from_a_thread_is_delivered_at_once_on_it(self, stream: Stream) -> None:
        threads: list[threading.Thread] = []
        stream.listen(lambda event: threads.append(threading.current_thread()))
        in_a_thread(lambda: stream.push({"x": 1}))
        assert len(threads) == 1
        assert threads[0] is not threading.current_thread()

    def test_many_threads_deliver_one_event_at_a_time(self, stream: Stream) -> None:
        inside: list[int] = []
        most: list[int] = []

        def listener(event: Event) -> None:
            inside.append(1)
            most.append(len(inside))
            inside.pop()

        stream.listen(listener)

        def give() -> None:
            for number in range(200):
                stream.push({"i": number})

        threads = [threading.Thread(target=give) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert most == [1] * 800
        assert stream.events == 800

    def test_while_a_listener_runs_no_other_thread_can_deliver(self, stream: Stream) -> None:
        stream.listen(lambda event: in_a_thread(lambda: free.append(unlocked())))
        free: list[bool] = []
        stream.push({})
        assert free == [False]

    def test_listeners_are_called_in_the_order_in_which_they_came(self, stream: Stream) -> None:
        order: list[str] = []
        for name in "abc":
            stream.listen(lambda event, name=name: order.append(name))  # type: ignore[misc]
        stream.push({})
        assert order == ["a", "b", "c"]

    def test_a_listener_for_keys_gets_events_that_have_all_of_them(
        self, stream: Stream, seen: list[Event]
    ) -> None:
        stream.listen(seen.append, "step", "batch")
        for event in ({"step": 1}, {"batch": 2}, {"batch": 3, "step": 4, "x": 5}):
            stream.push(event)
        assert seen == [{"batch": 3, "step": 4, "x": 5}]

    def test_more_combinations_of_keys_than_are_remembered_are_still_delivered(
        self, stream: Stream, seen: list[Event]
    ) -> None:
        stream.listen(seen.append, "x")
        for number in range(MOST + 10):
            stream.push({"x": 1, f"key {number}": 1})
        assert len(seen) == MOST + 10
        assert len(stream._heard) == MOST

    def test_what_a_listener_gives_is_delivered_within(
        self, stream: Stream, seen: list[Event]
    ) -> None:
        stream.listen(lambda event: stream.push({"twice": 2 * event["x"]}), "x")
        stream.listen(seen.append)
        stream.push({"x": 1})
        assert seen == [{"twice": 2}, {"x": 1}]

    def test_a_listener_that_comes_later_hears_what_is_given_from_then_on(
        self, stream: Stream, seen: list[Event]
    ) -> None:
        stream.push({"x": 1})
        stream.listen(seen.append)
        stream.push({"x": 2})
        assert seen == [{"x": 2}]

    def test_two_streams_that_push_into_each_other_do_not_wait_for_each_other(self) -> None:
        there, back = Stream(), Stream()
        both = threading.Barrier(2)

        def crossing(other: Stream) -> Callable[[Event], object]:
            def listener(event: Event) -> None:
                if "first" in event:
                    other.push({"second": 1})

            return listener

        there.listen(crossing(back))
        back.listen(crossing(there))

        def push(stream: Stream) -> None:
            for _ in range(300):
                both.wait(10)
                stream.push({"first": 1})

        threads = [threading.Thread(target=push, args=(s,), daemon=True) for s in (there, back)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)
        assert (there.events, back.events) == (600, 600)


class TestLeaving:
    def test_a_disposed_listener_hears_nothing_more(
        self, stream: Stream, seen: list[Event]
    ) -> None:
        subscription = stream.listen(seen.append)
        stream.push({"x": 1})
        subscription.dispose()
        subscription.dispose()
        stream.push({"x": 2})
        assert seen == [{"x": 1}]
        assert stream.subscriptions == []

    def test_a_listener_may_dispose_of_itself(self, stream: Stream, seen: list[Event]) -> None:
        def once(event: Event) -> None:
            seen.append(event)
            subscription.dispose()

        subscription = stream.listen(once)
        stream.push({"x": 1})
        stream.push({"x": 2})
        assert seen == [{"x": 1}]

    def test_a_listener_that_another_disposes_of_does_not_get_the_event_any_more(
        self, stream: Stream, seen: list[Event]
    ) -> None:
        stream.listen(lambda event: later.dispose())
        later = stream.listen(seen.append)
        stream.push({"x": 1})
        assert seen == []

    def test_a_cleared_stream_has_no_listeners(self, stream: Stream, seen: list[Event]) -> None:
        stream.listen(seen.append)
        stream.clear()
        stream.push({"x": 1})
        assert seen == []


class TestFailures:
    def test_a_listener_that_fails_is_reported_once_and_the_others_go_on(
        self, stream: Stream, seen: list[Event]
    ) -> None:
        def bad(event: Event) -> None:
            raise ValueError("no")

        with acting("instrument_x"):
            stream.listen(bad)
        stream.listen(seen.append)
        stream.push({"x": 1})
        stream.push({"x": 2})
        assert seen == [{"x": 1}, {"x": 2}]
        (problem,) = stream.problems
        assert problem.who == "instrument_x"
        assert problem.what == "a subscriber failed: ValueError: no"
        assert problem.where == f"{__file__}:{bad.__code__.co_firstlineno + 1}"

    def test_outside_of_an_instrument_a_listener_goes_by_its_own_name(self, stream: Stream) -> None:
        def bad(event: Event) -> None:
            raise ValueError

        stream.listen(bad)
        stream.push({})
        assert stream.problems[0].who == "bad"

    @pytest.mark.parametrize("kind", [StopProgram, OverseerAbort, KeyboardInterrupt])
    def test_a_wish_is_raised_once_the_others_have_had_the_event(
        self, stream: Stream, seen: list[Event], kind: type[BaseException]
    ) -> None:
        stream.listen(raising(kind()))
        stream.listen(seen.append)
        with pytest.raises(kind):
            stream.push({"x": 1})
        assert seen == [{"x": 1}]
        assert stream.problems == []

    def test_of_two_wishes_the_first_counts(self, stream: Stream) -> None:
        stream.listen(raising(StopProgram("first")))
        stream.listen(raising(StopProgram("second")))
        with pytest.raises(StopProgram, match="first"):
            stream.push({})

    def test_a_wish_does_not_leave_the_stream_locked(self, stream: Stream) -> None:
        stream.listen(raising(StopProgram()))
        with pytest.raises(StopProgram):
            stream.push({})
        free: list[bool] = []
        in_a_thread(lambda: free.append(unlocked()))
        assert free == [True]


class TestTheEnd:
    def test_completing_calls_those_who_want_to_know_once(
        self, stream: Stream, seen: list[Event]
    ) -> None:
        stream.listen(seen.append, completed=lambda: seen.append({"end": 1}))
        stream.complete()
        stream.complete()
        assert seen == [{"end": 1}]

    def test_what_is_given_at_the_end_is_still_delivered(
        self, stream: Stream, seen: list[Event]
    ) -> None:
        stream.listen(lambda event: None, completed=lambda: stream.push({"total": 3}))
        stream.listen(seen.append)
        stream.complete()
        assert seen == [{"total": 3}]

    def test_one_that_fails_at_the_end_is_reported_and_the_others_end(
        self, stream: Stream, seen: list[Event]
    ) -> None:
        stream.listen(seen.append, who="x", completed=lambda: raising(ValueError("no"))({}))
        stream.listen(seen.append, completed=lambda: seen.append({"end": 1}))
        stream.complete()
        assert seen == [{"end": 1}]
        (problem,) = stream.problems
        assert (problem.slug, problem.who) == ("reduction", "x")
        assert problem.what == "a reduction failed at the end: ValueError: no"

    def test_a_wish_at_the_end_is_raised_once_all_have_ended(
        self, stream: Stream, seen: list[Event]
    ) -> None:
        stream.listen(seen.append, completed=lambda: raising(StopProgram())({}))
        stream.listen(seen.append, completed=lambda: seen.append({"end": 1}))
        with pytest.raises(StopProgram):
            stream.complete()
        assert seen == [{"end": 1}]
        assert stream.closed

    def test_of_two_wishes_at_the_end_the_first_counts(self, stream: Stream) -> None:
        for word in ("first", "second"):
            stream.listen(print, completed=partial(raising(StopProgram(word)), {}))
        with pytest.raises(StopProgram, match="first"):
            stream.complete()

    def test_one_that_failed_before_is_not_asked_to_end(
        self, stream: Stream, seen: list[Event]
    ) -> None:
        stream.listen(raising(ValueError()), completed=lambda: seen.append({"end": 1}))
        stream.push({})
        stream.complete()
        assert seen == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
class TestForks:
    def child(self, fn: Callable[[], bool]) -> bool:
        """What ``fn`` says in a child that was forked here; a child that hangs is killed."""
        pid = os.fork()
        if pid == 0:
            import signal

            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(10)
            try:
                os._exit(0 if fn() else 1)
            finally:
                os._exit(2)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

    def test_the_child_is_silent(self, stream: Stream, seen: list[Event]) -> None:
        stream.listen(seen.append, completed=lambda: seen.append({"end": 1}))

        def silent() -> bool:
            stream.push({"x": 1})
            stream.complete()
            return seen == []

        assert self.child(silent)
        stream.push({"x": 2})
        assert seen == [{"x": 2}]

    @pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
    def test_the_child_can_give_though_another_thread_held_the_lock(self, stream: Stream) -> None:
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
            assert self.child(give)
        finally:
            enough.set()
            thread.join()

    def test_a_child_of_a_listener_does_not_go_on_with_the_other_listeners(
        self, stream: Stream, seen: list[Event]
    ) -> None:
        def forking(event: Event) -> None:
            self.results = [self.child(lambda: stream.subscriptions == [])]

        stream.listen(forking)
        stream.listen(seen.append)
        stream.push({"x": 1})
        assert self.results == [True]
        assert seen == [{"x": 1}]


@pytest.mark.parametrize(
    ("wrap", "said"),
    [
        (3, "of type int"),
        ({"step": "end"}, "has no 'name'"),
        ({"name": "step"}, "has no 'step'"),
        ({"name": "step", "step": "end", "id": []}, "its id is of type list"),
    ],
)
def test_a_pair_that_nobody_can_read_is_left_out_and_reported_once(
    stream: Stream, seen: list[Event], wrap: object, said: str
) -> None:
    stream.listen(seen.append)
    for _ in range(2):
        stream.give({"$wrap": wrap, "x": 1})
        stream.push({"$wrap": wrap, "x": 1})
    stream.give({"x": 2})
    (problem,) = stream.problems
    assert said in problem.what
    assert seen == [{"x": 2}]


class TestRecording:
    """The stock numbers of given events are recorded, whoever subscribes."""

    @pytest.fixture
    def bus(self) -> Iterator[Bus]:
        recorder.open(256, 256)
        yield Bus(lambda problem: None, records=True)
        recorder.close()

    def found(self, ring: int = 0) -> list[tuple[int, object]]:
        data = recorder.drain(ring, 0)[0]
        events = [event for event in log.events(data) if event.site]
        return [
            (table.rows[e.site]["kind"], None if e.value != e.value else e.value) for e in events
        ]

    def test_steps_losses_and_other_numbers(self, bus: Bus) -> None:
        bus.give({"step": 1, "batch": [1, 2, 3]})
        bus.give({"step": True, "batch_size": 4, "loss": 0.5})
        bus.give({"loss": 0.25, "task": "eval"})
        bus.give({"batch": [1]})
        bus.give({"accuracy": 0.5})
        bus.give({"options": object()})
        assert self.found() == [
            (k.STEP, 3.0), (k.STEP, 4.0), (k.LOSS, 0.5), (k.LOSS, 0.25), (k.BATCH, 1.0),
        ]  # fmt: skip
        assert self.found(1) == [(k.VALUE, 0.5), (k.VALUE, None)]

    def test_pairs(self, bus: Bus) -> None:
        for name in ("step", "loading", "pause", "epoch"):
            for step in ("begin", "end"):
                bus.give({"$wrap": {"name": name, "step": step, "id": 1}, "batch": [1, 2]})
        assert [kind for kind, _ in self.found()] == [k.PAIR, k.LOADING, k.PAUSE]
        assert [kind for kind, _ in self.found(1)] == [k.SPAN]

    def test_sites_of_tasks_are_told_apart(self, bus: Bus) -> None:
        bus.give({"loss": 1, "task": "train"})
        bus.give({"loss": 2, "task": "eval"})
        data = recorder.drain(0, 0)[0]
        tasks = [table.rows[e.site]["task"] for e in log.events(data) if e.site]
        assert tasks == ["train", "eval"]

    def test_an_event_of_a_size_is_none_of_voir_s_own_sizes(self, bus: Bus) -> None:
        bus.size_site(None)
        bus.give({"size": 3})
        assert self.found(1) == [(k.VALUE, 3.0)]

    def test_inherited_keys_are_part_of_an_event(self, bus: Bus, seen: list[Event]) -> None:
        bus.listen(seen.append)
        token = keys_in_force.set({"task": "eval"})
        bus.give({"loss": 1})
        bus.may_inherit()
        bus.give({"loss": 2})
        keys_in_force.reset(token)
        assert seen == [{"loss": 1}, {"task": "eval", "loss": 2}]


class TestProbesOnTheBus:
    """``.give()``: Python is called for events that somebody subscribes to, and now and then."""

    def given(self, bus: Bus, *keys: str) -> tuple[Any, Any]:
        site = recorder.Site(0, k.VALUE, keys=keys)
        placed = Fired(site)
        Probe(placed, bus, bus.report).give()
        return site, placed

    def test_the_first_hundred_are_handed_over_and_then_one_when_asked_for(
        self, stream: Stream
    ) -> None:
        sampled: list[tuple[object, int]] = []
        stream.sampler = lambda event, n: sampled.append((event["loss"], n))
        site, _ = self.given(stream, "loss")
        for n in range(200):
            site.event(n)
        assert sampled == [(n, n + 1) for n in range(100)]
        stream.sample()
        site.event(200)
        site.event(201)
        assert sampled[100:] == [(200, 201)]

    def test_whoever_subscribes_to_its_keys_gets_all(
        self, stream: Stream, seen: list[Event]
    ) -> None:
        site, _ = self.given(stream, "loss")
        stream.listen(seen.append, "rate")
        for n in range(150):
            site.event(n)
        assert seen == []
        subscription = stream.listen(seen.append, "loss")
        site.event(1)
        subscription.dispose()
        site.event(2)
        assert seen == [{"loss": 1}]


class Fired:
    """A probe in its place, as far as ``.give()`` needs it."""

    selector, overridable = "//f > loss", False

    def __init__(self, site: Any) -> None:
        self.sites, self.site, self.always = [site], site, False

    def listen(self, fn: Any, always: bool) -> Any:
        self.site.bus, placed = fn, self

        class Listening:
            def __setattr__(self, name: str, on: bool) -> None:
                placed.always = on
                placed.site.hand = -1 if on else 0

            def dispose(self) -> None:
                placed.site.bus = None

        self.site.hand = -1 if always else 100
        return Listening()

    def arm(self, n: int) -> None:
        if not self.always:
            self.site.hand = n
