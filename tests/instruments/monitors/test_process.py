"""The script's processes: found cheaply, counted once, wherever they end."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from instruments.monitors import process as room
from instruments.monitors.process import LOOK_NS, ProcessTree, Tree
from tests.clocks import FakeClock

from .conftest import MIB, FakeOverseer

SECOND = 10**9


class FakeProcess:
    """A process with numbers that a test sets."""

    def __init__(self, pid: int, cpu: float = 0.0, rss: int = 0, pss: int | None = None) -> None:
        self.pid, self.cpu, self.rss, self.pss = pid, cpu, rss, pss
        self.io: Any = SimpleNamespace(read_bytes=1, write_bytes=2, read_chars=3, write_chars=4)
        self.gone: Exception | None = None
        self.oneshot = nullcontext
        self.is_running = lambda: True

    def cpu_times(self) -> tuple[float, ...]:
        if self.gone:
            raise self.gone
        return self.cpu, 0.0, 0.0, 0.0, 99.0

    def memory_info(self) -> Any:
        return SimpleNamespace(rss=self.rss * MIB)

    def memory_full_info(self) -> Any:
        if self.pss is None:
            raise psutil.AccessDenied(self.pid)
        return SimpleNamespace(rss=self.rss * MIB, pss=self.pss * MIB)

    def io_counters(self) -> Any:
        if isinstance(self.io, Exception):
            raise self.io
        return self.io


class Fake(Tree):
    """A tree of fake processes, found by whoever puts them there."""

    def __init__(self, *processes: FakeProcess) -> None:
        self.clock = FakeClock()
        super().__init__(os.getpid(), self.clock, alone=True)
        self.root: Any = processes[0]
        self.put(*processes[1:])

    def put(self, *below: FakeProcess) -> None:
        self._below = {process.pid: process for process in below}  # type: ignore[misc]

    def mib(self, now_ns: int = 0) -> int:
        self.read(now_ns)
        return self.memory // MIB


# What they use


#: For each reading, the seconds that root and children have used by then; and what is added.
SPENT: dict[str, tuple[list[list[float]], list[float]]] = {
    "of all": ([[1, 2], [2, 2.5], [2, 2.5]], [0.0, 1.5, 0.0]),
    # A child's seconds move to its parent's when it has been waited for.
    "a child that was reaped": ([[0, 1], [1.25]], [0.0, 0.25]),
    "a child that nobody waits for": ([[0, 1], [0.5]], [0.0, 0.0]),
    "a child found late, no burst": ([[0], [0, 9.5]], [0.0, 1.0]),
}


@pytest.mark.parametrize("case", SPENT)
def test_the_processor_time_of_a_tree(case: str) -> None:
    readings, spent = SPENT[case]
    root = FakeProcess(1)
    tree = Fake(root)
    found = []
    for second, (root.cpu, *below) in enumerate(readings):
        tree.put(*(FakeProcess(pid, cpu) for pid, cpu in enumerate(below, start=2)))
        found.append(tree.read(second * SECOND))
    assert found == spent


def test_a_child_that_ended_is_left_out_and_bytes_that_are_secret_are() -> None:
    gone, hidden = FakeProcess(2), FakeProcess(3)
    gone.gone, hidden.io = psutil.NoSuchProcess(2), psutil.AccessDenied(3)
    tree = Fake(FakeProcess(1), gone, hidden)
    tree.read(0)
    assert tree.io == {"read_bytes": 1, "write_bytes": 2, "read_chars": 3, "write_chars": 4}
    assert tree.children == 1
    tree.root.gone = psutil.AccessDenied(1)
    with pytest.raises(psutil.AccessDenied):  # It is no process without memory.
        tree.read(1)


# Memory


def forked() -> tuple[Fake, list[FakeProcess]]:
    """A process with 500 MiB, and four children that share 400 of it and have 10 of their own."""
    children = [FakeProcess(n, rss=410, pss=90) for n in range(2, 6)]
    every = [FakeProcess(1, rss=500, pss=180), *children]
    return Fake(*every), every


def test_what_children_have_by_a_fork_is_counted_once() -> None:
    tree, every = forked()
    assert tree.mib() == 500  # They are only just found: of these only what they grow by counts.
    every[1].rss += 7
    assert tree.mib() == 507
    tree.weigh(0)
    assert tree.mib() == 500 + 40 + 7 - 7  # What was weighed is what there is.
    every[1].rss += 300
    assert tree.mib() == 540 + 300
    tree.put()
    assert tree.mib() == 500  # Alone, it has all of it.


def test_a_program_that_a_fork_goes_on_to_run_has_its_memory_to_itself() -> None:
    tree, every = forked()
    found = [tree.mib() for every[1].rss in (410, 20, 90)]
    assert found == [500, 500, 570]


def test_the_kernel_is_asked_every_ten_seconds_and_no_more_often_than_costs_little() -> None:
    tree, every = forked()
    asked: list[int] = []

    def slow() -> Any:
        asked.append(round(tree.clock.now_ns() / 1e9))
        tree.clock.advance(0.03)
        return SimpleNamespace(rss=500 * MIB, pss=180 * MIB)

    every[0].memory_full_info = slow  # type: ignore[method-assign]
    for _ in range(50):
        tree.read(tree.clock.now_ns())
        tree.weigh(tree.clock.now_ns())
        tree.clock.advance(1.0)
    assert asked == [0, 18, 36]  # 30 ms are 1/600 of 18 s.


def test_a_kernel_that_does_not_tell_is_done_without() -> None:
    tree, every = forked()
    for process in every:
        process.pss = None
    for second in range(3):
        assert tree.mib(second * LOOK_NS) == 500
        tree.weigh(second * LOOK_NS)


# Finding them


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process file system in which each process has itself for a main thread."""
    monkeypatch.setattr(room, "PROC", str(tmp_path))
    return tmp_path


