"""Something is called every so often, on a thread nobody sees, until it fails or is left."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from overseer import timers
from overseer.boundary import Guarded, OverseerAbort, StopProgram, current
from overseer.errors import Problem
from overseer.timers import Timer, rest

#: Seconds to wait for what must happen; only a test that fails waits so long.
PATIENCE = 20.0


class Calls:
    """What a timer did, and a way to wait for it without looking at a clock."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.charges: list[int] = []
        self.wishes: list[BaseException] = []
        self.count = 0
        self._changed = threading.Condition()

    def timer(self, body: Callable[[], object] = lambda: None, **options: Any) -> Timer:
        def fn() -> None:
            with self._changed:
                self.count += 1
                self._changed.notify_all()
            body()

        guarded = Guarded(fn, "instrument_x", self.problems.append)
        usual = {"seconds": 0.001, "first": 0.0, "charge": self.charges.append}
        return Timer(fn=guarded, **{**usual, **options})

    def wait(self, count: int) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.count >= count, PATIENCE)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    # On a busy machine a thread may take its time to end.
    monkeypatch.setattr(timers, "END_PATIENCE", PATIENCE)
    return Calls()


def raising(error: BaseException) -> Callable[[], object]:
    def fail() -> None:
        raise error

    return fail


def ended(timer: Timer) -> bool:
    """Whether the thread of a timer that is still open has ended by itself."""
    return timer._thread is not None and timer._thread._ended.wait(PATIENCE)


