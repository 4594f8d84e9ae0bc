"""Loops of frameworks need nothing more; each is tested where it is installed."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from .conftest import SCRIPTS, watched


@pytest.mark.parametrize("framework", ["accelerate", "lightning", "transformers"])
@pytest.mark.filterwarnings("ignore")  # Theirs.
def test_steps_and_items_are_the_true_ones(framework: str) -> None:
    pytest.importorskip(framework, reason=f"{framework} is not among the test requirements")
    seen = watched(SCRIPTS.parent / "frameworks" / f"with_{framework}.py")
    assert seen.error is None
    assert seen.problems == []
    tasks = {name: [task["steps"], task["items"]] for name, task in seen.tasks.items()}
    assert tasks == seen.truth
