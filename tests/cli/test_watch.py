"""``voir watch``, and what it and other commands ask of a live run."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from overseer.cli import live
from overseer.cli.commands import Terminal as Output
from overseer.cli.watch import watch
from overseer.cli.watched import KEYS, Chooser, Watched
from overseer.errors import VoirError
from overseer.job.feed import Feed
from overseer.recorder.log import read_header
from overseer.recorder.sites import WORD_STACKS, WORD_STEPS
from overseer.rundir import control
from overseer.rundir.control import ask, refusal
from overseer.rundir.runfile import utc
from overseer.rundir.steps import LOADED, OF_BACKWARD, ROW, header
from overseer.rundir.workers import STOPPED, state_of
from tests.running import VOIR, Place, environment

from .said import said
from .screens import PATIENCE, Terminal

SECOND = 1_000_000_000
SCRIPT = """
import time
def train(n):
    for i in range(n):
        loss = 1 / (1 + i)
        time.sleep(0.01)
print("begun", flush=True)
train(100_000)
print("stopped", flush=True)
"""
VOIRFILE = """
def instrument_steps(ov):
    yield ov.phases.load_script
    ov.probe("//train > #endloop_i as step").give()
    ov.probe("//train > loss").give()
"""


def rows(n: int, loss: Callable[[int], float], task: bytes = b"train", first: int = 0) -> bytes:
    """Steps of 10 ms and 32 items, one after the other."""
    begun = 1000 * SECOND
    return b"".join(
        ROW.pack(
            at + 1, task, begun + at * SECOND // 100, begun + (at + 1) * SECOND // 100, 32.0,
            loss(at), 2_000_000, 3_000_000, 5_000_000, 0, 0, 0, 0, 1, LOADED | OF_BACKWARD,
        )
        for at in range(first, first + n)
    )  # fmt: skip


def put(path: Path, n: int = 5000, loss: Callable[[int], float] = lambda at: 1 / (1 + at),
        host: str = "elsewhere", **more: Any) -> Path:  # fmt: skip
    """A run that goes on, on another machine, after ``n`` steps."""
    path.mkdir(parents=True, exist_ok=True)
    data = rows(n, loss)
    (path / "steps.npy").write_bytes(header(n) + data)
    train = {"steps": n, "items": 32 * n, "units": "items", "rate": {"wall": 3200.0},
             "loss": {"first": loss(0), "last": loss(n - 1), "min": min(map(loss, range(n)))},
             "step_seconds": {"median": 0.01},
             "breakdown": {"loading": 20, "forward": 80}}  # fmt: skip
    started = time.time_ns() - n * SECOND // 100
    facts = {"schema": 2, "script": "main.py", "started": utc(started), "pid": 1,
             "provenance": {"hostname": host}, "tasks": {"train": train},
             "steps": {"start": 1000 * SECOND, "rows": n}, **more}  # fmt: skip
    (path / "run.json").write_text(json.dumps(facts))
    lines = [{"t": started / 1e9 + at, "task": "train", "rate": 3200.0, "units": "items/s",
              "accuracy": 0.9, "lr": "NaN"} for at in range(10)]  # fmt: skip
    lines.append({"t": started / 1e9, "cpudata": {"load": 40.0, "memory": [2**30, 2**34]}})
    (path / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


def screen(watched: Watched, columns: int = 100, rows: int = 30) -> str:
    """What is shown, as text."""
    lines = [*watched.lines(columns, rows - 1), watched.keys(columns)]
    assert len(lines) == rows
    texts = ["".join(text for text, _ in line) for line in lines]
    assert max(map(len, texts)) < columns
    return "\n".join(texts)


# From files


@pytest.mark.parametrize("n", [1, 90, 5000, 200_000])
def test_the_whole_history_is_there_at_once(tmp_path: Path, n: int) -> None:
    feed = Feed(put(tmp_path, n, loss=lambda at: 5.0 if at % 1000 < 300 else 1.0))
    task = feed.board.tasks["train"]
    start, end = 0.0, n / 100
    spread = [each for each in task.loss.spread(start, end, 50) if each is not None]
    assert {low for low, _ in spread} | {high for _, high in spread} <= {1.0, 5.0}
    known = [each for each in task.rate.over(start, end, 50) if each is not None]
    assert known == pytest.approx([3200.0] * len(known))
    assert task.loss.end == pytest.approx(end, abs=0.1 + n / 5000)
    assert (task.now, task.units) == (3200.0, "items/s")
    given = dict(feed.board.scalars)
    assert given.keys() == {"accuracy", "lr"}
    assert math.isnan(given["lr"] or 0.0)
    assert feed.board.meters["cpu"].load == 0.4


def test_what_is_written_later_is_added_and_a_thinned_file_is_read_on(tmp_path: Path) -> None:
    feed = Feed(put(tmp_path, 100, loss=lambda at: 3.0))
    task = feed.board.tasks["train"]
    with open(tmp_path / "steps.npy", "r+b") as file:
        file.write(header(200))
        file.seek(0, os.SEEK_END)
        file.write(rows(100, lambda at: 2.0, first=100))
    feed.refresh()
    assert (task.facts["steps"], task.facts["loss"]["last"]) == (200, 2.0)
    assert task.loss.end == pytest.approx(2.0)
    every = rows(300, lambda at: 1.0)
    second = b"".join(every[at : at + ROW.size] for at in range(0, len(every), 2 * ROW.size))
    (tmp_path / "other").write_bytes(header(150) + second)
    (tmp_path / "other").replace(tmp_path / "steps.npy")
    feed.refresh()
    assert task.facts["steps"] == 299
    assert sum(task.loss._counts) == 100 + 100 + 50
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"t": 1.0, "accuracy": 0.5}\n{"accuracy": 0.')
    feed.refresh()
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('6}\nnot json\n{"accuracy": 0.7}\n')
    assert dict(feed.board.scalars)["accuracy"] == 0.5
    feed.refresh()
    assert dict(feed.board.scalars)["accuracy"] == 0.7


@pytest.mark.parametrize(("columns", "height"), [(80, 24), (120, 40), (300, 90), (41, 13)])
def test_it_fits_the_terminal(tmp_path: Path, columns: int, height: int) -> None:
    watched = Watched([put(tmp_path / "a"), put(tmp_path / "b", loss=lambda at: 2.0)])
    for key in ("", "?", "?", "l", "l", "l", "-", "-", "+", "tab", "tab", "r", "down", "up"):
        watched.pressed(key)
        shown = screen(watched, columns, height)
        assert watched.page or "main.py" in shown.splitlines()[0]
    assert "over it" in shown
    assert "loss 2.000" in shown
    for small in ((0, 0), (1, 1), (20, 5), (39, 50)):
        assert len(watched.lines(*small)) <= max(small[1], 1)


def test_what_the_keys_do(tmp_path: Path) -> None:
    watched = Watched([put(tmp_path)])
    assert "accuracy" in screen(watched)
    assert "-0:00:10" not in screen(watched)
    for key in "-":
        watched.pressed(key)
    assert "the last 0:00:30" in screen(watched)
    assert "-0:00:30" in screen(watched)
    watched.pressed("-")
    assert "-0:00:10" in screen(watched)
    loss = watched.board.tasks["train"].loss
    assert 38 < (loss.start or 0.0) < 42
    watched.pressed("+"), watched.pressed("+"), watched.pressed("+")
    assert "the whole run" in screen(watched)
    for key in "/acx":
        watched.pressed(key)
    assert screen(watched).splitlines()[-1].startswith(" filter: acx")
    assert "accuracy" not in screen(watched)
    watched.pressed("back")
    assert "accuracy" in screen(watched)
    assert "lr" not in screen(watched)
    watched.pressed("enter")
    watched.pressed("escape")
    assert "lr" in screen(watched)
    watched.pressed("?")
    assert [what in screen(watched) for _, _, what in KEYS] == [True] * len(KEYS)
    assert not watched.pressed("x")
    assert watched.pressed("q")


def test_a_job_is_shown_by_rank(tmp_path: Path) -> None:
    for rank in range(3):
        put(tmp_path / f"rank{rank}", 100 + rank, rank=rank, world_size=3)
    watched = Watched([tmp_path], rank=1)
    assert "rank 1 of 3" in screen(watched)
    assert "step 101" in screen(watched)
    watched.pressed("r")
    assert "step 102" in screen(watched)
    assert "rank 2" in screen(watched)
    facts = watched.as_facts()
    assert (facts["rank"], [each["rank"] for each in facts["ranks"]]) == (2, [0, 1, 2])
    with pytest.raises(VoirError, match="has no rank 7"):
        Watched([tmp_path], rank=7)


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({}, "running, or did not finish"),
        ({"ended": "2026-01-01T00:00:09Z", "exit_status": 0, "seconds": 9.0}, "finished · 0:00:09"),
        ({"ended": "2026-01-01T00:00:09Z", "exit_status": 1, "error": "ValueError: x"},
         "ValueError: x"),
        ({"host": socket.gethostname(), "pid": 1 << 22 | 1}, "killed"),
    ],
)  # fmt: skip
def test_the_state_of_a_run_is_said(tmp_path: Path, more: dict[str, Any], state: str) -> None:
    watched = Watched([put(tmp_path, 100, **more)])
    assert state in watched.state
    assert state in screen(watched)
    assert watched.ended == bool(more)
    os.utime(tmp_path / "run.json", (time.time() - 100, time.time() - 100))
    assert ("figures of" in watched.state) == (not more)


def test_files_that_are_no_run_are_said_and_a_torn_one_is_waited_for(tmp_path: Path) -> None:
    with pytest.raises(VoirError, match="no such directory"):
        said("watch", str(tmp_path / "none"), "--once")
    with pytest.raises(VoirError, match="holds no run"):
        Watched([tmp_path])
    with pytest.raises(VoirError, match="this voir reads up to"):
        Watched([put(tmp_path / "new", 10, schema=99)])
    watched = Watched([put(tmp_path / "run", 100)])
    whole = (tmp_path / "run/run.json").read_text()
    (tmp_path / "run/run.json").write_text(whole[:-20])
    with pytest.raises(VoirError):
        watched.refresh()
    assert "is not a valid run.json" in screen(watched, 160)
    (tmp_path / "run/run.json").write_text(whole)
    watched.refresh()
    (tmp_path / "run/steps.npy").write_bytes(b"another file")
    watched.refresh()
    assert "it is not a NumPy file" in screen(watched, 200)
    put(tmp_path / "run", 100)
    (tmp_path / "run/steps.npy").unlink()
    assert "step 100" in screen(Watched([tmp_path / "run"]))


@pytest.mark.parametrize(
    "damage",
    [
        {"tasks": {"train": 3}},
        {"tasks": {"train": {"loss": {"last": "NaN", "not_finite": 3}, "steps": "many"}}},
        {"seconds": 10**400},
        {"steps": {"start": "x"}},
        {"idle": 3},
        {"progress": [3], "ended": "x"},
        {"provenance": None},
    ],
)
def test_a_damaged_record_is_shown_or_said_to_be(tmp_path: Path, damage: dict[str, Any]) -> None:
    put(tmp_path, 100, **damage)
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write(f'{{"t": {10**400}, "x": {10**400}, "rate": {10**400}}}\n')
    try:
        assert "main.py" in screen(Watched([tmp_path]))
    except VoirError as error:
        assert error.slug == "run-damaged"


def test_many_tasks_with_any_names_are_bounded(tmp_path: Path) -> None:
    names = [f"\x1b[31m{n}" for n in range(5000)]
    tasks = {name: {"steps": 3, "units": "items"} for name in names}
    watched = Watched([put(tmp_path, 10, tasks=tasks)])
    assert len(watched.board.tasks) == 32
    assert "\x1b" not in screen(watched)


def test_one_screen_and_lines_of_json(tmp_path: Path) -> None:
    run = put(tmp_path, 100)
    once = said("watch", str(run), "--once", width=100)
    assert once.startswith("── ")
    assert "step 100 · 3,200 items" in once
    line = json.loads(said("watch", str(run), "--once", "--json"))
    assert (line["run"], line["ended"], line["values"]["accuracy"]) == (str(run), False, 0.9)
    assert line["tasks"]["train"]["steps"] == 100
    ends = iter([lambda: None, lambda: put(run, 100, ended="2026-01-01T00:00:09Z", exit_status=0)])
    waits = lambda seconds: next(ends)()  # noqa: E731
    lines = [*watch([str(run), "--json"], Output(), wait=waits)]
    assert [json.loads(each)["ended"] for each in lines] == [False, False, True]
    assert said("watch", str(run)).endswith("finished · 0:00:00\n")


def test_which_run_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VOIR_RUN_DIR", raising=False)
    monkeypatch.setattr(live, "published", list)
    with pytest.raises(VoirError, match="no run is running"):
        said("watch", "--once")
    first = put(tmp_path / "voir-runs/a", 100, started="2026-01-01T00:00:00Z")
    put(tmp_path / "voir-runs/over", 100, ended="2026-01-01T00:00:09Z", exit_status=0)
    assert "step 100" in said("watch", "--once")
    second = put(tmp_path / "voir-runs/b", 200, started="2026-01-02T00:00:00Z")
    with pytest.raises(VoirError, match="2 runs are running"):
        said("watch", "--once")
    chooser = Chooser(live.live_runs())
    assert [path.absolute() for path in chooser.runs] == [second, first]
    assert "voir-runs/b" in "".join(text for line in chooser.lines(80, 24) for text, _ in line)
    assert chooser.chosen("2") == Path("voir-runs/a")
    assert (chooser.chosen("down"), chooser.chosen("enter")) == (None, Path("voir-runs/a"))
    assert Chooser([]).lines(80, 24)[0][0][0].strip().startswith("no run is running")


# A live run


#: A run hangs after a moment instead of a minute.
HURRIES = """
from overseer.rundir import hangs, killed, recording
killed.IDLE_SECONDS, killed.IDLE_STEPS = 0.1, 0
killed.HANG_SECONDS, killed.HANG_STEPS, recording.INTERVAL = 0.2, 0, 0.1
"""
HANGS = """
import time
def train(n):
    for i in range(n):
        loss = 1 / (1 + i)
        if i == 50:
            time.sleep(1000)
        time.sleep(0.01)
