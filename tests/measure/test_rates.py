"""Windows: items over seconds of the same steps; nothing is lost, pauses are apart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overseer.measure.columns import Steps
from overseer.measure.rates import Rates, Reading, concurrency, share
from overseer.measure.spans import Span
from overseer.measure.step import Step

from .program import FORMS, Program


def step(number: int, seconds: float = 0.01, start: float | None = None, **other: Any) -> Step:
    begin = round((number * seconds if start is None else start) * 1e9)
    busy = round(seconds * 1e9)
    values: dict[str, Any] = {
        "task": "train", "number": number, "items": 32, "units": "items", "start_ns": begin,
        "ready_ns": None, "end_ns": begin + busy, "loading_ns": busy // 4,
        "compute_ns": busy - busy // 4, "busy_ns": busy, "pause_ns": 0, "thread": 1,
        "estimated": False,
    }  # fmt: skip
    return Step(**{**values, **other})


def read(steps: list[Step], chunk: int = 5, **options: Any) -> list[Reading]:
    readings: list[Reading] = []
    rates = Rates(readings.append, **options)
    for start in range(0, len(steps), chunk):
        rates(Steps(steps[start : start + chunk]))
    rates.finish()
    return readings


@pytest.mark.parametrize("chunk", [1, 5, 64])
@pytest.mark.parametrize("n", [1, 9, 10, 11, 64, 100])
def test_windows_of_steps_hold_every_step_once(n: int, chunk: int) -> None:
    readings = read([step(i) for i in range(n)], chunk, interval=Span(steps=10))
    assert [r.steps for r in readings] == [10] * (n // 10) + [n % 10] * (n % 10 > 0)
    assert [r.first for r in readings] == list(range(0, n, 10))
    assert all(r.rate == pytest.approx(3200) for r in readings)


@pytest.mark.parametrize("chunk", [1, 5, 64])
def test_windows_of_seconds_close_with_the_step_that_fills_them(chunk: int) -> None:
    readings = read([step(i, 0.4) for i in range(12)], chunk, interval=Span(seconds=1))
    assert [r.steps for r in readings] == [3, 3, 3, 3]


def test_a_window_that_nothing_fills_counts_at_the_end() -> None:
    (reading,) = read([step(i) for i in range(3)], interval=Span(seconds=1e9))
    assert (reading.steps, reading.items) == (3, 96)


def test_a_step_longer_than_the_window_is_a_window() -> None:
    readings = read([step(i, 5.0) for i in range(3)], interval=Span(seconds=1))
    assert [r.rate for r in readings] == [pytest.approx(6.4)] * 3


def test_the_rate_is_the_sum_of_items_over_the_sum_of_seconds() -> None:
    """Not the mean of rates: that of a fast and a slow step is too high."""
    steps = [step(0, 0.01, 0), step(1, 0.03, 0.01)]
    (reading,) = read(steps, interval=Span(steps=2))
    assert reading.rate == pytest.approx(64 / 0.04)


def test_shares_and_rates_of_loading_and_compute() -> None:
    (reading,) = read([step(i) for i in range(4)], interval=Span(steps=4))
    assert reading.loading_share == pytest.approx(0.25)
    assert reading.compute_share == pytest.approx(0.75)
    assert reading.loading_rate == pytest.approx(32 / 0.0025)
    assert reading.compute_rate == pytest.approx(32 / 0.0075)


def test_what_was_not_seen_is_none() -> None:
    bare = [step(i, loading_ns=None, compute_ns=None, busy_ns=None) for i in range(4)]
    (reading,) = read(bare, interval=Span(steps=4))
    assert (reading.items, reading.rate, reading.loading_share) == (None, None, None)
    assert (reading.loading_rate, reading.compute_rate, reading.steps) == (None, None, 4)


def test_a_task_whose_batches_have_no_size_is_told_in_steps() -> None:
    unsized = [step(i)._replace(items=None) for i in range(4)]
    (reading,) = read(unsized, interval=Span(steps=4))
    assert (reading.units, reading.items, reading.rate) == ("steps", 4, pytest.approx(100))
    assert reading.compute_rate == pytest.approx(1 / 0.0075)


def test_units_do_not_change_where_some_batches_have_a_size() -> None:
    steps = [step(i)._replace(items=None if i >= 2 else 32) for i in range(6)]
    readings = read(steps, interval=Span(steps=2))
    assert [r.units for r in readings] == ["items"] * 3
    assert [r.rate for r in readings] == [pytest.approx(3200), None, None]


def test_a_step_without_beginning_or_items_takes_neither_into_the_rate() -> None:
    steps = [step(0, busy_ns=None), step(1, items=None), step(2), step(3)]
    (reading,) = read(steps, interval=Span(steps=4))
    assert reading.items == 64
    assert reading.seconds == pytest.approx(0.02)


def test_pauses_are_told_and_not_counted() -> None:
    steps = [step(0), step(1, start=5.01, pause_ns=5_000_000_000)]
    (reading,) = read(steps, interval=Span(steps=2))
    assert reading.pause_seconds == 5.0
    assert reading.rate == pytest.approx(3200)


@pytest.mark.parametrize(("skip", "first"), [(Span(steps=7), 7), (Span(seconds=0.05), 5)])
def test_what_is_skipped_is_in_no_window(skip: Span, first: int) -> None:
    readings = read([step(i) for i in range(20)], skip=skip)
    assert [r.first for r in readings] == list(range(first, 20))


def test_skipping_more_than_there_is_leaves_nothing() -> None:
    assert read([step(i) for i in range(20)], skip=Span(steps=10**18)) == []


def test_each_task_has_windows_of_its_own() -> None:
    steps = [step(i, task=("train", "eval")[i % 2]) for i in range(10)]
    readings = read(steps, interval=Span(steps=5))
    assert {(r.task, r.steps) for r in readings} == {("train", 5), ("eval", 5)}


def test_threads_at_once_add_up_in_a_window() -> None:
    steps = [step(i, start=(i // 2) * 0.01, thread=i % 2) for i in range(20)]
    (reading,) = read(steps, interval=Span(steps=20))
    assert reading.rate == pytest.approx(6400)


def test_the_open_window_can_be_read() -> None:
    rates = Rates(lambda reading: None, interval=Span(steps=100))
    rates(Steps(step(i) for i in range(7)))
    assert [r.steps for r in rates.current()] == [7]


@pytest.mark.parametrize("form", FORMS)
def test_windows_of_a_whole_program_add_up_to_it(form: str) -> None:
    program = Program(form)
    readings: list[Reading] = []
    rates = Rates(readings.append, interval=Span(seconds=0.5))
    program.model.sinks.append(rates)
    for _ in range(2):
        program.epoch(90)
        program.pause(2.0)
    program.finish()
    rates.finish()
    assert sum(r.steps for r in readings) == 180
    unseen = 0 if "loader" in form else 32  # The first step's beginning.
    assert sum(r.items or 0 for r in readings) == 180 * 32 - unseen
    assert all(r.rate == pytest.approx(32 / 0.014) for r in readings if r.rate is not None)


@pytest.mark.parametrize(
    ("spans", "abreast"),
    [
        ([], 1),
        ([(0, 10)], 1),
        ([(0, 10), (10, 20)], 1),
        ([(0, 10), (50, 60)], 1),
        ([(0, 10), (0, 10)], 2),
        ([(0, 10), (5, 15)], 20 / 15),
        ([(0, 10), (2, 4)], 1.2),
        ([(5, 5)], 1),
    ],
)
def test_concurrency_is_how_many_run_at_once(spans: list[tuple[int, int]], abreast: float) -> None:
    assert concurrency(spans) == pytest.approx(abreast)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 50)), min_size=1, max_size=8))
def test_concurrency_is_between_one_and_the_number_of_spans(pairs: list[tuple[int, int]]) -> None:
    spans = [(begin, begin + length) for begin, length in pairs]
    assert 1 <= concurrency(spans) <= len(spans) + 1e-9


def test_a_share_of_nothing_is_unknown() -> None:
    assert share(0.0, 0.0) is None
    assert share(None, 1.0) is None
