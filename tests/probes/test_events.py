"""Selectors, programs and the events that come: the same whether probe or code was there first."""

from __future__ import annotations

import sys
from textwrap import indent

import pytest

from .conftest import Make
from .scripts import seen

#: Selector, the body of ``f(a, *, k=2)`` that is called with 1, and the values of the focus.
BINDINGS: list[tuple[str, str, list[object]]] = [
    ("x", "x = a", [1]),
    ("x", "(x, y) = z = (a, 2)", [1]),
    ("x", "x = 1\nx += a", [1, 2]),
    ("x", "x = []\ny = x\nx += [a]\nreturn y is x", [[1], [1]]),
    ("x", "y, *x = 1, 2, 3", [[2, 3]]),
    ("x", "y, (z, [x, *_]) = 1, (2, [3, 4])", [3]),
    ("y", "x, y = 1, 2\ny = x", [2, 1]),
    ("x", "x = 1\nx, y = a, 2, 3", [1]),
    ("x", "class C: x = 5\nC.x = [0]\nC.x[0] = a", None),
    ("x", "for i, (y, *x) in enumerate([(1, 2), (3, 4)]):\n    i", [[2], [4]]),
    ("x", "for x in range(9):\n    if x == 1: continue\n    if x == 3: break", [0, 1, 2, 3]),
    ("x", "for x in map((1).__truediv__, (1, 0)):\n    pass", [1.0]),
    ("x", "with null(1) as x, null(x) as y, null(y + 1) as x:\n    pass", [1, 2]),
    ("x", "with suppress(ZeroDivisionError) as y:\n    x = 1\n    1 / 0\nreturn x", [1]),
    ("x", "try:\n    1 / 0\nexcept ZeroDivisionError as x:\n    x = str(x)",
     ["ZeroDivisionError", "division by zero"]),
    ("x", "try:\n    1 / 0\nexcept ZeroDivisionError as x:\n    pass\nreturn x",
     ["ZeroDivisionError"]),
    ("x", "try:\n    raise ExceptionGroup('', [ValueError(1)])\nexcept* ValueError as x:\n    pass",
     ["ExceptionGroup"]),
    ("x", "import json.decoder as x, json", ["json.decoder"]),
    ("x", "from math import pi, tau as x", [6.283185307179586]),
    ("x", "return [x := i for i in range(2)]", [0, 1]),
    ("x", "return [x for i in range(3) if (x := i) != 1]", [0, 1, 2]),
    ("x", "def g(p=(x := a)): return p\nreturn g()", [1]),
    ("x", "@(x := (lambda g: g))\ndef g(): return 4\nreturn g()", ["function"]),
    ("x", "match [a, 2]:\n    case [x, y]:\n        return y", [1]),
    ("x", "match a:\n    case x if x > 5: return 0\n    case x: return x", [1, 1]),
    ("x", "x = 0\nmatch a:\n    case 7 as x:\n        return 0", [0]),
    ("x", "match [1, 2, 3]:\n    case [y, *x]:\n        pass", [[2, 3]]),
    ("x", "match {'p': 1, 'q': 2}:\n    case {'p': y, **x}:\n        pass", [{"q": 2}]),
    ("x", "match 1.5:\n    case int(x) | float(x):\n        return x", [1.5]),
    ("x", "def x(): return 1\nreturn x()", ["function"]),
    ("x", "class x: pass\nreturn x.__name__", ["type"]),
    ("x", "global x\nx = a\nx += 1", [1, 2]),
    ("x", "x = 1\ndef g():\n    nonlocal x\n    x = 2\ng()\nreturn x", [1]),
    ("a", "'doc'\na += 1", [1, 2]),
    ("k", "'doc'", [2]),
    ("GLOBAL", "return GLOBAL", [5]),
    ("missing", "if not a: return missing", []),
    # Moments.
    ("#exit", "if a: raise KeyError(a)", [True]),
    ("#value", "return a", [1]),
    ("#value", "if not a: return 3", [None]),
    ("#value", "raise KeyError(a)", []),
    ("#value", "try:\n    return a\nfinally:\n    return 2", [1, 2]),
    ("#error", "try:\n    1 / 0\nexcept ZeroDivisionError:\n    return 3", []),
    ("#error", "raise KeyError(a)", ["KeyError"]),
    # Loops: with the variable as it is when the iteration ends.
    ("(i) > #endloop_i", "for i in range(3):\n    if i == 1: continue\n    x = i", [0, 1, 2]),
    ("(i) > #endloop_i", "for i in range(3):\n    if i == 1: return i", [0, 1]),
    ("(i) > #endloop_i", "for i in range(3):\n    if i == 1: raise KeyError", [0, 1]),
    ("(i) > #loop_i", "for j, (i, *k) in [(1, (2, 3))]:\n    pass", [2]),
    ("(i) > #endloop_i", "for i in range(2):\n    pass\nelse:\n    i = 9", [0, 1]),
    ("(i) > #endloop_i", "for i in range(3):\n    if i == 1: del i", [0, None, 2]),
    ("(i) > #endloop_i", "for i in range(2):\n    del i\n    i = 7", [7, 7]),
    ("(i) > #endloop_i", "for i in (1, 0):\n    try: 1 / i\n    except Exception as i: pass",
     [1, None]),
    ("(n) > #loop_n", "n = 2\nwhile n:\n    n -= 1", [2, 1]),
    ("(n) > #endloop_n", "n = 3\nwhile (n := n - 1):\n    pass", [2, 1]),
    ("(n) > #endloop_n", "b = n = 0\nwhile b < 2:\n    b += 1\n    n = 0\n    while n < 2: n += 1",
     [1, 2, 1, 2]),
    ("(b) > #endloop_b", "b = n = 0\nwhile b < 2:\n    b += 1\n    n = 0\n    while n < 2: n += 1",
     [1, 2]),
    ("(n) > #endloop_n", "n = 0\nwhile n < 2:\n    n += 1\nfor n in (7, 8):\n    pass", [7, 8]),
]  # fmt: skip
if sys.version_info >= (3, 12):
    BINDINGS.append(("x", "type x = int\nreturn x.__value__", ["x"]))


