"""Fixtures of the dashboard's tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[2] / "golden" / "dash"


@pytest.fixture
def golden():
    """Compare with a golden file; the actual text is saved beside it if they differ.

    ``VOIR_UPDATE_GOLDEN=1`` makes the actual text the golden one: look at it before committing.
    """

    def compare(name, actual):
        path, other = GOLDEN / name, GOLDEN / f"{name}.actual"
        if os.environ.get("VOIR_UPDATE_GOLDEN"):
            path.write_text(actual, encoding="utf-8")
        expected = path.read_text(encoding="utf-8") if path.exists() else ""
        if actual != expected:
            other.write_text(actual, encoding="utf-8")
        else:
            other.unlink(missing_ok=True)
        assert actual == expected, f"compare {path} with {other}"

    return compare
