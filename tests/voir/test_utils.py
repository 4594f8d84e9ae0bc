"""Threads that call a function every so often."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from voir.instruments import utils

PATIENCE = 20


@pytest.mark.parametrize("process", [True, False])
def test_something_is_read_and_handed_over_until_it_is_stopped(process: bool) -> None:
    seen: list[Any] = []
    enough = threading.Event()

    def take(reading: Any) -> None:
        seen.append(reading)
        if len(seen) == 3:
            enough.set()

    running = utils.monitor(
        0.001, lambda: len(seen), take, process, worker_init=lambda: seen.append("init")
    )
    running.start()
    assert enough.wait(PATIENCE)
    running.stop()
    assert (seen[:3], running.is_alive(), running.stopped) == (["init", 1, 2], False, True)
    utils.Monitor(1, print).stop()  # It has never begun.


def test_readings_wait_in_a_queue_for_who_takes_them() -> None:
    seen: list[int] = []
    reader = utils.ProcessMonitor(0.001, os.getpid)
    both = utils._Monitor(reader, utils.ProcessPusher(0.001, reader.results, seen.append))
    both.start()
    assert reader.results.get(timeout=PATIENCE) == os.getpid()
    reader.results.put(-1)
    both.stop()
    assert reader.results.empty() and -1 in seen
