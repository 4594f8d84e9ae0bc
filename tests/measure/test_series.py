"""The series of a run of any length fits the same memory and adds up to the run."""

from __future__ import annotations

import pytest

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


def test_what_is_bounded_is_the_mean_where_nothing_sticks_out_and_without_what_does() -> None:
    even, spiky = Series(), Series()
    n = HEAD + 5 * SPAN + 3
    for start in range(0, n, 50):
        steps = range(start, min(start + 50, n))
        ns = [1000 + number % 3 for number in steps]
        even.extend(steps, ns, ns, ns, ns)
        ns = [t * 50 if i % 40 == 39 else t for i, t in zip(steps, ns, strict=True)]
        spiky.extend(steps, ns, ns, ns, ns)
    assert even.bounded() == pytest.approx(even.points()[2])
    assert spiky.bounded()[:HEAD] == spiky.points()[2][:HEAD]
    assert spiky.bounded()[HEAD:] == pytest.approx([1001] * 6, rel=0.002)
    assert max(spiky.points()[2][HEAD:]) > 2000


def test_what_is_bounded_is_the_same_however_steps_arrive() -> None:
    n = HEAD + SPAN * BLOCKS + 77
    ns = [1000 + (number * 7919) % 13 + (number % 90 == 0) * 9000 for number in range(n)]
    found = []
    for chunk in (1, 31, 1000, n):
        series = Series()
        for start in range(0, n, chunk):
            part = ns[start : start + chunk]
            series.extend(range(start, start + len(part)), part, part, part, part)
        found.append(series.bounded())
    assert all(each == pytest.approx(found[0]) for each in found[1:])


def test_items_that_are_not_known_take_their_time_with_them() -> None:
    series = Series()
    series.extend([0, 1], [5, 6], [None, 4], [None, None], [None, None])
    assert series.totals() == Totals(2, 11, 4, 6, 0, 0)
