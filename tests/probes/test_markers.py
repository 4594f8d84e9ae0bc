"""Markers: the moments of a call and of a loop, and pairs of them."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Make

CALLS = """
import asyncio
run = asyncio.run
async def all_of(ticks):
    return [tick async for tick in ticks]
def returns(n):
    if n > 1:
        return n
    if n:
        return
def fails(n):
    try:
        if n == 1:
            return 1 / 0
    except ZeroDivisionError:
        return "caught"
    raise KeyError(n)
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
"""


def plain(value: object) -> object:
    return type(value).__name__ if isinstance(value, BaseException) else value


@pytest.mark.parametrize(
    ("call", "selector", "expected"),
    [
        ("returns(2)", "//returns > #enter", [True]),
        ("returns(2)", "//returns > #value", [2]),
        ("returns(1)", "//returns > #value", [None]),
        ("returns(0)", "//returns > #value", [None]),
        ("returns(0)", "//returns > #exit", [True]),
        ("returns(0)", "//returns > #error", []),
        ("fails(1)", "//fails > #value", ["caught"]),
        ("fails(1)", "//fails > #error", []),
        ("fails(2)", "//fails > #error", ["KeyError"]),
        ("fails(2)", "//fails > #exit", [True]),
        ("fails(2)", "//fails > #value", []),
        ("list(gives(1))", "//gives > #yield", [1, None]),
        ("list(gives(1))", "//gives > #receive", [None, None]),
        ("list(gives(1))", "//gives > #value", ["end"]),
        ("(g := gives(1), next(g), g.send(7), g.close())", "//gives > #receive", [7]),
        ("(g := gives(1), next(g), g.send(7), g.close())", "//gives > #error", ["GeneratorExit"]),
        ("(g := gives(1), next(g), g.send(7), g.close())", "//gives > #exit", [True]),
        ("(g := gives(1), g.close())", "//gives > #enter", []),
        ("run(waits(3))", "//waits > #value", [3]),
        ("run(all_of(ticks(2)))", "//ticks > #yield", [0, 1]),
        ("run(all_of(ticks(2)))", "//ticks > #exit", [True]),
    ],
)  # fmt: skip
def test_moments_of_a_call(script: Make, call: str, selector: str, expected: list[object]) -> None:
    made = script(CALLS).load().run()
    events = made.probe(selector)
    try:
        made.call(call)
    except KeyError:
        pass
    assert [plain(event[selector.split()[-1]]) for event in events] == expected
    assert made.problems == []


LOOPS = {
    "to its end": ("for i in range(2):\n        x = i", [0, 1]),
    "continue": ("for i in range(3):\n        if i == 1: continue\n        x = i", [0, 1, 2]),
    "break": ("for i in range(3):\n        if i == 1: break", [0, 1]),
    "return": ("for i in range(3):\n        if i == 1: return i", [0, 1]),
    "an exception": ("for i in range(3):\n        if i == 1: raise KeyError", [0, 1]),
    "a caught exception": (
        "for i in range(2):\n        try:\n            1 / 0\n"
        "        except ZeroDivisionError:\n            continue", [0, 1]),
    "nothing": ("for i in ():\n        pass\n    else:\n        i = 9", []),
    "else": ("for i in range(2):\n        pass\n    else:\n        i = 9", [0, 1]),
    "several targets": ("for j, (i, *k) in [(1, (2, 3))]:\n        pass", [2]),
    "over nothing that can be looped": ("for i in map(int, ['4', 'x']):\n        pass", [4]),
}  # fmt: skip


@pytest.mark.parametrize(("loop", "expected"), LOOPS.values(), ids=LOOPS)
def test_each_turn_of_a_loop_begins_and_ends(
    script: Make, loop: str, expected: list[object]
) -> None:
    made = script(f"def f():\n    {loop}\n").load()
    starts, ends = made.probe("//f(i) > #loop_i"), made.probe("//f(i) > #endloop_i")
    try:
        made.call("f()")
    except (KeyError, ValueError):
        pass
    assert starts == [{"i": i, "#loop_i": True} for i in expected]
    assert ends == [{"i": i, "#endloop_i": True} for i in expected]


UNBOUND = {
    "at its end": ("for i in range(3):\n        x = i\n        del i", [None] * 3),
    "with others": ("for i in range(2):\n        x = i\n        del x, i", [None] * 2),
    "in a branch": ("for i in range(3):\n        if i == 1: del i", [0, None, 2]),
    "before a continue": (
        "for i in range(3):\n        if i == 1:\n            del i\n            continue",
        [0, None, 2]),
    "before a break": (
        "for i in range(3):\n        if i == 1:\n            del i\n            break", [0, None]),
    "before a return": (
        "for i in range(3):\n        if i == 1:\n            del i\n            return", [0, None]),
    "before an exception": (
        "for i in range(3):\n        if i == 1:\n            del i\n            raise KeyError",
        [0, None]),
    "and bound again": ("for i in range(3):\n        del i\n        i = 7", [7] * 3),
    "twice, which is an error": ("for i in range(3):\n        del i\n        del i", [None]),
    "as one of two": ("for i, k in [(1, 2), (3, 4)]:\n        del k", [1, 3]),
    "as the other of two": ("for k, (i,) in [(1, (2,)), (3, (4,))]:\n        del i", [None] * 2),
    "as what was caught": (
        "for i in (1, 0, 2):\n        try:\n            1 / i\n"
        "        except ZeroDivisionError as i:\n            pass", [1, None, 2]),
    "in a while": ("n = 2\n    while (i := n):\n        n -= 1\n        del i", [None] * 2),
}  # fmt: skip


@pytest.mark.parametrize(("loop", "expected"), UNBOUND.values(), ids=UNBOUND)
def test_a_turn_that_unbinds_its_variable_ends_without_it(
    script: Make, loop: str, expected: list[int | None]
) -> None:
    # Another variable of that name is another variable.
    made = script(f"i = k = 'of the module'\ndef f(also):\n    {loop}\n").load().run()
    starts, ends = made.probe("//f(i) > #loop_i"), made.probe("//f(also, i) > #endloop_i")
    pair = made.probe("//f(i, !#loop_i as start, !!#endloop_i as end)")
    try:
        made.call("f(5)")
    except (KeyError, UnboundLocalError):
        pass
    here = [{} if value is None else {"i": value} for value in expected]
    assert ends == [{"also": 5, **event, "#endloop_i": True} for event in here]
    assert len(starts) == len(expected)
    assert [e["$wrap"]["step"] for e in pair] == ["begin", "end"] * len(expected)
    assert [{k: v for k, v in e.items() if k == "i"} for e in pair[1::2]] == here
    assert made.problems == []


def test_what_else_has_a_value_comes_with_a_turn_that_unbinds_its_variable(script: Make) -> None:
    made = script(
        """
        def f(n):
            for i in range(n):
                if i == 1:
                    loss = i
                if i == 9:
                    late = i
                if i < 2:
                    del i
        """
    ).load()
    ends = made.probe("//f(n, i, loss, late) > #endloop_i as end")
    made.call("f(3)")
    assert ends == [
        {"n": 3, "end": True}, {"n": 3, "loss": 1, "end": True},
        {"n": 3, "i": 2, "loss": 1, "end": True},
    ]  # fmt: skip
    assert made.problems == []


def test_a_value_is_replaced_also_where_another_variable_is_deleted(script: Make) -> None:
    made = script(
        "def f(n):\n    got = []\n    for i in range(n):\n        kept = i\n"
        "        if i: del i\n        x = kept\n        got.append(x)\n    return got\n"
    ).load()
    placed = made.placed("//f(i, kept) > x", overridable=True)
    placed.intercept(lambda event: event)
    assert made.call("f(3)") == [
        {"i": 0, "kept": 0, "x": 0}, {"kept": 1, "x": 1}, {"kept": 2, "x": 2},
    ]  # fmt: skip


DELETING = """
import asyncio
async def ticks():
    yield 0
    yield 1
