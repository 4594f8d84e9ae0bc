"""Steps in columns are the steps themselves; sums of columns are those of the steps."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overseer.measure import series
from overseer.measure.columns import Columns, Rows, Steps
from overseer.measure.notes import WIDTH, Notes
from overseer.measure.step import Step

known = st.none() | st.integers(0, 50)
step = st.builds(
    Step,
    st.sampled_from(["train", "test"]),
    st.integers(0, 9),
    known,
    st.just("items"),
    st.integers(0, 99),
    st.none(),
    st.integers(0, 99),
    known,
    known,
    known,
    st.sampled_from([0, 0, 7]),
    st.integers(1, 2),
    st.sampled_from([False, True, 2]),
)
parts = st.lists(st.tuples(st.lists(step, min_size=1, max_size=4), st.booleans()), max_size=5)


def in_columns(steps: list[Step], first: int) -> Columns:
    """Steps of one task whose numbers are a range, in lists as they are worked off."""
    numbered = [s._replace(number=first + i, task=steps[0].task) for i, s in enumerate(steps)]
    made: list[Any] = [list(column) for column in Columns.of(numbered)]
    made[1] = range(first, first + len(steps))
    return Columns._make(made)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(parts)
def test_they_come_in_order_whichever_way_they_were_added(parts: Any) -> None:
    steps = Steps()
    expected: list[Step] = []
    for each, whole in parts:
        if whole:
            columns = in_columns(each, len(expected))
            expected += list(columns.steps())
            steps.add(columns)
        else:
            steps.extend(each)
            expected += each
    assert list(steps) == expected
    assert len(steps) == len(expected)
    tasks = dict.fromkeys(s.task for s in expected)
    found = {columns.task[0]: list(columns.steps()) for columns in steps.by_task()}
    assert found == {task: [s for s in expected if s.task == task] for task in tasks}
    assert list(found) == list(tasks)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.lists(step, min_size=1, max_size=6))
def test_sums_are_of_what_is_known(steps: list[Step]) -> None:
    sums = Columns.of(steps).sums
    timed = [s for s in steps if s.busy_ns is not None]
    counted = [s for s in timed if s.items is not None]
    split = [s for s in timed if s.loading_ns is not None and s.compute_ns is not None]
    assert (sums.steps, sums.timed, sums.busy_ns) == (
        len(steps),
        len(timed),
        sum(s.busy_ns or 0 for s in timed),
    )
    assert (sums.sized, sums.items) == (
        sum(s.items is not None for s in steps),
        sum(s.items or 0 for s in steps),
    )
    assert (sums.counted, sums.counted_items, sums.counted_ns) == (
        len(counted),
        sum(s.items or 0 for s in counted),
        sum(s.busy_ns or 0 for s in counted),
    )
    assert (sums.split, sums.loading_ns, sums.compute_ns) == (
        len(split),
        sum(s.loading_ns or 0 for s in split),
        sum(s.compute_ns or 0 for s in split),
    )
    assert (sums.pauses, sums.pause_ns) == (
        sum(s.pause_ns > 0 for s in steps),
        sum(s.pause_ns for s in steps),
    )
    assert sums.unexplained == sum(s.estimated == 2 for s in steps)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 300), st.sampled_from(["all", "none", "some"])),
        min_size=1,
        max_size=12,
    )
)
def test_a_series_is_the_same_however_many_steps_come_at_once(chunks: Any) -> None:
    items = [a_count(how, i) for n, how in chunks for i in range(n)]
    busy = [10 + i % 3 for i in range(len(items))]
    start = 0
    with patch.multiple(series, HEAD=16, BLOCKS=8, SPAN=4):
        at_once, one_by_one = series.Series(), series.Series()
        for n, _ in chunks:
            part = slice(start, start + n)
            numbers = range(start, start + n)
            at_once.extend(numbers, busy[part], items[part], items[part], [None] * n)
            start += n
        for i, ns in enumerate(busy):
            one_by_one.extend([i], [ns], [items[i]], [items[i]], [None])
        assert at_once.bounded() == pytest.approx(one_by_one.bounded())
    assert at_once.points() == one_by_one.points()
    assert at_once.totals() == one_by_one.totals()


def a_count(how: str, number: int) -> int | None:
    return {"all": number % 7, "none": None, "some": number % 5 or None}[how]


def test_rows_are_put_together_from_columns() -> None:
    rows = Rows([1, 2, 3], "abc")
    assert (len(rows), rows[1], rows[1:]) == (3, (2, "b"), [(2, "b"), (3, "c")])


def test_what_comes_while_notes_are_worked_off_waits_for_the_next_time() -> None:
    notes = Notes()
    first, second = [(i, *range(1, WIDTH)) for i in range(2)]
    notes.fresh.extend(first)
    notes.take()
    notes.fresh.extend(second)
    assert (notes.ready, len(notes), notes.first()) == (1, 2, first)
    notes.pass_over(1)
    assert (notes.ready, len(notes), notes.done) == (0, 1, 1)
    notes.take()
    assert notes.first() == second
