"""Scripts for tests of probes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from overseer.sittings import Sittings

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


class Few(Sittings):
    """Sittings of three events; all of them are kept."""

    __slots__ = ("took",)

    def __init__(self) -> None:
        super().__init__()
        self.took: list[int] = []

    def place(self) -> Any:
        left = iter(range(2, -1, -1))

        def take(began: int, ended: int) -> int | None:
            self.took.append(ended - began)
            return None if next(left) == 0 else 0

        return take
