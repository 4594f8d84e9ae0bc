"""Memory in use, of the machine or of the container."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from instruments.memory import Memory, MemorySampler, MemorySource

GIB = 1 << 30


def container(root: Path, limit: int, current: int) -> str:
    group = root / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("0::/\n")
    (group / "cgroup.controllers").write_text("memory\n")
    (group / "memory.max").write_text(f"{limit}\n")
    (group / "memory.current").write_text(f"{current}\n")
    return str(root)


def test_without_a_limit_it_is_the_machines_memory(tmp_path: Path, psutil: Any) -> None:
    source = MemorySource(str(tmp_path))
    assert source.read() == (3 * GIB, 16 * GIB, 12 * GIB)
    assert source.limited_by is None


def test_in_a_container_it_is_the_containers(tmp_path: Path, psutil: Any) -> None:
    source = MemorySource(container(tmp_path, 4 * GIB, GIB))
    assert source.read() == (GIB, 4 * GIB, 3 * GIB)
    assert source.limited_by == "cgroup v2"


def test_no_more_is_available_than_the_machine_has(tmp_path: Path, psutil: Any) -> None:
    psutil.memory.available = GIB // 2
    assert MemorySource(container(tmp_path, 4 * GIB, GIB)).read()[2] == GIB // 2


def test_a_group_that_hides_its_usage_falls_back_to_the_machine(
    tmp_path: Path, psutil: Any
) -> None:
    root = container(tmp_path, 4 * GIB, GIB)
    (tmp_path / "sys/fs/cgroup/memory.current").unlink()
    assert MemorySource(root).read()[:2] == (3 * GIB, 16 * GIB)


def test_the_event_and_the_summary_are_in_bytes(ov: Any, psutil: Any, tmp_path: Path) -> None:
    sampler = MemorySampler(MemorySource(str(tmp_path)))
    assert sampler.read() == {"memory": [3 * GIB, 16 * GIB], "available": 12 * GIB}
    psutil.memory.used = 5 * GIB
    sampler.read()
    sampler.summarise(ov.summary)
    expected = {"mean": 4 * GIB, "peak": 5 * GIB, "total": 16 * GIB}
    assert ov.summary == {"host": {"memory": expected}}


def test_the_monitor_gives_memdata(ov: Any, psutil: Any) -> None:
    ov.require(Memory())
    ov.walk_to_script()
    ov.tick(0.25)
    assert set(ov.given("memdata")[0]) == {"memory", "available"}
