"""Listeners: who is called how often, and what becomes of those that fail."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from overseer.recorder import table

from .conftest import Make

SOURCE = """
def f(n):
    x = n
    return x
def g(n):
    for i in range(n):
        yield i
def deep(n):
    x = n
    return deep(n + 1)
def many(n):
    for i in range(n):
        x = i
"""


def test_listeners_are_called_in_order_until_they_are_taken_out(script: Make) -> None:
    made = script(SOURCE).load()
    calls: list[object] = []
    probe = made.placed("//f > x")
    made.call("f(0)")
    one, other = (
        probe.listen(lambda event, name=name: calls.append((name, event["x"]))) for name in "ab"
    )
    made.call("f(1)")
    one.dispose()
    made.call("f(2)")
    other.dispose()
    other.dispose()
    made.call("f(3)")
    assert calls == [("a", 1), ("b", 1), ("b", 2)]
    assert probe.fired == 2, "what nobody heard is not counted"
    assert probe.sites[0].silent


def test_a_listener_that_does_not_hear_all_hears_the_first_and_what_is_armed(script: Make) -> None:
    made = script(SOURCE).load()
    probe, some, every = made.placed("//many > x"), [], []
    sampled = probe.listen(some.append, always=False)
    made.call("many(250)")
    assert [event["x"] for event in some] == list(range(100))
    probe.arm(2)
    made.call("many(250)")
    assert [event["x"] for event in some[100:]] == [0, 1]
    listening = probe.listen(every.append)
    made.call("many(250)")
    assert (len(some), len(every)) == (352, 250)
    probe.arm(1)  # Who hears all goes on doing so.
    made.call("many(3)")
    assert len(every) == 253
    listening.dispose()
    sampled.always = True
    made.call("many(150)")
    assert (len(some), len(every), probe.fired) == (352 + 3 + 150, 253, 903)
    assert sampled.always


def test_a_probe_has_a_site_for_each_trigger_and_a_row_in_the_table(script: Make) -> None:
    probe = script(SOURCE).placed("//g(n, !#loop_i as s, !!#endloop_i as e)", where="voirfile.py:7")
    assert [site.keys for site in probe.sites] == [("n", "s"), ("n", "s", "e")]
    assert [site.name for site in probe.sites] == ["s", "s"]
    assert [site.number for site in probe.sites] == [probe.number] * 2
    row = table.rows[probe.number]
    assert row["label"] == row["selector"] == probe.selector
    assert (row["keys"], row["file"], row["line"]) == (["n", "s", "e"], "voirfile.py", 7)


@pytest.mark.parametrize("how", ["listen", "intercept"])
@pytest.mark.parametrize("error", [ValueError("mine"), SystemExit(3)])
@pytest.mark.parametrize("selector", ["//f > x", "//f > #value", "//f(n) > x", "//f(!n, !!x)"])
def test_a_listener_that_fails_is_reported_once_and_left_out(
    script: Make, selector: str, error: BaseException, how: str
) -> None:
    made = script(SOURCE).load()
    calls: list[object] = []
    heard: list[object] = []
    probe = made.placed(selector, overridable=how == "intercept")

    def fails(event: dict[str, Any]) -> None:
        calls.append(event)
        raise error

    getattr(probe, how)(fails, "an instrument")
    probe.listen(heard.append)
    assert made.call("f(1), f(2)") == (1, 2)
    assert len(calls) == 1
    assert len(heard) >= 2
    (problem,) = made.problems
    assert (problem.slug, problem.who) == ("subscriber", "an instrument")
    assert problem.what == f"a subscriber of {selector} failed: {type(error).__name__}: {error}"
    assert problem.where is not None
    assert problem.where.startswith(__file__)


def test_at_the_recursion_limit_the_script_is_the_one_that_fails(script: Make) -> None:
    made = script(SOURCE).load()
    probe = made.placed("//deep > x")
    probe.listen([].append)
    probe.listen(lambda event: [].append(event))
    with pytest.raises(RecursionError):
        made.call("deep(0)")
    assert probe.fired > 50
    assert made.problems == []


def test_threads_listen_and_leave_while_others_run_the_code(script: Make) -> None:
    made = script(SOURCE).load()
    probe, heard = made.placed("//f > x"), []
    probe.listen(heard.append)

    def work() -> None:
        for _ in range(200):
            probe.listen(lambda event: None).dispose()
            made.call("f(1)")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(heard) == probe.fired == 800


def test_code_goes_on_when_the_run_has_ended(script: Make) -> None:
    made = script(SOURCE).load()
    events, yields = made.probe("//f > #value"), made.probe("//g > #yield")
    listening = made.placed("//f > x").listen(lambda event: 1 / 0)
    generator = made.call("g(3)")
    next(generator)
    made.engine.close()
    listening.dispose()
    assert (list(generator), made.call("f(1)")) == ([1, 2], 1)
    assert (events, yields, made.problems) == ([], [{"#yield": 0}], [])
