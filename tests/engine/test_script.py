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

Event = dict[str, Any]


class Run:
    """As much of an overseer as scripts see."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.report = self.problems.append
        self.bus = Bus(self.report)
        self.heard: list[Event] = []
        self.logged: list[Event] = []
        self.log = self.logged.append
        self.bus.listen(self.heard.append)

    @property
    def told(self) -> str:
        """The events given by a loop over ``train``, in order and in short."""
        assert {event["task"] for event in self.heard} <= {"train"}
        return " ".join(map(short, self.heard))


def short(event: Event) -> str:
    """An event without its task: ``(2,3)``, ``<batch=x`` and ``>batch=x`` for a pair's ends."""
    if "progress" in event:
        return "({},{})".format(*event["progress"])
    end = {"begin": "<", "end": ">"}[event["$wrap"]["step"]] if "$wrap" in event else ""
    (said,) = (f"{k}={v}" for k, v in event.items() if k not in ("task", "$wrap"))
    return end + said


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A run in progress, which hears giving too."""
    run = Run()
    monkeypatch.setattr("overseer.engine.overseer._active", run)
    with connected(run.bus):
        yield run


def test_give_takes_names_and_finds_those_of_values(run: Run) -> None:
    give(loss=1, step=2)
    loss = 0.5
    returned = [give(loss)]
    lone = 3
    give()
    exec(compile("give(1 + 1)", "<nowhere>", "exec"), {"give": give})
    assert run.heard == [{"loss": 1, "step": 2}, {"loss": 0.5}, {"lone": lone}]
    assert returned == [0.5]
    assert [problem.slug for problem in run.problems] == ["unnamed"]


def test_give_has_all_that_giving_s_give_has(run: Run) -> None:
    with give.inherit(task="train"), give.wrap("step", y=2) as extra:
        give(x=1)
        extra["y"] = 3
    assert run.told == "<y=2 x=1 >y=3"
    with give.wrap_inherit("block", task="train"):
        give(x=2)
    assert [event.get("task") for event in run.heard[3:]] == ["train"] * 3
    assert give.line is not None  # giving's own.
    with pytest.raises(AttributeError):
        _ = give.nonsense
    assert not hasattr(give, "__wrapped__")


def test_a_given_of_the_script_s_own_hears_it_too(run: Run) -> None:
    with given() as own, give.inherit(task="train"):
        mine = own.accum()
        give(x=1)
    assert mine == run.heard == [{"task": "train", "x": 1}]


class TestPlainPython:
    def test_a_given_of_the_script_s_own_hears_what_is_given(self) -> None:
        with given() as own:
            mine = own.accum()
            loss = 0.5
            give(loss, x=1)
            list(iterate("train", iter("a"), report_batch=True))
        assert mine[0] == {"loss": 0.5, "x": 1}
        assert " ".join(map(short, mine[1:])) == "<batch=a >batch=a <batch=None >batch=None"

    def test_otherwise_nothing_is_given_and_no_name_looked_for(self) -> None:
        assert eval("give(1 + 1)", {"give": give}) == 2
        assert (give(1, 2), give(x=1), log({"a": 1}, b=2)) == (None, None, None)
        assert list(iterate("train", "abc", report_batch=True)) == ["a", "b", "c"]

    def test_keywords_import_nothing(self) -> None:
        code = "import sys; from voir import give; give(x=1); sys.exit('giving' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_log_sends_keywords_and_events_out(run: Run) -> None:
    log({"a": 1}, {"b": 2}, c=3)
    log(d=4)
    assert run.logged == [{"a": 1}, {"b": 2}, {"c": 3}, {"d": 4}]
    assert run.heard == []


class Loader:
    """Gives what it loads, and that it is run to its end, where workers are sent home.

    Args:
        items: What it has.
        length: What it says of it; nothing, as a DataLoader over an IterableDataset.
    """

    def __init__(self, items: str, length: int | None = None) -> None:
        self.items, self.length = items, length

    def __len__(self) -> int:
        if self.length is None:
            raise TypeError("it has no length")
        return self.length

    def __iter__(self) -> Iterator[str]:
        for item in self.items:
            give(load=item)
            yield item * 2
        give(load="end")


STEPS = {"report_batch": True}
LATE = {"report_batch": True, "ignore_loading": True}
#: Ways to iterate over a loader, and the events given.
LOOPS: list[tuple[Loader, dict[str, Any], str]] = [
    (Loader("ab", 2), {}, "(0,2) load=a body=aa (1,2) load=b body=bb (2,2) load=end"),
    (Loader("a"), {}, "load=a body=aa load=end"),
    (Loader("ab", 1), {}, "(0,1) load=a body=aa (1,1) load=b body=bb load=end"),
    (Loader("a", 1), STEPS, "(0,1) <batch=None load=a body=aa >batch=aa (1,1) load=end"),
    # As voir 0.2 has it, the end is asked for in a pair, too.
    (Loader("a"), STEPS, "load=a <batch=aa body=aa >batch=aa load=end <batch=None >batch=None"),
    (Loader("a", 1), LATE, "(0,1) load=a <batch=aa body=aa >batch=aa (1,1) load=end"),
    (Loader("a"), LATE, "load=a <batch=aa body=aa >batch=aa load=end"),
    (
        Loader("", 1),
        {**STEPS, "batch_size": len},
        "(0,1) <batch_size=None load=end >batch_size=None",
    ),
    (
        Loader("a"),
        {**LATE, "batch_size": len},
        "load=a <batch_size=2 body=aa >batch_size=2 load=end",
    ),
    (Loader("a"), {**LATE, "batch_size": 7}, "load=a <batch_size=7 body=aa >batch_size=7 load=end"),
    (
        Loader("a"),
        {**LATE, "batch_size": lambda batch: 1 / 0},
        "load=a <batch_size=None body=aa >batch_size=None load=end",
    ),
]


@pytest.mark.parametrize(("loader", "options", "told"), LOOPS)
def test_a_loop_tells_how_far_it_is_and_what_its_steps_are(
    run: Run, loader: Loader, options: dict[str, Any], told: str
) -> None:
    for batch in iterate("train", loader, **options):
        give(body=batch)
    assert run.told == told
    assert len(run.problems) == ("None body" in told)  # That its size can't be told.
    give(after=1)
    assert run.heard[-1] == {"after": 1}


def test_breaking_off_ends_the_step_and_an_error_of_the_iterator_is_the_script_s(run: Run) -> None:
    for _ in iterate("train", "abc", report_batch=True):
        break
    assert run.told == "(0,3) <batch=None >batch=a"

    def failing() -> Iterator[str]:
        yield "a"
        raise LookupError

    with pytest.raises(LookupError):
        list(iterate("train", failing(), report_batch=True))
    assert run.told.endswith(" <batch=a >batch=a")


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
def test_a_loop_may_begin_go_on_end_and_be_given_up_elsewhere(
    run: Run, elsewhere: Callable[..., object], report_batch: bool
) -> None:
    """Generators may be handed on; threads and asyncio tasks have contexts of their own."""
    with give.inherit(task="outer", run=1):
        loop = iterate("train", "abc", report_batch=report_batch)
        assert next(loop) == "a"
        give(within=1)
        assert elsewhere(lambda: list(loop)) == ["b", "c"]
        give(after=1)
        begun = iterate("train", "abc", report_batch=report_batch)
        assert (elsewhere(lambda: next(begun)), list(begun)) == ("a", ["b", "c"])
    given_up = iterate("train", "abc", report_batch=report_batch)
    assert next(given_up) == "a"
    elsewhere(lambda: given_up.close())  # type: ignore[attr-defined]
    give(outside=1)
    own = [event for event in run.heard if not {"progress", "$wrap"} & event.keys()]
    assert own == [
        {"task": "train", "run": 1, "within": 1},
        {"task": "outer", "run": 1, "after": 1},
        {"outside": 1},
    ]
    assert {event["task"] for event in run.heard if event not in own} == {"train"}
    done = [event["progress"][0] for event in run.heard if "progress" in event]
    assert done == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert len([event for event in run.heard if "$wrap" in event]) == 14 * report_batch
