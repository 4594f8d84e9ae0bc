"""Functions that read the machine, and calling them every so often without a run."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from instruments.polling import Monitor, ProcessMonitor, ProcessPusher, Together, poll
from instruments.readings import cpu_monitor, io_monitor, network_monitor, process_monitor
from voir.instruments.cpu import retrieve_process_info

PATIENCE = 20


def test_a_reading_of_the_processors_has_load_and_memory() -> None:
    read = cpu_monitor()
    for _ in range(2):
        reading = read()
        assert 0 <= reading["load"] <= 100
        assert 0 < reading["memory"][0] <= reading["memory"][1]


def test_a_reading_of_a_process_does_not_wait() -> None:
    read = process_monitor(os.getpid())
    first, second = read(), read()
    assert first["pid"] == second["pid"] == os.getpid()
    assert 0 <= second["load"] <= 100
    assert second["memory"][0] > 1_000_000


def test_a_process_that_is_not_there_is_an_error_at_once() -> None:
    import psutil

    with pytest.raises(psutil.NoSuchProcess):
        process_monitor(2**22 + 1)


def test_readings_of_disks_begin_at_nothing_and_those_of_the_network_do_not() -> None:
    assert all(value >= 0 for value in io_monitor()().values())
    assert {"read_bytes", "write_bytes", "busy_time"} <= set(io_monitor()()) or io_monitor()() == {}
    each = network_monitor(pernic=True)()
    assert all({"bytes_sent", "dropout"} <= set(interface) for interface in each.values())
    assert all(isinstance(disk, dict) for disk in io_monitor(perdisk=True)().values())


def test_what_processes_use_adds_up() -> None:
    import psutil

    used: dict[str, float] = {}
    for _ in range(2):
        retrieve_process_info(psutil.Process(), used)
    assert used["children"] == 2
    assert used["mem_used"] > 2_000_000


def test_a_monitor_calls_until_it_is_stopped() -> None:
    called = threading.Semaphore(0)
    monitor = Monitor(0.001, called.release)
    monitor.start()
    for _ in range(3):
        assert called.acquire(timeout=PATIENCE)
    monitor.stop()
    assert monitor.stopped
    assert not monitor.is_alive()


def test_a_monitor_that_never_started_can_be_stopped() -> None:
    Monitor(1, print).stop()


def test_readings_of_another_process_arrive_here() -> None:
    seen: list[Any] = []
    enough = threading.Event()

    def push(reading: Any) -> None:
        seen.append(reading)
        if len(seen) == 3:
            enough.set()

    monitor = poll(0.001, os.getpid, push)
    monitor.start()
    assert enough.wait(PATIENCE)
    monitor.stop()
    assert len(set(seen)) == 1
    assert seen[0] != os.getpid()


def test_what_the_other_process_has_read_is_there_after_the_end() -> None:
    reader = ProcessMonitor(0.0001, lambda: "x" * 10_000)
    reader.start()
    first = reader.results.get()
    reader.stop()
    seen = [first]
    pusher = ProcessPusher(1, reader.results, seen.append)
    pusher.stop()
    assert set(map(len, seen)) == {10_000}
    assert reader.process.exitcode is not None


def test_readings_here_begin_with_what_is_to_be_done_first() -> None:
    order: list[str] = []
    enough = threading.Event()
    monitor = poll(
        0.001,
        lambda: "reading",
        lambda reading: (order.append(reading), enough.set()),
        process=False,
        worker_init=lambda: order.append("init"),
    )
    monitor.start()
    assert enough.wait(PATIENCE)
    monitor.stop()
    assert order[:2] == ["init", "reading"]


def test_several_start_and_stop_in_order() -> None:
    order: list[str] = []

    class One:
        def __init__(self, name: str) -> None:
            self.name = name

        def start(self) -> None:
            order.append(f"start {self.name}")

        def stop(self) -> None:
            order.append(f"stop {self.name}")

    both = Together(One("a"), One("b"))
    both.start()
    both.stop()
    assert order == ["start a", "start b", "stop a", "stop b"]
