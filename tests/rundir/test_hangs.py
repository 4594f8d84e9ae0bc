"""Where a run is that makes no step any more, and whether it hangs."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import types
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from overseer.cli import main
from overseer.model.hangs import hang_of, place_text
from overseer.recorder import sites as k
from overseer.rundir import hangs, killed, pyspy, stacks
from overseer.rundir.hangs import HangWatch
from overseer.rundir.pyspy import look_inside
from tests.rundir.test_killed import ME, OPENED, SECOND, STARTED, header
from tests.running import VOIR, Place, environment


class Standing:
    """A run whose threads and clocks a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.used, self.moved, self.step_seconds = 0.0, 0.0, 0, 0.1
        self.said: list[str] = []
        self.path: Path | None = None
        self.long, self.place = "", {"file": "/a/main.py", "line": 4, "function": "train"}
        monkeypatch.setattr(hangs, "_since_boot", lambda: round(self.now * SECOND))
        monkeypatch.setattr(hangs, "process_time_ns", lambda: round(self.used * SECOND))
        monkeypatch.setattr(stacks, "main_stack", list)
        monkeypatch.setattr(stacks, "position", lambda stack: self.moved)
        monkeypatch.setattr(stacks, "importing", lambda stack: False)
        monkeypatch.setattr(stacks, "long_work", lambda stack: self.long)
        monkeypatch.setattr(stacks, "place_of", lambda stack, communicating: dict(self.place))
        self.watch = HangWatch(self.tasks, lambda problem: self.said.append(str(problem)))

    def tasks(self) -> dict[str, Any]:
        return {"train": {"steps": 5, "step_seconds": {"median": self.step_seconds}}}

    def looks(self, until: float, kind: int = 0, steps: int = 5, every: float = 1.0, **head: Any):
        """What it finds, each second until then; the last step has ended at 0."""
        found: dict[str, Any] = {}
        while self.now < until:
            self.now += every
            now = OPENED + round(self.now * SECOND)
            found = self.watch.look(header(kind, 0.0, steps)._replace(**head), now, self.path)
        return found


@pytest.fixture
def standing(monkeypatch: pytest.MonkeyPatch) -> Standing:
    return Standing(monkeypatch)


def test_a_thread_that_stands_still_for_a_minute_hangs_and_that_is_said_once(standing):
    assert "still" not in standing.looks(9)
    found = standing.looks(12)
    assert (found["file"], found["step"], found["still"], "hangs" in found) == (
        "/a/main.py", 5, 2.0, False,
    )  # fmt: skip
    assert standing.said == []
    found = standing.looks(100)
    assert (found["hangs"], found["seconds"]) == (True, 100.0)
    assert standing.said == ["no step for 70 s: /a/main.py:4 in train"]
    assert hang_of({"idle": found}).why == "no step for 100 s: /a/main.py:4 in train"
    standing.looks(101, steps=6)
    assert "hangs" not in standing.looks(130, steps=6), "it has gone on"


def test_long_steps_have_more_time(standing):
    standing.step_seconds = 30.0
    assert "still" not in standing.looks(599)
    assert "hangs" not in standing.looks(890)
    assert "hangs" in standing.looks(901)


def moves(standing):
    standing.moved += 1
    return {}


def records(standing):
    return {"head": (round(standing.now), 0)}


def computes(standing):
    standing.used = standing.now * 0.6
    return {}


def sleeps(standing):
    standing.now += 6 if round(standing.now) % 40 == 0 else 0
    return {}


@pytest.mark.parametrize("lives", [moves, records, computes, sleeps])
def test_a_run_that_lives_does_not_hang(standing, lives):
    while standing.now < 600:
        found = standing.looks(standing.now + 1, **lives(standing))
    assert (standing.said, found["seconds"] >= 600) == ([], True)


def test_what_takes_minutes_does_not_hang_except_in_a_collective(standing):
    standing.long = "compiling"
    standing.looks(300)
    standing.long = ""
    standing.looks(600, kind=k.SAVE)
    assert standing.said == []
    standing.place["collective"] = {"name": "all_gather", "number": 3, "group": "0"}
    standing.looks(700, kind=k.SAVE)
    assert standing.said == ["no step for 601 s: in all_gather number 3 of group 0, "
                             "/a/main.py:4 in train"]  # fmt: skip


