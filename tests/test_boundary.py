"""Errors of other people's code: caught, named, reported once; requested stops pass."""

from __future__ import annotations

import functools
import json
import signal
from types import SimpleNamespace

import pytest

from overseer import boundary
from overseer.boundary import Guarded, OverseerAbort, StopProgram, current, problem, where
from overseer.errors import Problem, VoirError


def caught(fn, *args):
    with pytest.raises(BaseException) as error:
        fn(*args)
    return error.value


def raising(error):
    def fail(*args):
        raise error

    return fail


@pytest.fixture
def alarm():
    """A handler of the script's, which raises, and what sets it off."""
    before = signal.signal(signal.SIGUSR1, raising(TimeoutError("the script's own")))
    yield lambda: signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


# What is guarded


@pytest.mark.parametrize(
    ("error", "what"), [(ValueError("no"), "ValueError: no"), (SystemExit(3), "SystemExit: 3")]
)
def test_the_first_failure_is_reported_and_the_function_not_called_again(error, what):
    problems, calls = [], []

    def fail(call):
        calls.append(call)
        if call == "two":
            guarded.alive = False  # As an operator of giving's does before the error arrives.
            raise error
        return call

    guarded = Guarded(fail, "instrument_x", problems.append)
    assert [guarded("one"), guarded("two"), guarded("three")] == ["one", None, None]
    guarded.failed("reduction", ValueError(), "a reduction failed")
    assert (calls, guarded.alive) == (["one", "two"], False)
    (one,) = problems
    what = f"a subscriber failed: {what}"
    assert (one.slug, one.who, one.what) == ("subscriber", "instrument_x", what)


def test_one_that_is_said_to_have_failed_is_off():
    problems = []
    guarded = Guarded(print, "x", problems.append)
    guarded.failed("reduction", ValueError(), "a reduction failed")
    assert [one.what for one in problems] == ["a reduction failed: ValueError"]
    assert not guarded.alive


@pytest.mark.parametrize("kind", [StopProgram, OverseerAbort, KeyboardInterrupt, TimeoutError])
def test_what_the_user_or_a_signal_handler_asked_for_passes_and_leaves_it_on(kind, alarm):
    fn = alarm if kind is TimeoutError else raising(kind())
    guarded = Guarded(fn, "x", raising(AssertionError()))
    with pytest.raises(kind):
        guarded()
    assert guarded.alive


def test_a_failure_without_a_useful_frame_is_placed_where_it_was_asked_for():
    problems = []
    guarded, place = Guarded(int, "x", problems.append), boundary.here()
    guarded("three")
    assert problems[0].where == guarded.place == place


def test_an_error_is_asked_for_if_a_wish_says_so_or_a_signal_handler_of_the_script_s(alarm):
    requested = ValueError()
    requested.__voir_requested__ = True
    interrupted = caught(alarm)
    inside_an_enum = caught(signal.Signals, "nonsense")  # SIG_DFL's class can be called too.
    others = [caught(culprit), SystemExit(), GeneratorExit(), inside_an_enum]
    asked = [boundary.is_requested_stop(error) for error in (requested, interrupted, *others)]
    assert asked == [True, True, False, False, False, False]
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    assert not boundary.is_requested_stop(interrupted)  # It is no handler any more.


# What is said


def culprit(*args):
    raise ValueError


def calls_a_library(*args):
    json.loads("{")


GAUGE = "/somewhere/site-packages/gauge/__init__.py"
_names = {"__name__": "installed"}
exec(compile("import json\ndef call(fn): fn()\ndef read(): json.loads('{')", GAUGE, "exec"), _names)
#: A call that fails, how many of its outer frames are taken off, and where it failed.
PLACES = {
    "the last line of the culprit": (culprit, 0, culprit),
    "not in the library that it called": (calls_a_library, 0, calls_a_library),
    "not in the plumbing": (lambda: functools.singledispatch(culprit)(1), 0, culprit),
    "in the file that voir called, if it is a library's": (_names["read"], 1, f"{GAUGE}:3"),
    "in what a library calls back": (lambda: _names["call"](culprit), 2, culprit),
    "not in voir": (Guarded(raising(StopProgram()), "x", print), 0, raising),
}


@pytest.mark.parametrize(("fn", "outer", "place"), PLACES.values(), ids=PLACES)
def test_an_error_is_placed(fn, outer, place):
    error = caught(fn)
    for _ in range(outer):
        error.__traceback__ = error.__traceback__.tb_next
    if callable(place):
        line = place.__code__.co_firstlineno + (2 if place is raising else 1)
        place = f"{__file__}:{line}"
    assert where(error) == place


def test_an_error_without_frames_is_in_its_file_or_nowhere():
    assert where(SyntaxError("bad", ("voirfile.py", 7, 1, "x ="))) == "voirfile.py:7"
    assert where(ValueError()) is None
    assert problem("x", "x", ValueError(), near="voirfile.py:3").where == "voirfile.py:3"


class Odd(Exception):
    __module__ = "__main__"
    __str__ = raising(RuntimeError())


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("the message"), "ValueError: the message"),
        (ValueError(), "ValueError"),
        (RuntimeError("first\n  second"), "RuntimeError: first second"),
        (json.JSONDecodeError("bad", "", 0), "json.decoder.JSONDecodeError: bad: line 1 column 1"),
        (Odd(), "Odd"),
    ],
)
def test_an_error_is_said_in_one_line_its_type_and_its_message(error, text):
    error.add_note("a note")
    assert boundary.said(error).removesuffix(" (char 0)") == text


def test_a_problem_says_what_failed_and_a_voir_error_speaks_for_itself():
    assert str(problem("instrument", "instrument_x", ValueError("no"))) == (
        "instrument_x: failed: ValueError: no\n  It is switched off; the script continues."
    )
    told = problem("instrument", "x", VoirError("not-a-phase", "it yielded 3", "Yield a phase."))
    assert told == Problem("not-a-phase", "x", "it yielded 3", None, "Yield a phase.")


def test_a_callable_goes_by_its_function_s_name_or_its_class_s():
    named = [caught, functools.partial(caught, 1), [].append, SimpleNamespace()]
    assert list(map(boundary.name_of, named)) == [
        "caught",
        "caught",
        "list.append",
        "SimpleNamespace",
    ]


def test_whoever_acts_is_current_also_when_others_act_within():
    with boundary.acting("outer"):
        with boundary.acting("inner"):
            assert current() == "inner"
        assert current() == "outer"
    assert current() is None


def test_the_code_of_a_callable_is_that_which_runs_in_the_end():
    wrapper = functools.wraps(caught)(lambda: None)
    assert boundary.code_of(functools.partial(wrapper)) is caught.__code__
    assert boundary.code_of(Guarded(print, "x", print)) is Guarded.__call__.__code__
    assert [boundary.code_of(fn) for fn in (print, signal.SIG_DFL, None, 3)] == [None] * 4
