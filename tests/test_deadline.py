"""An instrument that does not come back is cut short, and the script's own alarm is not lost."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from overseer.boundary import Stuck
from overseer.deadline import Deadline
from tests.test_phases import Run, saying

#: Seconds: as short as can be told from nothing.
SHORT = 0.02
Steps = Generator[Any, Any, None]


def for_ever() -> None:
    while True:
        pass


def asleep() -> None:
    time.sleep(3600)


def waiting() -> None:
    threading.Event().wait()


@pytest.fixture
def run() -> Run:
    return Run(Deadline(SHORT))


@pytest.fixture
def alarm() -> Iterator[list[int]]:
    """A script's own SIGALRM handler, and the signals that it has had."""
    heard: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda signum, frame: heard.append(signum))
    yield heard
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


class TestInstruments:
    @pytest.mark.parametrize("body", [for_ever, asleep, waiting])
    def test_one_that_does_not_come_back_is_cut_short(
        self, run: Run, body: Callable[[], None]
    ) -> None:
        def instrument_stuck(ov: Run) -> Steps:
            yield ov.phases.init
            body()

        run.require(instrument_stuck)
        run.require(saying("other", lambda ov: ov.phases.init))
        run.through("init")
        assert run.said == ["other"]
        assert run.problem.slug == "stuck"
        assert run.problem.who.endswith("instrument_stuck")
        assert run.problem.what == "it has kept the script waiting for 0.02 s"
        assert "--instrument-timeout" in (run.problem.remedy or "")
        # The line it was at, be it in the standard library or not.
        assert run.problem.where is not None
        assert run.problem.where.startswith(__file__)

    def test_one_that_does_not_come_back_from_its_start_is_cut_short(self, run: Run) -> None:
        run.require(lambda ov: asleep())
        assert run.problem.slug == "stuck"

    def test_one_that_is_cut_short_cleans_up(self, run: Run) -> None:
        def instrument(ov: Run) -> Steps:
            yield ov.phases.init
            try:
                asleep()
            finally:
                ov.said.append("cleaned up")

        run.require(instrument)
        run.through("init")
        assert run.said == ["cleaned up"]

    def test_no_except_exception_holds_it_up(self, run: Run) -> None:
        def instrument(ov: Run) -> None:
            while True:
                try:
                    asleep()
                except Exception:
                    continue

        run.require(instrument)
        assert run.problem.slug == "stuck"

    def test_one_that_does_not_give_up_at_once_is_told_again(self, run: Run) -> None:
        def instrument(ov: Run) -> None:
            for _ in range(3):
                try:
                    asleep()
                except Stuck:
                    ov.said.append("not yet")
            asleep()

        run.require(instrument)
        assert run.said == ["not yet"] * 3
        assert run.problem.slug == "stuck"

    def test_one_that_does_not_come_back_from_cleaning_up_is_cut_short(self, run: Run) -> None:
        def instrument(ov: Run) -> Steps:
            try:
                yield ov.phases.finalize
            finally:
                asleep()

        run.require(instrument)
        run.close()
        assert run.problem.slug == "stuck"

    def test_it_is_the_required_instrument_that_is_stuck_not_the_requirer(self, run: Run) -> None:
        def inner(ov: Run) -> None:
            asleep()

        def outer(ov: Run) -> Steps:
            yield ov.phases.init
            ov.require(inner)
            ov.said.append("went on")

        run.require(outer)
        run.through("init")
        assert run.problem.who.endswith("inner")
        assert run.said == ["went on"]

    def test_off_the_main_thread_there_is_no_limit(self, run: Run) -> None:
        held = threading.Event()

        def instrument(ov: Run) -> None:
            ov.said.append(held.wait(SHORT * 3))

        thread = threading.Thread(target=run.require, args=(instrument,))
        thread.start()
        thread.join()
        assert (run.said, run.problems) == ([False], [])


class TestTheAlarm:
    def test_without_a_limit_nothing_is_touched(self, alarm: list[int]) -> None:
        with Deadline(0)():
            signal.raise_signal(signal.SIGALRM)
        assert alarm == [signal.SIGALRM]

    def test_the_script_s_handler_is_back_afterwards(self, alarm: list[int]) -> None:
        handler = signal.getsignal(signal.SIGALRM)
        with pytest.raises(Stuck), Deadline(SHORT)():
            asleep()
        assert signal.getsignal(signal.SIGALRM) is handler

    def test_the_script_s_alarm_goes_on_afterwards(self, alarm: list[int]) -> None:
        signal.setitimer(signal.ITIMER_REAL, 1000, 77)
        with Deadline(500)():
            pass
        left, period = signal.getitimer(signal.ITIMER_REAL)
        assert 900 < left <= 1000
        assert period == pytest.approx(77, abs=0.1)

    def test_the_time_that_passed_meanwhile_counts_for_the_script_s_alarm(
        self, alarm: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [0.0]
        monkeypatch.setattr("overseer.deadline.monotonic", lambda: now[0])
        signal.setitimer(signal.ITIMER_REAL, 1000)
        with Deadline(500)():
            now[0] += 300
            with Deadline(500)():
                now[0] += 300
        assert 300 < signal.getitimer(signal.ITIMER_REAL)[0] <= 400

    def test_an_alarm_that_was_due_meanwhile_goes_off_afterwards(self, alarm: list[int]) -> None:
        signal.setitimer(signal.ITIMER_REAL, SHORT)
        with pytest.raises(Stuck), Deadline(2 * SHORT)():
            asleep()
        while not alarm:
            time.sleep(SHORT / 10)
        assert alarm == [signal.SIGALRM]

    def test_no_timer_of_ours_is_left(self) -> None:
        with Deadline(500)():
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)

    def test_an_inner_limit_stops_the_time_of_the_outer_one(self) -> None:
        deadline = Deadline(500)
        with deadline():
            before = signal.getitimer(signal.ITIMER_REAL)[0]
            deadline.seconds = 100
            with deadline():
                assert signal.getitimer(signal.ITIMER_REAL)[0] <= 100
            assert 400 < signal.getitimer(signal.ITIMER_REAL)[0] <= before
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)

    def test_the_time_of_an_inner_limit_does_not_count_for_the_outer_one(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = [0.0]
        monkeypatch.setattr("overseer.deadline.monotonic", lambda: now[0])
        deadline = Deadline(500)
        with deadline():
            with deadline():
                now[0] += 300
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 400

    def test_the_outer_limit_still_holds_after_an_inner_one(self) -> None:
        deadline = Deadline(SHORT)
        with pytest.raises(Stuck), deadline():
            with deadline():
                pass
            asleep()

    def test_outside_of_a_bound_the_handler_raises_nothing(self) -> None:
        Deadline(1).expired(signal.SIGALRM, None)


@pytest.mark.parametrize("seconds", [9223372037.0, 1e10, 1e300])
def test_a_time_that_no_timer_holds_is_no_limit(seconds: float) -> None:
    with Deadline(seconds)():
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