def test_before_the_first_step_only_ranks_and_scripts_with_torch_hang(standing, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert standing.looks(19, steps=0) == {}, "it may start"
    found = standing.looks(200, steps=0)
    assert (found["step"], found["still"] > 100, standing.said) == (0, True, [])
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    standing.looks(202, steps=0)
    assert len(standing.said) == 1


def test_the_stacks_are_written_when_the_thread_stands_still(standing, tmp_path, monkeypatch):
    standing.path, written = tmp_path, []
    monkeypatch.setattr(stacks, "all_stacks", lambda: str(standing.moved))
    while standing.now < 60:
        standing.moved += standing.now < 30
        standing.looks(standing.now + 1)
        if standing.now >= 10:
            written.append((tmp_path / "stacks.txt").read_text())
    assert written == ["10"] * 30 + ["30"] * 21


# Stacks


def waits(lock: Any) -> None:
    lock.acquire()
    lock.release()


def waits_for(event: threading.Event) -> None:
    event.wait(20)


def stack_in(function: Any, *args: Any, until: Any) -> tuple[stacks.Stack, threading.Thread]:
    """The stack of a thread that has called the function, once it is where ``until`` says."""
    thread = threading.Thread(target=function, args=args, daemon=True)
    thread.start()
    while True:
        stack = stacks.stack_of(sys._current_frames().get(thread.ident or 0))
        if stack and until(stacks.place_of(stack)):
            return stack, thread


def test_a_place_is_the_users_innermost_line_and_what_it_has_called():
    lock, event = threading.Lock(), threading.Event()
    lock.acquire()
    _, first = stack_in(waits, lock, until=lambda place: place.get("call") == "lock.acquire")
    stack, second = stack_in(
        partial(waits_for, event), until=lambda place: place.get("call") == "wait"
    )
    place = stacks.place_of(stack)
    assert (place["file"], place["function"]) == (__file__, "waits_for")
    text = stacks.all_stacks()
    assert text.index("(MainThread)") < text.index(", in waits\n    lock.acquire()")
    event.set()
    lock.release()
    first.join()
    second.join()


def test_an_import_that_hangs_is_named(tmp_path, monkeypatch):
    (tmp_path / "hanging.py").write_text("import held\n")
    (tmp_path / "held.py").write_text("import threading\nthreading.held.acquire()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    held = threading.Lock()
    held.acquire()
    monkeypatch.setattr(threading, "held", held, raising=False)
    called = "threading.held.acquire"
    held_there = partial(stack_in, until=lambda place: place.get("call") == called)
    stack, thread = held_there(__import__, "hanging")
    place = stacks.place_of(stack)
    assert (place["file"], place["line"]) == (str(tmp_path / "held.py"), 2)
    assert stacks.importing(stack)
    at = [n for n, (frame, _) in enumerate(stack) if frame.f_code.co_name == "<module>"]
    place = stacks.place_of([e for n, e in enumerate(stack) if n != at[0]])
    assert place["call"] == "import held"
    held.release()
    thread.join()


def test_the_exception_that_a_finally_block_handles_is_found():
    try:
        try:
            raise ValueError("no shard")
        finally:
            found = hangs.placed(stacks.main_stack(), killed.OTHER_CODE)
    except ValueError as error:
        line = error.__traceback__.tb_lineno
    assert (found["handling"], found["raised"]) == ("ValueError: no shard", f"{__file__}:{line}")
    assert "handling" not in hangs.placed(stacks.main_stack(), killed.OTHER_CODE)


def traced(frame: Any, event: str, argument: object) -> Any:
    return traced


def under_a_debugger(lock: Any) -> None:
    sys.settrace(traced)
    waits(lock)


def test_a_debugger_a_compiler_and_a_checkpoint_are_told_by_their_frames():
    lock = threading.Lock()
    lock.acquire()
    at_lock = partial(stack_in, until=lambda place: place.get("call") == "lock.acquire")
    stack, first = at_lock(under_a_debugger, lock)
    assert stacks.long_work(stack) == "a debugger"
    names = {
        "torch._dynamo.convert_frame": "compiling", "torch._inductor.async_compile": "compiling",
        "torch.distributed.checkpoint.state_dict_saver": "a checkpoint", "pdb": "a debugger",
        "torch._dynamo.eval_frame": "", "pdbs": "",
    }  # fmt: skip
    threads = [first]
    for name, what in names.items():
        code = types.FunctionType(waits.__code__, {"__name__": name})
        stack, thread = at_lock(code, lock)
        assert stacks.long_work(stack) == what, name
        threads.append(thread)
    lock.release()
    for thread in threads:
        thread.join()


PLACES = {
    "in all_reduce number 812 of group 0, /a/main.py:40 in train": {
        "collective": {"name": "all_reduce", "number": 812, "group": "0"}, "call": "wait",
        "file": "/a/main.py", "line": 40, "function": "train",
    },
    "in backward, where DDP waits for the other ranks, /a/main.py:40 in train": {
        "collective": {"name": "DDP"}, "call": "backward",
        "file": "/a/main.py", "line": 40, "function": "train",
    },
    "in loader, worker 1 of 4 has the next batch (pid 77, sleeping), /a/main.py:40 in train": {
        "call": "loader", "worker": {"number": 1, "count": 4, "pid": 77, "state": "sleeping"},
        "file": "/a/main.py", "line": 40, "function": "train",
    },
    "in loader, worker 0 of 2 has the next batch (pid 7, in read, /a/data.py:3 in get), "
    "/a/main.py:40 in train": {
        "call": "loader", "worker": {
            "number": 0, "count": 2, "pid": 7,
            "file": "/a/data.py", "line": 3, "function": "get", "call": "read",
        },
        "file": "/a/main.py", "line": 40, "function": "train",
    },
    "in destroy_process_group, /a/main.py:40 in train, while handling ValueError: no (/a/b.py:2)": {
        "call": "destroy_process_group", "file": "/a/main.py", "line": 40, "function": "train",
        "handling": "ValueError: no", "raised": "/a/b.py:2",
    },
    "": {"seconds": 3.0},
}  # fmt: skip


@pytest.mark.parametrize("text", PLACES)
def test_a_place_is_told_in_one_line(text):
    assert place_text(PLACES[text]) == text


def test_a_killed_run_keeps_its_place_unless_it_has_gone_on(tmp_path, monkeypatch):
    idle = {"seconds": 62.0, "step": 7, "doing": "loading", "still": 61.0, "hangs": True,
            "file": "/a/data.py", "line": 3, "function": "get"}  # fmt: skip
    facts = {"pid": 1, "provenance": {"hostname": killed.os.uname().nodename}, "idle": idle}
    (tmp_path / "run.json").write_text(json.dumps(facts))
    for steps, verdict in ((7, "hang"), (9, None)):
        found = header(k.LOADING, 0, steps, 9.6, 90.0)
        monkeypatch.setattr(killed, "read_header", lambda directory: found)  # noqa: B023
        run = killed.as_it_is(tmp_path, facts)
        assert run["idle"].get("file") == ("/a/data.py" if verdict else None)
        assert run.get("diagnosis", {}).get("verdict") == verdict
        assert run["idle"]["seconds"] == pytest.approx(80.4)


# From outside

DUMP = [
    {"thread_id": 2, "thread_name": None, "os_thread_id": 2, "frames": []},
    {"thread_id": 1, "thread_name": "MainThread", "os_thread_id": ME, "frames": [
        {"name": "Reader.fetch", "filename": "/lib/site-packages/db/__init__.py", "line": 9},
        {"name": "load", "filename": "/a/data.py", "line": 34},
        {"name": "run", "filename": main.__code__.co_filename, "line": 1},
        {"name": "<module>", "filename": "/bin/voir", "line": 8},
    ]},
]  # fmt: skip
SEEN = "in fetch, /a/data.py:34 in load, C code holds the interpreter's lock for 75 s"


def test_a_process_whose_thread_is_silent_is_looked_at_from_outside(tmp_path, monkeypatch):
    now, program = OPENED + 100 * SECOND, tmp_path / "bin/py-spy"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\ncat {tmp_path}/dump\n')
    program.chmod(0o755)
    (tmp_path / "dump").write_text(json.dumps(DUMP))
    facts = {"pid": ME, "provenance": {"hostname": killed.os.uname().nodename}}
    (tmp_path / "run.json").write_text(json.dumps(facts))
    found = header(k.LOADING, 20.0, 7, 20.0, 25.0, ME)
    for module in (killed, pyspy):
        monkeypatch.setattr(module, "now_ns", lambda: now)
        monkeypatch.setattr(module, "read_header", lambda directory: found)
    run = killed.as_it_is(tmp_path, facts)
    assert run["now"].endswith("C code holds the interpreter's lock for 75 s")
    assert (run["idle"]["hangs"], "file" in run["idle"]) == (True, False)
    monkeypatch.setenv("PATH", f"{program.parent}:{killed.os.environ['PATH']}")
    for _ in range(2):
        look_inside([tmp_path])
        run = killed.as_it_is(tmp_path, facts)
        assert (run["idle"]["by"], place_text(run["idle"])) == ("py-spy", SEEN)
    assert (tmp_path / "asked").read_text().split() == [
        "dump", "--nonblocking", "--json", "--pid", str(ME),
    ], "once"  # fmt: skip
    assert run["diagnosis"]["why"] == f"no step for 80 s: {SEEN}"
    assert "line 34, in load\n" in (tmp_path / "stacks.txt").read_text()
    monkeypatch.setattr(killed, "lives", lambda found: False)
    run = killed.as_it_is(tmp_path, facts)
    assert (place_text(run["idle"]), run["idle"]["seconds"]) == (SEEN, 80.0), "after a kill too"
    found = header(k.LOADING, 20.0, 7, 20.0, 99.0, ME)
    monkeypatch.setattr(killed, "lives", lambda found: True)
    killed.os.utime(tmp_path / "place.json", ns=(STARTED, STARTED + 50 * SECOND))
    assert not {"silent", "file"} & killed.as_it_is(tmp_path, facts)["idle"].keys(), "it goes on"


def test_the_lowest_rank_that_still_runs_says_that_it_hangs(standing, tmp_path, monkeypatch):
    told: list[str] = []
    standing.watch = HangWatch(standing.tasks, lambda problem: None, True, told.append)
    standing.path = tmp_path / "rank2"
    for rank in range(3):
        (tmp_path / f"rank{rank}").mkdir()
    mute = [tmp_path / "rank0"]
    monkeypatch.setattr(killed, "is_mute", lambda directory: directory in mute)
    standing.looks(70)
    assert told == [], "rank 1 says it"
    mute.append(tmp_path / "rank1")
    standing.looks(71, steps=6)
    standing.looks(150, steps=6)
    (line,) = told
    assert line.startswith("rank 2: no step for ") and line.endswith("stacks.txt [hang]")
    standing.watch = HangWatch(standing.tasks, lambda problem: None, True, told.append, True)
    standing.path = tmp_path / "rank0"
    standing.looks(300)
    assert told[1].startswith("rank 0: "), "of processes that a run has started"


def test_a_rank_that_has_ended_or_is_silent_says_nothing(tmp_path, monkeypatch):
    found = header(0, 0.0, 7, 20.0, 25.0, ME)
    monkeypatch.setattr(killed, "read_header", lambda directory: found)
    for seconds, mute in ((30, False), (36, True)):
        monkeypatch.setattr(killed, "now_ns", lambda: OPENED + seconds * SECOND)  # noqa: B023
        assert killed.is_mute(tmp_path) is mute
    monkeypatch.setattr(killed, "now_ns", lambda: OPENED)
    (tmp_path / "run.json").write_text('{"ended": "2026"}')
    assert killed.is_mute(tmp_path)


HOLDS = """
    import ctypes, time
    from voir import give

    def native():
        ctypes.PyDLL(None).usleep(60_000_000)

    for step in range(3):
        give(step=step, batch_size=1)
        time.sleep(0.2)
    native()
    """


def test_c_code_that_holds_the_lock_is_seen_by_the_silence(tmp_path, monkeypatch):
    place = Place(tmp_path)
    place.write("main.py", HOLDS)
    place.write("voirfile.py", "from overseer.rundir import recording\nrecording.INTERVAL = 0.1\n")
    command = [*VOIR, "--quiet", "--no-monitor", "--run-dir", "run", "main.py"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment(None), stderr=-1)
    monkeypatch.setattr(killed, "IDLE_SECONDS", 0.5)
    monkeypatch.setattr(killed, "HANG_SECONDS", 0.7)
    try:
        run: dict[str, Any] = {}
        until = time.monotonic() + 60
        while "hangs" not in run.get("idle", {}) and time.monotonic() < until:
            time.sleep(0.05)
            if (tmp_path / "run/run.json").exists():
                facts = json.loads((tmp_path / "run/run.json").read_text())
                run = killed.as_it_is(tmp_path / "run", facts)
        assert (run["diagnosis"]["verdict"], run["idle"]["step"]) == ("hang", 3)
    finally:
        process.kill()
        process.communicate()
