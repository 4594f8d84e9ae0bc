"""Each event reaches each listener once, at once, from any thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from overseer.boundary import OverseerAbort, StopProgram, acting
from overseer.errors import Problem
from overseer.stream import MAX_PLANS, EventStream

Event = dict[str, Any]


class Stream(EventStream):
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
    free: bool = EventStream.lock.acquire(blocking=False)
    if free:
        EventStream.lock.release()
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
        for number in range(MAX_PLANS + 10):
            stream.push({"x": 1, f"key {number}": 1})
        assert len(seen) == MAX_PLANS + 10
        assert len(stream._plans) == MAX_PLANS

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
        assert stream.listeners == []

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

    @pytest.mark.parametrize("known", [True, False])
    def test_what_waits_while_a_listener_hands_over_is_heard_once(
        self, stream: Stream, seen: list[Event], known: bool
    ) -> None:
        """As the step model is made by the first step, while other threads show theirs."""
        if not known:  # More combinations than are remembered.
            for number in range(MAX_PLANS):
                stream.push({f"key{number}": number})
        others: list[threading.Thread] = []

        def other(number: int) -> None:
            thread = threading.Thread(target=stream.push, args=({"x": number},))
            others.append(thread)
            thread.start()
            thread.join(0.1)  # It waits: no other thread can deliver now.

        def first(event: Event) -> None:
            other(2)  # By a plan with this listener.
            stream.listen(seen.append)
            stream.plan(("x",))  # As outlets do.
            other(3)  # By one with both.
            waiting.leave()
            other(4)
            seen.append(event)

        waiting = stream.listen(first, "x")
        stream.push({"x": 1})
        for thread in others:
            thread.join()
        assert sorted(event["x"] for event in seen) == [1, 2, 3, 4]

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
            with EventStream.lock:
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
            self.results = [self.child(lambda: stream.listeners == [])]

        stream.listen(forking)
        stream.listen(seen.append)
        stream.push({"x": 1})
        assert self.results == [True]
        assert seen == [{"x": 1}]