async def waits():
    async for i in ticks():
        del i
def gives():
    for i in range(2):
        yield i
        del i
def shares():
    for i in range(2):
        (lambda: i)()
        del i
class C:
    def mangles(self):
        for __i in range(2):
            del __i
"""


@pytest.mark.parametrize(
    ("reference", "variable", "call"),
    [
        ("//waits", "i", "asyncio.run(waits())"),
        ("//gives", "i", "list(gives())"),
        ("//shares", "i", "shares()"),
        ("//C/mangles", "__i", "C().mangles()"),
    ],
)
def test_a_turn_of_any_loop_may_unbind_its_variable(
    script: Make, reference: str, variable: str, call: str
) -> None:
    made = script(DELETING).load()
    ends = made.probe(f"{reference}({variable} as batch) > #endloop_{variable} as end")
    made.call(call)
    assert ends == [{"end": True}] * 2
    assert made.problems == []


def test_a_turn_of_the_top_level_may_unbind_its_variable(script: Make) -> None:
    made = script("print\nfor i in range(3):\n    if i != 1:\n        del i\n")
    ends, alone = made.probe("//(i) > #endloop_i as end"), made.probe("// > #endloop_i as end")
    made.load().run()
    assert ends == [{"end": True}, {"i": 1, "end": True}, {"end": True}]
    assert alone == [{"end": True}] * 3


PARTS = """
import weakref
class Batch: pass
living = weakref.WeakSet()
def batches(n):
    for _ in range(n):
        living.add(batch := Batch())
        yield [batch]
        del batch
