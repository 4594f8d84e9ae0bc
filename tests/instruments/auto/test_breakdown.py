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
