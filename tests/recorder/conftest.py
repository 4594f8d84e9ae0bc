"""Both recorders, opened for one test, and their events by name."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from typing import Any

import pytest

from overseer.recorder import log


class Recorded:
    """One of the recorders, what it has recorded since it was asked last, and what was lost."""

    def __init__(self, name: str) -> None:
        self.module: Any = importlib.import_module(f"overseer.recorder.{name}")
        self.in_c = name == "_recorder"
        self.module.open(1 << 10, 1 << 10)
        self._at, self.lost = [0, 0], [0, 0]
        self.take()

    def data(self, ring: int = 0) -> bytes:
        """What came since the last call, as bytes."""
        data, self._at[ring], lost = self.module.drain(ring, self._at[ring])
        self.lost[ring] += lost
        return data

    def take(self, ring: int = 0) -> list[log.Event]:
        """What came since the last call."""
        return list(log.events(self.data(ring)))

    def values(self, ring: int = 0) -> list[float | None]:
        """The values of what came since the last call; None: unknown."""
        return [None if math.isnan(event.value) else event.value for event in self.take(ring)]

    def header(self) -> log.Header:
        """What the header says."""
        return log.header(self.module.header())


@pytest.fixture(params=["_recorder", "fallback"])
def recorded(request: pytest.FixtureRequest) -> Iterator[Recorded]:
    if request.param == "_recorder":
        pytest.importorskip("overseer.recorder._recorder", reason="built without a compiler")
    made = Recorded(request.param)
    yield made
    made.module.tensors({}, {}, None, None)
    made.module.tasks(None, None)
    made.module.submodules(False)
    made.module.close()
