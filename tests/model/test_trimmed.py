"""Pooled observations are summarised as Milabench does it."""

from __future__ import annotations

from pytest import approx

from overseer.model.trimmed import trimmed


def test_one_minimum_and_one_maximum_are_dropped_from_five_up() -> None:
    assert trimmed([]) is None
    assert trimmed([3.0]) == (1, 3.0, 0.0, 0.0)
    found = trimmed([1.0, 2.0, 3.0, 100.0])
    assert found is not None
    assert (found.n, found.mean) == (4, 26.5)
    found = trimmed([100.0, 2.0, 1.0, 100.0, 4.0])
    assert found is not None
    # numpy.std of (2, 4, 100), which divides by n; by the root of 3.
    assert found == (3, approx(106 / 3), approx(45.733528), approx(26.404265))
