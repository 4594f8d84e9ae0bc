"""Something is called every so often, on a thread nobody sees, until it fails or is left."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from overseer import timers
from overseer.boundary import Guarded, OverseerAbort, StopProgram, current
from overseer.timers import Timer

#: Seconds to wait for what must happen; only a test that fails waits so long.
PATIENCE = 20.0


class Calls:
    """What a timer did, and a way to wait for it without looking at a clock."""

    def __init__(self):
        self.problems, self.charges, self.count = [], [], 0
        self._changed = threading.Condition()

    def timer(self, body=lambda: None, report=None, **options):
        def fn():
            with self._changed:
                self.count += 1
                self._changed.notify_all()
            body()

        guarded = Guarded(fn, "instrument_x", report or self.problems.append)
        usual = {"seconds": 0.001, "first": 0.0, "charge": self.charges.append}
        return Timer(fn=guarded, **{**usual, **options})

    def wait(self, count):
        with self._changed:
            return self._changed.wait_for(lambda: self.count >= count, PATIENCE)


@pytest.fixture
def calls(monkeypatch):
    # On a busy machine a thread may take its time to end.
    monkeypatch.setattr(timers, "END_PATIENCE", PATIENCE)
    monkeypatch.setattr(timers, "FORK_PATIENCE", PATIENCE)
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    yield Calls()
    assert raised == []


@pytest.fixture
def hangs(calls, monkeypatch):
    """What goes on when it is told to, while nobody has patience."""
    for name in ("END_PATIENCE", "FORK_PATIENCE"):
        monkeypatch.setattr(timers, name, 0.01)
    return threading.Event()


def raising(error):
    def fail(*args):
        raise error

    return fail


def fork():
    timers._before_fork()
    timers._after_fork()


# Calling


def test_it_calls_as_whose_it_is_unseen_and_charged_until_it_is_left(calls):
    before, names = threading.enumerate(), set()

    def work():
        names.add(current())
        threading.current_thread()  # As psutil asks, which has it listed.

    with calls.timer(work, first=3600.0) as timer:  # The first call is as soon as the second.
        thread = timer._thread
        assert calls.wait(5)
    assert (thread.join(0), timers._open, timers.hidden) == (True, [], set())
    assert (threading.enumerate(), names) == (before, {"instrument_x"})
    assert len(calls.charges) == calls.count
    assert all(charge > 0 for charge in calls.charges)


def test_leaving_it_waits_for_no_next_call_also_where_eventlet_has_replaced_the_locks(
    calls, monkeypatch
):
    with calls.timer(seconds=3600.0, first=3600.0) as timer:
        thread = timer._thread
        monkeypatch.setattr(threading, "_allocate_lock", raising(AssertionError()))
    assert (thread.join(0), calls.count) == (True, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_thread_that_waits_leaves_signals_to_the_main_one(calls):
    def blocks():
        status = Path(f"/proc/self/task/{tasks[0]}/status").read_text()
        return bool(int(status.partition("SigBlk:")[2].split()[0], 16) >> signal.SIGTERM - 1 & 1)

    tasks, called = [], []

    def body():
        tasks.append(threading.get_native_id())
        called.append(blocks())

    with calls.timer(body, seconds=3600.0) as timer:
        assert calls.wait(1)
        assert any((called and blocks()) or timer._thread.join(0.01) for _ in range(2000))
    assert called == [False]


def test_leaving_it_does_not_wait_for_ever_for_a_call_that_hangs(calls, hangs):
    with calls.timer(lambda: hangs.wait(PATIENCE)) as timer:
        thread = timer._thread
        assert calls.wait(1)
    assert not thread.join(0)
    hangs.set()
    assert thread.join(PATIENCE)


def test_it_may_be_left_on_its_own_thread(calls):
    left = threading.Event()
    timer = calls.timer(lambda: (timer.__exit__(), left.set()))
    timer.__enter__()
    assert left.wait(PATIENCE)
    assert (calls.count, timers._open) == (1, [])


def test_what_was_left_while_its_thread_woke_up_is_not_called(calls):
    timer = calls.timer()
    timer._due = 0.0
    timer._turns(SimpleNamespace(stop_requested=lambda seconds: setattr(timer, "_over", True)))
    assert calls.count == 0


@pytest.mark.parametrize(("took", "pause"), [(0, 1), (0.25, 0.75), (0.75, 0.75), (10, 10)])
def test_calls_never_take_more_than_half_of_the_time(calls, monkeypatch, took, pause):
    now, waits = [0.0], []
    monkeypatch.setattr(timers, "perf_counter", lambda: now[0])
    timer = calls.timer(lambda: now.insert(0, took), seconds=1.0)
    timer._due = 0.0
    timer._turns(SimpleNamespace(stop_requested=lambda wait: waits.append(wait) or len(waits) > 1))
    assert waits == [0, pause]


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_an_interval_must_be_above_zero(calls, seconds):
    with pytest.raises(ValueError, match="must be a number above 0"):
        calls.timer(seconds=seconds)


# Failing


@pytest.mark.parametrize(
    ("options", "slug", "what"),
    [
        ({"body": raising(ValueError("no"))}, "subscriber", "a subscriber failed: ValueError"),
        ({"body": raising(StopProgram("enough"))}, "timer", "StopProgram: enough"),
        ({"charge": raising(ArithmeticError())}, "timer", "ArithmeticError"),
    ],
)
def test_what_fails_is_reported_once_and_neither_called_nor_begun_again(calls, options, slug, what):
    with calls.timer(**options) as timer:
        assert timer._thread.join(PATIENCE)
        fork()
        assert timer._thread is None
    (problem,) = calls.problems
    assert (problem.slug, problem.who, calls.count) == (slug, "instrument_x", 1)
    assert what in problem.what


def test_one_that_cannot_even_be_reported_ends_silently(calls):
    with calls.timer(raising(ValueError("no")), report=raising(OSError())) as timer:
        assert timer._thread.join(PATIENCE)


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("start_new_thread", raising(RuntimeError("can't start new thread")), "can't start"),
        ("THREAD_MEMORY", 1 << 60, "MemoryError"),
    ],
)
def test_where_no_thread_can_begin_that_is_reported_and_the_rest_goes_on(
    calls, monkeypatch, name, value, what
):
    monkeypatch.setattr(timers, name, value)
    with calls.timer():
        pass
    (problem,) = calls.problems
    assert what in problem.what


@pytest.mark.parametrize("error", [StopProgram("enough"), OverseerAbort(ValueError())])
def test_what_the_user_asked_for_is_handed_on(calls, error):
    stops = []
    with calls.timer(raising(error), on_stop=stops.append) as timer:
        assert timer._thread.join(PATIENCE)
    assert (stops, calls.problems, calls.count) == ([error], [], 1)


# Forks


def test_there_is_no_thread_while_a_thread_forks_and_then_one(calls):
    with calls.timer() as timer:
        assert calls.wait(1)
        thread = timer._thread
        timers._before_fork()
        timers._before_fork()  # Another thread forks too.
        timers._after_fork()
        assert (thread.join(0), timer._thread) == (True, None)
        with calls.timer() as second:  # Nor does one begin meanwhile.
            assert second._thread is None
            timers._after_fork()
            assert second._thread is not None
        thread = timer._thread
        timer.resume()
        assert timer._thread is thread
        assert calls.wait(calls.count + 1)
    assert thread.join(0)


def test_an_interrupt_while_a_thread_forks_comes_after_the_fork(calls, monkeypatch):
    pause = Timer.pause

    def interrupted(self, patience):
        monkeypatch.setattr(Timer, "pause", pause)
        signal.raise_signal(signal.SIGINT)
        return pause(self, patience)

    with calls.timer() as timer:
        assert calls.wait(1)
        monkeypatch.setattr(Timer, "pause", interrupted)
        with pytest.raises(KeyboardInterrupt):
            if os.fork() == 0:
                os._exit(0)
        assert Timer.pause is pause
        assert timer._thread is not None
        assert os.wait()[1] == 0


def test_in_the_child_there_is_no_timer(calls):
    with calls.timer() as timer:
        assert calls.wait(1)
        pid = os.fork()
        if pid == 0:
            gone = timers._open == [] and timer._thread is None
            timer.__exit__()
            os._exit(0 if gone else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert calls.wait(calls.count + 1)


def test_after_a_fork_in_a_call_that_hangs_there_is_no_second_call_beside_it(calls, hangs):
    with calls.timer(lambda: hangs.wait(PATIENCE)) as timer:
        assert calls.wait(1)
        first = timer._thread
        for _ in range(3):
            fork()
        assert timer._thread is not first
        assert calls.count == 1
        hangs.set()
        assert calls.wait(2)
        assert first.join(0)
