"""What the record's tests share."""

from __future__ import annotations

import pytest

from overseer.errors import Problem


@pytest.fixture
def problems() -> list[Problem]:
    """Problems that were reported; hand ``problems.append`` to what reports."""
    return []
