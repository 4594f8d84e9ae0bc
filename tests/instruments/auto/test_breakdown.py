"""The phases of steps are the same whether steps are added up at once or one by one."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from instruments.auto.breakdown import POINTS, Breakdown
from instruments.auto.sink import Spent
from overseer.measure.columns import Columns, Steps
from overseer.measure.step import Step


@pytest.mark.parametrize("every", [1, 3, 40, 10_000])
@pytest.mark.parametrize("chunk", [1, 7, 400])
def test_at_once_and_one_by_one_come_to_the_same(every: int, chunk: int) -> None:
    steps, spent, random, end = [], [], Random(every), 0
    for number in range(3 * POINTS):
        begin, end = end, end + random.randrange(500, 1500)
        steps.append(
            Step(
                "train", number, 8, "items", begin, begin, end, 0, end - begin, end - begin, 0, 1, 0
            )
        )
        if number % every == 0:
            spent.append(
                Spent(end - random.randrange(20), *(random.randrange(90) for _ in range(5)))
            )
    at_once, one_by_one = (Breakdown("train", deque(spent)) for _ in range(2))
    for at in range(0, len(steps), chunk):
        part = Steps()
        part.add(Columns._make(map(list, Columns.of(steps[at : at + chunk]))))
        at_once(part)
    for step in steps:
        one_by_one._add(step)
    for start in (0, 5, 200):
        task = {"steady": {"from_step": start}}
        assert at_once.section(task) == one_by_one.section(task)
    assert at_once.section({}) != {}


def test_steps_that_take_longer_for_they_are_watched_say_how_long_phases_are() -> None:
    """Of 100 us each phase takes 20; watching one step in ten takes 100 more, in no phase."""
    steps, spent, end = [], deque[Spent](), 0
    for number in range(400):
        begin, watched = end, number % 10 == 0
        end += 100_000 + 100_000 * watched
        took = end - begin
        step = ("train", number, 8, "items", begin, begin, end, 20_000, took - 20_000, took, 0, 1)
        steps.append(Step(*step, False))
        if watched:
            spent.append(Spent(end, 20_000, 0, 20_000, 20_000, 20_000))
    breakdown, part = Breakdown("train", spent), Steps()
    part.add(Columns._make(map(list, Columns.of(steps))))
    breakdown(part)
    loading, compute = 400 * 20e-6, 400 * 90e-6
    task = {"loading": {"seconds": loading}, "compute": {"seconds": compute}}
    section = breakdown.section(task)
    assert (section.pop("steps"), section.pop("watched")) == (400, 40)
    phases = {name: pytest.approx(400 * 20e-6) for name in ("forward", "backward", "optimizer")}
    assert section == {**phases, "loading": loading, "other": pytest.approx(400 * 30e-6)}


def test_phases_are_never_more_than_the_compute_there_was() -> None:
    """The only step that was watched took ten times as long as the others."""
    steps, end = [], 0
    for number in range(100):
        begin, end = end, end + (1_000_000 if number == 0 else 100_000)
        took = end - begin
        step = ("train", number, 8, "items", begin, begin, end, 0, took, took, 0, 1)
        steps.append(Step(*step, False))
    breakdown = Breakdown("train", deque([Spent(1_000_000, 0, 0, 400_000, 400_000, 200_000)]))
    for each in steps:
        breakdown._add(each)
    section = breakdown.section({})
    parts = [section[name] for name in ("forward", "backward", "optimizer", "other")]
    assert sum(parts) == pytest.approx(10.9e-3)
    assert parts == pytest.approx([4.36e-3, 4.36e-3, 2.18e-3, 0])
