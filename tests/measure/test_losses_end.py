"""At the end of a run losses are waited for, but not for long; what was read by then is told."""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from overseer.boundary import StopProgram
from overseer.errors import Problem
from overseer.measure import losses as losses_module
from overseer.measure.losses import PENDING, Losses
from tests.running import VOIR, Place

Start = Callable[[Callable[[], object]], threading.Thread]


class Slow:
    """A number of some library: who reads it waits until ``there`` is set."""

    shape = ()

    def __init__(self, value: float, there: threading.Event | None = None) -> None:
        self.value, self.there = value, there
        self.asked = threading.Event()

    def item(self) -> float:
        self.asked.set()
        if self.there is not None:
            self.there.wait()
        return self.value


def model(hangs: bool = False) -> Any:
    """As much of a step model as losses ask for."""
    marks = SimpleNamespace(hangs=hangs, device=None, aside=nullcontext)
    return SimpleNamespace(marks=marks, notes=0, waiting=0)


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses_module, "END_SECONDS", 0.1)
    monkeypatch.setattr(losses_module, "LAST_SECONDS", 0.1)


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """Set when the test is over, so that no thread waits on."""
    made = threading.Event()
    yield made
    made.set()


@pytest.fixture
def start(never: threading.Event) -> Iterator[Start]:
    begun: list[threading.Thread] = []

    def start(work: Callable[[], object]) -> threading.Thread:
        begun.append(threading.Thread(target=work))
        begun[-1].start()
        return begun[-1]

    yield start
    never.set()
    for thread in begun:
        thread.join(10)


@pytest.fixture
def problems() -> list[Problem]:
    return []


@pytest.fixture
def losses(problems: list[Problem]) -> Losses:
    return Losses(problems.append)


def give(losses: Losses, *values: object, **more: object) -> None:
    for value in values:
        losses({"loss": value, **more})


def test_a_loss_that_hangs_does_not_keep_a_run_from_ending(
    losses: Losses, problems: list[Problem], never: threading.Event
) -> None:
    give(losses, 2.0, 1.0, task="eval")
    give(losses, *[Slow(1.0, never) for _ in range(3)])
    losses.read_all(model())
    assert [problem.slug for problem in problems] == ["loss"]
    assert "3 of 5 could not be read" in problems[0].what
    found = losses.summary()
    assert list(found) == ["eval"]
    assert (found["eval"].last, found["eval"].exact) == (1.0, True)


def test_what_was_read_before_one_that_hangs_is_kept_and_the_last_is_tried(
    losses: Losses, problems: list[Problem], never: threading.Event, start: Start
) -> None:
    stuck = Slow(9.0, never)
    give(losses, Slow(3.0), Slow(1.0), stuck, Slow(0.5), Slow(2.0))
    start(losses.read)  # As the timer does, which is given up.
    assert stuck.asked.wait(10)
    losses.read_all(model())
    found = losses.summary()["train"]
    assert (found.first, found.last, found.min) == (3.0, 2.0, 1.0)
    assert (found.n, found.exact) == (5, False)
    assert "2 of 5 could not be read" in problems[0].what
    assert len(problems) == 1


@pytest.mark.parametrize("first", [True, False])
def test_ctrl_c_ends_the_waiting_and_what_was_read_is_kept(
    losses: Losses,
    problems: list[Problem],
    monkeypatch: pytest.MonkeyPatch,
    never: threading.Event,
    first: bool,
) -> None:
    waited: list[float] = []

    def within(seconds: float, *_: object) -> bool:
        waited.append(seconds)
        if first or len(waited) > 1:
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr(losses_module, "within", within)
    give(losses, 2.0, 1.0, task="eval")
    assert losses.read()
    give(losses, *[Slow(1.0, never) for _ in range(3)])
    assert not losses.read_all(model())
    assert len(waited) == (1 if first else 2)
    assert "3 of 5 could not be read: the waiting for them was interrupted" in problems[0].what
    assert losses.summary()["eval"].last == 1.0


