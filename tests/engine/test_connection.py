"""``from giving import give`` in a script reaches the run, from anywhere, once."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator
from typing import Any

import giving
import pytest
from giving import give, given

from overseer.engine.bus import Bus
from overseer.engine.operators import connected, named
from overseer.errors import Problem
from tests.engine.test_bus import in_threads

Event = dict[str, Any]
made_before = give.variant(lambda values: {"before": values})


class Heard(list[Event]):
    """A run: what reached it, and what was reported."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[Problem] = []
        self.stream = Bus(self.problems.append)
        self.stream.listen(self.append)


@pytest.fixture
def heard() -> Iterator[Heard]:
    heard = Heard()
    with connected(heard.stream):
        yield heard


def test_it_is_heard_from_any_thread_context_and_coroutine(heard: Heard) -> None:
    async def step(number: int) -> None:
        await asyncio.sleep(0)
        give(x=number)

    async def steps() -> None:
        await asyncio.gather(step(4), step(5))

    give(x=1)
    in_threads(lambda: give(x=2))
    contextvars.Context().run(lambda: give(x=3))
    asyncio.run(steps())
    assert heard == [{"x": number} for number in range(1, 6)]


def test_values_go_by_the_names_that_they_have_in_the_source(heard: Heard) -> None:
    loss = 0.5
    give()
    step = give(3)
    give(loss)
    give(loss, step, epoch=1)
    assert heard == [
        {"loss": 0.5},
        {"step": 3},
        {"loss": 0.5},
        {"loss": 0.5, "step": 3, "epoch": 1},
    ]


def test_blocks_variants_and_inherited_keys(heard: Heard) -> None:
    made_during = give.variant(lambda values: {"during": values})
    with give.wrap("step", x=1) as extra:
        extra["batch"] = 2
    with give.inherit(task="train"):
        give(x=1)
        heard.stream.give({"x": 2})  # As voir itself gives.
        heard.stream.give({"x": 3, "task": "eval"})
    made_before(x=1)
    made_during(x=2)
    giving.giver("key")(3)
    give.line(x=4)
    begin, end, *others, line = heard
    assert (begin["$wrap"]["step"], end["$wrap"]["step"]) == ("begin", "end")
    assert (begin["x"], end["batch"], line["$line"].filename) == (1, 2, __file__)
    assert others == [
        {"task": "train", "x": 1},
        {"task": "train", "x": 2},
        {"task": "eval", "x": 3},
        {"before": {"x": 1}},
        {"during": {"x": 2}},
        {"key": 3},
    ]


def test_what_the_script_does_with_giving_works_as_ever(heard: Heard) -> None:
    mine: list[Event] = []
    private = giving.make_give()
    with given() as own, private.given() as apart:
        own.subscribe(mine.append)
        apart.subscribe(mine.append)
        give(x=1)
        private.give(x=2)
    token = give.context.set((*give.context.get(), mine.append))
    give(x=3)
    give.context.reset(token)
    give(x=4)
    assert mine == [{"x": 1}, {"x": 2}, {"x": 3}]
    assert heard == [{"x": 1}, {"x": 3}, {"x": 4}]


def test_what_has_no_name_is_reported_and_does_not_fail_the_script(heard: Heard) -> None:
    # Without a listener, giving does not look for names; nor does it fail when there are none.
    names: dict[str, object] = {"give": give}
    exec(compile("give(1 + 1)\nafter = True", "<nowhere>", "exec"), names)
    assert names["after"] is True
    len("")
    give()
    assert heard == []
    assert [p.slug for p in heard.problems] == ["unnamed", "unnamed"]
    assert "give(name=value)" in str(heard.problems[0].remedy)
    assert str(heard.problems[1].where).startswith(__file__)
    with given(), pytest.raises(Exception, match="must immediately follow"):
        len("")  # Here it fails without voir too.
        give()


def test_names_can_be_had_without_a_connection() -> None:
    problems: list[Problem] = []

    def own_give(*args: object) -> Event:
        return named(own_give, args, problems.append)

    loss = 0.5
    found: list[Event] = []
    found.append(own_give(loss))
    assert (found, problems) == ([{"loss": 0.5}], [])


def test_afterwards_and_during_a_run_within_the_run_nobody_hears(heard: Heard) -> None:
    inner = Heard()
    with connected(inner.stream):
        copy = give.copy()
        give(x=1)
    give(x=2)
    copy(x=3)
    assert (inner, heard) == ([{"x": 1}], [{"x": 2}, {"x": 3}])


def test_after_the_last_run_nothing_of_it_is_left() -> None:
    context, heard = vars(giving.gvr.Giver).get("context"), Heard()
    with connected(heard.stream):
        copy = give.copy()
    give(x=1)
    copy(x=1)
    assert (heard, vars(giving.gvr.Giver).get("context")) == ([], context)
