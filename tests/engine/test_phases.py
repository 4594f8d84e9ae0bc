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
from overseer.engine.phases import Phase, PhaseSequence, Scheduler, instrument_definition
from overseer.errors import InternalError, Problem

NAMES = ["init", "parse_args", "load_script", "run_script", "finalize"]
Steps = Generator[Any, Any, None]


class Run(Scheduler):
    """A scheduler that is what its instruments get, and writes down what they say."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.said: list[object] = []
        super().__init__(NAMES, args=(self,))

    def report(self, problem: Problem) -> None:
        super().report(problem)
        self.problems.append(problem)

    def through(self, *names: str, raising: BaseException | None = None) -> Self:
        for name in names:
            self.end(getattr(self.phases, name), exception=raising)
        return self

    @property
    def problem(self) -> Problem:
        (only,) = self.problems
        return only


def saying(name: str, *waits: str | tuple[str, float], last: Any = None) -> Callable[[Run], Steps]:
    """An instrument that says its name each time it is resumed; when it is closed, ``last``."""

    def instrument(ov: Run) -> Steps:
        try:
            for wait in waits:
                phase = getattr(ov.phases, wait if isinstance(wait, str) else wait[0])
                yield phase if isinstance(wait, str) else phase(wait[1])
                ov.said.append(name)
        finally:
            if isinstance(last, str):
                ov.said.append(last)
            elif last is not None:
                raise last

    instrument.__qualname__ = name
    return instrument


def line(fn: Any, below: int = 0) -> str:
    return f"{__file__}:{fn.__code__.co_firstlineno + below}"


@pytest.fixture
def run() -> Run:
    return Run()


def test_instruments_resume_by_priority_then_in_the_order_they_were_required(run: Run) -> None:
    run.require(*(saying(str(n), ("init", n)) for n in (0, 5, -1, 2.5, 5)))
    assert run.said == []
    assert run.through("init").said == ["5", "5", "2.5", "0", "-1"]


def test_a_phase_may_be_waited_for_again_but_only_further_back(run: Run) -> None:
    run.require(saying("a", "init", ("init", -5)), saying("b", "init"))
    run.require(saying("c", ("init", 5), ("init", 7), ("init", 1)))
    assert run.through("init").said == ["c", "c", "c", "a", "b", "a"]


def test_waiting_for_what_is_over_goes_on_at_once(run: Run) -> None:
    run.require(saying("now", "IMMEDIATE"))
    run.through(*NAMES)
    run.require(saying("late", *NAMES))
    assert run.said == ["now", *["late"] * 5]


def test_an_instrument_may_require_one_that_waits_for_the_phase_that_is_ending(run: Run) -> None:
    def requiring(ov: Run) -> Steps:
        yield ov.phases.init
        ov.require(inner)
        ov.said.append(current())

    def inner(ov: Run) -> Steps:
        ov.said.append(current())
        yield ov.phases.init
        ov.said.append("required")

    run.require(requiring, saying("already there", "init"))
    assert run.through("init").said == ["inner", "requiring", "already there", "required"]
    assert current() is None
    assert run.busy is None


def test_phases_know_how_far_they_are_and_end_once(run: Run) -> None:
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
    with pytest.raises(InternalError, match="init ended twice"):
        run.through("init")


def test_the_sequence_has_the_phases_in_order_and_names_them(run: Run) -> None:
    assert [phase.name for phase in run.phases] == NAMES
    with pytest.raises(AttributeError, match=r"'load'; the phases are init, parse_args, load_"):
        _ = run.phases.load
    with pytest.raises(AttributeError):  # A debugger looks at one that is not set up.
        _ = PhaseSequence.__new__(PhaseSequence).init


# Each once


def test_an_instrument_runs_once_and_equal_ones_are_one(run: Run) -> None:
    @dataclass(frozen=True)
    class Cpu:
        seconds: float = 1.0

        def __call__(self, ov: Run) -> None:
            ov.said.append(self.seconds)

    def failing(ov: Run) -> None:
        ov.said.append("failing")
        raise ValueError

    waiting = saying("waiting", "init")
    run.require(*map(Cpu, (1.0, 1.0, 2.0)), failing, failing, waiting, waiting)
    assert run.through("init").said == [1.0, 2.0, "failing", "waiting"]
    run.require(*(saying("x") for _ in range(3)), partial(saying("y")))
    assert list(run.states) == ["Cpu", "Cpu#2", "failing", "waiting", "x", "x#2", "x#3", "y"]
    assert run.states["Cpu"] == {"name": "Cpu", "state": "ok", "where": line(Cpu.__call__)}
    assert len(run.problems) == 1


def test_unhashable_instruments_are_told_apart_by_identity(run: Run) -> None:
    @dataclass
    class Odd:
        names: list[str] = field(default_factory=list)

        def __call__(self, ov: Run) -> None:
            ov.said.append("odd")

    one = Odd()
    run.require(one, Odd(), one)
    for _ in range(18):  # One that is gone is not mistaken for another in its place.
        run.require(Odd())
        gc.collect(1)  # All of the heap would take a second, each time.
    assert run.said == ["odd"] * 20


def test_require_answers_with_the_state_of_an_instrument_that_has_one(run: Run) -> None:
    def instrument(ov: Run) -> None: ...

    instrument.__state__ = "its state"  # type: ignore[attr-defined]
    assert run.require(instrument) == "its state"
    assert run.require(instrument, print) == ["its state", print]


# How phases end


def test_the_yield_gives_the_phase_s_value_or_raises_what_ended_it(run: Run) -> None:
    failure = ZeroDivisionError()

    def instrument(ov: Run) -> Steps:
        ov.said.append((yield ov.phases.load_script))
        try:
            yield ov.phases.run_script
        except ZeroDivisionError as error:
            ov.said.append(error)
        yield ov.phases.finalize
        ov.said.append("the end")

    def late(ov: Run) -> Steps:
        with pytest.raises(ZeroDivisionError):
            yield ov.phases.run_script
        ov.said.append("told")

    run.require(instrument)
    with run.run_phase(run.phases.load_script) as set_value:
        set_value(42)
    with pytest.raises(ZeroDivisionError), run.run_phase(run.phases.run_script):
        raise failure
    run.require(late)
    assert run.through("finalize").said == [42, failure, "told", "the end"]
    assert run.problems == []


@pytest.mark.parametrize(
    "failure", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), StopProgram(), StopIteration()]
)
def test_one_that_does_not_care_how_the_script_ended_has_not_failed(
    run: Run, failure: BaseException
) -> None:
    run.require(saying("x", "run_script"))
    assert (run.through("run_script", raising=failure).said, run.problems) == ([], [])
    assert run.states["x"]["state"] == "ok"


def test_what_ended_the_script_is_left_as_it_was(run: Run) -> None:
    def nosy(ov: Run) -> Steps:
        try:
            yield ov.phases.run_script
        except ValueError as error:
            raise error from KeyError("why")

    run.require(nosy, saying("x", "run_script"))
    try:
        raise ValueError("the script's")
    except ValueError as error:
        before = traceback.format_exception(error)
        run.through("run_script", raising=error)
        assert traceback.format_exception(error) == before
    assert run.problems == []


# What fails


@pytest.mark.parametrize("phase", ["IMMEDIATE", *NAMES])
@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(7)])
def test_one_that_raises_is_reported_and_the_others_go_on(
    run: Run, phase: str, error: BaseException
) -> None:
    def bad(ov: Run) -> Steps:
        yield getattr(ov.phases, phase)
        raise error

    def requiring(ov: Run) -> None:
        ov.require(bad)
        ov.said.append("went on")

    run.require(requiring, saying("good", phase))
    assert sorted(map(str, run.through(*NAMES).said)) == ["good", "went on"]
    what, where = f"failed: {type(error).__name__}: {error}", line(bad, 2)
    assert (run.problem.slug, run.problem.what, run.problem.where) == ("instrument", what, where)
    state = {"name": "bad", "state": "failed", "where": line(bad), "error": what}
    assert run.states == {
        "requiring": {"name": "requiring", "state": "ok", "where": line(requiring)},
        "bad": {**state, "failed_at": where},
        "good": {**run.states["good"], "state": "ok"},
    }


def test_one_that_raises_something_else_than_the_script_has_failed(run: Run) -> None:
    run.require(saying("x", "run_script", last=KeyError("mine")))
    run.through("run_script", raising=ValueError("the script's"))
    assert run.problem.what == "failed: KeyError: 'mine'"


def takes_nothing() -> None: ...


async def function(ov: Run) -> None: ...


async def generator(ov: Run) -> AsyncGenerator[Phase, None]:
    yield ov.phases.init


def returns_a_phase(ov: Run) -> Phase:
    return ov.phases.init  # type: ignore[no-any-return]


def returns_a_priority(ov: Run) -> Any:
    return ov.phases.init(3)


@instrument_definition
def factory(ov: Run, n: int = 1) -> None: ...


@pytest.mark.parametrize(
    ("instrument", "slug", "what", "remedy"),
    [
        (takes_nothing, "instrument", "takes 0 positional arguments", "It is switched off"),
        (function, "async-instrument", "it is an async function", "Write 'def' where it has"),
        (generator, "async-instrument", "it is an async function", "Write 'def' where it has"),
        (returns_a_phase, "not-a-phase", "it returned the phase init, and ended", "Write 'yield' "),
        (returns_a_priority, "not-a-phase", "it returned the phase init", "Write 'yield' where"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_is_no_instrument_is_told_in_words_and_placed_where_it_is_defined(
    run: Run, instrument: Any, slug: str, what: str, remedy: str
) -> None:
    run.require(instrument)
    assert (run.problem.slug, run.problem.where) == (slug, line(instrument))
    assert what in run.problem.what
    assert remedy in (run.problem.remedy or "")


def test_what_makes_instruments_is_placed_where_it_is_required(run: Run) -> None:
    def requiring(ov: Run) -> None:
        ov.require(factory)

    run.require(requiring, factory(2))
    assert (run.problem.slug, run.problem.where) == ("not-an-instrument", line(requiring, 1))
    assert (run.problem.remedy or "").startswith("Write factory(...): its parentheses are missing")
    assert run.states["factory#2"] == {
        "name": "factory#2",
        "state": "ok",
        "where": line(test_what_makes_instruments_is_placed_where_it_is_required, 4),
    }


OTHER: Any = Run().phases.finalize


@pytest.mark.parametrize(
    ("value", "fault"),
    [(value, "not a phase") for value in (None, "init", 3, Phase)]
    + [(OTHER, "a phase of another overseer"), (OTHER(3), "a phase of another overseer")],
)
def test_what_is_yielded_and_no_phase_is_named_with_who_yielded_it_and_where(
    run: Run, value: object, fault: str
) -> None:
    def inner() -> Steps:
        try:
            yield value
        finally:
            run.said.append("cleaned up")
            raise ValueError("again")

    def instrument_odd(ov: Run) -> Steps:
        yield ov.phases.init
        yield from inner()

    def delegating(ov: Run) -> Steps:
        yield from [value]

    run.require(instrument_odd, delegating)
    assert run.through("init").said == ["cleaned up"]
    problem, shown = run.problems[1], OTHER(0) if value is OTHER else value
    assert (problem.slug, problem.who) == ("not-a-phase", "instrument_odd")
    assert problem.what == f"it yielded {shown!r:.80}, which is {fault}"
    # The innermost generator's; a list is none.
    assert [each.where for each in run.problems] == [line(delegating, 1), line(inner, 2)]
    assert "ov.phases.init, ov.phases.parse_args" in (problem.remedy or "")


@pytest.mark.parametrize("priority", ["high", None, float("nan")])
def test_a_priority_must_be_a_number(run: Run, priority: Any) -> None:
    run.require(saying("x", ("init", priority)), saying("y", "init"))
    assert run.through("init").said == ["y"]
    assert run.problem.what.startswith("failed: TypeError: the priority of init must be a num")
    assert (run.problem.where or "").startswith(__file__)


def test_generators_of_any_kind_are_instruments(run: Run) -> None:
    class Compiled(Generator[Any, Any, None]):
        """As compiled code has them: not of the type that ``yield`` makes."""

        def __init__(self, phases: Iterator[Any]) -> None:
            self._phases = phases

        def send(self, value: object) -> Any:
            run.said.append("sent")
            return next(self._phases)

        def throw(self, *error: Any) -> Any:
            raise error[0]

    run.require(lambda ov: Compiled(iter([ov.phases.init])))
    assert run.through("init").said == ["sent", "sent"]


# What was asked for


@pytest.mark.parametrize("kind", [StopProgram, OverseerAbort, KeyboardInterrupt])
def test_the_first_wish_is_raised_once_the_others_have_been_resumed(
    run: Run, kind: type[BaseException]
) -> None:
    first = kind("first")
    run.require(saying("x", "init", last=first), saying("y", "init", last=StopProgram("second")))
    run.require(saying("other", "init"))
    with pytest.raises(kind) as raised:
        run.through("init")
    assert (raised.value, run.said, run.problems) == (first, ["x", "y", "other"], [])
    assert run.phases.init.done
    with pytest.raises(kind):  # At the start it reaches whoever requires.
        run.require(saying("at once", last=kind()))


def test_instruments_that_wait_in_vain_clean_up_and_the_first_wish_is_raised(run: Run) -> None:
    def stubborn(ov: Run) -> Steps:
        try:
            yield ov.phases.finalize
        except GeneratorExit:
            yield ov.phases.finalize

    run.require(saying("stopping", "init", last=StopProgram()), stubborn)
    run.require(saying("failing", "finalize", last=ValueError("in the cleanup")))
    run.require(saying("other", "finalize", last="cleaned up"))
    with pytest.raises(StopProgram):
        run.close()
    assert run.said == ["cleaned up"]
    assert [problem.what for problem in run.problems] == [
        "failed: RuntimeError: generator ignored GeneratorExit",
        "failed: ValueError: in the cleanup",
    ]
