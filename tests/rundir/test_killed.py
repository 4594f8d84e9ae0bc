"""A run without an end: what it is doing, or how it was killed; its record is finished."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from overseer.clock import process_start
from overseer.recorder import sites as k
from overseer.recorder.log import Header, OpenSpan, header_paths
from overseer.recorder.sites import WORD_BEAT, WORD_STEPPED, WORD_STEPS
from overseer.rundir import finishing, killed
from overseer.rundir.finishing import finish_run
from overseer.rundir.killed import as_it_is, how, idle_of, now_doing
from overseer.rundir.reading import read_run
from overseer.rundir.runfile import utc
from tests.running import VOIR, Place

SECOND = 1_000_000_000
PID, ME = 4_194_305, os.getpid()  # Higher than any process; this one.
OPENED, STARTED = 5 * SECOND, 1_767_605_400 * SECOND


def header(kind=0, since=0.0, steps=0, stepped=0.0, beat=0.0, pid=PID):
    """A header; times are seconds after the recorder was opened, which was an hour ago."""
    at = [OPENED + round(seconds * SECOND) for seconds in (since, stepped, beat)]
    control = [0] * 8
    control[WORD_STEPS], control[WORD_STEPPED], control[WORD_BEAT] = steps, at[1], at[2]
    threads = (OpenSpan(77, 2, k.BACKWARD, at[0]), OpenSpan(pid, 1, kind, at[0]))
    return Header(pid, 0, OPENED, STARTED, (0, 0), (0, 0), 0, tuple(control), threads, "/nowhere")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (header(), "killed"),
        (header(k.LOADING), "killed in loading"),
        (header(k.LOADING, 9.8, 3201, 9.6, 10.0), "killed in loading, 0.4 s after step 3,201"),
        (header(0, 0, 3201, 9.6, 10.0), "killed 0.4 s after step 3,201"),
        (header(k.OPTIMIZER, 0, 7, 9.99, 10.0), "killed in the optimizer, soon after step 7"),
        (header(k.SAVE, 0, 7, 10.0, 1450.0), "killed in a checkpoint, 1,440 s after step 7"),
        (header(k.STEP, 0, 7, 11.0, 10.0), "killed soon after step 7"),
        (header(pid=ME), "running"),
        (header(k.LOADING, 3600 - 12, 5, pid=ME), "in loading for 12 s"),
        (header(0, 0, 5, 3600 - 90, pid=ME), "90 s after step 5"),
    ],
)
def test_how_a_run_ended_and_what_one_is_doing_are_told_by_its_header(monkeypatch, found, text):
    monkeypatch.setattr(killed, "now_ns", lambda: OPENED + 3600 * SECOND)
    assert (now_doing if found.pid == ME else how)(found) == text


@pytest.mark.parametrize(
    ("found", "idle"),
    [
        (header(), {}),
        (header(k.COMMUNICATION, 2.0), {"seconds": 8.0, "step": 0, "doing": "communication"}),
        (header(k.FORWARD, 9.0, 3, 4.0), {"seconds": 6.0, "step": 3, "doing": "forward"}),
        (header(0, 0, 3, 4.0), {"seconds": 6.0, "step": 3, "doing": "other code"}),
    ],
)
def test_how_long_a_run_has_made_no_step_is_told_by_its_header(found, idle):
    assert idle_of(found, OPENED + 10 * SECOND) == idle


def facts(**more):
    host = {"hostname": os.uname().nodename}
    return {"pid": PID, "started": utc(STARTED), "provenance": host, "extra": [1], **more}


@pytest.fixture
def headers(monkeypatch):
    """What is read as the header of any run."""
    found = [None]
    monkeypatch.setattr(killed, "read_header", lambda directory: found[0])
    return found


def test_the_record_of_a_killed_run_is_finished_once(tmp_path, headers, monkeypatch):
    headers[0] = header(k.LOADING, 0, 3201, 9.6, 10.0)
    beside, file = Path(header_paths(str(tmp_path))[1]), tmp_path / "run.json"
    beside.touch()
    before = facts(tasks={"train": {"steps": 3000}})
    file.write_text(json.dumps(before))
    by = "killed in loading, 0.4 s after step 3,201; figures up to step 3,000"
    idle = {"seconds": 0.4, "step": 3201, "doing": "loading"}
    after = {**before, "idle": idle, "ended": utc(STARTED + 10 * SECOND), "ended_by": by}
    run = read_run(tmp_path)
    assert (run.facts, run.unfinished, run.finished) == (after, True, False)
    for name in ("is_ours", "write_run"):
        with monkeypatch.context() as patched:
            patched.setattr(finishing, name, lambda *args: False)
            assert finish_run(run) == ""
    tmp_path.chmod(0o555)
    assert finish_run(run) == "", "not by root either"
    tmp_path.chmod(0o755)
    assert (json.loads(file.read_text()), beside.exists()) == (before, True)
    was = "killed in loading, 0.4 s after step 3,201; figures up to step 3,000"
    assert finish_run(run) == f"{tmp_path}: it was {was}; its record is finished now"
    assert (json.loads(file.read_text()), beside.exists()) == (after, False)
    headers[0] = None
    run = read_run(tmp_path)
    assert (run.facts, run.unfinished, finish_run(run)) == (after, False, "")


def test_the_records_of_a_job_are_finished_together(tmp_path, headers):
    headers[0] = header()
    for rank in range(3):
        (tmp_path / f"rank{rank}").mkdir()
        (tmp_path / f"rank{rank}/run.json").write_text(json.dumps(facts(rank=rank)))
    said = f"{tmp_path}: 3 ranks were killed, the first one killed; its record is finished now"
    assert finish_run(read_run(tmp_path)) == said
    assert not any(one.unfinished for one in read_run(tmp_path).ranks)


@pytest.mark.parametrize(
    ("found", "content", "end"),
    [
        (None, {}, "killed"),
        (None, {"pid": ME}, "killed"),  # Another's by now: it began later.
        (None, {"pid": ME, "started": utc(time.time_ns())}, None),
        (None, {"pid": "x"}, None),
        (header(pid=ME), {}, None),
        (header(), {"provenance": {"hostname": "elsewhere"}}, None),
        (header(), {"provenance": {}}, None),
        (header(), {"provenance": 3}, None),
        (header(), {"ended": "then"}, None),
    ],
)
def test_nobody_is_called_dead_who_may_live(found, content, end, tmp_path, headers):
    headers[0] = found
    (tmp_path / "run.json").touch()
    told = as_it_is(tmp_path, facts(**content))
    assert (told.get("ended_by"), "now" in told) == (end, found == header(pid=ME))
    assert as_it_is(tmp_path, {}) == {}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_process_that_nobody_has_waited_for_is_dead():
    process = subprocess.Popen(["sleep", "60"])
    assert process_start(process.pid) > 0
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process_start(process.pid) == -1
    process.wait()


# Real ones

slow = partial(pytest.param, marks=pytest.mark.slow)

LOOP = """
    import os, signal, sys, time
    import voir
    for step in range(100_000):
        voir.give(step=step, batch_size=2, loss=1 / (step + 1))
        time.sleep(0.001)
        if step == int(sys.argv[1]):
            {end}
    """
ENDS = {
    "os.kill(os.getpid(), signal.SIGKILL)": -9, "import faulthandler; faulthandler._sigsegv()": -11,
    "os._exit(7)": 7, "os.abort()": -6,
}  # fmt: skip


@pytest.mark.parametrize("n", [*range(4), *(slow(n) for n in range(4, 100))])
def test_a_process_that_dies_at_any_moment_leaves_a_run_that_reads(tmp_path, n):
    place, (end, status) = Place(tmp_path), [*ENDS.items()][n % len(ENDS)]
    at = 1300 + n * 7919 % 700
    place.write("main.py", LOOP.format(end=end))
    command = f"ulimit -c 0; exec {' '.join(VOIR)} --run-dir run main.py {at}"
    assert place.run("sh", "-c", command, env={"PYTHONFAULTHANDLER": "0"}).status == status
    run = read_run(tmp_path / "run")
    task, by = run.facts["tasks"]["train"], run.facts["ended_by"]
    assert task["items"] == 2 * task["steps"]
    told = int(re.match(r"killed .*?step ([\d,]+)", by)[1].replace(",", ""))
    assert 0 < task["steps"] <= told <= at + 1
    assert len([event for event in run.metrics if "loss" in event]) > 100
    assert (run.finished, run.metrics.torn) == (False, 0)
    assert "its record is finished now" in finish_run(run)
    assert not any(Path(path).exists() for path in header_paths(str(tmp_path / "run")))
