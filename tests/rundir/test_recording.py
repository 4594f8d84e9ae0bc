"""What a run leaves behind, as whoever starts one finds it, and what is kept of given events."""

from __future__ import annotations

import json
import os
import re
import time
from datetime import datetime
from pathlib import Path

import pytest

from overseer.recorder.log import header_paths
from overseer.rundir.reading import read_run
from overseer.rundir.recording import COMBINATIONS, Sampler
from tests.clocks import FakeClock
from tests.running import SCHEMA, VOIR, Place

GIVES = """
from voir import give
for step in range(3): give(step=step, batch_size=1, loss=1 / (step + 1))
"""


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_a_run_that_goes_on_is_left_alone_and_has_its_figures_so_far(place):
    script = """
        import glob, json, time
        from overseer.rundir.reading import read_run
        from voir import give

        for step in range(200):
            give(step=step, batch_size=2, loss=1 / (step + 1))
        until = time.monotonic() + 30
        seen = {}
        while seen.get("tasks", {}).get("train", {}).get("steps") != 200:
            assert time.monotonic() < until
            time.sleep(0.05)
            for directory in glob.glob("voir-runs/*"):
                seen = read_run(directory).facts
        json.dump(seen, open("seen.json", "w"))
        """
    place.write("main.py", script)
    ran = place.voir("--quiet", "--no-monitor", "main.py")
    assert ran.seen == (0, ""), ran.stderr
    seen, end = json.loads((place.path / "seen.json").read_text()), place.record()
    assert re.fullmatch("running|.+ after step 200", seen.pop("now")), "what it is doing"
    assert seen.pop("idle")["step"] == 200
    assert seen["tasks"]["train"]["items"] == 400
    early = "argv script started pid version provenance seconds tasks problems"
    assert set(early.split()) <= seen.keys() <= end.keys()
    assert not {"ended", "exit_status", "probes", "diagnosis"} & seen.keys()
    assert end["tasks"]["train"]["steps"] == 200
    assert not {"ended_by", "now"} & end.keys()


def test_the_verdict_knows_how_many_threads_torch_has(place):
    place.write("torch.py", "def get_num_threads(): return 64\n")
    place.write("main.py", "import torch\nfrom voir import give\ngive(step=1, batch_size=1)\n")
    voirfile = """
        from overseer.model import diagnosis

        def diagnose(run):
            print(run["provenance"]["torch"]["threads"])

        diagnosis.diagnose = diagnose
        """
    place.write("voirfile.py", voirfile)
    assert place.voir("--quiet", "main.py").seen == (0, "64\n")


def test_a_variable_and_a_file_name_a_parent_and_the_option_the_directory(place):
    place.write("main.py", GIVES)
    place.write("empty.py", "")
    place.write("conf.toml", "run-dir = 'configured'\n")
    for script in ("main.py", "main.py", "empty.py"):
        assert place.voir("--quiet", script, env={"VOIR_RUN_DIR": "runs"}).status == 0
    found = [
        (run.name.split("-")[1], ["loss" in event for event in read_run(run).metrics].count(True))
        for run in (place.path / "runs").iterdir()
    ]
    assert sorted(found) == [("empty", 0), ("main", 3), ("main", 3)]
    assert place.voir("--quiet", "--config", "conf.toml", "main.py").status == 0
    assert len([*(place.path / "configured").glob("*/run.json")]) == 1
    assert place.voir("--quiet", "--run-dir", "mine", "empty.py").status == 0
    assert read_run(place.path / "mine").facts["exit_status"] == 0
    taken = place.voir("--run-dir", "mine", "main.py")
    assert (taken.status, "[run-dir-taken]" in taken.stderr) == (2, True)
    assert place.runs == []


def test_a_run_that_records_nothing_leaves_nothing(place):
    place.write("main.py", "print('ran')\n")
    for options in ("main.py", "--no-record --run-dir mine main.py", "--run-dir mine gone.py"):
        place.voir("--quiet", *options.split())
    assert [path.name for path in place.path.iterdir()] == ["main.py"]


def test_in_a_current_directory_that_was_deleted_nothing_is_recorded_and_that_is_said(place):
    script = place.write("main.py", GIVES + "print('ran')\n")
    (place.path / "gone").mkdir()
    root = SCHEMA.parents[1]
    command = f"cd gone && rmdir ../gone && exec env PYTHONPATH={root} {' '.join(VOIR)} {script}"
    ran = place.run("sh", "-c", command)
    assert ran.seen == (0, "ran\n"), ran.stderr
    assert "not recorded (the current directory has been deleted) [record-unwritable]" in ran.stderr
    assert not Path("/voir-runs").exists()


