"""What control groups allow, in both versions, at any level."""

from __future__ import annotations

from pathlib import Path

import pytest

from instruments.cgroup import cpu_limit, memory_limit

MACHINE = 64 << 30


def tree(root: Path, files: dict[str, object]) -> str:
    """Write ``files`` below ``root``, which stands for ``/``."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return str(root)


V2 = {"proc/self/cgroup": "0::/user/job", "sys/fs/cgroup/cgroup.controllers": "cpu memory"}
V1 = {"proc/self/cgroup": "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/x"}


def test_no_control_groups_set_no_limit(tmp_path: Path) -> None:
    assert memory_limit(MACHINE, str(tmp_path)) is None
    assert cpu_limit(8, str(tmp_path)) is None


def test_the_second_versions_memory_limit_is_found(tmp_path: Path) -> None:
    root = tree(tmp_path, {**V2, "sys/fs/cgroup/user/job/memory.max": 1 << 30})
    limit = memory_limit(MACHINE, root)
    assert limit is not None and (limit.total, limit.source) == (1 << 30, "cgroup v2")


def test_max_is_no_limit(tmp_path: Path) -> None:
    files = {"user/job/memory.max": "max", "user/job/cpu.max": "max 100000"}
    root = tree(tmp_path, {**V2, **{f"sys/fs/cgroup/{k}": v for k, v in files.items()}})
    assert memory_limit(MACHINE, root) is None
    assert cpu_limit(8, root) is None


def test_the_tightest_limit_of_all_ancestors_counts_with_its_own_usage(tmp_path: Path) -> None:
    base = "sys/fs/cgroup/user"
    root = tree(
        tmp_path,
        {
            **V2,
            f"{base}/job/memory.max": 4 << 30,
            f"{base}/job/memory.current": 1,
            f"{base}/memory.max": 2 << 30,
            f"{base}/memory.current": 700,
            f"{base}/memory.stat": "anon 5\ninactive_file 200\nfile 600",
        },
    )
    limit = memory_limit(MACHINE, root)
    assert limit is not None
    assert limit.total == 2 << 30
    assert limit.used() == 500


def test_a_limit_above_what_the_machine_has_does_not_count(tmp_path: Path) -> None:
    root = tree(tmp_path, {**V1, "sys/fs/cgroup/memory/memory.limit_in_bytes": 9223372036854771712})
    assert memory_limit(MACHINE, root) is None


def test_the_first_versions_limits_are_found(tmp_path: Path) -> None:
    base = "sys/fs/cgroup"
    root = tree(
        tmp_path,
        {
            **V1,
            f"{base}/memory/docker/abc/memory.limit_in_bytes": 1000,
            f"{base}/memory/docker/abc/memory.usage_in_bytes": 900,
            f"{base}/memory/docker/abc/memory.stat": "inactive_file 1\ntotal_inactive_file 300",
            f"{base}/cpu/docker/abc/cpu.cfs_quota_us": 150000,
            f"{base}/cpu/docker/abc/cpu.cfs_period_us": 100000,
            f"{base}/cpu/docker/abc/cpuacct.usage": 2_500_000_000,
        },
    )
    memory, cpu = memory_limit(MACHINE, root), cpu_limit(8, root)
    assert memory is not None and (memory.source, memory.used()) == ("cgroup v1", 600)
    assert cpu is not None and (cpu.cores, cpu.used_seconds()) == (1.5, 2.5)


def test_a_quota_of_minus_one_is_no_limit(tmp_path: Path) -> None:
    base = "sys/fs/cgroup/cpu/docker/abc"
    root = tree(tmp_path, {**V1, f"{base}/cpu.cfs_quota_us": -1, f"{base}/cpu.cfs_period_us": 100})
    assert cpu_limit(8, root) is None


def test_a_hybrid_hierarchy_is_read_below_unified(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a",
            "sys/fs/cgroup/unified/cgroup.controllers": "cpu",
            "sys/fs/cgroup/unified/a/cpu.max": "200000 100000",
            "sys/fs/cgroup/unified/a/cpu.stat": "usage_usec 3000000\nuser_usec 1",
        },
    )
    limit = cpu_limit(8, root)
    assert limit is not None and (limit.cores, limit.used_seconds()) == (2.0, 3.0)


@pytest.mark.parametrize("path", ["/../../elsewhere", "/not/mounted/here", "/"])
def test_in_a_container_the_mount_is_its_own_group(tmp_path: Path, path: str) -> None:
    files = {**V2, "proc/self/cgroup": f"0::{path}", "sys/fs/cgroup/memory.max": 5000}
    limit = memory_limit(MACHINE, tree(tmp_path, files))
    assert limit is not None and limit.total == 5000


@pytest.mark.parametrize("garbage", ["", "lots", "12 parsecs", "\x00"])
def test_garbage_is_no_limit(tmp_path: Path, garbage: str) -> None:
    base = "sys/fs/cgroup/user/job"
    root = tree(tmp_path, {**V2, f"{base}/memory.max": garbage, f"{base}/cpu.max": garbage})
    assert memory_limit(MACHINE, root) is None
    assert cpu_limit(8, root) is None


def test_a_group_that_does_not_tell_its_usage_says_so(tmp_path: Path) -> None:
    base = "sys/fs/cgroup/user/job"
    root = tree(tmp_path, {**V2, f"{base}/memory.max": 10, f"{base}/cpu.max": "100000 100000"})
    memory, cpu = memory_limit(MACHINE, root), cpu_limit(8, root)
    assert memory is not None and memory.used() is None
    assert cpu is not None and cpu.used_seconds() is None
