"""The machine: limits of control groups, load of the processors, memory, disks, network."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instruments.monitors.host import Cores, Cpu, Disk, Machine, Memory, Network
from instruments.monitors.process import ProcessTree
from overseer.rundir.cgroup import cpu_limit, memory_limit

from .conftest import FakeOverseer

GIB = 1 << 30
NO = None, None
V2, JOB = "0::/user/job", "user/job/"
V1 = "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/x"
V1_MEMORY, V1_CPU = "memory/docker/abc/", "cpu/docker/abc/"
ANCESTORS = {f"{JOB}memory.max": 4 * GIB, f"{JOB}memory.current": 1, "user/memory.max": 2 * GIB}
USED = {"user/memory.current": 700, "user/memory.stat": "anon 5\ninactive_file 200\nfile 600"}
V1_LIMIT = {f"{V1_MEMORY}memory.limit_in_bytes": 1000, f"{V1_MEMORY}memory.usage_in_bytes": 900}
V1_STAT = {f"{V1_MEMORY}memory.stat": "inactive_file 1\ntotal_inactive_file 300"}
V1_QUOTA = {f"{V1_CPU}cpu.cfs_quota_us": 150_000, f"{V1_CPU}cpu.cfs_period_us": 100_000}
V1_USED = {f"{V1_CPU}cpuacct.usage": 2_500_000_000}
HYBRID = {"unified/cgroup.controllers": "cpu", "unified/a/cpu.max": "200000 100000"}
#: What the process is in, what is below /sys/fs/cgroup; the memory limit and what of it is used,
#: the quota and seconds.
TREES: list[tuple[str, dict[str, Any], tuple[Any, Any], tuple[Any, Any]]] = [
    ("", {}, NO, NO),
    (V2, {f"{JOB}memory.max": GIB}, (GIB, None), NO),
    (V2, {f"{JOB}memory.max": "max", f"{JOB}cpu.max": "max 9"}, NO, NO),
    (V2, {**ANCESTORS, **USED}, (2 * GIB, 500), NO),
    (V2, {f"{JOB}cpu.max": "150000 100000", f"{JOB}cpu.stat": "usage_usec 3000000\nx 1"}, NO,
     (1.5, 3.0)),
    (V1, {**V1_LIMIT, **V1_STAT, **V1_QUOTA, **V1_USED}, (1000, 600), (1.5, 2.5)),
    (V1, {"memory/memory.limit_in_bytes": 9223372036854771712}, NO, NO),
    (V1, {f"{V1_CPU}cpu.cfs_quota_us": -1, f"{V1_CPU}cpu.cfs_period_us": 100}, NO, NO),
    ("0::/a", HYBRID, NO, (2.0, None)),
    ("0::/../../x", {"memory.max": 5000}, (5000, None), NO),  # In a container the mount is its own.
    ("0::/not/here", {"memory.max": 5000}, (5000, None), NO),
    (V2, {"memory.max": "12 parsecs", "cpu.max": "\x00"}, NO, NO),
]  # fmt: skip


def lay(root: Path, files: dict[str, Any], below: str = "sys/fs/cgroup") -> str:
    """Write ``files`` below ``root``, which stands for ``/``."""
    for name, content in files.items():
        path = root / below / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return str(root)


@pytest.mark.parametrize(("within", "files", "memory", "cpu"), TREES)
def test_the_lowest_limit_of_all_ancestors_counts_with_its_own_usage(
    tmp_path: Path, within: str, files: dict[str, Any], memory: Any, cpu: Any
) -> None:
    lay(tmp_path, {"cgroup": within} if within else {}, "proc/self")
    root = lay(tmp_path, files)
    limit, quota = memory_limit(64 * GIB, root), cpu_limit(8, root)
    assert (limit and limit.amount, limit and limit.bytes_used()) == memory
    assert (quota and quota.amount, quota and quota.seconds_used()) == cpu
    assert all(each.source in ("cgroup v1", "cgroup v2") for each in (limit, quota) if each)


@pytest.mark.skipif(sys.platform != "linux", reason="asks for the affinity")
def test_a_quota_limits_before_the_affinity_and_that_before_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    found = []
    for allowed, files in ((range(8), {}), ({0, 2}, {}), ({0, 2}, {"cpu.max": "50000 100000"})):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, allowed=allowed: set(allowed))
        cores = Cores(lay(tmp_path, files))
        found.append((cores.number, cores.limited_by))
    assert found == [(8, None), (2, "affinity"), (0.5, "cgroup v2")]


class Times(tuple[float, ...]):
    """What psutil tells of a processor: user, nice, system, idle, iowait, and of guests."""

    idle, iowait = property(lambda self: self[3]), property(lambda self: self[4])


def test_waiting_is_idle_guests_count_once_and_only_allowed_processors_do(monkeypatch: Any) -> None:
    each = [Times((60, 10, 30, 300, 20, 0, 0, 0, 30, 5)), Times((40, 0, 20, 500, 20, 0, 0, 0, 9))]
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu=False: each if percpu else each[0])
    cores = Cores()
    cores.quota, cores.allowed = None, {1}
    assert cores.counters(0) == (60, 580)
    cores.allowed = None
    assert cores.counters(0) == (100, 420)
    machine = Machine()
    machine.cores = cores
    assert machine.loads() == []
    each = [Times((60, 10, 60, 400, 20, 0, 0, 0)), Times((50, 0, 20, 500, 20, 0, 0, 0))]
    assert machine.loads() == [23, 100]


class Counted:
    """Processors and a tree of processes whose counters a test advances."""

    number = 2.0

    def __init__(self) -> None:
        self.busy = self.total = self.script = 0.0

    def counters(self, now_ns: int) -> tuple[float, float]:
        return self.busy, self.total

    def read(self, now_ns: int) -> float:
        return self.script


seconds = st.floats(0, 3)


@given(st.lists(st.tuples(seconds, seconds, seconds), max_size=12))
def test_the_machine_has_never_used_less_than_the_script(
    looks: list[tuple[float, float, float]],
) -> None:
    machine, counted, now = Machine(), Counted(), 0
    machine.cores = machine.tree = counted  # type: ignore[assignment]
    machine.look(now)
    pairs: list[tuple[Any, Any]] = []
    for passed, busy, counted.script in looks:
        now += int(passed * 1e9)
        counted.busy, counted.total = counted.busy + busy, counted.total + passed * 2
        machine.look(now)
        pairs.append((machine.script.lately(), machine.host.lately()))
        assert pairs[-1].count(None) in (0, 2)
    own, host = machine.script.mean_max(), machine.host.mean_max()
    pairs += [(own[key], host[key]) for key in ("mean", "max")]
    assert all(None in pair or 0 <= pair[0] <= pair[1] <= 100 for pair in pairs)


def test_the_mean_is_over_the_whole_run_whatever_the_spacing_of_looks() -> None:
    machine, counted = Machine(), Counted()
    machine.cores = counted  # type: ignore[assignment]
    for second, counted.busy in ((0, 0.0), (1, 1.0), (1, 9.0), (10, 1.0)):
        counted.total = second * 2.0
        machine.look(second * 10**9)
    assert machine.host.mean_max() == {"mean": 5.0, "max": 50.0}
    counted.busy, counted.total = 3.0, 22.0
    machine.last_look(11 * 10**9)  # The script has ended.
    machine.last_look(11 * 10**9 + 10**6)
    assert machine.host.mean_max() == {"mean": 13.6, "max": 100.0}


def test_memory_is_the_machines_or_the_containers(tmp_path: Path, monkeypatch: Any) -> None:
    machine = SimpleNamespace(used=3 * GIB, total=16 * GIB, available=12 * GIB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: machine)
    assert Machine(str(tmp_path)).memory(0) == (3 * GIB, 16 * GIB, 12 * GIB)
    limited = Machine(lay(tmp_path, {"memory.max": 4 * GIB, "memory.current": GIB}))
    assert limited.memory(0) == (GIB, 4 * GIB, 3 * GIB)
    machine.available = GIB // 2  # No more is available than the machine has.
    assert (limited.memory(0)[2], limited.memory(1)[2]) == (3 * GIB, GIB // 2)
    assert limited.limited_by == "cgroup v2"
    (tmp_path / "sys/fs/cgroup/memory.current").unlink()
    assert limited.memory(2)[:2] == (3 * GIB, 16 * GIB)  # The group hides its usage.


def test_events_and_summary_of_a_run(ov: FakeOverseer) -> None:
    ov.start(Cpu(), Memory(), ProcessTree())
    ov.tick(times=2)
    ov.end("run_script")
    assert [set(event) for event in ov.given("cpudata")] == [{"memory"}, {"memory", "load"}]
    assert ov.given("memdata")[0].keys() == {"memory", "available"}
    host = ov.summary["host"]
    assert {"mean", "max", "cores"} <= host["cpu"].keys()
    first, second = ov.given("process")
    assert (second.keys() - first.keys(), second["pid"]) == ({"load"}, os.getpid())
    assert second["children"] >= 0 and 0 < second["memory"][0] <= second["memory"][1]
    assert host["cpu"]["process"].keys() == {"mean", "max"}
    peak = max(event["memory"][0] for event in (first, second))
    assert host["memory"]["process"] == {"peak": peak}
    assert 0 < host["memory"]["mean"] <= host["memory"]["peak"] <= host["memory"]["total"]


def test_disks_count_from_the_first_sample_and_the_network_from_the_machines_start(
    ov: FakeOverseer, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk: Any = SimpleNamespace(read_count=1, read_bytes=1000, read_time=5, other=3)
    network: Any = SimpleNamespace(bytes_sent=1, bytes_recv=2, other=3)
    monkeypatch.setattr(psutil, "disk_io_counters", lambda perdisk: disk)
    monkeypatch.setattr(psutil, "net_io_counters", lambda pernic: network)
    ov.start(Disk(), Network())
    ov.tick()
    disk.read_bytes += 512
    ov.tick()
    first = {"read_count": 0, "read_bytes": 0, "read_time": 0}
    assert ov.given("iodata") == [first, {**first, "read_bytes": 512}]
    assert ov.given("netdata") == [{"bytes_sent": 1, "bytes_recv": 2}] * 2
    disk = network = None  # There is none.
    other = FakeOverseer()
    other.start(Disk(), Network())
    other.tick(times=4)
    other.end("run_script")
    assert (other.events, other.problems) == ([], [])
