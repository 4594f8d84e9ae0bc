"""What swallows every early stop is let go in the end, and that is not called a stop."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from instruments import early_stop
from overseer import Overseer, StopProgram


def test_a_thread_that_is_let_go_has_not_been_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_stop, "TIMES", 3)
    ov = Overseer()
    counter = early_stop._Counter(ov, "step", 1, None, StopProgram)
    stops: list[Any] = []

    def work() -> None:
        for step in range(6):
            try:
                counter({"step": step})
            except StopProgram:
                stops.append((step, ov.stopped_early))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    said = "after 1 events with 'step'"
    assert stops == [(0, said), (1, said), (2, said), (3, said)]
    assert ov.stopped_early is None
