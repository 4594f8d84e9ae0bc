"""The counters of disks and network interfaces."""

from __future__ import annotations

from typing import Any

import pytest

from instruments.disk import Disk
from instruments.network import Network


def test_disk_counters_start_at_zero_and_grow(ov: Any, psutil: Any) -> None:
    ov.require(Disk())
    ov.walk_to_script()
    ov.tick(0.25)
    psutil.disk.read_bytes += 512
    psutil.disk.busy_time += 3
    ov.tick()
    first, second = ov.given("iodata")
    assert first == dict.fromkeys(first, 0)
    assert set(first) == {name.removeprefix("iodata.") for name in Disk.emits}
    assert second == {**first, "read_bytes": 512, "busy_time": 3}


def test_a_system_without_busy_time_leaves_it_out(ov: Any, psutil: Any) -> None:
    del psutil.disk.busy_time
    ov.require(Disk())
    ov.walk_to_script()
    ov.tick(0.25)
    assert "busy_time" not in ov.given("iodata")[0]


def test_a_machine_without_disks_gives_nothing(ov: Any, psutil: Any) -> None:
    psutil.disk = None
    ov.require(Disk())
    ov.walk_to_script()
    ov.tick()
    assert ov.events == [] and ov.problems == []


def test_a_sandbox_without_disk_counters_silences_the_default_monitor(ov: Any, psutil: Any) -> None:
    psutil.disk = NotImplementedError("no /proc/diskstats")
    ov.require(Disk(by_default=True))
    ov.walk_to_script()
    for _ in range(3):
        ov.tick()
    assert psutil.calls == ["disk_io_counters"]


def test_network_counters_are_given_as_they_are(ov: Any, psutil: Any) -> None:
    ov.require(Network())
    ov.walk_to_script()
    ov.tick(0.25)
    assert ov.given("netdata") == [vars(psutil.network)]


def test_a_machine_without_interfaces_gives_nothing(ov: Any, psutil: Any) -> None:
    psutil.network = None
    ov.require(Network())
    ov.walk_to_script()
    ov.tick()
    assert ov.events == []


@pytest.mark.parametrize(("kind", "unit"), [(Disk, {"B", "ms", "1"}), (Network, {"B", "1"})])
def test_counters_carry_their_units(kind: Any, unit: set[str]) -> None:
    assert set(kind.emits.values()) == unit