class TestCalling:
    def test_it_calls_again_and_again_while_open(self, calls: Calls) -> None:
        with calls.timer():
            assert calls.wait(5)

    def test_leaving_it_ends_its_thread(self, calls: Calls) -> None:
        with calls.timer() as timer:
            thread = timer._thread
            assert calls.wait(1)
        assert thread is not None
        assert thread._ended.is_set()
        assert calls.count == len(calls.charges)
        assert timers._open == []

    def test_leaving_it_does_not_wait_for_the_next_call(self, calls: Calls) -> None:
        with calls.timer(seconds=3600.0, first=3600.0) as timer:
            thread = timer._thread
        assert thread is not None
        assert thread._ended.is_set()
        assert calls.count == 0

    def test_leaving_it_does_not_wait_for_ever_for_a_call_that_hangs(
        self, calls: Calls, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(timers, "END_PATIENCE", 0.01)
        enough = threading.Event()
        with calls.timer(lambda: enough.wait(PATIENCE)) as timer:
            thread = timer._thread
            assert calls.wait(1)
        assert thread is not None
        assert not thread._ended.is_set()
        enough.set()
        assert thread._ended.wait(PATIENCE)

    def test_it_ends_where_eventlet_has_replaced_the_locks(
        self, calls: Calls, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with calls.timer(seconds=3600.0) as timer:
            thread = timer._thread
            assert calls.wait(1)
            monkeypatch.setattr(threading, "_allocate_lock", raising(AssertionError()))
        assert thread is not None
        assert thread._ended.is_set()

    def test_the_first_call_is_not_later_than_the_second_would_be(self, calls: Calls) -> None:
        with calls.timer(seconds=0.001, first=3600.0):
            assert calls.wait(1)

    def test_it_may_be_left_on_its_own_thread(self, calls: Calls) -> None:
        left = threading.Event()

        def leave() -> None:
            timer.__exit__(None, None, None)
            left.set()

        timer = calls.timer(leave)
        timer.__enter__()
        assert left.wait(PATIENCE)
        assert calls.count == 1
        assert timers._open == []

    def test_the_script_does_not_see_its_thread(self, calls: Calls) -> None:
        before = threading.enumerate()
        with calls.timer(threading.current_thread):  # As psutil asks, which lists the thread.
            assert calls.wait(3)
        assert threading.enumerate() == before

    def test_what_it_does_is_done_by_whose_it_is(self, calls: Calls) -> None:
        names: list[str | None] = []
        with calls.timer(lambda: names.append(current())):
            assert calls.wait(2)
        assert set(names) == {"instrument_x"}

    def test_the_processor_time_of_each_call_is_charged(self, calls: Calls) -> None:
        with calls.timer(lambda: sum(range(1000))):
            assert calls.wait(3)
        assert len(calls.charges) == calls.count
        assert all(charge > 0 for charge in calls.charges)

    def test_a_clock_that_the_script_has_replaced_is_not_asked(
        self, calls: Calls, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as script, calls.timer():
            for name in ("perf_counter", "thread_time_ns", "monotonic", "time", "sleep"):
                script.setattr(time, name, raising(AssertionError(name)))
            assert calls.wait(calls.count + 5)
            timers._before_fork()
            timers._after_fork()
            assert calls.wait(calls.count + 1)
        assert calls.problems == []

    @pytest.mark.parametrize("seconds", [0, -1, float("nan")])
    def test_an_interval_must_be_above_zero(self, calls: Calls, seconds: float) -> None:
        with pytest.raises(ValueError, match="must be a number above 0"):
            calls.timer(seconds=seconds)


class TestLeaving:
    def test_what_was_left_while_its_thread_woke_up_is_not_called(self, calls: Calls) -> None:
        timer = calls.timer()
        woken = threading.Event()

        def leave(seconds: float | None = None) -> bool:
            timer._over = True
            return False

        woken.wait = leave  # type: ignore[method-assign]
        timer._due = 0.0
        timer._run(woken)
        assert calls.count == 0


class TestFailing:
    def test_one_that_fails_is_reported_once_and_not_called_again(self, calls: Calls) -> None:
        with calls.timer(raising(ValueError("no"))) as timer:
            assert ended(timer)
        assert calls.count == 1
        (problem,) = calls.problems
        assert problem.who == "instrument_x"
        assert problem.what == "a subscriber failed: ValueError: no"

    def test_where_no_thread_can_begin_that_is_reported_and_the_rest_goes_on(
        self, calls: Calls, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def none(*args: object) -> int:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(timers, "start_new_thread", none)
        with calls.timer():
            pass
        (problem,) = calls.problems
        assert "can't start new thread" in problem.what

    @pytest.mark.parametrize("error", [StopProgram("enough"), OverseerAbort(ValueError())])
    def test_what_the_user_asked_for_is_handed_on(self, calls: Calls, error: BaseException) -> None:
        with calls.timer(raising(error), wish=calls.wishes.append) as timer:
            assert ended(timer)
        assert calls.wishes == [error]
        assert calls.problems == []
        assert calls.count == 1

    def test_a_wish_that_nobody_takes_is_reported(self, calls: Calls) -> None:
        with calls.timer(raising(StopProgram("enough"))) as timer:
            assert ended(timer)
        (problem,) = calls.problems
        assert (problem.slug, problem.who) == ("timer", "instrument_x")
        assert "StopProgram: enough" in problem.what

    def test_one_whose_own_loop_fails_is_reported_and_leaves_no_traceback(
        self, calls: Calls, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        raised: list[object] = []
        monkeypatch.setattr(sys, "unraisablehook", raised.append)

        def charge(ns: int) -> None:
            raise ArithmeticError(ns)

        with calls.timer(charge=charge) as timer:
            assert ended(timer)
            timer.pause(PATIENCE)
            timer.resume()
            assert timer._thread is None
        (problem,) = calls.problems
        assert (problem.slug, problem.who) == ("timer", "instrument_x")
        assert "ArithmeticError" in problem.what
        assert (calls.count, raised) == (1, [])

    def test_one_that_cannot_even_report_it_ends_silently(
        self, calls: Calls, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        raised: list[object] = []
        monkeypatch.setattr(sys, "unraisablehook", raised.append)
        guarded = Guarded(raising(ValueError("no")), "instrument_x", raising_report)
        with Timer(0.001, guarded, 0.0, calls.charges.append) as timer:
            assert ended(timer)
            timer.pause(PATIENCE)
        assert raised == []


def raising_report(problem: Problem) -> None:
    raise OSError(problem.what)


class TestForks:
    def test_there_is_no_thread_while_the_process_forks_and_then_it_goes_on(
        self, calls: Calls, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(timers, "FORK_PATIENCE", PATIENCE)
        with calls.timer() as timer:
            assert calls.wait(1)
            thread = timer._thread
            timers._before_fork()
            assert thread is not None
            assert thread._ended.is_set()
            assert timer._thread is None
            count = calls.count
            timers._after_fork()
            assert calls.wait(count + 1)

    def test_while_two_threads_fork_it_waits_for_both_and_goes_on_once(self, calls: Calls) -> None:
        with calls.timer() as timer:
            timers._before_fork()
            timers._before_fork()
            timers._after_fork()
            assert timer._thread is None
            timers._after_fork()
            thread = timer._thread
            timer.resume()
            assert timer._thread is thread is not None
        assert thread._ended.is_set()

    def test_one_that_is_opened_while_another_thread_forks_begins_afterwards(
        self, calls: Calls
    ) -> None:
        with calls.timer():
            timers._before_fork()
            with calls.timer() as second:
                assert second._thread is None
                timers._after_fork()
                assert second._thread is not None

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_in_the_child_there_is_no_timer(self, calls: Calls) -> None:
        with calls.timer() as timer:
            assert calls.wait(1)
            pid = os.fork()
            if pid == 0:
                gone = timers._open == [] and timer._thread is None
                timer.__exit__(None, None, None)
                os._exit(0 if gone else 1)
            status = os.waitpid(pid, 0)[1]
            assert calls.wait(calls.count + 1)
        assert os.waitstatus_to_exitcode(status) == 0

    def test_after_a_fork_in_a_call_that_hangs_there_is_no_second_call_beside_it(
        self, calls: Calls, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(timers, "FORK_PATIENCE", 0.01)
        enough = threading.Event()
        with calls.timer(lambda: enough.wait(PATIENCE)) as timer:
            assert calls.wait(1)
            first = timer._thread
            for _ in range(3):
                timers._before_fork()
                timers._after_fork()
            assert first is not None
            assert timer._thread is not first
            assert calls.count == 1
            enough.set()
            assert calls.wait(2)
            assert first.over(0)

    def test_one_that_has_failed_does_not_begin_again(self, calls: Calls) -> None:
        with calls.timer(raising(ValueError())) as timer:
            assert ended(timer)
            timers._before_fork()
            timers._after_fork()
            assert timer._thread is None
        assert calls.count == 1


@pytest.mark.parametrize(
    ("took", "expected"), [(0.0, 1.0), (0.25, 0.75), (0.5, 0.5), (0.9, 0.9), (10.0, 10.0)]
)
def test_calls_never_take_more_than_half_of_the_time(took: float, expected: float) -> None:
    assert rest(1.0, took) == expected
