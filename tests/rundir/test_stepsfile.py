"""``steps.npy`` has a row for each finished step, and NumPy reads it at any moment."""

from __future__ import annotations

import errno
import json
import math
import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from overseer.model.alike import Alike
from overseer.model.fold import Fold
from overseer.model.steps import LateValue, Segment, Step
from overseer.model.tasks import MAX_PENDING_NS, Task
from overseer.rundir import stepsfile
from overseer.rundir.metrics import NO_DESCRIPTORS
from overseer.rundir.steps import (
    COMPILED,
    DEVICE_CLOCK,
    LOADED,
    LOSS_GIVEN,
    OF_BACKWARD,
    ROW,
    read_steps,
)
from overseer.rundir.stepsfile import INTERVAL_NS, SHORTENED, StepsFile
from tests.model.test_alike import BETWEEN, TURNS, varied, written
from tests.running import VOIR, Place, Ran, faults

np = pytest.importorskip("numpy")
NAN = float("nan")


def step(number: int, task: str = "train", loss: float = 0.5, **more: object) -> Step:
    """A finished step, which took a microsecond in each of its parts."""
    made = Step(number * 10_000)
    made.task, made.number, made.thread, made.items, made.pause = task, number, 1, 8.0, 7
    made.end, made.parts = made.start + 6_000, [1000, 1001, 1002, 1003, 1004, 1005]
    made.backwards, made.loss = 1, loss
    for name, value in more.items():
        setattr(made, name, value)
    return made


class Written:
    """A file in a directory, and what has been reported."""

    def __init__(self, path: Path, megabytes: float = 1.0, **options: int) -> None:
        self.path, self.problems = path / "steps.npy", list[str]()
        self.there: Path | None = path
        say = self.problems.append
        self.file = StepsFile(
            lambda: self.there, lambda one: say(str(one.what)), megabytes, 5, **options
        )

    def add(self, *steps: Step) -> None:
        self.file.add(steps)
        self.file.flush()

    @property
    def rows(self) -> np.ndarray:
        return np.load(self.path, mmap_mode="r")


@pytest.fixture
def to(tmp_path: Path) -> Written:
    return Written(tmp_path)


def test_a_row_has_all_of_a_step_and_the_file_begins_with_the_first(to: Written) -> None:
    to.file.flush()
    assert not to.path.exists() and to.file.section() is None
    to.add(step(1, compiled=5, waited=True), step(2, "eval", items=NAN, timed=True))
    assert to.rows.tolist() == [
        (1, b"train", 10000, 16000, 8.0, 0.5, 1000, 1001, 1002, 1003, 1004, 1005, 7, 1,
         COMPILED | LOADED | OF_BACKWARD),
        (2, b"eval", 20000, 26000, pytest.approx(NAN, nan_ok=True), 0.5, 1000, 1001, 1002, 1003,
         1004, 1005, 7, 1, DEVICE_CLOCK | OF_BACKWARD),
    ]  # fmt: skip
    assert to.file.section() == {"path": "steps.npy", "rows": 2, "stride": 1, "start": 5}
    assert os.listdir(to.path.parent) == ["steps.npy"]


def test_a_loss_is_what_backward_was_called_on_or_else_what_was_given(to: Written) -> None:
    late = step(4, late=[LateValue()])
    to.add(
        step(1), step(2, backwards=0), step(3, backwards=0, told=0.25), late,
        step(5, unknown_loss=True, told=2.0), step(6, loss=NAN), step(7, loss=math.inf),
    )  # fmt: skip
    assert repr(to.rows["loss"].tolist()) == repr([0.5, NAN, 0.25, NAN, 2.0, NAN, math.inf])
    assert [*map(bool, to.rows["flags"] & OF_BACKWARD)] == [*map(bool, (1, 0, 0, 0, 0, 1, 1))]
    assert [*map(bool, to.rows["flags"] & LOSS_GIVEN)] == [*map(bool, (0, 0, 1, 0, 1, 0, 0))]


