"""Waits for batches: noted in one call where nobody else listens, with the same steps as ever."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from itertools import count, repeat
from typing import Any

import pytest

from overseer.clock import FakeClock
from overseer.measure.audience import Audience
from overseer.measure.device import FakeDevice
from overseer.measure.steps import StepModel
from overseer.measure.waiting import ALIKE, Ear, Lull, Waits, name_of
from overseer.probes.hidden import Hidden
from overseer.probes.quick import Quick
from overseer.ways import Source


class Loader:
    """What an iterator of torch's keeps of its loader, and what it reads from."""

    def __init__(self, sampler: object = None) -> None:
        self._index_sampler = sampler or object()


class Watched:
    """A step model, and probes in a loader's code that are told to it."""

    def __init__(
        self, device: Callable[[FakeClock], Any] = lambda clock: None, at_exit: bool = False
    ) -> None:
        self.clock = FakeClock()
        self.model = StepModel(self.clock, find_device=lambda: device(self.clock))
        self.steps: list[Any] = []
        self.model.sinks.append(lambda steps: self.steps.extend(steps))
        self.audience = Audience()
        self.audience.model = self.model
        self.waits, self._at_exit = Waits(self.audience, at_exit), at_exit
        self.ask, self.give = self.waits.ask, self.waits.give

    def fetch(self, loader: Loader, seconds: float = 0.25, error: bool = False) -> None:
        self.ask({"self": loader})
        self.clock.advance(seconds)
        if error:
            self.fail(loader, StopIteration())
        else:
            self.give({"self": loader, "batch": [1, 2]})

    def fail(self, loader: Loader, error: Exception, **batch: Any) -> None:
        self.waits.error({"self": loader, "error": error})
        if self._at_exit:
            self.give({"self": loader, **batch})

    def step(self, loader: Loader) -> None:
        self.fetch(loader)
        self.clock.advance(0.75)
        self.model.on_step({"step": True, "batch_size": 4})

    def known(self) -> list[tuple[Any, ...]]:
        """The steps, but for what tells one model from another."""
        self.model.finish()
        return [(s.items, s.loading_ns, s.compute_ns, s.busy_ns, s.pause_ns) for s in self.steps]


def epochs(watched: Watched) -> None:
    train, held_out = Loader(), Loader()
    for _ in range(3):
        for _ in range(4 * ALIKE):
            watched.step(Loader(train._index_sampler))
        watched.fetch(train, error=True)
        for _ in range(3):
            watched.fetch(held_out)
        watched.fetch(held_out, error=True)


@pytest.fixture(params=["host", "device"])
def device(request: pytest.FixtureRequest) -> Iterator[Callable[[FakeClock], Any]]:
    yield FakeDevice if request.param == "device" else lambda clock: None


def test_steps_are_the_same_whether_others_listen_or_not(
    device: Callable[[FakeClock], Any],
) -> None:
    alone, heard = Watched(device), Watched(device)
    heard.audience.begins.append(lambda name: None)
    epochs(alone)
    epochs(heard)
    assert heard.waits.expects is False
    assert alone.known() == heard.known()
    assert alone.steps[5].loading_ns == 250_000_000


def test_the_same_loader_time_and_again_is_expected() -> None:
    watched, loader = Watched(), Loader()
    for _ in range(ALIKE + 2):
        watched.fetch(loader)
    assert watched.waits.expects
    before = watched.model.notes
    watched.fetch(loader)
    assert watched.model.notes == before + 2