train(100)
"""


class Live:
    """A run that goes on, in a process of its own."""

    def __init__(self, place: Place, script: str = SCRIPT, voirfile: str = VOIRFILE) -> None:
        self.place, self.path = place, place.path / "run"
        place.write("main.py", script)
        place.write("voirfile.py", voirfile)
        self.process = subprocess.Popen(
            [*VOIR, "--run-dir", "run", "main.py"], cwd=place.path, env=environment(None),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        end = time.monotonic() + PATIENCE
        while not self.steps:
            assert self.process.poll() is None and time.monotonic() < end
            time.sleep(0.05)

    @property
    def steps(self) -> int:
        """Steps that have been counted."""
        found = read_header(os.fspath(self.path))
        return found.control[WORD_STEPS] if found is not None else 0

    def end(self) -> None:
        """End the process, if it has not ended."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Live]:
    made = Live(Place(tmp_path))
    yield made
    made.end()


def test_a_live_run_is_watched_and_a_kill_is_said(running: Live) -> None:
    run = str(running.path)
    with Terminal(running.place.path, "watch", run, columns=120, rows=40) as wide:
        shown = wide.until(lambda text: "running" in text and "loss" in text)
        assert shown.splitlines()[0].startswith("── main.py")
        assert wide.rows[-1].startswith(" q quit  ? help")
        wide.press("?")
        wide.until(lambda text: "leave; the run goes on" in text)
        wide.press("?l")
        wide.until(lambda text: "logarithmic" in text and "log └" in text)
        wide.press("s")
        wide.until(lambda text: "MainThread" in text and "in train" in text)
        wide.press("s/los")
        wide.until(lambda text: "filter: los" in text)
        wide.press("\r")
        wide.resize(80, 24)
        wide.until(lambda text: text.startswith("── main.py") and len(text.splitlines()) == 24)
        with Terminal(running.place.path, "watch", run) as other:
            other.until(lambda text: "running" in text and "loss" in text)
            other.press("q")
            assert other.left() == 0
            assert "running" in other.text
        running.process.send_signal(signal.SIGKILL)
        wide.until(lambda text: "killed" in text.splitlines()[-2])
        wide.press("q")
        assert wide.left() == 0
        assert "killed" in wide.text