def test_lines_stand_in_order_whatever_descriptors_are_left_and_data_fd_has_them_at_once(place):
    script = """
        import os, resource, time
        from overseer import current_overseer
        from voir import give

        values, log = [1], current_overseer.get().log
        give(first=values)
        log({"second": values})
        values.append(2)
        give(third=values)
        os.closerange(3, 4096)
        log({"lost": 1})
        time.sleep(1.2)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        held = []
        try:
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            log({"lost": 2})
        time.sleep(1.2)
        os.closerange(3, 64)
        give(last=1)
        """
    place.write("main.py", script)
    reading, writing = os.pipe()
    ran = place.voir("main.py", env={"DATA_FD": str(writing)}, pass_fds=[writing])
    os.close(writing)
    with open(reading) as stream:
        assert {"second": [1]} in map(json.loads, stream)
    assert (ran.status, ran.stderr.count("[data-fd]")) == (0, 1)
    lines = [line for line in place.metrics() if "$event" not in line and "task" not in line]
    told = ("t", "n", "$logged")
    assert [(key, line[key]) for line in lines for key in line if key not in told] == [
        ("first", [1]), ("second", [1]), ("third", [1, 2]), ("lost", 1), ("lost", 2), ("last", 1),
    ]  # fmt: skip
    failed = [one["name"] for one in place.record()["instruments"] if one["state"] == "failed"]
    assert failed == [f"DATA_FD={writing}"]


def test_a_part_of_the_record_that_fails_is_all_that_is_missing(place):
    script = """
        from overseer.rundir.provenance import Provenance
        from overseer.rundir.recording import Recording

        def fails(self, *args):
            raise MemoryError

        def instrument_full(ov):
            yield ov.phases.load_script
            Recording._overhead = Provenance.at_end = fails
            ov.give(first=1)
        """
    place.write("voirfile.py", script)
    place.write("main.py", "print('ran')")
    ran = place.voir("main.py")
    assert ran.seen == (0, "ran\n")
    assert "run.json goes without its overhead: MemoryError [record-incomplete]" in ran.stderr
    assert "run.json goes without its late provenance: MemoryError" in ran.stderr
    run = place.record()
    assert ("overhead" in run, run["exit_status"]) == (False, 0)
    assert run["provenance"]["voirfiles"]


def test_a_script_that_becomes_another_program_is_recorded_until_then(place):
    script = """
        import os, subprocess
        from voir import give
        for step in range(3): give(step=step, batch_size=2, loss=1)
        subprocess.run(["true"])
        if os.fork() == 0:
            os.execv("/bin/true", ["true"])
        os.wait()
        try:
            os.execvp("nothing-of-this-name", ["x"])
        except FileNotFoundError:
            print("still here", flush=True)
        os.execlp("sh", "sh", "-c", "echo other; exit 5")
        """
    place.write("main.py", script)
    ran = place.voir("main.py")
    assert ran.seen == (5, "still here\nother\n")
    assert ran.stderr.count("replaced by another program") == 1
    run = place.record()
    assert (run["ended_by"], "exit_status" in run) == ("replaced by another program", False)
    assert run["tasks"]["train"]["steps"] == 3
    assert read_run(place.runs[0]).finished


@pytest.mark.parametrize(("rank", "where"), [({}, ""), ({"RANK": "1"}, "rank1/")])
def test_a_script_that_starts_itself_again_has_a_directory_for_each_life(place, rank, where):
    script = """
        import os, sys, voir
        life = int(os.environ.get("LIFE", "1"))
        voir.give(life=life)
        if life < 3:
            os.environ["LIFE"] = str(life + 1)
            os.execv(sys.executable, [sys.executable, "-m", "voir", "--run-dir", "run", "main.py"])
        """
    place.write("main.py", script)
    assert place.voir("--run-dir", "run", "main.py", fresh=True, env=rank).status == 0
    lives = [place.path / name / where / "metrics.jsonl" for name in ("run", "run-2", "run-3")]
    given = [json.loads(line) for file in lives for line in file.read_text().splitlines()]
    assert [event["life"] for event in given if "life" in event] == [1, 2, 3]
    ran = place.voir("--run-dir", "run", "main.py", env=rank)
    assert (ran.status, "[run-dir-taken]" in ran.stderr) == (2, True), "of another process"