class Noted(Watched):
    """A step model that hears of loaders by inserted code itself, where that can be."""

    def __init__(self, at_exit: bool = False) -> None:
        super().__init__(at_exit=at_exit)
        self.hidden, self.fired, self.missed = Hidden(), count(), 0
        self.ears = [
            self._ear(self.ask, "ask", ("self", "#enter")),
            self._ear(self.give, "give", ("self", "batch")),
        ]
        self.ask, self.give = self.ears  # type: ignore[assignment]

    def _ear(self, ear: Ear, label: str, keys: tuple[str, ...]) -> Callable[[Any], None]:
        tally: Any = repeat(None, 1 << 43)
        noting = Quick(self.hidden, label, self.hidden.put(f"{label} tally", tally), self._fired)
        noting._calm = True
        take = ear.for_values(keys, Source(tally, 1, None, noting))
        self.hidden.put("next", next)
        code = noting.noting(ear.form(keys, None), keys)

        def hear(event: Any) -> None:
            if getattr(builtins, code.on):
                names = {name: getattr(builtins, hidden) for name, hidden in code.names.items()}
                try:
                    eval(code.code, names, event)
                    return
                except Exception:
                    self.missed += 1
            if label == "give" and "batch" not in event:
                ear(event)  # As inserted code that finds that it has no value.
            else:
                take(event["self"], event.get("batch"))

        return hear

    def _fired(self) -> int:
        return next(self.fired)

    def known(self) -> list[tuple[Any, ...]]:
        found = super().known()
        self.hidden.clear(set())
        return found


@pytest.mark.parametrize("at_exit", [False, True])
def test_steps_are_the_same_where_inserted_code_notes_waits_itself(at_exit: bool) -> None:
    noted, heard = Noted(at_exit), Watched()
    epochs(noted)
    epochs(heard)
    other = noted.missed
    assert noted.known() == heard.known()
    assert other == 0  # Whoever else's batch it is: the note says whose.


def test_a_lull_ends_where_inserted_code_notes_it() -> None:
    noted, loader, other, over = Noted(), Loader(), Loader(), []
    heard: list[Any] = []
    noted.audience.batches.append(lambda name, batch: heard.append(name))
    noted.step(loader)
    lull = Lull(name_of(loader), 5, lambda: over.append(True))
    assert noted.waits.expect(lull)
    for _ in range(3):
        noted.step(loader)
    lull.settle()
    assert (lull.left, over, noted.missed) == (2, [], 0)
    for _ in range(3):
        noted.step(loader)
    assert (over, len(heard)) == ([True], 2)
    lull = Lull(name_of(loader), 50, lambda: over.append(True))
    assert noted.waits.expect(lull)
    noted.step(loader)
    noted.fetch(other)
    assert heard[2:] == [name_of(other)]
    assert noted.missed == 2  # It is another's; asked, and given.
    assert len(noted.known()) == 8


@pytest.mark.parametrize("kind", [Watched, Noted])
def test_another_loaders_batch_leaves_the_size_that_a_lull_has(
    kind: Callable[..., Watched],
) -> None:
    torch = pytest.importorskip("torch", reason="torch comes with the extra [examples]")
    watched, loader, size = kind(), Loader(), [5]
    watched.step(loader)

    def measured(batch: object) -> Any:
        return torch.zeros(size[0])  # Inserted code sizes tensors only.

    lull = Lull(name_of(loader), 50, bool, lambda batch: size[0], lambda kind: measured)
    assert watched.waits.expect(lull)
    watched.fetch(loader)
    assert lull.items == 5
    size[0] = 9
    watched.fetch(Loader())
    assert lull.items == 5
    watched.known()


@pytest.mark.parametrize("batches", [2, 9])
def test_a_lull_that_inserted_code_notes_to_its_end_is_over_with_its_last_batch(
    batches: int,
) -> None:
    noted, loader, over = Noted(), Loader(), []
    heard: list[Any] = []
    noted.audience.batches.append(lambda name, batch: heard.append(name))
    noted.step(loader)
    for lulls in (1, 2):
        lull = Lull(name_of(loader), batches, lambda: over.append(True))
        assert noted.waits.expect(lull)
        for n in range(1, batches + 1):
            assert len(over) == lulls - 1
            noted.step(loader)
            assert len(heard) == 1, n
        assert (len(over), lull.left, noted.missed) == (lulls, 0, lulls)
    noted.step(loader)
    assert len(heard) == 2
    assert len(noted.known()) == 2 * batches + 2