def test_a_run_that_hangs_is_said_to_with_its_place(tmp_path: Path) -> None:
    running = Live(Place(tmp_path), HANGS, HURRIES + VOIRFILE)
    try:
        with Terminal(tmp_path, "watch", str(running.path), columns=120) as shown:
            shown.until(lambda text: "hangs: " in text and "main.py:7" in text)
    finally:
        running.end()


def test_a_terminal_that_is_gone_ends_it_alone(running: Live) -> None:
    with Terminal(running.place.path, "watch", str(running.path)) as shown:
        shown.until(lambda text: "running" in text)
        shown.hang_up()
        assert shown.process.wait(PATIENCE) is not None
    assert running.process.poll() is None


def test_it_stops_at_a_step_or_at_once(running: Live) -> None:
    run, at = str(running.path), running.steps + 300
    with pytest.raises(VoirError, match="already"):
        said("stop", run, "--at", "1")
    assert said("stop", run, "--at", str(at)).endswith(f"stops after step {at:,}\n")
    in_time = running.steps < at - 10  # It is asked while it makes steps.
    out, err = running.process.communicate(timeout=PATIENCE)
    assert (running.process.returncode, out) == (0, "begun\n")
    assert "stopped early: by voir stop" in err
    facts = json.loads((running.path / "run.json").read_text())
    steps = facts["tasks"]["train"]["steps"]
    assert steps == at if in_time else steps >= at
    with pytest.raises(VoirError, match="it has ended"):
        said("stop", run)


