"""``from giving import give`` in a script reaches the run, from anywhere, once."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import giving
import pytest
from giving import give, given

from overseer.engine.bus import Bus
from overseer.engine.operators import connected, named
from overseer.errors import Problem

Event = dict[str, Any]
made_before = give.variant(lambda values: {"before": values})


class Heard(list[Event]):
    """What reached the run."""

    problems: list[Problem]


@pytest.fixture
def heard() -> Iterator[Heard]:
    heard = Heard()
    heard.problems = []
    stream = Bus(heard.problems.append)
    stream.listen(heard.append)
    with connected(stream):
        yield heard


class TestWhere:
    def test_from_the_main_thread(self, heard: Heard) -> None:
        give(x=1)
        assert heard == [{"x": 1}]

    def test_from_another_thread(self, heard: Heard) -> None:
        thread = threading.Thread(target=lambda: give(x=1))
        thread.start()
        thread.join()
        assert heard == [{"x": 1}]

    def test_from_a_context_of_its_own(self, heard: Heard) -> None:
        contextvars.Context().run(lambda: give(x=1))
        assert heard == [{"x": 1}]

    def test_from_coroutines(self, heard: Heard) -> None:
        async def step(number: int) -> None:
            await asyncio.sleep(0)
            give(x=number)

        async def main() -> None:
            await asyncio.gather(step(1), step(2))

        asyncio.run(main())
        assert heard == [{"x": 1}, {"x": 2}]


class TestHow:
    def test_a_value_goes_by_the_name_it_has_in_the_source(self, heard: Heard) -> None:
        loss = 0.5
        give(loss)
        assert heard == [{"loss": 0.5}]

    def test_several_values(self, heard: Heard) -> None:
        loss, step = 0.5, 3
        give(loss, step, epoch=1)
        assert heard == [{"loss": 0.5, "step": 3, "epoch": 1}]

    def test_the_variable_that_was_just_assigned(self, heard: Heard) -> None:
        loss = 0.5
        give()
        assert heard == [{"loss": loss}]

    def test_a_value_on_its_way_to_a_variable(self, heard: Heard) -> None:
        loss = give(0.5)
        assert heard == [{"loss": loss}]

    def test_blocks(self, heard: Heard) -> None:
        with give.wrap("step", x=1) as extra:
            extra["batch"] = 2
        begin, end = heard
        assert (begin["$wrap"]["step"], end["$wrap"]["step"]) == ("begin", "end")
        assert (begin["x"], end["batch"]) == (1, 2)

    def test_inherited_keys(self, heard: Heard) -> None:
        with give.inherit(task="train"):
            give(x=1)
        give(x=2)
        assert heard == [{"task": "train", "x": 1}, {"x": 2}]

    def test_inherited_keys_reach_what_voir_itself_gives(self) -> None:
        heard: list[Event] = []
        stream = Bus(print)
        stream.listen(heard.append)
        with connected(stream), give.inherit(task="train"):
            stream.give({"x": 1})
            stream.give({"x": 2, "task": "eval"})
        assert heard == [{"task": "train", "x": 1}, {"task": "eval", "x": 2}]

    def test_variants_made_before_the_run_and_during_it(self, heard: Heard) -> None:
        made_during = give.variant(lambda values: {"during": values})
        made_before(x=1)
        made_during(x=2)
        giving.giver("key")(3)
        give.line(x=4)
        assert heard[:3] == [{"before": {"x": 1}}, {"during": {"x": 2}}, {"key": 3}]
        assert heard[3]["$line"].filename == __file__


class TestBeside:
    def test_a_given_of_the_script_s_own_works_as_ever(self, heard: Heard) -> None:
        with given() as own:
            mine = own["?x"].accum()
            give(x=1)
        give(x=2)
        assert mine == [1]
        assert heard == [{"x": 1}, {"x": 2}]

    def test_a_give_that_is_not_giving_s_global_one_is_left_alone(self, heard: Heard) -> None:
        private = giving.make_give()
        with private.given() as own:
            mine = own["?x"].accum()
            private.give(x=1)
        assert (mine, heard) == ([1], [])

    def test_setting_the_context_by_hand_works_as_ever(self, heard: Heard) -> None:
        mine: list[Event] = []
        token = give.context.set((*give.context.get(), mine.append))
        give(x=1)
        give.context.reset(token)
        give(x=2)
        assert mine == [{"x": 1}]
        assert heard == [{"x": 1}, {"x": 2}]


class TestNames:
    """Without a listener, giving does not look for names; nor does it fail when there are none."""

    def test_what_has_no_name_is_reported_and_does_not_fail_the_script(self, heard: Heard) -> None:
        code = compile("give(1 + 1)\nafter = True", "<nowhere>", "exec")
        names: dict[str, object] = {"give": give}
        exec(code, names)
        assert names["after"] is True
        assert heard == []
        (problem,) = heard.problems
        assert problem.slug == "unnamed"
        assert "give(name=value)" in (problem.remedy or "")

    def test_an_empty_give_after_no_assignment_does_not_fail_the_script(self, heard: Heard) -> None:
        len("")
        give()
        assert heard == []
        assert heard.problems[0].where is not None
        assert heard.problems[0].where.startswith(__file__)

    def test_it_fails_where_it_would_without_voir(self, heard: Heard) -> None:
        with given(), pytest.raises(Exception, match="must immediately follow"):
            len("")
            give()

    def test_names_can_be_had_without_a_connection(self) -> None:
        problems: list[Problem] = []

        def own_give(*args: object) -> Event:
            return named(own_give, args, problems.append)

        loss = 0.5
        found: list[Event] = []
        found.append(own_give(loss))
        assert found == [{"loss": 0.5}]
        assert problems == []


class TestAfterwards:
    def test_nobody_hears_any_more(self) -> None:
        heard: list[Event] = []
        stream = Bus(print)
        stream.listen(heard.append)
        with connected(stream):
            copy = give.copy()
        give(x=1)
        copy(x=1)
        assert heard == []

    def test_a_copy_made_during_one_run_reaches_the_next(self, heard: Heard) -> None:
        stream = Bus(print)
        with connected(stream):
            copy = give.copy()
        copy(x=1)
        assert heard == [{"x": 1}]
        assert stream.events == 0

    def test_a_run_within_a_run_hears_alone(self, heard: Heard) -> None:
        inner: list[Event] = []
        stream = Bus(print)
        stream.listen(inner.append)
        with connected(stream):
            give(x=1)
        give(x=2)
        assert (inner, heard) == ([{"x": 1}], [{"x": 2}])
