"""Which parts of a step explain that it is longer or shorter."""

from __future__ import annotations

from typing import Any

import pytest

from overseer.model.step_parts import step_change


def task(steps: int = 100, **milliseconds: float) -> dict[str, Any]:
    """A task whose steps take so many milliseconds in each part."""
    spent = {name: steps * ms / 1000 for name, ms in milliseconds.items()}
    return {"rate": {"n": steps}, "breakdown": spent}


BASE = {"loading": 2.0, "forward": 5.0, "backward": 10.0, "other": 1.0}


@pytest.mark.parametrize(
    ("changed", "step", "parts"),
    [
        ({"loading": 6.1, "forward": 5.2}, 4.3, {"loading": 4.1}),
        ({"forward": 7.0, "backward": 13.0}, 5.0, {"backward": 3.0, "forward": 2.0}),
        ({"backward": 4.0, "other": 2.0}, -5.0, {"backward": -6.0}),
        ({"communication": 3.0}, 3.0, {"communication": 3.0}),
        ({"loading": 2.1}, None, None),
    ],
)
def test_the_parts_with_most_of_the_difference_are_named(
    changed: dict[str, float], step: float | None, parts: dict[str, float] | None
) -> None:
    found = step_change([task(**BASE), task(200, **BASE)], [task(**{**BASE, **changed})], 0.01)
    if step is None or parts is None:
        assert found is None
        return
    assert found is not None
    assert found[0] * 1000 == pytest.approx(step)
    assert {name: ms * 1000 for name, ms in found[1]} == pytest.approx(parts)
    assert [name for name, _ in found[1]] == [*parts]


def test_repeated_runs_are_compared_by_their_means() -> None:
    before = [task(**{**BASE, "loading": ms}) for ms in (1.0, 3.0)]
    after = [task(**{**BASE, "loading": ms}) for ms in (4.0, 8.0)]
    found = step_change(before, after, 0.01)
    assert found is not None
    assert found[1] == [("loading", pytest.approx(0.004))]


def test_without_a_breakdown_loading_and_compute_are_the_parts() -> None:
    before, after = (
        {"rate": {"n": 10}, "loading": {"seconds": s}, "compute": {"seconds": 1.0}}
        for s in (0.1, 0.5)
    )
    found = step_change([before], [after], 0.01)
    assert found is not None
    assert found[1] == [("loading", pytest.approx(0.04))]


@pytest.mark.parametrize("facts", [{}, {"rate": {"n": 0}}, {"rate": 3, "breakdown": {"x": "y"}}])
def test_without_the_parts_of_a_step_there_is_nothing_to_say(facts: dict[str, Any]) -> None:
    assert step_change([task(**BASE)], [facts], 0.01) is None


def test_ranks_that_wait_for_each_other_differ_in_what_they_do_meanwhile() -> None:
    waits, works = (task(**BASE, communication=3.0), task(**{**BASE, "backward": 13.0}))
    found = step_change([waits], [works], 0.01)
    assert found is not None
    assert found[0] == pytest.approx(0.0)
    assert dict(found[1]) == {
        "backward": pytest.approx(0.003), "communication": pytest.approx(-0.003),
    }  # fmt: skip
    assert step_change([waits], [task(**BASE, communication=3.1)], 0.01) is None
