"""Listening: who is called, what becomes of those that fail, and what stays behind: nothing."""

from __future__ import annotations

import ast
import builtins
import gc
import sys
from types import FunctionType
from typing import Any

import pytest

from overseer.boundary import StopProgram

from .conftest import Make

SOURCE = """
def f(n):
    "doc"
    x = n
    return x
class A:
    def m(self, n):
        x = n
        return x
def outer(k):
    def inner(n):
        x = n + k
        return x
    return inner
def g(n):
    for i in range(n):
        yield i
"""


def test_listeners_are_called_in_order(script: Make) -> None:
    made = script(SOURCE).load()
    calls: list[object] = []
    probe = made.placed("//f > x")
    for name in "abc":
        probe.listen(lambda event, name=name: calls.append((name, event["x"])))
    made.call("f(1)")
    assert calls == [("a", 1), ("b", 1), ("c", 1)]
    assert probe.fired == 1


def test_who_is_taken_out_hears_nothing_more(script: Make) -> None:
    made = script(SOURCE).load()
    probe, first, second = made.placed("//f > x"), [], []
    one = probe.listen(first.append)
    other = probe.listen(second.append)
    made.call("f(1)")
    one.dispose()
    made.call("f(2)")
    other.dispose()
    other.dispose()
    made.call("f(3)")
    assert [event["x"] for event in first] == [1]
    assert [event["x"] for event in second] == [1, 2]
    assert probe.fired == 2


def test_what_running_code_counts_when_nobody_listens_any_more_is_known(script: Make) -> None:
    made = script(SOURCE).load()
    probe = made.placed("//g > i")
    heard: list[dict[str, Any]] = []

    def once(event: dict[str, Any]) -> None:
        heard.append(event)
        listening.dispose()

    listening = probe.listen(once)
    assert made.call("list(g(10))") == list(range(10))
    assert len(heard) == 1
    before = probe.fired - probe.unheard  # An event in which the last one leaves may be either.
    assert before in (0, 1)
    again = probe.listen(heard.append)
    made.call("list(g(5))")
    assert (len(heard), probe.fired - probe.unheard) == (6, before + 5)
    again.dispose()
    assert probe.fired - probe.unheard == before + 5


@pytest.mark.parametrize("selector", ["//f > x", "//f > #value", "//f(n) > x", "//f(!n, !!x)"])
def test_a_listener_that_fails_is_reported_once_and_left_out(script: Make, selector: str) -> None:
    made = script(SOURCE).load()
    calls: list[object] = []
    probe = made.placed(selector)

    def fails(event: dict[str, Any]) -> None:
        calls.append(event)
        raise ValueError("mine")

    heard: list[object] = []
    probe.listen(fails, "an instrument")
    probe.listen(heard.append)
    assert made.call("f(1), f(2)") == (1, 2)
    assert len(calls) == 1
    assert len(heard) >= 2
    (problem,) = made.problems
    assert problem.who == "an instrument"
    assert "ValueError: mine" in problem.what
    assert problem.where is not None
    assert problem.where.startswith(__file__)


def test_a_lone_listener_that_fails_leaves_the_script_alone(script: Make) -> None:
    made = script(SOURCE)
    made.placed("//f > x").listen(lambda event: 1 / 0)
    made.placed("//g > i").listen(lambda event: [][0])
    made.load()
    assert made.call("f(1), list(g(3)), f(2)") == (1, [0, 1, 2], 2)
    assert [problem.slug for problem in made.problems] == ["subscriber", "subscriber"]


def test_the_scripts_own_exception_is_not_the_listeners(script: Make) -> None:
    made = script("def f(n):\n    try:\n        x = 1 / n\n    except ZeroDivisionError:\n"
                  "        x = None\n    return x\n").load()  # fmt: skip
    events = made.probe("//f > x")
    assert made.call("f(0)") is None
    assert (events, made.problems) == ([{"x": None}], [])


def test_a_listener_may_end_the_script_when_it_says_so(script: Make) -> None:
    made = script(SOURCE).load()

    def leave(event: dict[str, Any]) -> None:
        raise StopProgram

    made.placed("//f > x").listen(leave)
    with pytest.raises(StopProgram):
        made.call("f(1)")
    assert made.problems == []


def test_a_listener_does_not_end_the_script_by_accident(script: Make) -> None:
    made = script(SOURCE).load()
    made.placed("//f > x").listen(lambda event: exit(3))
    assert made.call("f(1)") == 1
    assert ["SystemExit" in problem.what for problem in made.problems] == [True]


def test_at_the_recursion_limit_the_script_is_the_one_that_fails(script: Make) -> None:
    made = script("def f(n):\n    x = n\n    return f(n + 1)\n").load()
    events = made.probe("//f > x")
    with pytest.raises(RecursionError):
        made.call("f(0)")
    assert len(events) > 50
    assert made.problems == []


def codes(made: Any) -> dict[str, Any]:
    """The code objects of the script's functions, closures too."""
    own = made.call("f").__globals__  # Other tests' scripts may not have been collected yet.
    functions = [f for f in gc.get_objects() if type(f) is FunctionType and f.__globals__ is own]
    inner = [f for f in functions if f.__name__ == "inner"]
    named = {name: made.call(name).__code__ for name in ("f", "A.m", "outer", "g")}
    return {**named, **{f"inner {i}": f.__code__ for i, f in enumerate(inner)}}


