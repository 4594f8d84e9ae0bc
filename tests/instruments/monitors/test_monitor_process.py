"""The script's processes: found cheaply, counted once, wherever they end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from instruments import process as room
from instruments.process import GLANCE, Glancing, Process, ProcessLoad, ProcessSampler
from instruments.process_tree import LOOK_SECONDS, ProcessTree, Usage, usage_of
from overseer.clock import FakeClock

MIB = 1 << 20


class FakeProcess:
    """A process with numbers that a test sets; the root counts searches of the process table."""

    def __init__(self, pid: int, cpu: float = 0.0, rss: int = 10 * MIB, shared: int = 0) -> None:
        self.pid = pid
        self.cpu = cpu
        self.ended = 0.0
        self.memory = SimpleNamespace(rss=rss, shared=shared)
        self.io = SimpleNamespace(read_bytes=1, write_bytes=2, read_chars=3, write_chars=4)
        self.below: list[FakeProcess] = []
        self.searches: list[bool] = []
        self.gone: Exception | None = None
        self.oneshots = 0

    @contextmanager
    def oneshot(self) -> Iterator[None]:
        self.oneshots += 1
        if self.gone:
            raise self.gone
        yield

    def cpu_times(self) -> Any:
        return SimpleNamespace(
            user=self.cpu, system=0.0, children_user=self.ended, children_system=0.0
        )

    def memory_info(self) -> Any:
        return self.memory

    def io_counters(self) -> Any:
        if isinstance(self.io, Exception):
            raise self.io
        return self.io

    def cpu_num(self) -> int:
        return 3

    def is_running(self) -> bool:
        return not self.gone

    def children(self, recursive: bool = False) -> list[FakeProcess]:
        self.searches.append(recursive)
        return list(self.below)


class Proc:
    """A process file system with the files that list each thread's children."""

    def __init__(self, root: Path, psutil: Any) -> None:
        self.root = root
        self.processes: dict[int, FakeProcess] = {}
        psutil.Process = self.find

    def find(self, pid: int = 1) -> FakeProcess:
        return self.processes[pid]

    def add(self, process: FakeProcess, **threads: str) -> FakeProcess:
        self.processes[process.pid] = process
        for thread in threads or {f"t{process.pid}": ""}:
            path = self.root / str(process.pid) / "task" / thread[1:] / "children"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(threads.get(thread, ""))
        return process

    def image(self, pid: int, start: int) -> None:
        """Have it run a program that the kernel has put there."""
        fields = ["S", *["0"] * 22, *[str(start + place) for place in range(29)]]
        (self.root / str(pid) / "stat").write_text(f"{pid} (a (name) b) {' '.join(fields)}")

    def share(self, pid: int, anonymous: int) -> None:
        """What its part is of the memory that it shares with others."""
        path = self.root / str(pid) / "smaps_rollup"
        path.write_text(f"1-2 ---p 0 00:00 0 [rollup]\nPss: 1 kB\nPss_Anon: {anonymous >> 10} kB\n")

    def tree(self, clock: FakeClock) -> ProcessTree:
        return ProcessTree(self.find(1), clock, str(self.root))  # type: ignore[arg-type]


@pytest.fixture
def proc(tmp_path: Path, psutil: Any, monkeypatch: pytest.MonkeyPatch) -> Proc:
    make = ProcessTree
    monkeypatch.setattr(room, "ProcessTree", lambda root, clock: make(root, clock, str(tmp_path)))
    return Proc(tmp_path, psutil)


def pids(tree: ProcessTree) -> list[int]:
    return [process.pid for process in tree.processes()]


def test_descendants_of_every_thread_are_found_once(proc: Proc) -> None:
    proc.add(FakeProcess(1), t1="2 3 ", t99="4 ")
    proc.add(FakeProcess(2), t2="5 ")
    for pid in (3, 4, 5):
        proc.add(FakeProcess(pid))
    assert sorted(pids(proc.tree(FakeClock()))) == [1, 2, 3, 4, 5]
    assert proc.processes[1].searches == []


