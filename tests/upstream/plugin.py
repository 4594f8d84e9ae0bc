"""What the suite of voir 0.2.24 needs to run here; loaded by pytest in a process of its own.

Its golden files are compared without the plugin that it uses; and where a test makes its own time
by replacing ``time.time``, the monotonic clock follows, for durations are read from that one here.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from overseer.clock import Clock


class FileRegression:
    """Compares a text with the file beside a test module that has the test's name."""

    def __init__(self, module: Path, test: str) -> None:
        self._golden = module.with_suffix("") / (re.sub(r"\W", "_", test) + ".txt")

    def check(self, text: str) -> None:
        """Fail unless the text is that of the file, its end apart."""
        assert text.rstrip("\n") == self._golden.read_text().rstrip("\n")


@pytest.fixture
def file_regression(request: pytest.FixtureRequest) -> FileRegression:
    return FileRegression(request.node.path, request.node.name)


@pytest.fixture(autouse=True)
def every_clock_is_the_fake_one(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "faketime" not in request.fixturenames:
        return
    import instruments.rate  # noqa: F401  # All that holds the clock must be there by now.

    real = time.perf_counter_ns
    request.getfixturevalue("faketime")
    given: Any = time.time_ns  # It returns a float, which no clock does.

    def fake() -> int:
        return round(given())

    monkeypatch.setattr(time, "time_ns", fake)
    monkeypatch.setattr(time, "perf_counter_ns", fake)
    monkeypatch.setattr(Clock, "now_ns", staticmethod(fake))
    ours = [one for name, one in sys.modules.items() if name.startswith(("overseer", "instrum"))]
    for module in ours:
        for attribute in [key for key, value in vars(module).items() if value is real]:
            monkeypatch.setattr(module, attribute, fake)