def f(n):
    alive = []
    for batch in batches(n):
        part, more = batch[0], None
        del batch
        alive.append(len(living))
        if len(alive) == 1:
            del more
    return alive
"""


def test_what_a_turn_unbinds_is_gone_and_nothing_else_lives_longer(script: Make) -> None:
    made = script(PARTS).load().run()
    without = made.call("f(4)")
    for selector in (
        "//f(batch) > #endloop_batch as step",
        "//f(batch, more) > #endloop_batch as step",
        "//f(batch, !#loop_batch as start, !!#endloop_batch as end)",
    ):
        made.placed(selector).listen(lambda event: None)
    assert made.call("f(4)") == without


WHILES = {
    "by its condition": ("n = 3\n    while (k := n):\n        n -= 1", "k", [3, 2, 1]),
    "by its body": ("n = 0\n    while n < 3:\n        n += 1", "n", [1, 2, 3]),
    "left by break": ("n = 0\n    while True:\n        n += 1\n        if n == 2: break", "n",
                      [1, 2]),
    "left by return": ("n = 0\n    while n < 9:\n        n += 1\n        if n == 2: return", "n",
                       [1, 2]),
    "the innermost that binds it": (
        "a = 0\n    while a < 2:\n        a += 1\n        n = 0\n        while n < 2:\n"
        "            n += 1", "n", [1, 2, 1, 2]),
    "the outer one by what only it binds": (
        "a = 0\n    while a < 2:\n        a += 1\n        n = 0\n        while n < 2:\n"
        "            n += 1", "a", [1, 2]),
    "a for loop's target comes first": (
        "n = 0\n    while n < 2:\n        n += 1\n    for n in (7, 8):\n        pass", "n", [7, 8]),
}  # fmt: skip


@pytest.mark.parametrize(("loop", "name", "expected"), WHILES.values(), ids=WHILES)
def test_a_while_loop_is_named_by_a_variable_it_binds(
    script: Make, loop: str, name: str, expected: list[object]
) -> None:
    made = script(f"def f():\n    {loop}\n").load()
    ends = made.probe(f"//f({name}) > #endloop_{name}")
    made.call("f()")
    assert [event[name] for event in ends] == expected


def test_debug_says_which_loop_is_meant(script: Make) -> None:
    made = script(
        "def f():\n    a = n = 0\n    while a < 2:\n        a += 1\n        while n < 2:\n"
        "            n += 1\n"
    ).load()
    made.probe("//f > #loop_n")
    assert made.said == [f"//f > #loop_n: {made.path}:5"]


def test_a_loop_of_an_asynchronous_iterator_has_turns(script: Make) -> None:
    made = script(
        """
        import asyncio
        async def ticks():
            for i in range(4):
                yield i
        async def f():
            async for tick in ticks():
                if tick == 1:
                    continue
                if tick == 2:
                    break
        """
    ).load()
    starts, ends = made.probe("//f(tick) > #loop_tick"), made.probe("//f(tick) > #endloop_tick")
    made.call("asyncio.run(f())")
    assert [event["tick"] for event in starts] == [event["tick"] for event in ends] == [0, 1, 2]


def test_loops_of_the_top_level_have_turns(script: Make) -> None:
    made = script("'begin'\nprint\nfor i in range(2):\n    x = i\nwhile x:\n    x -= 1\n")
    ends, whiles = made.probe("//(i) > #endloop_i"), made.probe("//(x) > #endloop_x")
    made.load().run()
    assert [event["i"] for event in ends] == [0, 1]
    assert [event["x"] for event in whiles] == [0]


PAIR = "//f(batch, loss, !#loop_batch as start, !!#endloop_batch as end)"


def steps(events: list[dict[str, Any]]) -> list[tuple[object, ...]]:
    """Each event as: what happens, the pair it is part of, and its values."""
    ids = list(dict.fromkeys(event["$wrap"]["id"] for event in events))
    return [
        (e["$wrap"]["step"], ids.index(e["$wrap"]["id"]), e.get("batch"), e.get("loss"))
        for e in events
    ]


def test_the_end_of_a_pair_carries_the_values_of_its_turn(script: Make) -> None:
    made = script(
        "def f():\n    for batch in range(3):\n        if batch == 1: continue\n"
        "        loss = batch * 10\n"
    ).load()
    events = made.probe(PAIR)
    made.call("f()")
    assert steps(events) == [
        ("begin", 0, 0, None), ("end", 0, 0, 0),
        ("begin", 0, 1, 0), ("end", 0, 1, 0),
        ("begin", 0, 2, 0), ("end", 0, 2, 20),
    ]  # fmt: skip
    assert {event["$wrap"]["name"] for event in events} == {"start"}


def test_pairs_of_calls_within_calls_are_told_apart(script: Make) -> None:
    made = script(
        "def f(n):\n    for batch in range(n):\n        f(n - 1)\n        loss = n\n"
    ).load()
    events = made.probe(PAIR)
    made.call("f(2)")
    assert [step[:2] for step in steps(events)] == [
        ("begin", 0), ("begin", 1), ("end", 1), ("end", 0),
        ("begin", 0), ("begin", 2), ("end", 2), ("end", 0),
    ]  # fmt: skip


def test_another_call_has_another_number(script: Make) -> None:
    made = script("def f(n):\n    for batch in range(n):\n        loss = n\n").load()
    events = made.probe(PAIR)
    for _ in range(3):
        made.call("f(2)")
    assert [step[:2] for step in steps(events)] == [
        (step, call) for call in range(3) for _ in range(2) for step in ("begin", "end")
    ]


def test_a_pair_may_be_two_variables(script: Make) -> None:
    made = script("def f(n):\n    a = n\n    b = a + 1\n    b = 0\n").load()
    events = made.probe("//f(!a, !!b)")
    made.call("f(1)")
    made.call("f(2)")
    assert [(e["$wrap"]["step"], e["a"], e.get("b")) for e in events] == [
        ("begin", 1, None), ("end", 1, 2), ("begin", 2, None), ("end", 2, 3),
    ]  # fmt: skip


def test_an_end_without_beginning_is_no_event(script: Make) -> None:
    made = script("def f(n):\n    if n:\n        a = n\n    b = 1\n").load()
    events = made.probe("//f(!a, !!b)")
    made.call("f(0)")
    assert events == []


def test_suspended_calls_have_pairs_of_their_own(script: Make) -> None:
    made = script(
        "def f(k):\n    for batch in range(2):\n        yield batch\n        loss = k\n"
    ).load()
    events = made.probe(PAIR)
    assert made.call("list(zip(f('x'), f('y'))) and None") is None
    assert [step[:2] for step in steps(events)] == [
        ("begin", 0), ("begin", 1), ("end", 0), ("begin", 0), ("end", 1), ("begin", 1),
        ("end", 0), ("end", 1),
    ]  # fmt: skip
