"""Instruments wait for phases, resume in order, and fail alone."""

from __future__ import annotations

import gc
import traceback
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import pytest

from overseer.boundary import OverseerAbort, StopProgram, current
from overseer.engine.phases import Phase, PhaseSequence, Scheduler
from overseer.errors import InternalError, Problem

NAMES = ["init", "parse_args", "load_script", "run_script", "finalize"]
Steps = Generator[Any, Any, None]


class Run(Scheduler):
    """A scheduler that is what its instruments get, and writes down what they say."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.said: list[object] = []
        super().__init__(NAMES, args=(self,), report=self.problems.append)

    def through(self, *names: str) -> Self:
        for name in names:
            self.end(getattr(self.phases, name))
        return self

    @property
    def problem(self) -> Problem:
        (only,) = self.problems
        return only


def saying(name: str, *waits: Callable[[Run], object]) -> Callable[[Run], Steps]:
    """An instrument that says its name each time it is resumed."""

    def instrument(ov: Run) -> Steps:
        for wait in waits:
            yield wait(ov)
            ov.said.append(name)

    instrument.__qualname__ = name
    return instrument


@pytest.fixture
def run() -> Run:
    return Run()


class TestOrder:
    def test_an_instrument_runs_up_to_its_first_phase_when_it_is_required(self, run: Run) -> None:
        def instrument(ov: Run) -> Steps:
            ov.said.append("started")
            yield ov.phases.init
            ov.said.append("resumed")

        run.require(instrument)
        assert run.said == ["started"]
        run.through("init")
        assert run.said == ["started", "resumed"]

    def test_a_plain_function_just_runs(self, run: Run) -> None:
        run.require(lambda ov: ov.said.append("ran"))
        run.through(*NAMES)
        assert run.said == ["ran"]
        assert run.problems == []

    def test_one_that_returns_a_phase_is_told_to_yield_it(self, run: Run) -> None:
        run.require(lambda ov: ov.phases.init)
        assert run.problem.slug == "not-a-phase"
        assert run.problem.what.startswith("it returned the phase init, and is over")

    def test_those_who_wait_for_a_phase_resume_in_the_order_they_were_required(
        self, run: Run
    ) -> None:
        for name in "abc":
            run.require(saying(name, lambda ov: ov.phases.init))
        assert run.through("init").said == ["a", "b", "c"]

    def test_higher_priorities_resume_first(self, run: Run) -> None:
        for priority in (0, 5, -1, 2.5, 5):
            wait = partial(lambda p, ov: ov.phases.init(priority=p), priority)
            run.require(saying(str(priority), wait))
        assert run.through("init").said == ["5", "5", "2.5", "0", "-1"]

    def test_an_instrument_may_wait_for_the_same_phase_again_further_back(self, run: Run) -> None:
        run.require(saying("twice", lambda ov: ov.phases.init(5), lambda ov: ov.phases.init(-5)))
        run.require(saying("between", lambda ov: ov.phases.init))
        assert run.through("init").said == ["twice", "between", "twice"]

    def test_waiting_for_the_same_phase_no_further_back_goes_on_at_once(self, run: Run) -> None:
        run.require(saying("twice", lambda ov: ov.phases.init, lambda ov: ov.phases.init(3)))
        run.require(saying("after", lambda ov: ov.phases.init))
        assert run.through("init").said == ["twice", "twice", "after"]

    def test_waiting_for_a_phase_that_is_over_goes_on_at_once(self, run: Run) -> None:
        run.through("init", "parse_args")
        run.require(saying("late", lambda ov: ov.phases.init, lambda ov: ov.phases.parse_args))
        assert run.said == ["late", "late"]

    def test_immediate_never_waits(self, run: Run) -> None:
        run.require(saying("now", lambda ov: ov.phases.IMMEDIATE))
        assert run.said == ["now"]

    def test_an_instrument_may_require_one_that_waits_for_the_phase_that_is_ending(
        self, run: Run
    ) -> None:
        def requiring(ov: Run) -> Steps:
            yield ov.phases.init
            ov.require(saying("required", lambda ov: ov.phases.init))
            ov.said.append("requiring")

        run.require(requiring)
        run.require(saying("already there", lambda ov: ov.phases.init))
        assert run.through("init").said == ["requiring", "already there", "required"]

    def test_phases_know_how_far_they_are(self, run: Run) -> None:
        seen: list[tuple[bool, bool, bool]] = []
        init: Phase = run.phases.init

        def instrument(ov: Run) -> Steps:
            seen.append((init.pending, init.running, init.done))
            yield init
            seen.append((init.pending, init.running, init.done))

        run.require(instrument)
        run.through("init")
        seen.append((init.pending, init.running, init.done))
        assert seen == [(True, False, False), (False, True, False), (False, False, True)]

    def test_a_phase_cannot_end_twice(self, run: Run) -> None:
        run.through("init")
        with pytest.raises(InternalError, match="init ended twice"):
            run.through("init")

    def test_the_sequence_has_the_phases_in_order(self, run: Run) -> None:
        assert [phase.name for phase in run.phases] == NAMES

    def test_a_phase_that_there_is_not_is_answered_with_those_there_are(self, run: Run) -> None:
        with pytest.raises(AttributeError, match=r"'load'; the phases are init, parse_args, load_"):
            _ = run.phases.load

    def test_a_sequence_can_be_looked_at_before_it_is_set_up(self) -> None:
        with pytest.raises(AttributeError):
            _ = PhaseSequence.__new__(PhaseSequence).init

    @pytest.mark.parametrize("priority", ["high", None, float("nan")])
    def test_a_priority_must_be_a_number(self, run: Run, priority: Any) -> None:
        run.require(saying("x", lambda ov: ov.phases.init(priority)))
        run.require(saying("y", lambda ov: ov.phases.init))
        assert run.through("init").said == ["y"]
        assert run.problem.what.startswith("failed: TypeError: the priority of init must be a num")
        assert run.problem.where is not None
        assert run.problem.where.startswith(__file__)


class TestOnce:
    def test_the_same_instrument_required_twice_runs_once(self, run: Run) -> None:
        instrument = saying("x", lambda ov: ov.phases.init)
        run.require(instrument)
        run.require(instrument)
        assert run.through("init").said == ["x"]

    def test_equal_frozen_dataclasses_are_one_instrument(self, run: Run) -> None:
        @dataclass(frozen=True)
        class Cpu:
            seconds: float = 1.0

            def __call__(self, ov: Run) -> None:
                ov.said.append(self.seconds)

        for seconds in (1.0, 1.0, 2.0):
            run.require(Cpu(seconds))
        assert run.said == [1.0, 2.0]
        assert list(run.states) == ["Cpu", "Cpu#2"]

    def test_unhashable_instruments_are_told_apart_by_identity(self, run: Run) -> None:
        @dataclass
        class Odd:
            names: list[str] = field(default_factory=list)

            def __call__(self, ov: Run) -> None:
                ov.said.append("odd")

        one, other = Odd(), Odd()
        for instrument in (one, other, one):
            run.require(instrument)
        assert run.said == ["odd", "odd"]

    def test_an_unhashable_instrument_is_not_mistaken_for_one_that_is_gone(self, run: Run) -> None:
        class Odd(list[int]):
            def __call__(self, ov: Run) -> None:
                ov.said.append("odd")

        for _ in range(20):
            run.require(Odd())
            gc.collect(1)  # All of the heap would take a second, each time.
        assert run.said == ["odd"] * 20

    def test_an_instrument_that_failed_is_not_started_again(self, run: Run) -> None:
        def failing(ov: Run) -> None:
            raise ValueError

        run.require(failing)
        run.require(failing)
        assert len(run.problems) == 1

    def test_require_answers_with_the_state_of_an_instrument_that_has_one(self, run: Run) -> None:
        def instrument(ov: Run) -> None: ...

        instrument.__state__ = "its state"  # type: ignore[attr-defined]
        assert run.require(instrument) == "its state"
        assert run.require(instrument) == "its state"
        assert run.require(print) is print


class TestValues:
    def test_a_phase_s_value_is_what_the_yield_gives(self, run: Run) -> None:
        def instrument(ov: Run) -> Steps:
            ov.said.append((yield ov.phases.run_script))

        run.require(instrument)
        run.end(run.phases.run_script, value=42)
        assert run.said == [42]

    def test_what_ended_the_script_is_raised_in_the_instrument(self, run: Run) -> None:
        def instrument(ov: Run) -> Steps:
            try:
                yield ov.phases.run_script
            except ZeroDivisionError as error:
                ov.said.append(error)
            yield ov.phases.finalize
            ov.said.append("the end")

        failure = ZeroDivisionError()
        run.require(instrument)
        run.end(run.phases.run_script, exception=failure)
        run.through("finalize")
        assert run.said == [failure, "the end"]
        assert run.problems == []

    @pytest.mark.parametrize(
        "failure", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), StopProgram()]
    )
    def test_an_instrument_that_does_not_care_how_the_script_ended_has_not_failed(
        self, run: Run, failure: BaseException
    ) -> None:
        run.require(saying("x", lambda ov: ov.phases.run_script))
        run.end(run.phases.run_script, exception=failure)
        assert (run.said, run.problems) == ([], [])
        assert run.states["x"]["state"] == "ok"

    def test_a_script_that_ends_by_stop_iteration_is_no_failure_of_instruments(
        self, run: Run
    ) -> None:
        run.require(saying("x", lambda ov: ov.phases.run_script))
        run.end(run.phases.run_script, exception=StopIteration())
        assert run.problems == []

    def test_an_instrument_that_raises_something_else_instead_has_failed(self, run: Run) -> None:
        def instrument(ov: Run) -> Steps:
            try:
                yield ov.phases.run_script
            finally:
                raise KeyError("mine")

        run.require(instrument)
        run.end(run.phases.run_script, exception=ValueError("the script's"))
        assert run.problem.what == "failed: KeyError: 'mine'"

    def test_what_ended_the_script_is_left_as_it_was(self, run: Run) -> None:
        def nosy(ov: Run) -> Steps:
            try:
                yield ov.phases.run_script
            except ValueError as error:
                raise error from KeyError("why")

        def script() -> None:
            raise ValueError("the script's")

        run.require(nosy)
        run.require(saying("x", lambda ov: ov.phases.run_script))
        try:
            script()
        except ValueError as error:
            before = traceback.format_exception(error)
            run.end(run.phases.run_script, exception=error)
            assert traceback.format_exception(error) == before
        assert run.problems == []

    def test_an_instrument_that_comes_late_is_told_how_the_script_ended(self, run: Run) -> None:
        run.end(run.phases.run_script, exception=ValueError("x"))

        def late(ov: Run) -> Steps:
            with pytest.raises(ValueError, match="x"):
                yield ov.phases.run_script
            ov.said.append("told")

        run.require(late)
        assert run.said == ["told"]


class TestFailures:
    @pytest.mark.parametrize("phase", NAMES)
    def test_one_that_raises_is_reported_and_the_others_go_on(self, run: Run, phase: str) -> None:
        def bad(ov: Run) -> Steps:
            yield getattr(ov.phases, phase)
            raise ValueError(phase)

        run.require(bad)
        run.require(saying("good", lambda ov: getattr(ov.phases, phase)))
        run.through(*NAMES)
        line = bad.__code__.co_firstlineno + 2
        assert run.said == ["good"]
        assert (run.problem.slug, run.problem.where) == ("instrument", f"{__file__}:{line}")
        assert run.problem.what == f"failed: ValueError: {phase}"
        state = run.states[run.problem.who]
        assert (state["state"], state["error"]) == ("failed", run.problem.what)
        assert state["failed_at"] == run.problem.where

    def test_one_that_raises_at_once_is_reported(self, run: Run) -> None:
        def bad(ov: Run) -> None:
            raise ValueError("soon")

        run.require(bad)
        assert run.problem.what == "failed: ValueError: soon"

    def test_one_that_does_not_take_the_overseer_is_placed_where_it_is_defined(
        self, run: Run
    ) -> None:
        def bad() -> None: ...

        run.require(bad)
        assert "takes 0 positional arguments" in run.problem.what
        assert run.problem.where == f"{__file__}:{bad.__code__.co_firstlineno}"

    def test_one_that_exits_does_not_end_the_run(self, run: Run) -> None:
        def bad(ov: Run) -> Steps:
            yield ov.phases.init
            raise SystemExit(7)

        run.require(bad)
        run.through(*NAMES)
        assert run.problem.what == "failed: SystemExit: 7"

    def test_what_fails_is_named_while_it_runs_and_nobody_is_after(self, run: Run) -> None:
        def inner(ov: Run) -> None:
            ov.said.append(current())

        def outer(ov: Run) -> Steps:
            yield ov.phases.init
            ov.require(inner)
            ov.said.append(current())

        run.require(outer)
        run.through("init")
        assert [str(name).rpartition(".")[2] for name in run.said] == ["inner", "outer"]
        assert current() is None

    def test_the_failure_of_a_required_instrument_is_not_the_requirer_s(self, run: Run) -> None:
        def inner(ov: Run) -> None:
            raise ValueError

        def outer(ov: Run) -> Steps:
            yield ov.phases.init
            ov.require(inner)
            ov.said.append("went on")

        run.require(outer)
        run.through("init")
        assert run.said == ["went on"]
        assert run.problem.who.endswith("inner")

    def test_one_that_cleans_up_after_its_own_failure_fails_once(self, run: Run) -> None:
        def bad(ov: Run) -> Steps:
            try:
                yield "nothing"
            finally:
                ov.said.append("cleaned up")
                raise ValueError("again")

        run.require(bad)
        assert run.said == ["cleaned up"]
        assert run.problem.slug == "not-a-phase"

    @pytest.mark.parametrize("kind", ["function", "generator"])
    def test_an_async_instrument_is_refused_in_words(self, run: Run, kind: str) -> None:
        async def function(ov: Run) -> None: ...

        async def generator(ov: Run) -> AsyncGenerator[Phase, None]:
            yield ov.phases.init

        run.require({"function": function, "generator": generator}[kind])
        assert run.problem.slug == "async-instrument"
        assert "async def" in (run.problem.remedy or "")


class TestWhatIsYielded:
    def yielding(self, run: Run, value: object) -> tuple[Problem, str]:
        def instrument_odd(ov: Run) -> Steps:
            yield ov.phases.init
            yield value

        run.require(instrument_odd)
        run.through("init")
        return run.problem, f"{__file__}:{instrument_odd.__code__.co_firstlineno + 2}"

    @pytest.mark.parametrize("value", [None, "init", 3, Phase])
    def test_something_else_is_named_with_who_yielded_it_and_where(
        self, run: Run, value: object
    ) -> None:
        problem, line = self.yielding(run, value)
        assert problem.slug == "not-a-phase"
        assert problem.who.endswith("instrument_odd")
        assert problem.what == f"it yielded {value!r:.80}, which is not a phase"
        assert problem.where == line
        assert "ov.phases.init, ov.phases.parse_args" in (problem.remedy or "")

    @pytest.mark.parametrize("priority", [None, 3])
    def test_a_phase_of_another_overseer_is_called_that(
        self, run: Run, priority: float | None
    ) -> None:
        foreign: Any = Run().phases.finalize
        problem, line = self.yielding(run, foreign if priority is None else foreign(priority))
        assert "<phase finalize: pending>" in problem.what
        assert problem.what.endswith("which is a phase of another overseer")
        assert problem.where == line

    def test_the_line_is_that_of_the_innermost_generator(self, run: Run) -> None:
        def inner(ov: Run) -> Steps:
            yield 3

        def outer(ov: Run) -> Steps:
            yield from inner(ov)

        run.require(outer)
        assert run.problem.where == f"{__file__}:{inner.__code__.co_firstlineno + 1}"

    def test_delegating_to_what_is_no_generator_is_placed_where_that_is_done(
        self, run: Run
    ) -> None:
        def outer(ov: Run) -> Steps:
            yield from [3]

        run.require(outer)
        assert run.problem.where == f"{__file__}:{outer.__code__.co_firstlineno + 1}"

    def test_asking_for_ever_for_a_phase_that_is_over_is_cut_short(self, run: Run) -> None:
        def round_and_round(ov: Run) -> Steps:
            try:
                while True:
                    yield ov.phases.init
            finally:
                ov.said.append("cleaned up")

        run.require(round_and_round)
        run.require(saying("other", lambda ov: ov.phases.init))
        run.through("init")
        assert run.problem.slug == "stuck"
        assert "<phase init" in run.problem.what
        assert run.said == ["cleaned up", "other"]

    def test_asking_for_every_phase_after_the_run_is_fine(self, run: Run) -> None:
        run.through(*NAMES)
        run.require(saying("x", *[partial(lambda n, ov: getattr(ov.phases, n), n) for n in NAMES]))
        assert run.said == ["x"] * 5

    def test_generators_of_any_kind_are_instruments(self, run: Run) -> None:
        class Steps2(Generator[Any, Any, None]):
            """As compiled code has them: not of the type that ``yield`` makes."""

            def __init__(self, phases: Iterator[Any]) -> None:
                self._phases = phases

            def send(self, value: object) -> Any:
                run.said.append("sent")
                return next(self._phases)

            def throw(self, *error: Any) -> Any:
                raise error[0]

        run.require(lambda ov: Steps2(iter([ov.phases.init])))
        run.through("init")
        assert run.said == ["sent", "sent"]


class TestWishes:
    @pytest.mark.parametrize("kind", [StopProgram, OverseerAbort, KeyboardInterrupt])
    def test_a_wish_is_raised_once_the_others_have_been_resumed(
        self, run: Run, kind: type[BaseException]
    ) -> None:
        def stopping(ov: Run) -> Steps:
            yield ov.phases.init
            raise kind

        run.require(stopping)
        run.require(saying("other", lambda ov: ov.phases.init))
        with pytest.raises(kind):
            run.through("init")
        assert run.said == ["other"]
        assert run.phases.init.done
        assert run.problems == []

    def test_of_two_wishes_the_first_counts(self, run: Run) -> None:
        def stopping(ov: Run) -> Steps:
            yield ov.phases.init
            raise StopProgram("first")

        def aborting(ov: Run) -> Steps:
            yield ov.phases.init
            raise OverseerAbort(ValueError())

        run.require(stopping)
        run.require(aborting)
        with pytest.raises(StopProgram, match="first"):
            run.through("init")

    def test_a_wish_at_the_start_reaches_who_requires(self, run: Run) -> None:
        def stopping(ov: Run) -> None:
            raise StopProgram

        with pytest.raises(StopProgram):
            run.require(stopping)


class TestClosing:
    def test_instruments_that_wait_in_vain_clean_up(self, run: Run) -> None:
        def waiting(ov: Run) -> Steps:
            try:
                yield ov.phases.finalize
            finally:
                ov.said.append("cleaned up")

        run.require(waiting)
        run.close()
        assert run.said == ["cleaned up"]

    def test_one_that_does_not_end_is_reported(self, run: Run) -> None:
        def stubborn(ov: Run) -> Steps:
            try:
                yield ov.phases.finalize
            except GeneratorExit:
                yield ov.phases.finalize

        run.require(stubborn)
        run.close()
        assert "generator ignored GeneratorExit" in run.problem.what

    def test_one_that_fails_to_clean_up_does_not_keep_others_from_it(self, run: Run) -> None:
        def failing(ov: Run) -> Steps:
            try:
                yield ov.phases.finalize
            finally:
                raise ValueError("in the cleanup")

        run.require(failing)
        run.require(saying_at_the_end("other"))
        run.close()
        assert run.said == ["other"]
        assert run.problem.what == "failed: ValueError: in the cleanup"

    def test_a_wish_while_closing_is_raised_once_all_are_closed(self, run: Run) -> None:
        def stopping(ov: Run) -> Steps:
            try:
                yield ov.phases.finalize
            finally:
                raise StopProgram

        run.require(stopping)
        run.require(saying_at_the_end("other"))
        with pytest.raises(StopProgram):
            run.close()
        assert run.said == ["other"]


def saying_at_the_end(name: str) -> Callable[[Run], Steps]:
    def instrument(ov: Run) -> Steps:
        try:
            yield ov.phases.finalize
        finally:
            ov.said.append(name)

    return instrument


class TestNames:
    def test_each_instrument_has_a_state_with_its_place(self, run: Run) -> None:
        def instrument_x(ov: Run) -> None: ...

        run.require(instrument_x)
        (state,) = run.states.values()
        assert state["name"] == "instrument_x"
        assert state["where"] == f"{__file__}:{instrument_x.__code__.co_firstlineno}"
        assert state["state"] == "ok"

    def test_instruments_of_one_name_are_numbered(self, run: Run) -> None:
        for _ in range(3):
            run.require(saying("x"))
        assert list(run.states) == ["x", "x#2", "x#3"]

    def test_an_object_s_place_is_that_of_its_call(self, run: Run) -> None:
        class Cpu:
            def __call__(self, ov: Run) -> None: ...

        run.require(Cpu())
        (state,) = run.states.values()
        assert state["where"] == f"{__file__}:{Cpu.__call__.__code__.co_firstlineno}"
