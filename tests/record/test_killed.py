"""A run without an end: what it is doing, or how it was killed; its record is finished."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from overseer.clock import process_start
from overseer.record import killed
from overseer.record.killed import as_it_is, how, now_doing
from overseer.record.reading import read_run
from overseer.record.runfile import utc
from overseer.recorder import sites as k
from overseer.recorder.log import Header, OpenSpan, header_paths
from overseer.recorder.sites import WORD_BEAT, WORD_STEPPED, WORD_STEPS
from tests.running import VOIR, Place, environment

SECOND = 1_000_000_000
PID = 4_194_305  # Higher than any process.
OPENED, STARTED = 5 * SECOND, 1_767_605_400 * SECOND


def header(
    kind: int = 0,
    since: float = 0.0,
    steps: int = 0,
    stepped: float = 0.0,
    beat: float = 0.0,
    pid: int = PID,
) -> Header:
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
        (header(k.OPTIMIZER, 0, 7, 9.99, 10.0), "killed in the optimizer, right after step 7"),
        (header(k.SAVE, 0, 7, 10.0, 1450.0), "killed in a checkpoint, 1,440 s after step 7"),
        (header(k.STEP, 0, 7, 11.0, 10.0), "killed right after step 7"),
    ],
)
def test_how_a_run_ended_is_told_by_its_header(found: Header, text: str) -> None:
    assert how(found) == text


@pytest.fixture
def an_hour_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killed, "now_ns", lambda: OPENED + 3600 * SECOND)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (header(), "running"),
        (header(k.LOADING, 3600 - 12, 5), "in loading for 12 s"),
        (header(0, 0, 5, 3600 - 90), "90 s after step 5"),
    ],
)
def test_what_a_run_is_doing_is_told_to_whoever_looks(
    found: Header, text: str, an_hour_later: None
) -> None:
    assert now_doing(found) == text


def facts(**more: Any) -> dict[str, Any]:
    host = {"hostname": os.uname().nodename}
    return {"pid": PID, "started": utc(STARTED), "provenance": host, "extra": [1], **more}


def put(directory: Path, content: dict[str, Any]) -> Path:
    (directory / "run.json").write_text(json.dumps(content))
    return directory


@pytest.fixture
def headers(monkeypatch: pytest.MonkeyPatch) -> list[Header | None]:
    """What is read as the header of any run."""
    found: list[Header | None] = [None]
    monkeypatch.setattr(killed, "read_header", lambda directory: found[0])
    return found


def test_the_record_of_a_killed_run_is_finished(tmp_path: Path, headers: list[Any]) -> None:
    headers[0] = header(k.LOADING, 0, 3201, 9.6, 10.0)
    beside = Path(header_paths(str(tmp_path))[1])
    beside.touch()
    tasks = {"train": {"steps": 3000}}
    run = read_run(put(tmp_path, facts(tasks=tasks)))
    end = {
        "ended": utc(STARTED + 10 * SECOND),
        "ended_by": "killed in loading, 0.4 s after step 3,201; figures up to step 3,000",
    }
    assert run.facts == json.loads((tmp_path / "run.json").read_text()) == facts(tasks=tasks, **end)
    assert (run.finished, beside.exists()) == (False, False)
    headers[0] = None
    assert read_run(tmp_path).facts == run.facts  # Once.


def test_where_the_record_cannot_be_written_the_facts_say_the_same(
    tmp_path: Path, headers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    headers[0] = header()
    monkeypatch.setattr(os, "access", lambda *args: False)
    put(tmp_path, facts())
    before = (tmp_path / "run.json").read_bytes()
    assert read_run(tmp_path).facts["ended_by"] == "killed"
    assert (tmp_path / "run.json").read_bytes() == before


@pytest.mark.parametrize(
    ("found", "content", "end"),
    [
        (None, {}, "killed"),
        (None, {"pid": os.getpid()}, "killed"),  # Another's by now: it began later.
        (None, {"pid": os.getpid(), "started": utc(time.time_ns())}, None),
        (None, {"pid": "x"}, None),
        (header(pid=os.getpid()), {}, None),
        (header(), {"provenance": {"hostname": "elsewhere"}}, None),
        (header(), {"provenance": {}}, None),
        (header(), {"provenance": 3}, None),
        (header(), {"ended": "then"}, None),
    ],
)
def test_nobody_is_called_dead_who_may_live(
    found: Header | None,
    content: dict[str, Any],
    end: str | None,
    tmp_path: Path,
    headers: list[Any],
) -> None:
    headers[0] = found
    put(tmp_path, facts(**content))
    assert as_it_is(tmp_path, facts(**content)).get("ended_by") == end
    assert as_it_is(tmp_path, {}) == {}


def test_a_run_that_goes_on_says_what_it_does(
    tmp_path: Path, headers: list[Any], an_hour_later: None
) -> None:
    headers[0] = header(k.LOADING, 3600 - 12, 5, pid=os.getpid())
    run = read_run(put(tmp_path, facts()))
    assert (run.facts["now"], run.finished) == ("in loading for 12 s", False)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_process_that_nobody_has_waited_for_is_dead() -> None:
    process = subprocess.Popen(["sleep", "60"])
    assert process_start(process.pid) > 0
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process_start(process.pid) == -1
    process.wait()


# Real ones

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
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
    "segfault": "import faulthandler; faulthandler._sigsegv()",
    "exit": "os._exit(7)",
    "abort": "os.abort()",
}
TIMES = int(os.environ.get("VOIR_KILLS", "5"))


@pytest.mark.parametrize("n", range(TIMES))
def test_a_process_that_dies_at_any_moment_leaves_a_run_that_reads(tmp_path: Path, n: int) -> None:
    place, (name, end) = Place(tmp_path), [*ENDS.items()][n % len(ENDS)]
    at = 1300 + n * 7919 % 700
    place.write("main.py", LOOP.format(end=end))
    env = environment({"PYTHONFAULTHANDLER": "0"})
    command = ["sh", "-c", f"ulimit -c 0; exec {' '.join(VOIR)} --run-dir run main.py {at}"]
    ran = subprocess.run(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE)
    assert ran.returncode == {"SIGKILL": -9, "segfault": -11, "exit": 7, "abort": -6}[name]
    run = read_run(tmp_path / "run")
    task = run.facts["tasks"]["train"]
    assert 0 < task["steps"] <= at + 1
    assert task["items"] == 2 * task["steps"]
    assert run.facts["ended_by"].startswith("killed ")
    steps = int(run.facts["ended_by"].partition("step ")[2].partition(";")[0].replace(",", ""))
    assert task["steps"] <= steps <= at + 1
    assert not run.finished
    assert len([event for event in run.metrics if "loss" in event]) > 100
    assert run.metrics.torn == 0
    assert not any(Path(path).exists() for path in header_paths(str(tmp_path / "run")))


def test_a_run_that_is_alive_is_left_alone(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", "import time, voir\nvoir.give(loss=1)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [*VOIR, "--run-dir", "run", "main.py"], cwd=tmp_path, env=environment()
    )
    try:
        until = time.monotonic() + 30
        while not (tmp_path / "run" / "run.json").exists() or not _beats(tmp_path / "run"):
            assert time.monotonic() < until
            time.sleep(0.05)
        run = read_run(tmp_path / "run")
        assert ("now" in run.facts, run.finished) == (True, False)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    assert read_run(tmp_path / "run").facts["exit_status"] == -signal.SIGTERM


def _beats(directory: Path) -> bool:
    found = killed.read_header(str(directory))
    return found is not None and found.control[WORD_BEAT] > 0
