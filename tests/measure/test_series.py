"""The series of a run of any length fits the same memory and adds up to the run."""

from __future__ import annotations

from overseer.measure.series import BLOCKS, HEAD, SPAN, Series, Totals


def filled(n: int, chunk: int = 64) -> Series:
    series = Series()
    for start in range(0, n, chunk):
        steps = range(start, min(start + chunk, n))
        busy = [10 + number % 3 for number in steps]
        series.extend(steps, busy, [2] * len(steps), [3] * len(steps), [7] * len(steps))
    return series


def test_totals_are_exact_however_long_the_run() -> None:
    for n in (0, 1, HEAD - 1, HEAD, HEAD + 1, HEAD + SPAN * BLOCKS, 100_001):
        series = filled(n)
        busy = sum(10 + number % 3 for number in range(n))
        assert series.totals() == Totals(n, busy, 2 * n, busy, 3 * n, 7 * n)
        assert series.steps == n


def test_the_number_of_points_is_bounded() -> None:
    assert len(filled(2 * SPAN * BLOCKS + HEAD)) < HEAD + BLOCKS


def test_totals_from_a_step_on_leave_out_the_steps_before() -> None:
    series = filled(2000)
    assert series.totals(500).n == 1500
    assert series.totals(5000) == Totals()


def test_points_cover_all_steps_and_the_first_ones_singly() -> None:
    numbers, counts, means = filled(100_000).points()
    assert sum(counts) == 100_000
    assert counts[:HEAD] == [1] * HEAD
    assert numbers[:3] == [0, 1, 2]
    assert means[:4] == [10, 11, 12, 10]
    assert numbers == [sum(counts[:i]) for i in range(len(counts))]


def test_items_that_are_not_known_take_their_time_with_them() -> None:
    series = Series()
    series.extend([0, 1], [5, 6], [None, 4], [None, None], [None, None])
    assert series.totals() == Totals(2, 11, 4, 6, 0, 0)
