"""Hooks that are placed for one test, then gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def hooked() -> Iterator[Any]:
    """Place the hooks; fail a test after which one is left."""
    import torch

    from .hooked import Hooked, recorder, standing

    torch.set_num_threads(1)
    before = standing()
    made = Hooked()
    yield made
    made.places.remove()
    recorder.tensors({}, {}, None, None)
    recorder.close()
    assert standing() == before