def test_a_new_child_is_seen_at_the_next_tick(proc: Proc) -> None:
    proc.add(FakeProcess(1))
    tree = proc.tree(FakeClock())
    assert pids(tree) == [1]
    proc.add(FakeProcess(1), t1="2 ")
    proc.add(FakeProcess(2))
    assert pids(tree) == [1, 2]
    proc.add(proc.processes[2], t2="3 ")
    proc.add(FakeProcess(3))
    assert pids(tree) == [1, 2, 3]


def test_an_unchanged_tree_is_not_walked_again_before_its_time(
    proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc.add(FakeProcess(1), t1="2 ")
    proc.add(FakeProcess(2))
    clock = FakeClock()
    tree = proc.tree(clock)
    walks: list[int] = []
    walk = tree._walk
    monkeypatch.setattr(tree, "_walk", lambda: walks.append(1) or walk())  # type: ignore[func-returns-value]
    for _ in range(35):
        assert pids(tree) == [1, 2]
        clock.advance(1.0)
    assert len(walks) == 4


def test_the_process_table_is_never_searched_at_every_tick(proc: Proc) -> None:
    """On a kernel without the children files."""
    root = proc.processes[1] = FakeProcess(1)
    root.below = [FakeProcess(2)]
    clock = FakeClock()
    tree = proc.tree(clock)
    for _ in range(35):
        assert pids(tree) == [1, 2]
        clock.advance(1.0)
    assert root.searches == [True] * (1 + int(34 // LOOK_SECONDS))


def test_a_child_that_ended_is_left_out(proc: Proc, psutil: Any) -> None:
    proc.add(FakeProcess(1, cpu=1.0), t1="2 3 ")
    proc.add(FakeProcess(2, cpu=1.0)).gone = psutil.NoSuchProcess(2)
    proc.add(FakeProcess(3, cpu=1.0))
    usage = usage_of(proc.tree(FakeClock()).processes())
    assert usage.cpu_seconds == 2.0


@pytest.mark.parametrize("kind", ["AccessDenied", "OSError"])
def test_a_process_that_does_not_tell_of_itself_is_no_process_without_memory(
    proc: Proc, psutil: Any, kind: str
) -> None:
    proc.add(FakeProcess(1, cpu=1.0)).gone = getattr(psutil, kind, OSError)("kept secret")
    sampler = ProcessSampler(FakeClock(), 2.0)
    with pytest.raises(OSError, match="kept secret"):
        sampler.read()
    summary: dict[str, Any] = {}
    sampler.summarise(summary)
    assert summary == {}


def test_a_process_number_used_again_is_another_process(proc: Proc, psutil: Any) -> None:
    proc.add(FakeProcess(1), t1="2 ")
    old = proc.add(FakeProcess(2))
    clock = FakeClock()
    tree = proc.tree(clock)
    assert tree.processes()[1] is old  # type: ignore[comparison-overlap]
    old.gone = psutil.NoSuchProcess(2)
    new = proc.add(FakeProcess(2))
    clock.advance(LOOK_SECONDS)
    assert tree.processes()[1] is new  # type: ignore[comparison-overlap]


def test_a_child_that_ends_between_listing_and_opening_is_no_error(proc: Proc, psutil: Any) -> None:
    proc.add(FakeProcess(1), t1="2 ")

    def vanished(pid: int = 1) -> FakeProcess:
        if pid == 2:
            raise psutil.NoSuchProcess(pid)
        return proc.processes[pid]

    psutil.Process = vanished
    assert pids(proc.tree(FakeClock())) == [1]


def test_pages_that_workers_share_are_counted_once(psutil: Any) -> None:
    root = FakeProcess(1, rss=100 * MIB, shared=60 * MIB)
    workers = [FakeProcess(pid, rss=80 * MIB, shared=60 * MIB) for pid in (2, 3)]
    usage = usage_of([root, *workers])  # type: ignore[list-item]
    assert usage.memory == (100 + 20 + 20) * MIB


@pytest.fixture
def forked(proc: Proc) -> Proc:
    """A process with 400 MiB of its own, and four children that it has forked."""
    proc.add(FakeProcess(1, rss=500 * MIB, shared=100 * MIB), t1="2 3 4 5 ")
    proc.image(1, 7000)
    for pid in (2, 3, 4, 5):
        proc.add(FakeProcess(pid, rss=450 * MIB, shared=40 * MIB))
        proc.image(pid, 7000)
    return proc


def memory(tree: ProcessTree) -> int:
    return tree.memory(usage_of(tree.processes())) // MIB


def test_what_children_inherit_by_a_fork_is_counted_once(forked: Proc) -> None:
    assert memory(forked.tree(FakeClock())) == 500 + 4 * 10


def test_event_and_summary_have_what_is_inherited_once(forked: Proc) -> None:
    sampler = ProcessSampler(FakeClock(), cores=1.0)
    event, summary = sampler.read(), dict[str, Any]()
    sampler.summarise(summary)
    assert event["memory"][0] == 540 * MIB  # type: ignore[index]
    assert summary["host"]["memory"]["process"]["peak"] == 540 * MIB


def test_what_a_forked_child_allocates_is_added(forked: Proc) -> None:
    tree = forked.tree(FakeClock())
    memory(tree)
    forked.processes[2].memory.rss += 300 * MIB
    assert memory(tree) == 500 + 4 * 10 + 300


def test_what_was_inherited_is_no_more_than_there_was(forked: Proc) -> None:
    """What a parent has freed meanwhile its child may have inherited, and what it has not, not."""
    tree = forked.tree(FakeClock())
    parent = forked.add(forked.processes[1], t1="")
    assert memory(tree) == 500
    parent.memory.rss -= 300 * MIB
    forked.add(parent, t1="2 3 4 5 ")
    assert memory(tree) == 200 + 4 * 10


def test_children_that_run_a_program_of_their_own_inherit_nothing(forked: Proc) -> None:
    for pid in (2, 3, 4, 5):
        forked.image(pid, 9000 + 100 * pid)
    tree = forked.tree(FakeClock())
    for _ in range(3):
        assert memory(tree) == 500 + 4 * 410


def test_a_fork_that_goes_on_to_run_a_program_has_it_to_itself(forked: Proc) -> None:
    tree = forked.tree(FakeClock())
    memory(tree)
    forked.image(2, 9000)
    forked.processes[2].memory = SimpleNamespace(rss=90 * MIB, shared=20 * MIB)
    assert memory(tree) == 500 + 3 * 10 + 70


def test_children_of_a_child_that_forks_are_counted_once_beside_it(forked: Proc) -> None:
    """As with a fork server, which runs a program of its own."""
    for pid in (2, 3, 4, 5):
        forked.image(pid, 9000)
    assert memory(forked.tree(FakeClock())) == 500 + 410


@pytest.mark.parametrize("hidden", ["no such file", "an empty one", "another system's", "zeros"])
def test_where_nothing_tells_of_forks_only_shared_pages_are_left_out(
    forked: Proc, hidden: str
) -> None:
    for pid in (1, 2, 3, 4, 5):
        file = forked.root / str(pid) / "stat"
        file.unlink()
        if hidden == "an empty one":
            file.write_text("")
        elif hidden == "another system's":
            file.write_text(f"{pid} (python) S 1")
        elif hidden == "zeros":  # As the kernel shows them to those who may not know.
            file.write_text(f"{pid} (python) S {'0 ' * 49}")
    assert memory(forked.tree(FakeClock())) == 500 + 4 * 410


class Slow(FakeClock):
    """One by which reading a file that walks through pages takes its time."""

    asked = 0

    def cpu_ns(self) -> int:
        self.asked += 1
        return self.now_ns() + self.asked // 2 * 20_000_000


def shares(proc: Proc, head: int, child: int) -> None:
    proc.share(1, head * MIB)
    for pid in (2, 3, 4, 5):
        proc.share(pid, child * MIB)


def test_the_kernel_is_asked_what_forked_children_have_written_anew(forked: Proc) -> None:
    clock = Slow()
    tree = forked.tree(clock)
    shares(forked, 80, 230)  # Each has copied 150 of the 400 meanwhile.
    assert memory(tree) == 500 + 4 * 10  # They were only just found.
    clock.advance(1.0)
    assert memory(tree) == 100 + 80 + 4 * 230
    forked.processes[2].memory.rss += 7 * MIB  # It is not asked again so soon, but this shows.
    clock.advance(1.0)
    assert memory(tree) == 100 + 80 + 4 * 230 + 7
    del forked.processes[5]
    forked.add(forked.processes[1], t1="2 3 4 ")
    assert memory(tree) == 500 + 3 * (230 - 80) + 7  # What the parent had is still there.


def test_what_is_inherited_and_freed_by_the_parent_is_still_counted_once(forked: Proc) -> None:
    clock = FakeClock()
    tree = forked.tree(clock)
    memory(tree)
    forked.processes[1].memory.rss -= 400 * MIB
    shares(forked, 0, 110)
    clock.advance(5.0)
    assert memory(tree) == 100 + 4 * 110


@pytest.mark.parametrize("text", [None, "", "Pss: 5 kB\n"])
def test_a_kernel_that_does_not_tell_is_done_without(forked: Proc, text: str | None) -> None:
    clock = FakeClock()
    tree = forked.tree(clock)
    shares(forked, 80, 230)
    file = forked.root / "4" / "smaps_rollup"
    file.unlink()
    if text is not None:
        file.write_text(text)
    for _ in range(5):
        assert memory(tree) == 500 + 4 * 10
        clock.advance(10.0)


def test_the_kernel_is_asked_no_more_often_than_costs_little(forked: Proc) -> None:
    clock = Slow()
    tree = forked.tree(clock)
    for second in range(60):
        shares(forked, 80, 230 + second)
        memory(tree)
        clock.advance(1.0)
    assert clock.asked // 2 == 1 + 58 // 10  # 20 ms are 0.2 % of 10 s.
    assert tree.weighing_ns == clock.asked // 2 * 20_000_000


def test_of_a_very_large_tree_the_kernel_is_not_asked_soon(forked: Proc) -> None:
    clock = FakeClock()
    tree = forked.tree(clock)
    shares(forked, 80, 230)
    for process in forked.processes.values():
        process.memory.rss += 40 << 30
    seen = set()
    for _ in range(300):
        seen.add(memory(tree))
        clock.advance(1.0)
    assert seen == {(40 << 10) + 500 + 4 * 10}


def test_bytes_add_up_and_a_process_that_hides_them_is_left_out(psutil: Any) -> None:
    hidden = FakeProcess(3)
    hidden.io = psutil.AccessDenied(3)
    usage = usage_of([FakeProcess(1), FakeProcess(2), hidden])  # type: ignore[list-item]
    assert usage.io == {"read_bytes": 2, "write_bytes": 4, "read_chars": 6, "write_chars": 8}
    assert len(usage.cpu) == 3


def used(**cpu: float) -> Usage:
    usage = Usage()
    usage.cpu.update(cpu)  # type: ignore[arg-type]
    return usage


SECOND = 10**9


def test_load_is_of_all_cores_and_since_the_last_reading() -> None:
    load = ProcessLoad(4, cpu_seconds=1.0, now_ns=0)
    assert load.read(used(root=2.0), SECOND) == 25.0
    assert load.read(used(root=2.0), 2 * SECOND) == 0.0
    assert load.mean == 12.5


def test_a_child_that_is_reaped_is_not_counted_again() -> None:
    """Its seconds move to its parent's when it has been waited for."""
    load = ProcessLoad(2, cpu_seconds=0.0, now_ns=0)
    load.read(used(root=0.0, child=1.0), SECOND)
    assert load.read(used(root=1.0), 2 * SECOND) == 0.0
    assert load.mean == 25.0


def test_a_child_that_nobody_waits_for_does_not_make_the_load_negative() -> None:
    load = ProcessLoad(2, cpu_seconds=0.0, now_ns=0)
    load.read(used(root=0.0, child=1.0), SECOND)
    assert load.read(used(root=0.5), 2 * SECOND) == 0.0
    assert load.mean == 25.0  # What it had used stays counted.


def test_a_child_found_late_does_not_look_like_a_burst() -> None:
    load = ProcessLoad(4, cpu_seconds=0.0, now_ns=0)
    load.read(used(root=0.0), 9 * SECOND)
    assert load.read(used(root=0.0, child=9.5), 10 * SECOND) == 25.0
    assert load.mean == 23.8  # The mean has all of its 9.5 seconds.


def test_no_time_no_load() -> None:
    load = ProcessLoad(4, cpu_seconds=0.0, now_ns=5)
    assert load.read(used(root=1.0), 5) is None
    assert load.mean is None


def test_the_event_has_the_keys_that_old_voirfiles_read(
    ov: Any, proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc.add(FakeProcess(1, cpu=0.5, rss=8 * MIB), t1="2 ")
    proc.add(FakeProcess(2, cpu=0.5, rss=4 * MIB))
    monkeypatch.setattr(os, "times", lambda: (0.0, 0.0, 0.0, 0.0, 1.0))
    monkeypatch.setattr(room, "usable_cores", lambda: SimpleNamespace(number=4))
    ov.require(Process())
    ov.walk_to_script()
    ov.tick()
    (event,) = ov.given("process")
    used_memory, total = event.pop("memory")
    assert used_memory == 12 * MIB and total > 0
    assert event == {
        "pid": 1,
        "load": 25.0,
        "num": 3,
        "read_bytes": 2,
        "write_bytes": 4,
        "read_chars": 6,
        "write_chars": 8,
        "children": 1,
    }
    ov.end_script()
    assert ov.summary["host"] == {
        "cpu": {"process": {"mean": 25.0, "max": 25.0}},
        "memory": {"process": {"peak": 12 * MIB}},
    }


def test_the_first_load_is_since_the_script_began(
    proc: Proc, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc.add(FakeProcess(1, cpu=7.0))
    clock = FakeClock()
    monkeypatch.setattr(os, "times", lambda: (4.0, 2.0, 0.5, 0.0, 1.0))
    sampler = ProcessSampler(clock, cores=1.0)
    sampler.start()
    clock.advance(1.0)
    assert sampler.read()["load"] == 50.0


def statm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file in place of the kernel's, in pages."""
    file = tmp_path / "statm"
    monkeypatch.setattr("instruments.process._STATM", str(file))
    return file


def grown(sampler: ProcessSampler) -> Any:
    summary: dict[str, Any] = {}
    sampler.summarise(summary)
    return summary["host"]["memory"]["process"].get("growth")


def test_memory_that_grows_for_four_seconds_is_growth(
    proc: Proc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proc.add(FakeProcess(1, cpu=7.0))
    file, clock = statm(monkeypatch, tmp_path), FakeClock()
    inner = ProcessSampler(clock, cores=1.0)
    sampler = Glancing(inner, clock, 1.0)
    read = 0
    for n in range(17):
        file.write_text(f"999999 {100_000 + 10_000 * n} 5 1 0 1 0")
        read += sampler.read() is not None
        clock.advance(GLANCE)
    assert read == 5  # At 0, 1, 2, 3 and 4 seconds.
    pages = grown(inner)["bytes"] / os.sysconf("SC_PAGE_SIZE")
    assert pages == pytest.approx(120_000)
    assert grown(inner)["seconds"] == pytest.approx(3.0)


def test_memory_that_grows_before_the_steps_is_not_growth(
    proc: Proc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proc.add(FakeProcess(1, cpu=7.0))
    file, clock = statm(monkeypatch, tmp_path), FakeClock()
    inner = ProcessSampler(clock, cores=1.0, stepped=lambda: (4.25, 8.0))
    sampler = Glancing(inner, clock, 1.0)
    for n in range(33):
        file.write_text(f"999999 {100_000 + 10_000 * min(n, 16)} 5 1 0 1 0")
        sampler.read()
        clock.advance(GLANCE)
    assert grown(inner) is None


def test_a_tree_of_many_processes_is_read_less_often_and_seldom_takes_time() -> None:
    """Three hundred workers: to read them each second would be two percent of a processor."""
    clock = FakeClock()

    class Large(ProcessSampler):
        def read(self) -> dict[str, object]:
            clock.advance(0.020)
            return {}

    sampler = Glancing(Large(clock, cores=1.0), clock, 1.0)
    reads = []
    for _ in range(80):
        if sampler.read() is not None:
            reads.append(clock.now_ns() / 1e9)
        clock.advance(GLANCE)
    assert reads[1] - reads[0] < 1.5  # The first one imports things.
    assert [late - early > 3.9 for early, late in pairwise(reads[1:])] == [True] * 4


def test_what_asking_the_kernel_takes_does_not_keep_from_reading_the_rest() -> None:
    clock = FakeClock()

    class Weighing(ProcessSampler):
        weighing_ns = 0

        def read(self) -> dict[str, object]:
            clock.advance(0.150)
            self.weighing_ns += 150_000_000  # type: ignore[misc]
            return {}

    sampler = Glancing(Weighing(clock, cores=1.0), clock, 1.0)
    reads = 0
    for _ in range(40):
        reads += sampler.read() is not None
        clock.advance(GLANCE)
    assert reads >= 9


def test_where_nothing_tells_of_memory_there_is_no_growth(
    proc: Proc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proc.add(FakeProcess(1, cpu=7.0))
    file, clock = statm(monkeypatch, tmp_path), FakeClock()
    inner = ProcessSampler(clock, cores=1.0)
    for text in (None, "", "x y z"):
        if text is not None:
            file.write_text(text)
        inner.glance()
    inner.read()
    assert grown(inner) is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_real_child_comes_and_goes() -> None:
    import psutil as real

    tree = ProcessTree(real.Process(), FakeClock())
    before = set(pids(tree))
    command = [sys.executable, "-c", "input()"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        assert set(pids(tree)) - before == {child.pid}
        usage = usage_of(tree.processes())
        assert len(usage.cpu) == len(before) + 1 and usage.memory > 0
    finally:
        child.communicate(b"\n")
    assert child.pid not in pids(tree)


FORKING = """
import os, sys, time
data = b"x" * (64 << 20)
for child in range(3):
    if not os.fork():
        more = b"y" * (16 << 20)
        os.write(1, b"here\\n")
        time.sleep(60)
os.write(1, b"here\\n")
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_real_children_inherit_is_counted_once() -> None:
    import psutil as real

    clock = FakeClock()
    command = [sys.executable, "-c", FORKING]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout and [child.stdout.readline() for _ in range(4)] == ["here\n"] * 4
        tree = ProcessTree(real.Process(child.pid), clock)
        for _ in range(3):  # Before the kernel is asked, and after that.
            processes = tree.processes()
            usage = usage_of(processes)
            alone = usage.resident[processes[0]]
            assert len(processes) == 4
            assert 45 * MIB < tree.memory(usage) - alone < 100 * MIB
            clock.advance(1.0)
    finally:
        for process in real.Process(child.pid).children():
            process.kill()
        child.kill()
        child.communicate()
