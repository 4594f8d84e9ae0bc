"""Fixtures of the tests of rates."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts import Timed

from tests.running import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def timed(tmp_path: Path) -> Timed:
    return Timed(tmp_path)