@pytest.mark.parametrize("kind", [Watched, Noted])
def test_the_end_of_a_call_that_fails_with_a_batch_in_hand_is_no_batch(
    kind: Callable[..., Watched],
) -> None:
    watched, loader, told = kind(at_exit=True), Loader(), []
    for fails in [*[False] * (ALIKE + 2), True, False]:
        watched.ask({"self": loader})
        watched.clock.advance(0.25)
        if fails:
            watched.audience.ends.append(lambda name, exhausted: told.append(exhausted))
            watched.fail(loader, OSError(), batch=[1, 2])
        else:
            watched.give({"self": loader, "batch": [1, 2]})
    assert watched.model.notes == 2 * (ALIKE + 4)
    assert told[0] is False
    if isinstance(watched, Noted):
        watched.known()


def test_who_begins_to_listen_hears_the_next_batch() -> None:
    watched, loader, heard = Watched(), Loader(), []
    for _ in range(ALIKE + 2):
        watched.fetch(loader)
    watched.audience.batches.append(lambda name, batch: heard.append((name, batch)))
    watched.waits.slow()
    watched.fetch(loader)
    assert heard == [(name_of(loader), [1, 2])]


def test_in_a_lull_others_are_told_of_no_batch_of_that_loader() -> None:
    watched, loader, heard, over = Watched(), Loader(), [], []
    watched.audience.batches.append(lambda name, batch: heard.append(name))
    watched.fetch(loader)
    lull = Lull(name_of(loader), 3, lambda: over.append(True), len)
    assert watched.waits.expect(lull)
    for _ in range(4):
        watched.fetch(loader)
    assert (len(heard), lull.items, over) == (2, 2, [True])


def test_a_lull_is_not_for_a_loader_that_gave_nothing_yet() -> None:
    watched, loader = Watched(), Loader()
    watched.fetch(loader)
    assert not watched.waits.expect(Lull(name_of(Loader()), 3, bool))


def test_another_loader_ends_a_lull() -> None:
    watched, loader, other, heard = Watched(), Loader(), Loader(), []
    watched.audience.batches.append(lambda name, batch: heard.append(name))
    watched.fetch(loader)
    watched.waits.expect(Lull(name_of(loader), 30, bool))
    watched.fetch(loader)
    watched.fetch(other)
    watched.fetch(loader)
    assert heard == [name_of(loader), name_of(other), name_of(loader)]


def test_a_wait_within_another_and_one_on_another_thread_are_told_apart() -> None:
    watched, loader, thread = Watched(), Loader(), [1]
    watched.model.thread = lambda: thread[0]
    for _ in range(ALIKE + 2):
        watched.fetch(loader)
    watched.ask({"self": loader})
    watched.clock.advance(0.5)
    thread[0] = 2
    watched.ask({"self": loader})
    watched.clock.advance(0.5)
    thread[0] = 1
    watched.give({"self": loader, "batch": []})
    watched.model.on_step({"step": True, "batch_size": 4})
    thread[0] = 2
    watched.clock.advance(0.5)
    watched.give({"self": loader, "batch": []})
    watched.model.on_step({"step": True, "batch_size": 4})
    watched.model.finish()
    waited = {step.thread: step.loading_ns for step in watched.steps}
    assert waited[2] == 1_000_000_000
    assert waited[1] is not None and waited[1] >= 1_000_000_000


def test_what_others_do_when_a_loader_is_asked_is_the_loaders_time(
    device: Callable[[FakeClock], Any],
) -> None:
    watched, loader = Watched(device), Loader()
    watched.audience.begins.append(lambda name: watched.clock.advance(0.125))
    for _ in range(8):
        watched.step(loader)
    steps = watched.known()
    assert [(loading, compute) for _, loading, compute, _, _ in steps[1:]] == [
        (375_000_000, 750_000_000)
    ] * 7


def test_what_others_do_when_something_else_is_waited_for_is_no_work_on_a_batch() -> None:
    watched = Watched()
    watched.audience.waiting.append(lambda name: watched.clock.advance(0.125))
    for _ in range(8):
        watched.audience.waits("generator")
        began = watched.clock.now_ns()
        watched.clock.advance(0.25)
        watched.audience.waited("generator", began, watched.clock.now_ns())
        watched.clock.advance(0.75)
        watched.model.on_step({"step": True, "batch_size": 4})
    steps = watched.known()
    assert [(loading, compute) for _, loading, compute, _, _ in steps[1:]] == [
        (375_000_000, 750_000_000)
    ] * 7
