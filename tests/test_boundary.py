"""Errors of other people's code: caught, named, reported once; wishes pass."""

from __future__ import annotations

import functools
import json
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from overseer.boundary import (
    Guarded,
    OverseerAbort,
    StopProgram,
    acting,
    asked_for,
    code_of,
    current,
    here,
    name_of,
    problem,
    said,
    where,
)
from overseer.errors import Problem, VoirError

THIS = __file__


def caught(fn: Callable[[], object]) -> BaseException:
    try:
        fn()
    except BaseException as error:
        return error
    raise AssertionError("it did not raise")


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*args: object) -> None:
        raise error

    return fail


def line_of(fn: Any) -> int:
    """The second line of a function: where it does what it is about."""
    return int(fn.__code__.co_firstlineno) + 1


class TestGuarded:
    def test_a_call_that_works_returns_what_the_function_does(self) -> None:
        assert Guarded(lambda a, b: a + b, "adder", print)(1, 2) == 3

    def test_the_first_failure_is_reported_and_the_others_are_not(self) -> None:
        problems: list[Problem] = []
        guarded = Guarded(raising(ValueError("no")), "instrument_x", problems.append)
        assert [guarded({}), guarded({}), guarded({})] == [None, None, None]
        assert [(p.slug, p.who, p.what) for p in problems] == [
            ("subscriber", "instrument_x", "a subscriber failed: ValueError: no")
        ]
        assert not guarded.alive

    def test_a_function_that_failed_is_not_called_again(self) -> None:
        calls: list[int] = []

        def fail() -> None:
            calls.append(1)
            raise ValueError

        guarded = Guarded(fail, "x", lambda problem: None)
        guarded()
        guarded()
        assert calls == [1]

    def test_one_that_was_switched_off_while_it_failed_is_still_reported(self) -> None:
        problems: list[Problem] = []

        def fail() -> None:
            guarded.alive = False  # As an operator of giving's does before the error arrives.
            raise ValueError

        guarded = Guarded(fail, "x", problems.append)
        guarded()
        assert len(problems) == 1

    def test_it_fails_once_whoever_says_so(self) -> None:
        problems: list[Problem] = []
        guarded = Guarded(print, "x", problems.append)
        for _ in range(2):
            guarded.failed("reduction", ValueError(), "a reduction failed")
        assert [p.what for p in problems] == ["a reduction failed: ValueError"]
        assert not guarded.alive

    def test_system_exit_is_a_failure_like_others(self) -> None:
        problems: list[Problem] = []
        Guarded(raising(SystemExit(3)), "x", problems.append)()
        assert problems[0].what == "a subscriber failed: SystemExit: 3"

    @pytest.mark.parametrize("kind", [StopProgram, OverseerAbort, KeyboardInterrupt])
    def test_what_the_user_asked_for_passes_and_leaves_it_on(
        self, kind: type[BaseException]
    ) -> None:
        guarded = Guarded(raising(kind()), "x", raising(AssertionError()))
        with pytest.raises(kind):
            guarded()
        assert guarded.alive

    def test_it_remembers_who_asked_for_it(self) -> None:
        guarded = Guarded(print, "x", print)
        line = here()
        assert line is not None
        file, _, number = line.rpartition(":")
        assert guarded.place == f"{file}:{int(number) - 1}"

    def test_a_failure_without_a_useful_frame_is_placed_where_it_was_asked_for(self) -> None:
        problems: list[Problem] = []
        guarded = Guarded(int, "x", problems.append)
        guarded("three")
        assert problems[0].where == guarded.place


class TestAskedFor:
    def test_an_ordinary_error_is_not(self) -> None:
        assert not asked_for(caught(raising(ValueError())))

    def test_an_error_of_fail_is(self) -> None:
        error = ValueError()
        error.__voir_asked__ = True  # type: ignore[attr-defined]
        assert asked_for(error)

    @pytest.mark.parametrize("kind", [SystemExit, GeneratorExit])
    def test_other_ways_to_leave_are_not(self, kind: type[BaseException]) -> None:
        assert not asked_for(kind())

    def test_an_error_from_a_signal_handler_of_the_script_is(self) -> None:
        def on_alarm(signum: int, frame: object) -> None:
            raise TimeoutError("the script's own")

        before = signal.signal(signal.SIGUSR1, on_alarm)
        try:
            error = caught(lambda: signal.raise_signal(signal.SIGUSR1))
        finally:
            asked = asked_for(error)
            signal.signal(signal.SIGUSR1, before)
        assert asked
        assert not asked_for(error)  # It is no handler any more.

    def test_a_script_s_timeout_goes_through_a_subscriber_and_leaves_it_on(self) -> None:
        def on_alarm(signum: int, frame: object) -> None:
            raise TimeoutError

        def slow() -> None:
            signal.raise_signal(signal.SIGUSR1)

        guarded = Guarded(slow, "x", raising(AssertionError()))
        before = signal.signal(signal.SIGUSR1, on_alarm)
        try:
            with pytest.raises(TimeoutError):
                guarded()
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert guarded.alive

    def test_an_error_inside_an_enum_is_not_taken_for_a_signal_s(self) -> None:
        # signal.SIG_DFL is a member of an Enum, whose class can be called.
        assert not asked_for(caught(lambda: signal.Signals("nonsense")))  # type: ignore[arg-type]