@pytest.mark.parametrize("turn", TURNS)
def test_steps_that_are_counted_together_have_the_rows_of_each(tmp_path: Path, turn: str) -> None:
    for seed in range(4):
        chance = random.Random(f"{turn} {seed}")
        text = "made O;" if "opt O" in TURNS[turn] else ""
        for _ in range(4):
            text += f"{chance.randrange(20, 60)} {{ {TURNS[turn]} }}; {chance.choice(BETWEEN)};"
        sites, data = written(text)
        data, found, multiplier = varied(data, chance), [], chance.choice([1, 3])
        for together in (False, True):
            (tmp_path / f"{seed} {together}").mkdir()
            to = Written(tmp_path / f"{seed} {together}", multiplier=multiplier)
            to.file.stride = seed or 1
            steps: list[Step] = []
            fold = Fold(sites, steps.append, together=steps.append if together else None)
            fold.feed(data)
            fold.finish()
            to.add(*steps)
            rows = to.rows.tolist() if to.path.exists() else []
            found.append(sorted(map(repr, rows)))
            assert len(rows) == sum(
                one.number // (seed or 1) - (one.number - one.n) // (seed or 1)
                if isinstance(one, Alike) else not one.number % (seed or 1)
                for one in steps
            )  # fmt: skip
        assert found[0] == found[1]


def test_names_stay_apart_whatever_they_are(to: Written) -> None:
    names = ["train", "", "x" * 24, "x" * 25, "x" * 26, "é" * 12, "é" * 13, "a\0", "a\0b", "\ud800"]
    names.append("x" * 22 + "~1")
    to.add(*[step(1, name) for name in names])
    found = [bytes(one).decode() for one in to.rows["task"]]
    assert len({*found}) == len(names)
    assert found[:4] == ["train", "", "x" * 24, "x" * 22 + "~1"] and found[-1] != names[-1]
    section = to.file.section()
    assert section is not None
    for short, name in zip(found, names, strict=True):
        assert section["names"].get(short, short) == name or name == "\ud800"


def test_ten_thousand_tasks_have_a_row_each(to: Written) -> None:
    to = Written(to.path.parent, 8)
    to.add(*[step(1, f"a task of which there are many, {n}") for n in range(10_000)])
    assert len({*to.rows["task"].tolist()}) == len(to.rows) == 10_000
    section = to.file.section()
    assert section is not None and len(section["names"]) == SHORTENED