def plain(value: object) -> object:
    """What stands for a value that has no literal."""
    if isinstance(value, (type, BaseException)) or callable(value):
        return type(value).__name__
    return getattr(value, "__name__", value)


def named(case: tuple[str, str, list[object]]) -> str:
    return f"{case[0]} in {case[1]}"


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize(("selector", "body", "expected"), BINDINGS, ids=map(named, BINDINGS))
def test_a_binding_or_moment_is_an_event_and_the_function_does_the_same(
    script: Make, selector: str, body: str, expected: list[object] | None, early: bool
) -> None:
    head = "from contextlib import nullcontext as null, suppress\nGLOBAL = 5\n"
    made = script(f"{head}def f(a, *, k=2):\n{indent(body, '    ')}\n")
    namespace: dict[str, object] = {}
    exec(compile(made.source, str(made.path), "exec", dont_inherit=True), namespace)
    without = seen(lambda: namespace["f"](1), made.path)  # type: ignore[operator]
    events = made.watch(f"//f{selector}" if "(" in selector else f"//f > {selector}", early)
    assert seen(lambda: made.call("f(1)"), made.path) == without
    if expected is None:
        assert made.verdict()["state"] == "unresolved"
        return
    key = selector[1:].partition(")")[0] if "(" in selector else selector
    assert [plain(event.get(key)) for event in events] == expected
    assert made.problems == []


