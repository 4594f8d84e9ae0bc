"""The slow path: what only ptera's own engine can serve."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from .conftest import Make
from .scripts import Script

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="ptera does not run there")

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
class A:
    def next(self, q):
        first = next(iter([inner(q)]))
        return first
async def waits(n):
    return inner(n)
print
def later(n):
    return outer(n)
"""


@pytest.fixture
def made(script: Make) -> Script:
    return script(SOURCE).load()


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize(
    ("selector", "call", "expected"),
    [
        ("//outer(k) > //inner > x", "outer(1), other(5)", [{"k": 1, "x": 2}, {"k": 1, "x": 4}]),
        ("//later(n) > //inner > x", "later(1), outer(5)", [{"n": 1, "x": 2}, {"n": 1, "x": 4}]),
        ("//A/next(q) > //inner > x", "next(iter([A().next(3)]))", [{"q": 3, "x": 6}]),
        ("//inner(x, y)", "inner(1), inner(2)", [{"x": 2, "y": 3}, {"x": 4, "y": 5}]),
        ("//inner(a=2) > x", "inner(1), inner(2)", [{"a": 2, "x": 4}]),
        ("//inner(a~odd) > x", "inner(1), inner(2)", [{"a": 1, "x": 2}]),
        ("//inner > $v", "inner(1)", [{"v": v} for v in (1, 2, 3)]),
        ("//inner()", "inner(1), inner(2)", [{}, {}]),
        ("//inner(!a=1, !!y)", "inner(1)", [{"a": 1}, {"a": 1, "y": 3}]),
    ],
)
def test_ptera_serves_what_is_not_compiled(
    script: Make, selector: str, call: str, expected: list[dict[str, Any]], early: bool
) -> None:
    made = script(SOURCE)
    events = made.watch(selector, early, env={"odd": lambda n: n % 2})
    made.call(call)
    for event in events:
        wrap = event.pop("$wrap", None)
        assert (wrap is None) == ("!!" not in selector)
    assert [event for event in events if event.get("v") is not True] == expected
    assert made.problems == []
    assert made.verdict()["fired"] == len(events)


def test_values_can_be_replaced_and_events_may_be_raw(made: Script) -> None:
    raw = made.probe("//inner > x", raw=True)
    made.call("inner(2)")
    assert [(event["x"].name, event["x"].value) for event in raw] == [("x", 4)]
    probe = made.placed("//outer > //inner > x", overridable=True)
    probe.intercept(lambda event: event["x"] * 100)
    assert made.call("outer(1), other(1)") == (602, 3)


def test_a_function_has_either_ptera_in_it_or_other_probes(made: Script) -> None:
    first, refused = made.probe("//inner > x"), made.probe("//outer > //inner > y")
    slow, late = made.probe("//other(k=1) > #value"), made.probe("//other > k")
    assert made.call("outer(1), other(1)") == (8, 3)
    assert (first[:2], refused, late) == ([{"x": 2}, {"x": 4}], [], [])
    assert slow == [{"k": 1, "#value": 3}]
    _, y, _, k = made.engine.verdicts()
    assert (y["state"], k["state"]) == ("unresolved", "unresolved")
    assert y["hint"] == (
        "ptera cannot run it: inner already has probes, which ptera would remove. "
        "Watch their variables with slow selectors as well."
    )
    assert k["hint"].startswith("ptera rewrites other for a slow selector: it cannot")


def test_a_listener_that_fails_is_left_out_and_functions_get_their_code_back(made: Script) -> None:
    before = made.call("outer").__code__
    listening = made.placed("//outer > //inner > x").listen(lambda event: 1 / 0)
    assert made.call("outer(1), outer(1)") == (8, 8)
    assert [problem.slug for problem in made.problems] == ["subscriber"]
    listening.dispose()
    made.engine.close()
    assert made.call("outer").__code__ is before
    assert "codefind" not in sys.modules


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ("//outer > /absent/g > x", "absent was never imported"),
        ("//outer > //missing > x", "missing cannot be reached from the top of __main__"),
        ("//outer > //inner > nope", "ptera cannot run it: "),
        ("//waits > //inner > x", "waits is asynchronous, which ptera does not support"),
        (
            "//outer > x > y",
            "ptera cannot run it: x is not defined where the probe //outer > x > y",
        ),
        ("//outer > inner > x", "For a function of the script, write //inner"),
    ],
)
def test_what_ptera_cannot_serve_says_so(made: Script, selector: str, hint: str) -> None:
    made.probe(selector)
    made.call("outer(1)")
    verdict = made.verdict()
    assert verdict["state"] == "unresolved"
    assert hint in verdict["hint"]
