"""Values that a probe replaces before the script sees them."""

from __future__ import annotations

from textwrap import indent
from typing import Any

import pytest

from overseer.probes import ABSENT

from .conftest import Make

#: The body of ``f(n, *, k=2)``, what is replaced in it, a call, and what that returns then.
CASES = [
    ("x = n\nreturn x", "x", "f(1)", 100),
    ("x = y = n\nreturn x, y", "x", "f(1)", (100, 1)),
    ("x, *y = n, 2, 3\nreturn x, y", "x", "f(1)", (100, [2, 3])),
    ("x, *y = n, 2, 3\nreturn x, y", "y", "f(1)", (1, "new")),
    ("x = n\nx += 1\nreturn x", "x", "f(1)", 10100),
    ("return n, k", "n", "f(1)", (100, 2)),
    ("return n, k", "k", "f(1)", (1, 200)),
    ("return [x for x in range(n)], [x for x in [n]]", "n", "f(1)", ([*range(100)], [100])),
    ("seen = []\nfor x in range(n):\n    seen.append(x)\nreturn seen", "x", "f(3)", [0, 100, 200]),
    ("with contextlib.nullcontext(n) as x:\n    return x", "x", "f(1)", 100),
    ("try:\n    raise KeyError(n)\nexcept KeyError as x:\n    return x", "x", "f(1)", "new"),
    ("return (x := n), x", "x", "f(1)", (100, 100)),
    ("return [x := i for i in range(n)], x", "x", "f(3)", ([0, 100, 200], 200)),
    ("match [n]:\n    case [x]:\n        return x", "x", "f(1)", 100),
    ("match n:\n    case x if x > 50: return x\nreturn 'no', x", "x", "f(1)", 100),
    ("match n:\n    case x if x > 50: return x\nreturn 'no', x", "x", "f(0)", ("no", 0)),
    ("if n:\n    return n", "#value", "f(1)", 100),
    ("if n:\n    return n", "#value", "f(0)", "new"),
    ("if n:\n    return", "#value", "f(1)", "new"),
    ("pass", "#value", "f(1)", "new"),
    ("got = yield n", "#yield", "list(f(1))", [100]),
    ("got = yield n", "#yield", "[(g := f(1)), next(g), g.close()][1]", 100),
    ("yield (yield n)", "#receive", "list(f(1))", [1, "new"]),
    ("def x():\n    return n\nreturn x", "x", "f(1)", "new"),
    ("global x\nx = n\nreturn x", "x", "[f(1), x]", [100, 100]),
]  # fmt: skip


def hundredfold(event: dict[str, Any]) -> object:
    value = next(iter(event.values()))
    return value * 100 if isinstance(value, int) else "new"


@pytest.mark.parametrize(("body", "name", "call", "expected"), CASES)
def test_the_script_goes_on_with_the_new_value(
    script: Make, body: str, name: str, call: str, expected: object
) -> None:
    made = script(f"import contextlib\ndef f(n, *, k=2):\n{indent(body, '    ')}\n").load()
    before = repr(made.call(call))
    probe = made.placed(f"//f > {name}", overridable=True)
    abstaining = probe.intercept(lambda event: ABSENT)
    assert repr(made.call(call)).partition(" at 0x")[0] == before.partition(" at 0x")[0]
    abstaining.dispose()
    probe.intercept(hundredfold)
    assert made.call(call) == expected
    assert made.problems == []


def test_what_a_coroutine_returns_can_be_replaced(script: Make) -> None:
    made = script("import asyncio\nasync def f(n):\n    return n\n").load()
    made.placed("//f() as result", overridable=True).intercept(hundredfold)
    assert made.call("asyncio.run(f(1))") == 100


def test_top_level_variables_can_be_replaced(script: Make) -> None:
    made = script("import os\nlr = 0.5\nfor epoch in range(2):\n    last = lr * epoch\n")
    made.placed("// > lr", overridable=True).intercept(lambda event: event["lr"] * 4)
    made.placed("// > epoch", overridable=True).intercept(lambda event: event["epoch"] + 10)
    made.load().run()
    assert made.call("lr, epoch, last") == (2.0, 11, 22.0)


def test_the_last_setter_that_does_not_abstain_decides_and_other_probes_see_its_value(
    script: Make,
) -> None:
    made = script("def f(n, k=3):\n    x = n\n    return x\n").load()
    events = made.probe("//f > x")
    probe = made.placed("//f(k) > x", overridable=True)
    probe.intercept(lambda event: event["k"] * event["x"])
    assert made.call("f(2)") == 6
    second = probe.intercept(lambda event: 7)
    probe.intercept(lambda event: ABSENT)
    assert made.call("f(2)") == 7
    second.dispose()
    assert made.call("f(2)") == 6
    assert events == [{"x": 6}, {"x": 7}, {"x": 6}]
    probe.intercept(lambda event: made.call("f(0)") + 5 if event["x"] else 1)
    assert made.call("f(7)") == 6  # A setter may run the code that is probed.


def test_where_another_variable_has_no_value_the_focus_is_replaced_alone(script: Make) -> None:
    made = script(
        "def f(n):\n    got = []\n    for i in range(n):\n        kept = i\n"
        "        if i: del i\n        x = kept\n        got.append(x)\n    return got\n"
    ).load()
    made.placed("//f(i, kept) > x", overridable=True).intercept(lambda event: event)
    assert made.call("f(2)") == [{"i": 0, "kept": 0, "x": 0}, {"x": 1}]