def test_its_stacks_are_printed_and_it_stops_at_its_next_step(running: Live) -> None:
    run = str(running.path)
    (running.path / "stacks.txt").mkdir()
    with pytest.raises(VoirError, match="it could not write"):
        said("stacks", run)
    (running.path / "stacks.txt").rmdir()
    assert "main.py" in said("stacks", run)
    assert "in train" in said("stacks", run)
    traced = said("trace", run, "--steps", "2")
    assert traced == f"the run traces the next 2 steps; once they are done: voir trace view {run}\n"
    end = time.monotonic() + PATIENCE
    while "train step" not in said("trace", "summary", run):  # The log is written now and then.
        assert time.monotonic() < end
        time.sleep(0.05)
    assert said("stop", run).endswith("stops at its next step\n")
    running.process.communicate(timeout=PATIENCE)
    assert running.process.returncode == 0
    assert "train step" in said("trace", "summary", run)


# Runs that cannot be asked


def test_why_a_run_cannot_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far = put(tmp_path / "far", 10)
    ended = put(tmp_path / "ended", 10, ended="2026-01-01T00:00:00Z")
    here = put(tmp_path / "here", 10, host=socket.gethostname(), pid=os.getpid(),
               started="2099-01-01T00:00:00Z")  # fmt: skip
    assert refusal(far) == "it runs on another machine, elsewhere: ask there"
    assert refusal(ended) == "it has ended"
    assert refusal(here).startswith("it cannot be reached from here")
    assert ask([far, here], WORD_STACKS, 1).keys() == {far, here}
    with pytest.raises(VoirError, match="it runs on another machine"):
        said("stop", str(far))
    with pytest.raises(VoirError, match="it has ended"):
        said("stacks", str(ended))
    monkeypatch.setattr(control, "is_ours", lambda path: False)
    assert refusal(here) == "it belongs to another user"


@pytest.mark.skipif(sys.platform != "linux", reason="it stops a process by a signal")
def test_a_run_that_does_not_answer_is_said_to(
    running: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "silent_for", lambda found, now: 9.0)
    running.process.send_signal(signal.SIGSTOP)
    while state_of(running.process.pid) != STOPPED:
        time.sleep(0.01)
    clock = iter(range(100))
    waited: list[float] = []
    why = ask([running.path], WORD_STACKS, 1, waited.append, lambda: float(next(clock)))
    assert why[running.path] == "it does not answer within 5 s (it is stopped by a signal)"
    assert len(waited) == 4
    found = read_header(os.fspath(running.path))
    assert found is not None
    assert found.control[WORD_STACKS] == 0
    running.process.send_signal(signal.SIGCONT)