def test_rows_are_written_once_a_second(to: Written) -> None:
    for n in range(35):
        to.file.add([step(n + 1)])
        to.file.tick(10**9 + n * INTERVAL_NS // 10)
        assert len(to.rows) == n // 10 * 10 + 1
    to.file.flush()
    assert len(to.rows) == 35


# Its bound


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_above_its_bound_every_second_step_is_dropped_then_every_fourth(
    tmp_path: Path, at_once: int
) -> None:
    to = Written(tmp_path, (512 + 100 * ROW.size) / (1 << 20))
    old, last = None, 0
    while last < 1000:
        to.add(*[step(n + 1) for n in range(last, last + at_once)])
        last += at_once
        stride = to.file.stride
        assert to.rows["step"].tolist() == [*range(stride, last + 1, stride)]
        assert to.path.stat().st_size <= 512 + 100 * ROW.size
        old = to.rows if last <= 100 else old
    assert to.file.stride == 16 == to.file.section()["stride"]  # type: ignore[index]
    if old is not None:  # Whoever has an old one open keeps it.
        assert old["step"].tolist() == [*range(1, len(old) + 1)]
    assert os.listdir(tmp_path) == ["steps.npy"]


def test_steps_that_are_all_dropped_leave_a_file_without_rows(tmp_path: Path) -> None:
    to = Written(tmp_path, 0.0001)
    for n in range(9):
        to.add(step(1, str(n)))
    assert (len(to.rows), to.problems) == (0, [])
    to.add(step(1 << 40))
    assert len(to.rows) == 1


# Readers


@contextmanager
def growing(to: Written) -> Iterator[None]:
    """Within, a thread adds steps all the time, whose losses are their numbers."""
    over = threading.Event()
    to.add(step(1, loss=1.0))

    def write() -> None:
        n = 2
        while not over.wait(0.0002):  # The reader wants the interpreter too.
            to.add(*[step(n + k, loss=float(n + k)) for k in range(n % 5)])
            n += n % 5 or 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert to.problems == []


def test_a_reader_never_sees_an_error_or_half_a_row_while_rows_are_written(tmp_path: Path) -> None:
    to, last = Written(tmp_path, 64), 0
    with growing(to):
        for n in range(1000):
            rows = to.rows
            assert (rows["loss"] == rows["step"]).all()
            assert (rows["end"] - rows["start"] == 6000).all()
            assert len(rows) >= last
            last = len(rows)
            if not n % 100:
                assert all(row["other"] == 1005 for row in read_steps(to.path))
    assert last > 100


def test_nor_does_one_that_opens_it_while_it_is_replaced(tmp_path: Path) -> None:
    to, strides = Written(tmp_path, 0.02), set[int]()
    with growing(to):
        for _ in range(1000):
            assert (to.rows["other"] == 1005).all()
            assert all(row["other"] == 1005 for row in read_steps(to.path))
            strides.add(to.file.stride)
    assert len(strides) > 2


# What goes wrong


@pytest.mark.parametrize("room", [0, 100, 511, 512, 700, 1000, 1300])
def test_on_a_full_disk_it_is_told_once_and_whole_rows_stay(
    to: Written, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    real, left = os.pwrite, [room]

    def pwrite(fd: int, data: bytes, at: int) -> int:
        if len(data) > 8:
            if not left[0]:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            data = data[: min(left[0], 100)]
            left[0] -= len(data)
        return real(fd, data, at)

    to.add(step(1), step(2))
    monkeypatch.setattr(stepsfile.os, "pwrite", pwrite)
    for n in range(3, 30, 3):
        to.add(step(n), step(n + 1), step(n + 2))
    assert len(to.problems) == 1 and "No space left on device" in to.problems[0]
    assert to.rows["step"].tolist() == [*range(1, len(to.rows) + 1)]
    assert len(to.rows) == 2 + room // (3 * ROW.size) * 3 == to.file.section()["rows"]  # type: ignore[index]


def test_where_it_cannot_be_made_that_is_told_once(tmp_path: Path) -> None:
    to = Written(tmp_path / "nowhere")
    to.add(step(1))
    to.add(step(2))
    assert to.problems == ["steps are no longer written (No such file or directory)"]
    assert to.file.section() is None


def test_a_file_that_is_taken_away_is_not_begun_anew_nor_is_a_link_followed(
    to: Written, tmp_path: Path
) -> None:
    to.add(step(1))
    to.path.rename(tmp_path / "other")
    to.path.symlink_to(tmp_path / "other")
    to.add(step(2))
    to.path.unlink()
    to.add(step(3))
    assert len(to.problems) == 1 and not to.path.exists()
    assert len(np.load(tmp_path / "other")) == 1


def test_without_a_descriptor_it_is_tried_again(
    to: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*arguments: object) -> int:
        raise OSError(NO_DESCRIPTORS[0], "Too many open files")

    to.add(step(1))
    with monkeypatch.context() as patched:
        patched.setattr(stepsfile, "descriptor", none)
        to.add(step(2))
        assert len(to.rows) == 1
    to.add(step(3))
    assert (to.rows["step"].tolist(), to.problems) == ([1, 2, 3], [])


def test_rows_wait_for_a_directory_but_not_without_end(
    to: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, to.there = to.there, None
    to.add(step(1))
    to.there = directory
    to.add(step(2))
    assert len(to.rows) == 2
    monkeypatch.setattr(stepsfile, "WAITING", 5 * ROW.size)
    to.there = None
    to.add(*[step(n) for n in range(3, 9)])
    to.there = directory
    to.add(step(9))
    assert (len(to.rows), to.problems) == (2, [])


def test_a_forked_child_writes_nothing(to: Written) -> None:
    to.add(step(1))
    child = os.fork()
    if not child:
        try:
            to.add(step(2))
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(to.rows) == 1


# What comes later


def test_steps_wait_for_what_is_on_a_device_in_order_and_not_for_ever() -> None:
    done: list[Step] = []
    task, late = Task("train", done.append), LateValue()
    first, second = step(1, loss=0.0, late=[late]), step(2)
    second.add_segment(Segment(second.start, 1)).ns = 500.0
    stuck = step(3, late=[LateValue()])
    for one in (first, second, stuck):
        one.parts.append(0)
        task.close(1, one, 8.0)
    assert done == []
    late.take(0.75)
    task.arrived()
    assert [(one.loss, one.timed, one.parts[1]) for one in done] == [
        (0.75, False, 1001), (0.5, True, 500),
    ]  # fmt: skip
    for end in (0, MAX_PENDING_NS, MAX_PENDING_NS + 1, MAX_PENDING_NS + 2):
        assert [one.number for one in done] == [1, 2]
        more = step(1)
        more.end = stuck.end + end
        more.parts.append(0)
        task.close(1, more, 8.0)
    assert [one.number for one in done] == [1, 2, 3, 4, 5, 6]


# Real runs

GIVES = """
    import os, sys, time
    from voir import give

    for step in range(int(sys.argv[1])):
        {first}
        give(step=step, batch_size=2, loss=1 / (step + 1))
    {last}
    """


def run(place: Place, steps: int, *more: str, first: str = "", last: str = "") -> Ran:
    place.write("main.py", GIVES.format(first=first, last=last))
    return place.voir("--quiet", "--no-monitor", "--run-dir", "run", *more, "main.py", str(steps))


def loaded(place: Place) -> np.ndarray:
    return np.load(place.path / "run/steps.npy", mmap_mode="r")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def facts(place: Place) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place.path / "run/run.json").read_text())
    assert faults(found) == []
    return found


def test_the_rows_and_the_figures_of_a_run_say_the_same(place: Place) -> None:
    assert run(place, 3000, "--items-per-step", "3").seen == (0, "")
    rows, found = loaded(place), facts(place)
    task = found["tasks"]["train"]
    assert rows["step"].tolist() == [*range(1, len(rows) + 1)]
    assert (rows["task"] == b"train").all() and (
        rows["flags"] & (COMPILED | DEVICE_CLOCK) == 0
    ).all()
    assert len(rows) == task["steps"] == found["steps"]["rows"]
    assert rows["items"].sum() == task["items"]
    assert (rows["loss"] == 1 / rows["step"]).all() and rows["loss"][-1] == task["loss"]["last"]
    assert (np.diff(rows["end"]) > 0).all() and (rows["start"] <= rows["end"]).all()
    at = (rows["start"] - found["steps"]["start"]) / 1e9
    assert 0 < at[0] < at[-1] < found["seconds"]


def test_no_megabytes_and_no_record_are_no_file(place: Place) -> None:
    assert run(place, 50, "--steps-max-mb", "0").seen == (0, "")
    assert sorted(os.listdir(place.path / "run")) == ["metrics.jsonl", "run.json"]
    assert "steps" not in facts(place)
    place.write("main.py", "from voir import give\nfor n in range(9): give(step=n, batch_size=1)\n")
    assert place.voir("--quiet", "--no-record", "main.py").seen == (0, "")
    assert sorted(os.listdir(place.path)) == ["main.py", "run"]


@pytest.mark.parametrize("megabytes", ["-1", "nan", "inf", "12001", "many", ""])
def test_what_is_no_size_is_refused(place: Place, megabytes: str) -> None:
    ran = run(place, 5, "--steps-max-mb", megabytes)
    assert ran.status != 0 and "[option-value]" in ran.stderr
    assert not (place.path / "run").exists()


def test_a_bound_and_a_stride_are_the_same_in_a_run(place: Place) -> None:
    assert run(place, 5000, "--steps-max-mb", "0.1").seen == (0, "")
    rows, steps = loaded(place), facts(place)["steps"]
    assert steps == {"path": "steps.npy", "rows": len(rows), "stride": 8, "start": steps["start"]}
    assert rows["step"].tolist() == [*range(8, 8 * len(rows) + 1, 8)]


def test_after_a_kill_the_steps_up_to_a_second_before_are_there(place: Place) -> None:
    kill = "time.sleep(0.001) if step < 2500 else os.kill(os.getpid(), 9)"
    place.write("main.py", GIVES.format(first=kill, last=""))
    ran = place.run(*VOIR, "--run-dir", "run", "main.py", "9999")
    assert ran.status == -9
    rows = loaded(place)
    assert rows["step"].tolist() == [*range(1, len(rows) + 1)]
    assert len(rows) > 500 and (rows["loss"] == 1 / rows["step"]).all()
    assert len(read_steps(place.path / "run/steps.npy")) == len(rows)


def test_a_run_that_hangs_and_is_killed_has_all_its_steps(place: Place) -> None:
    wait = """
    from overseer.rundir.steps import read_steps
    until = time.monotonic() + 30
    while time.monotonic() < until:
        time.sleep(0.1)
        if os.path.exists("run/steps.npy") and len(read_steps("run/steps.npy")) >= 39:
            os.kill(os.getpid(), 9)
    """
    place.write("main.py", GIVES.format(first="", last=wait.strip()))
    assert place.run(*VOIR, "--run-dir", "run", "main.py", "40").status == -9
    assert loaded(place)["step"].tolist() == [*range(1, 40)]  # The last one may go on.


def test_a_limit_of_file_sizes_costs_the_file_and_not_the_run(place: Place) -> None:
    limit = """
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
    """
    place.write("main.py", limit + GIVES.format(first="time.sleep(0.0002)", last=""))
    ran = place.voir("--no-monitor", "--run-dir", "run", "main.py", "12000")
    assert ran.status == 0
    assert ran.stderr.count("steps.npy: steps are no longer written (File too large)") == 1
    found, rows = facts(place), loaded(place)
    assert found["tasks"]["train"]["steps"] == 12000
    assert [one["slug"] for one in found["problems"]].count("record-unwritable") == 1
    assert rows["step"].tolist() == [*range(1, found["steps"]["rows"] + 1)]


def test_the_child_of_a_fork_writes_none_of_its_steps(place: Place) -> None:
    fork = "if step == 30: child = os.fork()"
    last = "os.waitpid(child, 0) if child else None"
    assert run(place, 60, first=fork, last=last).status == 0
    assert loaded(place)["step"].tolist() == [*range(1, 61)]
    assert (loaded(place)["loss"] == 1 / loaded(place)["step"]).all()


def test_steps_of_several_threads_and_tasks_are_all_there(place: Place) -> None:
    place.write(
        "main.py",
        """
        import threading, time
        from voir import give

        def work(task):
            for step in range(200):
                give(step=step, batch_size=1, task=task)

        threads = [threading.Thread(target=work, args=(f"task {n % 3}",)) for n in range(6)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """,
    )
    assert place.voir("--quiet", "--run-dir", "run", "main.py").seen == (0, "")
    rows, tasks = loaded(place), facts(place)["tasks"]
    assert {*rows["task"].tolist()} == {b"task 0", b"task 1", b"task 2"}
    for name, task in tasks.items():
        own = rows[rows["task"] == name.encode()]
        assert own["step"].tolist() == [*range(1, task["steps"] + 1)]
        assert len({*own["thread"].tolist()}) >= 1


def test_the_ranks_of_a_job_keep_the_same_steps(place: Place) -> None:
    for rank in (0, 1):
        place.write("main.py", GIVES.format(first="", last=""))
        env = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": "29501"}
        more = ["--run-dir", "run", "--steps-max-mb", "0.05", "main.py", str(900 + 400 * rank)]
        assert place.voir("--quiet", *more, env=env).status == 0
    first, second = (
        np.load(place.path / f"run/rank{rank}/steps.npy")["step"].tolist() for rank in (0, 1)
    )
    assert (first, second) == ([*range(4, 901, 4)], [*range(4, 1301, 4)])