def thread(proc: Path, pid: int, number: int, *children: int) -> None:
    file = proc / str(pid) / "task" / str(number) / "children"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(" ".join(map(str, children)))


def test_children_of_main_threads_are_seen_at_once_and_of_others_after_ten_seconds(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = os.getpid()
    made = {pid: FakeProcess(pid) for pid in (2, 3, 4, 5)}
    thread(proc, me, me)
    tree = Tree(me, FakeClock())
    monkeypatch.setattr(psutil, "Process", lambda pid: made[pid])
    seen = []
    for second in range(12):
        if second == 2:
            thread(proc, me, me, 2)
            thread(proc, 2, 2, 3)
            thread(proc, 2, 99, 4)
        if second == 11:
            thread(proc, me, me)  # It has ended, and with it those below.
        tree.read(second * SECOND)
        seen.append(sorted(tree._below))
    tree.read(20 * SECOND)
    assert seen == [[]] * 2 + [[2, 3]] * 8 + [[2, 3, 4]] * 2
    assert tree.children == 0


def test_without_the_kernels_lists_the_table_is_searched_every_ten_seconds(
    proc: Path, monkeypatch: Any
) -> None:
    tree = Tree(os.getpid(), FakeClock())
    searches: list[bool] = []
    found = [FakeProcess(2)]
    monkeypatch.setattr(
        tree.root, "children", lambda recursive: searches.append(recursive) or found
    )
    for second in range(25):
        tree.read(second * SECOND)
    assert (searches, tree.children) == ([True] * 3, 1)


FORKING = """
import os, time
data = b"x" * (64 << 20)
for child in range(3):
    if not os.fork():
        more = b"y" * (16 << 20)
        break
os.write(1, b"here\\n")
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_real_children_inherit_is_counted_once() -> None:
    child = subprocess.Popen([sys.executable, "-c", FORKING], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout and [child.stdout.readline() for _ in range(4)] == ["here\n"] * 4
        tree = Tree(child.pid, FakeClock())
        tree.read(0)
        tree.weigh(0)
        tree.read(1)
        assert tree.children == 3
        assert 40 * MIB < tree.memory - tree.root.memory_info().rss < 100 * MIB
    finally:
        for process in [*psutil.Process(child.pid).children(), child]:
            process.kill()
        child.communicate()


# In a run


@pytest.mark.parametrize(("until", "grows"), [(99, True), (16, False)])
def test_memory_that_grows_for_four_seconds_is_growth(
    ov: FakeOverseer, monkeypatch: Any, until: int, grows: bool
) -> None:
    root = FakeProcess(1)
    monkeypatch.setattr(room, "Tree", lambda pid, clock: Fake(root))
    ov.start(ProcessTree())
    for tick in range(33):
        root.rss = 500 + 40 * min(tick, until)
        ov.tick(0.25)
    ov.end("run_script")
    assert len(ov.given("process")) == 9
    assert ("growth" in ov.summary["host"]["memory"]["process"]) == grows