class TestWhere:
    def test_it_is_the_last_line_of_the_culprit(self) -> None:
        def culprit() -> None:
            raise ValueError

        assert where(caught(culprit)) == f"{THIS}:{line_of(culprit)}"

    def test_it_is_not_in_the_library_that_the_culprit_called(self) -> None:
        def culprit() -> None:
            json.loads("{")

        assert where(caught(culprit)) == f"{THIS}:{line_of(culprit)}"

    def test_it_is_not_in_the_plumbing(self) -> None:
        def culprit() -> None:
            raise ValueError

        error = caught(lambda: functools.singledispatch(lambda x: culprit())(1))
        assert where(error) == f"{THIS}:{line_of(culprit)}"

    def test_an_error_in_a_library_only_is_placed_in_the_file_that_voir_called(self) -> None:
        names = {"__name__": "installed"}
        path = "/somewhere/site-packages/gauge/__init__.py"
        exec(compile("import json\ndef read(): return json.loads('{')", path, "exec"), names)
        read: Any = names["read"]
        try:
            read()
        except ValueError as error:
            assert error.__traceback__ is not None
            error.__traceback__ = error.__traceback__.tb_next  # Without this test's own frame.
            assert where(error) == f"{path}:2"

    def test_what_a_library_calls_back_is_the_culprit(self) -> None:
        def culprit() -> None:
            raise ValueError

        names: dict[str, Any] = {}
        path = "/somewhere/site-packages/gauge/__init__.py"
        exec(compile("def call(fn): fn()", path, "exec"), names)
        error = caught(lambda: names["call"](culprit))
        assert error.__traceback__ is not None
        assert error.__traceback__.tb_next is not None
        error.__traceback__ = error.__traceback__.tb_next.tb_next  # From the library inwards.
        assert where(error) == f"{THIS}:{line_of(culprit)}"

    def test_voir_s_own_frames_do_not_count(self) -> None:
        error = caught(lambda: Guarded(raising(StopProgram()), "x", print)())
        place = where(error)
        assert place is not None
        assert place.startswith(THIS)

    def test_a_syntax_error_without_frames_is_placed_in_its_file(self) -> None:
        assert where(SyntaxError("bad", ("voirfile.py", 7, 1, "x ="))) == "voirfile.py:7"

    def test_an_error_that_was_never_raised_is_nowhere(self) -> None:
        assert where(ValueError()) is None

    def test_here_is_the_caller(self) -> None:
        place = here()
        assert place is not None
        assert place.startswith(f"{THIS}:")


class TestSaid:
    def test_it_is_the_type_and_the_message(self) -> None:
        assert said(ValueError("too small")) == "ValueError: too small"

    def test_without_a_message_it_is_the_type(self) -> None:
        assert said(ValueError()) == "ValueError"

    def test_it_is_one_line(self) -> None:
        assert said(RuntimeError("first\n  second")) == "RuntimeError: first second"

    def test_a_type_of_a_package_has_its_module(self) -> None:
        assert said(json.JSONDecodeError("bad", "{", 0)).startswith("json.decoder.JSONDecodeError:")

    def test_notes_do_not_take_the_place_of_the_message(self) -> None:
        error = ValueError("the message")
        vars(error)["__notes__"] = ["a note"]
        assert said(error) == "ValueError: the message"

    def test_a_message_that_cannot_be_made_leaves_the_type(self) -> None:
        class Odd(Exception):
            __module__ = "__main__"

            def __str__(self) -> str:
                raise RuntimeError

        assert said(Odd()).endswith("Odd")


class TestProblem:
    def test_it_says_what_failed_and_that_it_is_switched_off(self) -> None:
        found = problem("instrument", "instrument_x", ValueError("no"))
        assert str(found) == (
            "instrument_x: failed: ValueError: no\n  It is switched off; the script goes on."
        )

    def test_a_voir_error_speaks_for_itself(self) -> None:
        error = VoirError("not-a-phase", "it yielded 3", "Yield a phase.")
        found = problem("instrument", "instrument_x", error)
        assert (found.slug, found.what, found.remedy) == (
            "not-a-phase",
            "it yielded 3",
            "Yield a phase.",
        )

    def test_without_a_place_of_its_own_it_has_the_one_it_is_given(self) -> None:
        assert problem("x", "x", ValueError(), near="voirfile.py:3").where == "voirfile.py:3"


class TestNames:
    def test_a_function_goes_by_its_name(self) -> None:
        def instrument_x() -> None: ...

        assert name_of(instrument_x) == "instrument_x"

    def test_a_partial_goes_by_its_function_s_name(self) -> None:
        assert name_of(functools.partial(line_of, 1)) == "line_of"

    def test_a_method_has_its_class_s_name_in_front(self) -> None:
        assert name_of([].append) == "list.append"

    def test_an_object_goes_by_its_class_s_name(self) -> None:
        assert name_of(SimpleNamespace()) == "SimpleNamespace"

    def test_whoever_acts_is_current_also_when_others_act_within(self) -> None:
        with acting("outer"):
            with acting("inner"):
                assert current() == "inner"
            assert current() == "outer"
        assert current() is None


class TestCodeOf:
    def test_wrappers_are_looked_through(self) -> None:
        @functools.wraps(line_of)
        def wrapper() -> None: ...

        assert code_of(functools.partial(wrapper)) is line_of.__code__

    def test_an_object_has_the_code_of_its_call(self) -> None:
        assert code_of(Guarded(print, "x", print)) is Guarded.__call__.__code__

    @pytest.mark.parametrize("fn", [print, signal.SIG_DFL, None, 3])
    def test_what_is_not_python_has_none(self, fn: object) -> None:
        assert code_of(fn) is None
