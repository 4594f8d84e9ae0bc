"""A few events are timed where they happen; listeners get all of them, as ever."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from .conftest import Few, Make

LOOP = """
def train(n):
    for i in range(n):
        loss = i
    return n
"""


@pytest.mark.parametrize(
    ("selector", "timed"),
    [
        ("//train > loss", 3),
        ("//train > loss=4", 1),  # A test in the selector: the event is counted by its lane.
        ("//train(!#loop_i as begin, !!#endloop_i as end)", 6),
    ],
)
def test_the_next_few_events_are_timed_and_all_are_delivered(
    script: Make, selector: str, timed: int
) -> None:
    plain, weighed = script(LOOP), script(LOOP)
    expected, events = plain.probe(selector), weighed.probe(selector)
    plain.load().call("train(10)")
    weighed.load()
    sittings = Few()
    ticks = count()
    weighed.engine.weigh(lambda: next(ticks), lambda number: sittings)
    weighed.call("train(10)")
    assert sittings.took == [1] * timed
    assert shown(events) == shown(expected)
    assert list(weighed.engine.fired.values()) == [len(events)]
    assert (plain.problems, weighed.problems) == ([], [])


def shown(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {k: v if k != "$wrap" else (v["name"], v["step"]) for k, v in event.items()}
        for event in events
    ]


def test_weighing_may_begin_again_at_any_time(script: Make) -> None:
    made = script(LOOP)
    events = made.probe("//train > loss")
    made.load()
    sittings = Few()
    for _ in range(5):
        made.engine.weigh(lambda: 0, lambda number: sittings)
        made.call("train(1)")
    made.call("train(10)")
    assert len(sittings.took) == 7
    assert len(events) == 15


def test_what_two_threads_subscribe_at_once_is_all_heard(
    script: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = script(LOOP)
    placed = made.placed("//train > loss")
    made.load()
    hidden = made.engine._hidden
    put = hidden.store
    heard: list[str] = []

    def meanwhile(name: str, value: object) -> None:
        if name.endswith("lane>") and hidden.store is meanwhile:
            monkeypatch.undo()
            placed.listen(lambda event: heard.append("second"))
        put(name, value)

    monkeypatch.setattr(hidden, "store", meanwhile)
    placed.listen(lambda event: heard.append("first"))
    made.call("train(1)")
    assert sorted(heard) == ["first", "second"]


def test_a_listener_that_fails_while_it_is_weighed_is_reported_and_left_out(script: Make) -> None:
    made = script(LOOP)
    made.placed("//train > loss").listen(lambda event: event["absent"], "who")
    made.load()
    made.engine.weigh(lambda: 0, lambda number: Few())
    assert made.call("train(10)") == 10
    (problem,) = made.problems
    assert "KeyError: 'absent'" in problem.what
    assert made.placed("//train > loss").heard is False


def test_a_probe_that_nobody_listens_to_is_not_weighed(script: Make) -> None:
    made = script(LOOP)
    made.placed("//train > loss")
    made.load()
    sittings = Few()
    made.engine.weigh(lambda: 0, lambda number: sittings)
    made.call("train(10)")
    assert sittings.took == []


def test_after_the_run_there_is_nothing_to_weigh(script: Make) -> None:
    made = script(LOOP)
    made.probe("//train > loss")
    made.load()
    made.engine.close()
    made.engine.weigh(lambda: 0, lambda number: pytest.fail("it weighs"))
