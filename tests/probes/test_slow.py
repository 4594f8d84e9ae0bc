"""The slow path: what only ptera's own engine can serve, without what it would leave behind."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from .conftest import Make
from .scripts import Script

SOURCE = """
def inner(a):
    x = a * 2
    y = x + 1
    return y
def outer(k):
    total = 0
    for i in range(2):
        total += inner(i + k)
    return total
def other(k):
    return inner(k)
def gen(n):
    for i in range(n):
        z = inner(i)
        yield z
def lazy(n):
    for i in range(n):
        yield i
class A:
    def step(self, q):
        return inner(q)
async def waits(n):
    return inner(n)
def tagged(n):
    cost: "@loss" = n
    return cost
"""


@pytest.fixture
def made(script: Make) -> Script:
    return script(SOURCE).load()


@pytest.mark.parametrize(
    ("selector", "call", "expected"),
    [
        ("//outer > //inner > x", "outer(1), other(5)", [{"x": 2}, {"x": 4}]),
        ("//outer(k) > //inner > x", "outer(1), other(5)", [{"k": 1, "x": 2}, {"k": 1, "x": 4}]),
        ("//outer(i) > //inner > y", "outer(1)", [{"i": 0, "y": 3}, {"i": 1, "y": 5}]),
        ("//A/step(q) > //inner > x", "A().step(3), inner(4)", [{"q": 3, "x": 6}]),
        ("//inner(x, y)", "inner(1), inner(2)", [{"x": 2, "y": 3}, {"x": 4, "y": 5}]),
        ("//inner > $v", "inner(1)", [{"v": v} for v in (True, 1, 2, 3, 3, True)]),
        ("//gen > //inner > x", "list(gen(2)), inner(9)", [{"x": 0}, {"x": 2}]),
    ],
)
def test_ptera_serves_what_is_not_compiled(
    made: Script, selector: str, call: str, expected: list[dict[str, Any]]
) -> None:
    plain = made.call(call)
    events = made.probe(selector)
    assert repr(made.call(call)) == repr(plain)
    if "$" in selector:  # Between its markers; ptera has more of those than there are moments.
        events = [event for event in events if event["v"] is not True]
        expected = [event for event in expected if event["v"] is not True]
    assert events == expected[: len(events)]
    assert len(events) >= 2 or len(expected) == 1
    assert made.problems == []
    assert made.verdict()["state"] == "fired", made.verdict()


def test_a_suspended_generator_does_not_lend_its_scope_to_its_caller(made: Script) -> None:
    events = made.probe("//gen(i) > //inner > x")
    generator = made.call("gen(3)")
    next(generator)
    made.call("inner(50)")
    next(generator)
    generator.close()
    made.call("inner(60)")
    assert events == [{"i": 0, "x": 0}, {"i": 1, "x": 2}]


def test_a_caller_does_not_lend_its_scope_to_a_generator_it_did_not_resume(made: Script) -> None:
    events = made.probe("//outer > //lazy > i")
    generator = made.call("lazy(2)")
    made.call("outer(1)")
    assert list(generator) == [0, 1]
    assert events == []


def test_calls_on_other_threads_are_seen(made: Script) -> None:
    events = made.probe("//outer > //inner > x")
    thread = threading.Thread(target=lambda: made.call("outer(1)"))
    thread.start()
    thread.join()
    assert events == [{"x": 2}, {"x": 4}]


def test_a_compiled_probe_in_a_function_that_ptera_rewrites_fires_as_before(made: Script) -> None:
    before = made.probe("//inner > x")
    events = made.probe("//outer > //inner > y")
    after = made.probe("//inner > #value as result")
    assert made.call("outer(1)") == 8
    assert before == [{"x": 2}, {"x": 4}]
    assert [event["y"] for event in events] == [3, 5]
    assert [event["result"] for event in after] == [3, 5]


def test_the_values_of_a_call_context_can_be_replaced(made: Script) -> None:
    probe = made.placed("//outer > //inner > x", overridable=True)
    probe.intercept(lambda event: event["x"] * 100)
    assert made.call("outer(1), other(1)") == (602, 3)


def test_code_that_is_not_there_yet_is_waited_for(script: Make) -> None:
    made = script(SOURCE)
    events = made.probe("//outer > //inner > x")
    made.load().run()
    made.call("outer(1)")
    assert events == [{"x": 2}, {"x": 4}]


def test_a_method_does_not_hide_the_function_of_the_same_name(script: Make) -> None:
    made = script(
        """
        class A:
            def next(self, items):
                first = next(items)
                return first
        def outer():
            return A().next(iter([7]))
        """
    ).load()
    events = made.probe("//outer > //A/next > first")
    assert made.call("outer()") == 7
    assert events == [{"first": 7}]
    assert [name for name in made.main.__dict__ if not isinstance(name, str)] == []


def test_ptera_leaves_nothing_behind(made: Script) -> None:
    names = set(made.main.__dict__)
    codes = {name: made.call(name).__code__ for name in ("inner", "outer", "gen")}
    listening = made.placed("//outer > //inner > x").listen(lambda event: None)
    made.probe("//gen > //inner > $v")
    made.call("outer(1), list(gen(1))")
    listening.dispose()
    made.engine.close()
    assert {name: made.call(name).__code__ for name in codes} == codes
    assert set(made.main.__dict__) == names
    assert [made.call(name).__dict__ for name in codes] == [{}, {}, {}]
    assert "codefind" not in sys.modules


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        (
            "//outer > //missing > x",
            "ptera cannot serve it: missing cannot be reached from the top",
        ),
        ("//outer > //inner > nope", "ptera cannot serve it: "),
        ("//waits > //inner > x", "waits is asynchronous, which ptera does not do"),
        ("//outer > x > y", "ptera cannot serve it: there is no x where the probe //outer > x > y"),
        ("//outer > inner > x", "For a function of the script, write //inner"),
    ],
)
def test_what_ptera_cannot_serve_says_so(made: Script, selector: str, hint: str) -> None:
    made.probe(selector)
    made.call("outer(1)")
    verdict = made.verdict()
    assert verdict["state"] == "unresolved"
    assert hint in verdict["hint"]


def test_a_listener_that_fails_is_reported_and_left_out(made: Script) -> None:
    made.placed("//outer > //inner > x").listen(lambda event: 1 / 0)
    assert made.call("outer(1), outer(1)") == (8, 8)
    assert [problem.slug for problem in made.problems] == ["subscriber"]
