"""Values that a probe replaces before the script sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from overseer.probes import ABSENT

from .conftest import Make

SOURCE = """
import asyncio, contextlib
def assigned(n):
    x = n
    return x
def chained(n):
    x = y = n
    return x, y
def unpacked(n):
    x, *y = n, 2, 3
    return x, y
def added(n):
    x = n
    x += 1
    return x
def parameter(x, *, k=2):
    return x, k
def packed(*x, **y):
    return x, y
def looped(n):
    seen = []
    for x in range(n):
        seen.append(x)
    return seen
def managed(n):
    with contextlib.nullcontext(n) as x:
        return x
def caught(n):
    try:
        raise KeyError(n)
    except KeyError as x:
        return x
def walrus(n):
    return (x := n), x
def comprehended(n):
    return [x := i for i in range(n)], x
def matched(n):
    match [n]:
        case [x]:
            return x
def guarded(n):
    match n:
        case x if x > 50:
            return x
    return "no", x
def returned(n):
    if n:
        return n
def fell(n):
    pass
def yielded(n):
    got = yield n
    return got
async def awaited(n):
    return n
def decorated(n):
    def x():
        return n
    return x
def worldly(n):
    global x
    x = n
    return x
"""


def hundredfold(event: dict[str, Any]) -> object:
    value = next(iter(event.values()))
    return value * 100 if isinstance(value, int) else "new"


CASES = [
    ("assigned(1)", "//assigned > x", 100),
    ("chained(1)", "//chained > x", (100, 1)),
    ("unpacked(1)", "//unpacked > x", (100, [2, 3])),
    ("unpacked(1)", "//unpacked > y", (1, "new")),
    ("added(1)", "//added > x", 10100),
    ("parameter(1)", "//parameter > x", (100, 2)),
    ("parameter(1)", "//parameter > k", (1, 200)),
    ("packed(1, a=2)", "//packed > y", ((1,), "new")),
    ("looped(3)", "//looped > x", [0, 100, 200]),
    ("managed(1)", "//managed > x", 100),
    ("caught(1)", "//caught > x", "new"),
    ("walrus(1)", "//walrus > x", (100, 100)),
    ("comprehended(3)", "//comprehended > x", ([0, 100, 200], 200)),
    ("matched(1)", "//matched > x", 100),
    ("guarded(1)", "//guarded > x", 100),
    ("guarded(0)", "//guarded > x", ("no", 0)),
    ("returned(1)", "//returned > #value", 100),
    ("returned(1)", "//returned() as result", 100),
    ("returned(0)", "//returned > #value", "new"),
    ("fell(1)", "//fell > #value", "new"),
    ("list(yielded(1))", "//yielded > #yield", [100]),
    ("[(g := yielded(1)), next(g), g.close()][1]", "//yielded > #yield", 100),
    ("asyncio.run(awaited(1))", "//awaited > #value", 100),
    ("decorated(1)", "//decorated > x", "new"),
    ("worldly(1), x", "//worldly > x", (100, 100)),
]


@pytest.mark.parametrize(("call", "selector", "expected"), CASES)
def test_the_script_goes_on_with_the_new_value(
    script: Make, call: str, selector: str, expected: object
) -> None:
    made = script(SOURCE).load()
    made.placed(selector, overridable=True).intercept(hundredfold)
    assert made.call(call) == expected
    assert made.problems == []


@pytest.mark.parametrize(("call", "selector"), [case[:2] for case in CASES])
def test_a_setter_that_abstains_changes_nothing(script: Make, call: str, selector: str) -> None:
    made = script(SOURCE).load()
    before = repr(made.call(call))
    made.placed(selector, overridable=True).intercept(lambda event: ABSENT)
    shown = repr(made.call(call))
    assert shown.partition(" at 0x")[0] == before.partition(" at 0x")[0]


def test_what_a_generator_receives_can_be_replaced(script: Make) -> None:
    made = script(SOURCE).load()
    made.placed("//yielded > #receive", overridable=True).intercept(lambda event: "mine")
    generator = made.call("yielded(1)")
    next(generator)
    with pytest.raises(StopIteration) as stop:
        generator.send(5)
    assert stop.value.value == "mine"


def test_top_level_variables_can_be_replaced(script: Make) -> None:
    made = script("import os\nlr = 0.5\nfor epoch in range(2):\n    last = lr * epoch\n")
    made.placed("// > lr", overridable=True).intercept(lambda event: event["lr"] * 4)
    made.placed("// > epoch", overridable=True).intercept(lambda event: event["epoch"] + 10)
    made.load().run()
    assert made.call("lr, epoch, last") == (2.0, 11, 22.0)


def test_a_setter_sees_what_comes_along(script: Make) -> None:
    made = script("def f(n, k=3):\n    x = n\n    return x\n").load()
    made.placed("//f(k) > x", overridable=True).intercept(lambda event: event["k"] * event["x"])
    assert made.call("f(2)") == 6


def test_the_last_setter_that_does_not_abstain_decides(script: Make) -> None:
    made = script("def f():\n    x = 1\n    return x\n").load()
    probe = made.placed("//f > x", overridable=True)
    for value in (2, 3, ABSENT):
        probe.intercept(lambda event, value=value: value)
    assert made.call("f()") == 3


def test_other_probes_see_the_new_value(script: Make) -> None:
    made = script("def f():\n    x = 1\n    return x\n").load()
    events = made.probe("//f > x")
    made.placed("//f > x", overridable=True).intercept(lambda event: 2)
    assert made.call("f()") == 2
    assert events == [{"x": 2}]


def test_only_values_that_are_asked_for_are_replaced(script: Make) -> None:
    made = script("def f(n):\n    x = n\n    return x\n").load()
    made.placed("//f(x=1)", overridable=True)
    made.placed("//f(n=1) > x", overridable=True).intercept(lambda event: 9)
    assert made.call("f(1), f(2)") == (9, 2)


def test_a_setter_that_fails_is_reported_and_left_out(script: Make) -> None:
    made = script("def f(n):\n    x = n\n    return x\n").load()
    calls = []

    def fails(event: dict[str, Any]) -> object:
        calls.append(event)
        raise ValueError("mine")

    made.placed("//f > x", overridable=True).intercept(fails)
    assert made.call("f(1), f(2)") == (1, 2)
    assert len(calls) == 1
    assert ["mine" in problem.what for problem in made.problems] == [True]


def test_a_setter_that_is_taken_out_changes_nothing(script: Make) -> None:
    made = script("def f():\n    x = 1\n    return x\n").load()
    listening = made.placed("//f > x", overridable=True).intercept(lambda event: 2)
    first = made.call("f()")
    listening.dispose()
    assert (first, made.call("f()")) == (2, 1)


def test_a_setter_may_run_the_code_that_is_probed(script: Make) -> None:
    made = script("def f(n):\n    x = n\n    return x\n").load()
    call: Callable[[str], Any] = made.call
    made.placed("//f > x", overridable=True).intercept(
        lambda event: call("f(0)") + 5 if event["x"] else 1
    )
    assert made.call("f(7)") == 6