CALLS = """
import asyncio, contextlib
run = asyncio.run
def gives(n):
    got = yield n
    try:
        yield got
    finally:
        last = 1
    return "end"
async def waits(n):
    return n
async def ticks(n):
    for i in range(n):
        got = yield i
async def main(n):
    async with contextlib.AsyncExitStack() as stack:
        async for tick in ticks(n):
            if tick == 1: continue
            if tick == 2: break
    return [i async for i in ticks(n)]
def both(n, k=5):
    x = n * 2
    if n:
        extra = n
    y = x
    return y
def pair(n):
    for batch in range(n):
        if batch == 1: continue
        loss = batch * 10
def two(n):
    if n: a = n
    b = n + 1
    b = 0
def nested(n):
    for batch in range(n):
        nested(n - 1)
class Mangled:
    def f(self):
        for __i in range(2):
            del __i
        __x = 3
def hushed(n):
    with contextlib.suppress(ZeroDivisionError):
        1 / n
        got = n
    return n
def defaults(x=[].append(1), /, *rest, y=2, **more):
    pass
"""
#: A call, a selector, and events; ``$wrap`` is a letter for its step and its number.
EVENTS: list[tuple[str, str, list[dict[str, object]]]] = [
    ("list(gives(1))", "//gives > #yield as out", [{"out": 1}, {"out": None}]),
    ("list(gives(1))", "//gives > #value as v", [{"v": "end"}]),
    ("(g := gives(1), next(g), g.send(7), g.close())", "//gives > #receive as r", [{"r": 7}]),
    ("(g := gives(1), next(g), g.send(7), g.close())", "//gives > #exit", [{"#exit": True}]),
    ("(g := gives(1), next(g), g.send(7), g.close())", "//gives > #error as e",
     [{"e": "GeneratorExit"}]),
    ("(g := gives(1), g.close())", "//gives > #enter", []),
    ("run(waits(3))", "//waits(n) > #value as v", [{"n": 3, "v": 3}]),
    ("run(main(4))", "//main(tick) > #loop_tick as t", [{"tick": i, "t": True} for i in range(3)]),
    ("run(main(4))", "//main(tick) > #endloop_tick as t",
     [{"tick": i, "t": True} for i in range(3)]),
    ("run(main(2))", "//ticks > #yield as out", [{"out": i} for i in (0, 1, 0, 1)]),
    ("both(1)", "//both(n as number, k, x, !y as why)", [{"number": 1, "k": 5, "x": 2, "why": 2}]),
    ("both(0)", "//both(extra, n) > y", [{"y": 0}]),  # Where one has no value, the focus is alone.
    ("both(1)", "//both(extra, n) > y", [{"extra": 1, "n": 1, "y": 2}]),
    ("both(1)", "//both() as result", [{"result": 2}]),
    ("both(1)", "//both(#enter, !x)", [{"#enter": True, "x": 2}]),
    ("pair(2)", "//pair(loss, !#loop_batch as s, !!#endloop_batch as e)",
     [{"s": True, "$wrap": "s begin 0"}, {"loss": 0, "s": True, "e": True, "$wrap": "s end 0"},
      {"loss": 0, "s": True, "$wrap": "s begin 1"},
      {"loss": 0, "s": True, "e": True, "$wrap": "s end 1"}]),
    ("two(1), two(2)", "//two(!a, !!b)",
     [{"a": 1, "$wrap": "a begin 0"}, {"a": 1, "b": 2, "$wrap": "a end 0"},
      {"a": 2, "$wrap": "a begin 1"}, {"a": 2, "b": 3, "$wrap": "a end 1"}]),
    ("two(0)", "//two(!a, !!b)", []),  # An end without a beginning is no event.
    ("nested(2)", "//nested(!#loop_batch as s, !!#endloop_batch as e)",
     [{"s": True, "$wrap": f"s {step} {n}", **({"e": True} if step == "end" else {})}
      for step, n in (("begin", 0), ("begin", 1), ("end", 1), ("end", 0),
                      ("begin", 2), ("begin", 3), ("end", 3), ("end", 2))]),
    ("Mangled().f()", "//Mangled/f(__i as i) > #endloop___i as end", [{"end": True}] * 2),
    ("Mangled().f()", "//Mangled/f > __x", [{"__x": 3}]),
    ("defaults(), defaults(1, 2, y=3, z=4)", "//defaults(x, rest, more) > y",
     [{"x": None, "rest": (), "more": {}, "y": 2},
      {"x": 1, "rest": (2,), "more": {"z": 4}, "y": 3}]),
    ("hushed(0), hushed(1)", "//hushed(got) > #value as v", [{"v": 0}, {"got": 1, "v": 1}]),
]  # fmt: skip


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize(("call", "selector", "expected"), EVENTS)
def test_events_carry_what_the_selector_captures(
    script: Make, call: str, selector: str, expected: list[dict[str, object]], early: bool
) -> None:
    made = script(CALLS)
    events = made.watch(selector, early)
    made.call(call)
    numbers = list(dict.fromkeys(e["$wrap"]["id"] for e in events if "$wrap" in e))
    for event in events:
        if "$wrap" in event:
            wrap = event["$wrap"]
            event["$wrap"] = f"{wrap['name']} {wrap['step']} {numbers.index(wrap['id'])}"
    assert [{k: plain(v) for k, v in event.items()} for event in events] == expected
    assert made.problems == []
    assert made.call("defaults.__defaults__") == (None,)


TOP = """
'doc'
from __future__ import annotations
import enum
class Colour(enum.Enum):
    RED = 1
    GREEN = RED + 1
lr: float = 0.5
for i in range(3):
    if i == 1: del i
while lr > 0.2:
    lr /= 2
text = f"{(size := 3)}"
"""


def test_the_top_level_and_class_bodies_are_seen(script: Make) -> None:
    made = script(TOP)
    selectors = ("// > lr", "//(i) > #endloop_i", "//(lr as rate) > #loop_lr", "// > size",
                 "//Colour > GREEN", "// > Colour", "// > annotations")  # fmt: skip
    rates, ends, whiles, size, green, colour, nothing = map(made.probe, selectors)
    made.load().run()
    assert [event["lr"] for event in rates] == [0.5, 0.25, 0.125]
    assert [event.get("i") for event in ends] == [0, None, 2]
    assert [event["rate"] for event in whiles] == [0.5, 0.25]
    assert (size, green, len(colour), nothing) == ([{"size": 3}], [{"GREEN": 2}], 1, [])
    assert made.call("list(Colour)[1].value, __annotations__, __doc__") == (
        2, {"lr": "float"}, "doc",
    )  # fmt: skip
    assert all(name.isidentifier() for name in (*vars(made.main), *vars(made.main.Colour)))


def test_a_size_for_each_loop_of_that_name_and_debug_says_which(script: Make) -> None:
    made = script(
        "def f():\n    a = n = 0\n    while a < 2:\n        a += 1\n        while n < 2:\n"
        "            n += 1\n"
    ).load()
    made.probe("//f > #loop_n")
    assert made.said == [f"//f > #loop_n: {made.path}:5"]
