"""The processors' load: of the machine, of some processors, of a quota."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from instruments import cpu as room
from instruments.cgroup import CpuLimit
from instruments.cpu import Cores, Cpu, CpuSampler, Load, linux_counters, load_of, usable_cores
from instruments.memory import MemorySource
from overseer.clock import FakeClock

STAT = """\
cpu  100 10 50 800 40 0 0 0 30 5
cpu0 60 10 30 300 20 0 0 0 30 5
cpu1 40 0 20 500 20 0 0 0 0 0
intr 12345 0 0
ctxt 99
"""


def series(*counters: tuple[float, float]) -> Load:
    left = iter(counters)
    return Load(lambda: next(left))


@pytest.fixture
def stat(tmp_path: Path) -> str:
    path = tmp_path / "stat"
    path.write_text(STAT)
    return str(path)


def test_waiting_for_a_disk_is_idle_and_guests_are_counted_once(stat: str) -> None:
    assert linux_counters(path=stat) == (160, 1000)


def test_only_allowed_processors_count(stat: str) -> None:
    assert linux_counters(frozenset({1}), path=stat) == (60, 580)


def test_load_is_the_share_of_the_time_since_the_last_reading() -> None:
    load = series((0, 0), (25, 100), (25, 200))
    assert [load.read(), load.read(), load.read()] == [None, 25.0, 0.0]


def test_the_mean_is_over_the_whole_run_whatever_the_spacing_of_readings() -> None:
    load = series((0, 0), (90, 100), (90, 1000))
    for _ in range(3):
        load.read()
    assert load.mean == 9.0


def test_counters_that_stand_still_or_jump_back_give_no_load() -> None:
    load = series((10, 100), (10, 100), (5, 50))
    assert [load.read(), load.read(), load.read()] == [None, None, None]


def test_a_quotas_load_is_of_the_cores_it_grants(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 0\n")
    quota = CpuLimit(2.0, "cgroup v2", str(tmp_path))
    clock = FakeClock()
    load = load_of(Cores(2.0, quota.source, quota=quota), clock)
    load.read()
    clock.advance(1.0)
    (tmp_path / "cpu.stat").write_text("usage_usec 500000\n")
    assert load.read() == 25.0


def test_the_quota_limits_before_the_affinity_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)
    monkeypatch.setattr(room, "cpu_limit", lambda cores, root: None)
    assert usable_cores() == Cores(3, "affinity", frozenset({0, 1, 2}))
    quota = CpuLimit(0.5, "cgroup v2", "/x")
    monkeypatch.setattr(room, "cpu_limit", lambda cores, root: quota)
    assert usable_cores() == Cores(0.5, "cgroup v2", frozenset({0, 1, 2}), quota)


def test_an_unlimited_process_has_the_whole_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(room, "cpu_limit", lambda cores, root: None)
    assert usable_cores() == Cores(4)


def test_the_first_sample_tells_the_load_since_the_script_began(
    ov: Any, psutil: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(room, "usable_cores", lambda: Cores(2))
    monkeypatch.setattr(room, "load_of", lambda cores, clock: series((0, 0), (30, 100)))
    ov.require(Cpu())
    ov.walk_to_script()
    assert psutil.calls == []
    ov.tick(0.25)
    assert ov.given("cpudata")[0]["load"] == 30.0


def test_off_linux_the_load_comes_with_the_second_sample(
    ov: Any, psutil: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(room, "usable_cores", lambda: Cores(2))
    ov.require(Cpu())
    ov.walk_to_script()
    ov.tick(0.25)
    psutil.times = type(psutil.times)(13.0, 6.0, 91.0)
    ov.tick()
    first, second = ov.given("cpudata")
    assert "load" not in first
    assert second["load"] == 40.0


def test_the_event_has_the_keys_that_old_voirfiles_read(psutil: Any) -> None:
    sampler = CpuSampler(Cores(2), series((0, 0), (1, 2)))
    sampler.read()
    data = sampler.read()
    assert data["load"] == 50.0
    assert data["memory"] == list(MemorySource().read()[:2])


def test_the_summary_says_of_how_many_cores_and_what_limits_them(psutil: Any) -> None:
    sampler = CpuSampler(Cores(1.5, "cgroup v2"), series((0, 0), (20, 100), (100, 200)))
    for _ in range(3):
        sampler.read()
    summary: dict[str, Any] = {}
    sampler.summarise(summary)
    expected = {"mean": 50.0, "max": 80.0, "cores": 1.5, "limited_by": "cgroup v2"}
    assert summary == {"host": {"cpu": expected}}


def test_without_a_sample_there_is_no_summary() -> None:
    summary: dict[str, Any] = {}
    CpuSampler(Cores(2), series()).summarise(summary)
    assert summary == {}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/stat")
def test_this_machines_own_counters_can_be_read() -> None:
    busy, total = linux_counters()
    assert 0 < busy <= total