def test_code_that_was_there_gets_its_own_code_back(script: Make) -> None:
    made = script(SOURCE).load()
    held = made.call("[outer(1), outer(2)]")
    before = codes(made)
    for selector in ("//f > x", "//A/m > x", "//outer/inner > x", "//g > #yield"):
        made.probe(selector)
    during = codes(made)
    assert [f(1) for f in held] == [2, 3]
    made.engine.close()
    after = codes(made)
    assert all(during[name] is not before[name] for name in before)
    assert all(after[name] is before[name] for name in before)


def test_code_that_was_probed_from_its_beginning_ends_as_plain_code(script: Make) -> None:
    made = script(SOURCE)
    for selector in ("//f > x", "//A/m > x", "//outer/inner > x", "//g > #yield"):
        made.probe(selector)
    made.load()
    held = made.call("[outer(1), outer(2)]")
    made.engine.close()
    plain: dict[str, Any] = {}
    exec(compile(made.source, str(made.path), "exec", dont_inherit=True), plain)
    assert made.call("f").__code__ == plain["f"].__code__
    assert made.call("A").m.__code__ == plain["A"].m.__code__
    assert held[0].__code__ == plain["outer"](1).__code__
    assert made.call("g").__code__ == plain["g"].__code__


@pytest.mark.parametrize("early", [True, False])
def test_nobody_looks_at_the_heap_for_functions_that_have_names(
    script: Make, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    made = script(SOURCE)
    made = made if early else made.load()
    for selector in ("//f > x", "//A/m > x", "//outer/inner > x", "//g > #yield"):
        made.probe(selector)
    made = made.load() if early else made
    looked: list[str] = []
    for name in ("get_referrers", "get_objects"):
        monkeypatch.setattr(gc, name, lambda *_, name=name: looked.append(name) or [])
    assert made.call("outer(1)(1)") == 2
    made.engine.close()
    assert looked == []


def test_a_probe_without_listeners_leaves_the_code_as_it_is(script: Make) -> None:
    made = script(SOURCE).load()
    before = made.call("f").__code__
    probe = made.placed("//f > x")
    assert made.call("f").__code__ is before
    listening = probe.listen(lambda event: None)
    assert made.call("f").__code__ is not before
    listening.dispose()
    assert made.call("f").__code__ is before


def test_listeners_that_leave_after_the_end_bring_nothing_back(script: Make) -> None:
    made = script(SOURCE).load()
    listenings = [made.placed("//f > x").listen(lambda event: None) for _ in range(2)]
    made.engine.close()
    for listening in listenings:
        listening.dispose()
    assert [name for name in vars(builtins) if name.startswith("<voir ")] == []


def test_a_generator_that_is_suspended_when_the_run_ends_goes_on(script: Make) -> None:
    made = script(SOURCE).load()
    events = made.probe("//g > #yield")
    generator = made.call("g(3)")
    assert next(generator) == 0
    made.engine.close()
    assert list(generator) == [1, 2]
    assert events == [{"#yield": 0}]
    for name in [n for n in vars(builtins) if n.startswith("<voir ")]:
        del vars(builtins)[name]  # They stay for what is suspended.
    vars(builtins).pop("__dir__", None)


SHAPE = ("co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_kwonlyargcount",
         "co_flags", "co_name", "co_firstlineno", "co_nlocals", "co_filename")  # fmt: skip


@pytest.mark.parametrize("late", [False, True])
def test_code_looks_the_same_while_it_is_probed(script: Make, late: bool) -> None:
    made = script(SOURCE)
    selectors = ("//f > x", "//f > #exit", "//A/m(n) > x", "//outer/inner > x", "//outer > inner",
                 "//g > #yield", "//g(!#loop_i, !!#endloop_i)")  # fmt: skip
    if late:
        made.load()
    for selector in selectors:
        made.probe(selector)
    if not late:
        made.load()
    plain: dict[str, Any] = {}
    exec(compile(made.source, str(made.path), "exec", dont_inherit=True), plain)
    for name in ("f", "A.m", "outer", "outer(1)", "g"):
        probed, own = made.call(name), eval(name, plain)
        for attribute in SHAPE:
            assert getattr(probed.__code__, attribute) == getattr(own.__code__, attribute)
        assert (probed.__doc__, probed.__qualname__) == (own.__doc__, own.__qualname__)
        assert probed.__code__ != own.__code__


def test_what_others_hang_on_nodes_that_all_trees_share_is_no_part_of_the_code(
    script: Make,
) -> None:
    """Python has one ``Load``; what finds a call's source by its frame leaves that there."""
    context = ast.parse("x", mode="eval").body.ctx  # type: ignore[attr-defined]
    context.frame = sys._getframe()
    try:
        made = script(SOURCE).load()
        probe, heard = made.placed("//g > #yield"), []
        probe.listen(heard.append)
        assert made.call("list(g(3))") == [0, 1, 2]
        assert len(heard) == 3
    finally:
        del context.frame