@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("phase", ["run_script", "finalize"])
def test_a_signal_while_the_run_is_closed_costs_nothing(place, signal, phase):
    place.write("main.py", GIVES + "print('ran')\nraise SystemExit(4)\n")
    script = f"""
        import signal

        def instrument_signal(ov):
            try:
                yield ov.phases.{phase}(priority=1000)
            except SystemExit:
                pass
            signal.raise_signal(signal.{signal})
        """
    place.write("voirfile.py", script)
    ran, run = place.voir("main.py"), place.record()
    assert (ran.seen, run["exit_status"], run["problems"]) == ((4, "ran\n"), 4, [])
    assert (run["tasks"]["train"]["steps"], "  train " in ran.stderr) == (3, True)


def test_a_header_of_a_run_that_was_finished_is_removed_by_the_next(place):
    run, path = place.path / "run", Path(header_paths(str(place.path / "run"))[0])
    if not path.parent.exists():
        pytest.skip("no /dev/shm")
    place.write("next.py", GIVES)
    place.write("main.py", GIVES + "import os, time; time.sleep(1.5); os.kill(os.getpid(), 9)\n")
    assert place.voir("--run-dir", "run", "main.py", fresh=True).status == -9
    assert path.exists()
    facts = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**facts, "ended": "by hand"}))
    place.voir("--quiet", "next.py")
    assert not path.exists()
    path.write_bytes(b"of a run that was killed here, in a directory that was deleted then")
    for name in ("run.json", "metrics.jsonl", "steps.npy"):
        (run / name).unlink()
    place.voir("--quiet", "--run-dir", "run", "next.py")
    assert not path.exists()


def test_every_line_has_its_time_and_those_of_a_task_or_a_step_say_which(place):
    script = """
        import time
        from overseer import current_overseer
        from voir import give

        for step in range(30):
            give(step=step, batch_size=2)
            give(loss=1 / (step + 1))
            time.sleep(0.02)
        give(accuracy=0.5, task="eval")
        give(t="mine", other=1)
        current_overseer.get().log({"loss": 0.25, "t": 3})
        """
    place.write("main.py", script)
    before = time.time()
    assert place.voir("--quiet", "--train-rate", "--interval", "10", "main.py").status == 0
    lines, facts = place.metrics(), place.record()
    times = [line["t"] for line in lines]
    assert all(type(t) is float and before <= t <= time.time() for t in times)
    assert times[0] <= datetime.fromisoformat(facts["started"]).timestamp() <= min(times[2:])
    of = {
        key: {
            (line.get("task"), "step" in line, line.get("$logged")) for line in lines if key in line
        }
        for key in ("$event", "batch_size", "loss", "rate", "train_rate", "accuracy", "cpudata")
    }
    assert of == {
        "$event": {(None, False, None)},
        "batch_size": {("train", True, None)},
        "loss": {("train", False, None), ("train", False, True)},
        "rate": {("train", True, None)},
        "train_rate": {("train", True, True)},
        "accuracy": {("eval", False, None)},
        "cpudata": {("main", False, None)},
    }
    assert [line["step"] for line in lines if "rate" in line] == [
        11,
        21,
        30,
    ]  # The first has no beginning.
    assert [line["$t"] for line in lines if "$t" in line] == ["mine", 3]


# What is kept of given events


def test_the_first_hundred_are_kept_then_one_a_flush_though_threads_count_ahead():
    sampler = Sampler(FakeClock())
    seen = [*range(1, 98), 100, 100, 100, *range(101, 110)]
    lines = [line for n in seen if (line := sampler({"x": n}, n)) is not None]
    assert len(lines) == 101
    assert [line.get("n") for line in lines[-2:]] == [None, 101]
    sampler.flushed()
    assert (sampler({"x": 0}, 300) or {})["n"] == 300
    assert sampler({"x": 0}, 301) is None
    for number in range(COMBINATIONS):  # Of other keys, the first.
        assert sampler({str(number): 1}, 1) is not None
    assert [sampler({"one more": 1}, n) is None for n in (1, 2)] == [False, True]


class Model:
    def __repr__(self):
        raise AssertionError("the script's own code runs for a sample")


def test_values_are_taken_as_they_are_now_and_large_ones_named():
    clock = FakeClock()
    sampler = Sampler(clock)
    clock.advance(0.25)
    history, batch = [1], [[*range(1000)], Model()]
    big, figures = dict.fromkeys(range(40)), {"0": (1, 0.5)}
    event = {"history": history, "batch": batch, "big": big, "gpudata": figures}
    line = sampler(event, 1) or {}
    history.append(2)
    assert line == {
        "t": 0.25, "task": "train", "history": [1], "batch": ["<list of 1000>", "<Model>"],
        "big": "<dict of 40>", "gpudata": {"0": [1, 0.5]},
    }  # fmt: skip
