"""What scripts use does nothing under plain python, and all it should under voir."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any

import pytest
from giving import given

from overseer.engine.bus import Bus
from overseer.engine.operators import connected
from overseer.engine.script import give, iterate, log
from overseer.errors import Problem
from tests.clocks import FakeClock

Event = dict[str, Any]


class Run:
    """As much of an overseer as scripts see."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.stream = Bus(self.problems.append)
        self.heard: list[Event] = []
        self.logged: list[Event] = []
        self.clock = FakeClock()
        self.stream.listen(self.heard.append)

    @property
    def bus(self) -> Bus:
        return self.stream

    def log(self, event: Event) -> None:
        self.logged.append(event)

    def report(self, problem: Problem) -> None:
        self.problems.append(problem)

    @property
    def plain(self) -> list[Event]:
        """The events without the identities of pairs."""
        return [
            {k: v["step"] if k == "$wrap" else v for k, v in event.items()} for event in self.heard
        ]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A run in progress, which hears giving too."""
    run = Run()
    monkeypatch.setattr("overseer.engine.overseer._active", run)
    with connected(run.stream):
        yield run


class TestGive:
    def test_keywords_reach_the_run_once(self, run: Run) -> None:
        give(loss=1, step=2)
        assert run.heard == [{"loss": 1, "step": 2}]

    def test_a_value_goes_by_its_name_and_is_returned(self, run: Run) -> None:
        loss = 0.5
        returned: list[float] = []
        returned.append(give(loss))
        assert returned == [0.5]
        assert run.heard == [{"loss": 0.5}]

    def test_without_arguments_it_gives_what_was_just_assigned(self, run: Run) -> None:
        loss = 0.5
        give()
        assert run.heard == [{"loss": loss}]

    def test_what_has_no_name_is_reported_and_does_not_fail_the_script(self, run: Run) -> None:
        exec(compile("give(1 + 1)", "<nowhere>", "exec"), {"give": give})
        assert run.heard == []
        assert run.problems[0].slug == "unnamed"

    def test_it_has_all_that_giving_s_give_has(self, run: Run) -> None:
        with give.inherit(task="train"), give.wrap("step"):
            give(x=1)
        assert run.plain == [
            {"task": "train", "$wrap": "begin"},
            {"task": "train", "x": 1},
            {"task": "train", "$wrap": "end"},
        ]

    def test_a_given_of_the_script_s_own_hears_it_too(self, run: Run) -> None:
        with given() as own, give.inherit(task="train"):
            mine = own.accum()
            give(x=1)
        assert mine == [{"task": "train", "x": 1}]
        assert run.heard == [{"task": "train", "x": 1}]

    def test_under_plain_python_a_given_of_the_script_s_own_hears_it(self) -> None:
        with given() as own:
            mine = own.accum()
            loss = 0.5
            give(loss, x=1)
        assert mine == [{"loss": 0.5, "x": 1}]

    def test_under_plain_python_it_returns_its_argument_and_looks_for_no_name(self) -> None:
        assert eval("give(1 + 1)", {"give": give}) == 2
        assert give(1, 2) is None
        assert give(x=1) is None

    def test_under_plain_python_keywords_import_nothing(self) -> None:
        code = "import sys; from voir import give; give(x=1); sys.exit('giving' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code]).returncode == 0

    def test_it_has_no_attributes_that_giving_s_has_not(self) -> None:
        with pytest.raises(AttributeError):
            _ = give.nonsense
        assert not hasattr(give, "__wrapped__")


class TestLog:
    def test_keywords_and_events_are_sent_out(self, run: Run) -> None:
        log({"a": 1}, {"b": 2}, c=3)
        log(d=4)
        assert run.logged == [{"a": 1}, {"b": 2}, {"c": 3}, {"d": 4}]
        assert run.heard == []

    def test_under_plain_python_nothing_happens(self) -> None:
        log({"a": 1}, b=2)


class Unsized:
    """As a DataLoader over an IterableDataset: it has a length that cannot be asked."""

    def __len__(self) -> int:
        raise TypeError("it has no length")

    def __iter__(self) -> Iterator[str]:
        return iter("ab")


class TestIterate:
    def test_under_plain_python_it_iterates(self) -> None:
        assert list(iterate("train", "abc", report_batch=True)) == ["a", "b", "c"]

    def test_progress_is_given_before_each_and_after_the_last(self, run: Run) -> None:
        assert list(iterate("train", "ab")) == ["a", "b"]
        assert run.heard == [{"task": "train", "progress": (n, 2)} for n in range(3)]

    def test_without_a_length_there_is_no_progress(self, run: Run) -> None:
        assert list(iterate("train", iter("ab"))) == ["a", "b"]
        assert list(iterate("train", Unsized())) == ["a", "b"]
        assert run.heard == []

    def test_the_task_is_known_to_what_is_given_in_the_loop(self, run: Run) -> None:
        for letter in iterate("train", "a"):
            give(letter=letter)
        give(letter="b")
        assert [event.get("task") for event in run.heard] == ["train", "train", "train", None]

    def test_each_iteration_is_a_step_whose_end_has_the_batch(self, run: Run) -> None:
        for letter in iterate("train", "ab", report_batch=True):
            give(body=letter)
        assert [e for e in run.plain if "progress" not in e] == [
            {"task": "train", "$wrap": "begin", "batch": None},
            {"task": "train", "body": "a"},
            {"task": "train", "$wrap": "end", "batch": "a"},
            {"task": "train", "$wrap": "begin", "batch": None},
            {"task": "train", "body": "b"},
            {"task": "train", "$wrap": "end", "batch": "b"},
        ]

    @pytest.mark.parametrize(("size", "expected"), [(len, [1, 2]), (7, [7, 7])])
    def test_the_size_of_the_batch_may_stand_for_it(
        self, run: Run, size: Any, expected: list[int]
    ) -> None:
        for _ in iterate("train", ["a", "bb"], report_batch=True, batch_size=size):
            pass
        ends = [e for e in run.plain if e.get("$wrap") == "end"]
        assert [event["batch_size"] for event in ends] == expected
        assert all("batch" not in event for event in run.heard)

    def test_loading_may_be_left_out_of_the_step(self, run: Run) -> None:
        def loader() -> Iterator[str]:
            give(loading="a")
            yield "a"

        for _ in iterate("train", loader(), report_batch=True, ignore_loading=True):
            give(body=1)
        assert [list(event)[-1] for event in run.plain] == ["loading", "batch", "body", "batch"]
        assert [e["batch"] for e in run.plain if "$wrap" in e] == ["a", "a"]

    def test_loading_is_part_of_the_step_otherwise(self, run: Run) -> None:
        class Loader(list[str]):
            def __iter__(self) -> Iterator[str]:
                give(loading="a")
                yield "a"

        for _ in iterate("train", Loader("a"), report_batch=True):
            give(body=1)
        assert [list(event)[1] for event in run.plain[:3]] == ["progress", "$wrap", "loading"]

    def test_where_nobody_knows_whether_one_comes_the_step_begins_when_it_has(
        self, run: Run
    ) -> None:
        assert list(iterate("train", iter("ab"), report_batch=True)) == ["a", "b"]
        assert [e["$wrap"] for e in run.plain] == ["begin", "end"] * 3
        # As voir 0.2 has it, the end was asked for in a pair, too.
        assert [e["batch"] for e in run.plain] == ["a", "a", "b", "b", None, None]

    def test_it_ends_where_the_iterator_does_whatever_its_length_says(self, run: Run) -> None:
        class Longer(list[str]):
            def __len__(self) -> int:
                return 1

        assert list(iterate("train", Longer("abc"))) == ["a", "b", "c"]
        assert [event["progress"] for event in run.heard] == [(0, 1), (1, 1)]

    def test_the_iterator_is_run_to_its_end(self, run: Run) -> None:
        class Loader:
            ended = False

            def __len__(self) -> int:
                return 2

            def __iter__(self) -> Iterator[str]:
                yield from "ab"
                self.ended = True  # Where a DataLoader sends its workers home.

        loader = Loader()
        assert list(iterate("train", loader, report_batch=True)) == ["a", "b"]
        assert loader.ended
        assert len([e for e in run.plain if "$wrap" in e]) == 4

    def test_breaking_off_ends_the_step_and_the_task(self, run: Run) -> None:
        for _ in iterate("train", "abc", report_batch=True):
            break
        give(after=1)
        assert [e.get("$wrap") for e in run.plain] == [None, "begin", "end", None]
        assert run.heard[-1] == {"after": 1}

    def test_an_error_of_the_iterator_is_the_script_s(self, run: Run) -> None:
        def loader() -> Iterator[str]:
            yield "a"
            raise LookupError

        with pytest.raises(LookupError):
            list(iterate("train", loader(), report_batch=True))
        assert [e.get("$wrap") for e in run.plain][-1] == "end"


def in_another_context(act: Callable[[], object]) -> object:
    return copy_context().run(act)


def in_another_thread(act: Callable[[], object]) -> object:
    done: list[object] = []
    thread = threading.Thread(target=lambda: done.append(act()))
    thread.start()
    thread.join()
    return done[0]


@pytest.mark.parametrize("elsewhere", [in_another_context, in_another_thread])
@pytest.mark.parametrize("report_batch", [True, False])
class TestIterateElsewhere:
    """Generators may be handed on; threads and asyncio tasks have contexts of their own."""

    def test_a_loop_may_be_gone_on_with_and_end_elsewhere(
        self, run: Run, elsewhere: Callable[..., object], report_batch: bool
    ) -> None:
        loop = iterate("train", "abc", report_batch=report_batch)
        assert next(loop) == "a"
        assert elsewhere(lambda: list(loop)) == ["b", "c"]
        assert {event["task"] for event in run.heard} == {"train"}
        assert [e["progress"][0] for e in run.heard if "progress" in e] == [0, 1, 2, 3]
        assert len([e for e in run.plain if "$wrap" in e]) == (6 if report_batch else 0)

    def test_a_loop_may_begin_elsewhere(
        self, run: Run, elsewhere: Callable[..., object], report_batch: bool
    ) -> None:
        loop = iterate("train", "abc", report_batch=report_batch)
        assert elsewhere(lambda: next(loop)) == "a"
        assert list(loop) == ["b", "c"]
        assert {event["task"] for event in run.heard} == {"train"}

    def test_a_loop_that_is_given_up_may_be_collected_elsewhere(
        self, run: Run, elsewhere: Callable[..., object], report_batch: bool
    ) -> None:
        loop = iterate("train", "abc", report_batch=report_batch)
        assert next(loop) == "a"
        elsewhere(lambda: loop.close())  # type: ignore[attr-defined]
        give(after=1)
        assert run.heard[-1] == {"after": 1}

    def test_afterwards_what_was_inherited_before_is_again(
        self, run: Run, elsewhere: Callable[..., object], report_batch: bool
    ) -> None:
        with give.inherit(task="outer", run=1):
            loop = iterate("train", "abc", report_batch=report_batch)
            next(loop)
            give(within=1)
            elsewhere(lambda: list(loop))
            give(after=1)
        give(outside=1)
        within, *_, after, outside = [e for e in run.heard if not {"progress", "$wrap"} & e.keys()]
        assert within == {"task": "train", "run": 1, "within": 1}
        assert after == {"task": "outer", "run": 1, "after": 1}
        assert outside == {"outside": 1}
