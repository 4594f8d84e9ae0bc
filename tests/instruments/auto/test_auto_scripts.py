"""Scripts written in the many ways people write them: true steps, items and losses of each."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from .conftest import SCRIPTS, plain, watched

NAMES = sorted(path.name for path in SCRIPTS.glob("*.py") if path.name != "telling.py")


@pytest.mark.parametrize("name", NAMES)
def test_steps_items_and_losses_are_the_true_ones(name: str) -> None:
    seen = watched(name)
    assert seen.error is None
    assert seen.problems == []
    assert seen.output == plain(name), "voir changes what the script computes"
    truth, train = seen.truth, seen.tasks.get("train", {})
    assert train.get("steps", 0) == truth["steps"]
    assert train.get("items", 0 if truth["items"] == 0 else None) == truth["items"]
    assert train.get("units", truth["units"]) in (truth["units"], "steps")
    losses = truth["losses"]
    if losses:
        finite = [loss for loss in losses if math.isfinite(loss)]
        expected = {"first": losses[0], "last": losses[-1], "min": min(finite)}
        assert train["loss"] == pytest.approx(expected, rel=1e-6)
    others = {name: task for name, task in seen.tasks.items() if name != "train"}
    counts = {name: [task["steps"], task["items"]] for name, task in others.items()}
    assert counts == truth["others"]