def test_after_a_ctrl_c_nothing_is_waited_for(
    losses: Losses, problems: list[Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(losses_module, "within")
    give(losses, Slow(1.0))
    assert not losses.read_all(model(), hurried=True)
    assert "1 of 1 could not be read" in problems[0].what


def test_a_reader_that_was_given_up_changes_nothing_any_more(
    losses: Losses, problems: list[Problem], never: threading.Event, start: Start
) -> None:
    stuck, between = Slow(-9.0, never), Slow(-8.0)
    give(losses, Slow(3.0), stuck, between, Slow(2.0))
    reader = start(losses.read)
    assert stuck.asked.wait(10)
    losses.read_all(model())
    before = losses.summary()
    never.set()
    reader.join(10)
    assert losses.summary() == before
    assert not between.asked.is_set()


def test_a_reader_that_comes_back_while_the_last_is_tried_is_not_heard(
    losses: Losses, monkeypatch: pytest.MonkeyPatch, never: threading.Event, start: Start
) -> None:
    monkeypatch.setattr(losses_module, "LAST_SECONDS", 30.0)
    there = threading.Event()
    stuck, between, last = Slow(9.0, never), Slow(7.0), Slow(2.0, there)
    give(losses, Slow(3.0), stuck, between, last)
    reader = start(losses.read)
    assert stuck.asked.wait(10)

    def come_back() -> None:
        assert last.asked.wait(10)
        never.set()
        reader.join(10)
        time.sleep(0.05)  # So that whoever waits for the reader has its turn.
        there.set()

    start(come_back)
    losses.read_all(model())
    found = losses.summary()["train"]
    assert (found.first, found.last, found.min, found.n) == (3.0, 2.0, 2.0, 4)
    assert not between.asked.is_set()


def test_losses_that_take_their_time_are_all_read_if_there_is_enough(
    losses: Losses,
    problems: list[Problem],
    monkeypatch: pytest.MonkeyPatch,
    never: threading.Event,
    start: Start,
) -> None:
    monkeypatch.setattr(losses_module, "END_SECONDS", 30.0)
    first = Slow(3.0, never)
    give(losses, first, Slow(1.0))
    start(losses.read)
    assert first.asked.wait(10)
    give(losses, Slow(2.0))
    soon = threading.Timer(0.05, never.set)
    soon.start()
    losses.read_all(model())
    soon.join()
    found = losses.summary()["train"]
    assert (found.first, found.last, found.min, found.n) == (3.0, 2.0, 1.0, 3)
    assert found.exact
    assert problems == []


def test_plain_numbers_need_no_other_thread(
    losses: Losses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(losses_module, "start_new_thread", None)
    give(losses, 2.0, 1, True)
    losses.read_all(model())
    assert losses.summary()["train"].n == 3


def test_the_reading_threads_time_is_charged_and_the_thread_is_in_no_list(losses: Losses) -> None:
    class Looks(Slow):
        def item(self) -> float:
            seen.append(threading.current_thread())  # That puts one into the list.
            return 1.0

    seen: list[threading.Thread] = []
    charged: list[int] = []
    give(losses, Looks(1.0))
    losses.read_all(model(), charged.append)
    assert seen[0] is not threading.current_thread()
    assert seen[0] not in threading.enumerate()
    assert len(charged) == 1


def test_without_another_thread_it_is_told_that_losses_were_not_read(
    losses: Losses, problems: list[Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(losses_module, "start_new_thread", full)
    give(losses, Slow(1.0))
    losses.read_all(model())
    assert "1 of 1 could not be read" in problems[0].what


def test_of_a_device_that_hangs_the_last_loss_is_not_tried(
    losses: Losses, problems: list[Problem]
) -> None:
    give(losses, 3.0)
    losses.read()
    last = Slow(1.0)
    give(losses, Slow(2.0), last)
    losses.read_all(model(hangs=True))
    assert not last.asked.is_set()
    assert "2 of 3 could not be read: their device hangs" in problems[0].what
    assert (losses.summary()["train"].last, losses.summary()["train"].exact) == (3.0, False)


def test_losses_that_were_not_read_are_not_kept(losses: Losses, never: threading.Event) -> None:
    values = [Slow(float(i), never) for i in range(5)]
    alive = [weakref.ref(value) for value in values]
    give(losses, *values)
    losses.read_all(model())
    del values
    gc.collect()
    hanging = [ref() for ref in alive if ref() is not None]
    assert len(hanging) == 2  # Their threads have the first, and the last.


def test_what_the_user_asks_for_while_losses_are_read_is_heard(losses: Losses) -> None:
    class Wishes(Slow):
        def item(self) -> float:
            raise StopProgram

    give(losses, Wishes(1.0))
    with pytest.raises(StopProgram):
        losses.read_all(model())


def test_the_script_never_waits_for_losses_of_another_library(losses: Losses) -> None:
    values = [Slow(1.0) for _ in range(PENDING)]
    give(losses, *values, 1.0, Slow(2.0), 3.0)
    assert not any(value.asked.is_set() for value in values)
    assert len(losses._tasks["train"].pending) <= PENDING


@pytest.mark.parametrize("plain", [False, True])
def test_while_one_hangs_the_others_do_not_fill_the_memory(
    losses: Losses, never: threading.Event, start: Start, plain: bool
) -> None:
    stuck = Slow(1.0, never)
    give(losses, stuck)
    start(losses.read)
    assert stuck.asked.wait(10)
    give(losses, *[2.0 if plain else Slow(2.0) for _ in range(20 * PENDING)])
    assert len(losses._tasks["train"].pending) <= 8 * PENDING


def test_a_device_does_what_it_was_given_before_another_thread_reads(
    losses: Losses, problems: list[Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread has another stream, which does not wait for the one of the script."""

    class On(NamedTuple):
        type: str

    class Tensor(Slow):
        is_cpu, device, dtype = False, On("cuda"), "float32"

        def detach(self) -> Tensor:
            return self

        def item(self) -> float:
            return float(len(waited))

    waited: list[object] = []
    torch = SimpleNamespace(Tensor=Tensor, cuda=SimpleNamespace(synchronize=waited.append))
    monkeypatch.setitem(sys.modules, "torch", torch)
    give(losses, Tensor(0.0), Tensor(0.0))
    losses.read_all(model())
    assert waited == [Tensor.device]
    assert (losses.summary()["train"].first, problems) == (1.0, [])


def test_a_number_may_have_any_shape_that_is_none(losses: Losses, problems: list[Problem]) -> None:
    class Shapely(Slow):
        shape = property(lambda self: len)  # As a method, in some libraries.

    give(losses, Shapely(1.0))
    losses.read_all(model())
    assert (losses.summary()["train"].last, problems) == (1.0, [])


def test_tensors_of_several_kinds_are_read_at_the_end() -> None:
    torch = pytest.importorskip("torch")
    problems: list[Problem] = []
    losses = Losses(problems.append)
    half = torch.nn.Parameter(torch.tensor(0.5, dtype=torch.float64))
    give(losses, half, torch.nn.Parameter(torch.tensor(0.25)))
    losses.read_all(model())
    found = losses.summary()["train"]
    assert (found.first, found.last, found.n, found.exact) == (0.5, 0.25, 2, True)
    assert problems == []


def test_a_run_whose_losses_hang_ends_and_tells_everything_else(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "hang.py",
        """
        import time
        from voir import give

        class Hangs:
            shape = ()

            def item(self):
                time.sleep(1000)

        for _ in range(50):
            give(step=True, batch_size=2, loss=Hangs())
            time.sleep(0.001)
        print("over")
        """,
    )
    ran = place.run(*VOIR, "--run-dir", "run", "hang.py")
    assert (ran.status, ran.stdout) == (0, "over\n")
    record = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert record["tasks"]["train"]["steps"] == 50
    assert ["50 of 50" in problem["what"] for problem in record["problems"]] == [True]
