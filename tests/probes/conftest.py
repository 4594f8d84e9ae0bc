"""Scripts for tests of probes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .scripts import Script

Make = Callable[[str], Script]


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Make]:
    """Makes scripts, and ends their runs."""
    made: list[Script] = []

    def make(source: str) -> Script:
        made.append(Script(tmp_path, source))
        return made[-1]

    yield make
    for one in reversed(made):
        one.close()
