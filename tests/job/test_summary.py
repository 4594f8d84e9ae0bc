"""A job has one summary, which its last process out on the first machine shows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from datetime import UTC, datetime

import pytest

from overseer.cli.notices import screen
from overseer.job.checks import checks_of
from overseer.job.figures import job_facts
from overseer.job.summary import facts_of_job, problems_of_others, summary_facts
from overseer.model.facts import others_share
from overseer.recorder.log import read_header
from overseer.recorder.sites import WORD_STEPS
from overseer.rundir.job import place
from overseer.rundir.reading import read_run
from tests.running import VOIR, Place, environment

DEAD = 2**22 + 1
PROBLEM = {"slug": "app-file", "who": "--app", "what": "it is empty", "where": None, "remedy": None}


def put(job, rank, ended=True, at=None, pid=DEAD, name="rank", **facts):
    """Write the record of a rank; ``at``: its machine."""
    directory = job / f"{name}{rank}"
    directory.mkdir(parents=True, exist_ok=True)
    host = os.uname().nodename if at is None else at
    number = rank if name == "rank" else None
    known = {
        "schema": 2, "script": "main.py", "rank": number, "world_size": 4, "pid": pid,
        "started": f"{datetime.now(UTC):%FT%T.%fZ}", "place": place() if at is None else at,
        "provenance": {"hostname": host}, **({"ended": "now", "exit_status": 0} if ended else {}),
    }  # fmt: skip
    (directory / "run.json").write_text(json.dumps(known | facts))
    return {**known, **facts, "directory": str(directory)}


@pytest.mark.parametrize("attempt", ["", "attempt2"])
def test_the_last_rank_to_end_shows_the_job_once(tmp_path, attempt):
    job = tmp_path / "job"
    put(job / attempt, 1, ended=False, pid=os.getpid())
    assert summary_facts(put(job / attempt, 0)) is None, "rank 1 goes on"
    facts = summary_facts(put(job / attempt, 1))
    assert facts is not None
    assert (facts["directory"], facts["job"]["ranks"]) == (str(job), 2)
    assert [summary_facts(put(job / attempt, rank)) for rank in (0, 1)] == [None, None]


def test_a_rank_that_starts_after_the_summary_shows_it_again(tmp_path):
    assert "late" not in summary_facts(put(tmp_path, 0))["job"]
    last = put(tmp_path, 3)
    facts = summary_facts(last)
    assert (facts["job"]["ranks"], facts["job"]["late"]) == (2, 3)
    assert "voir: main.py · 2 of 4 ranks · again, with rank 3 · finished" in screen(facts, 80)
    assert summary_facts(last) is None


def test_a_rank_shows_itself_if_no_rank_could_write_its_record(tmp_path):
    own = put(tmp_path, 0)
    (tmp_path / "rank0/run.json").unlink()
    (tmp_path / "rank0/metrics.jsonl").touch()
    assert summary_facts(own) is own
    assert screen(own, 80).startswith("voir: main.py · rank 0 of 4 · finished")


def test_a_killed_rank_is_not_waited_for_and_said_to_have_failed(tmp_path):
    put(tmp_path, 1, ended=False)  # Its process is dead.
    facts = summary_facts(put(tmp_path, 0, exit_status=-15))
    assert facts is not None
    assert facts["job"]["failed"][0]["rank"] == 1


def test_a_rank_that_has_just_begun_is_waited_for(tmp_path):
    (tmp_path / "rank1").mkdir()
    assert summary_facts(put(tmp_path, 0)) is None


def test_only_the_machine_of_the_first_rank_shows_it(tmp_path):
    put(tmp_path, 2, ended=False, at="elsewhere")
    assert summary_facts(put(tmp_path, 1)) is not None, "that machine may go on"
    put(tmp_path, 0, at="elsewhere")
    assert summary_facts(put(tmp_path, 3)) is None


def test_a_process_that_started_others_shows_them(tmp_path):
    put(tmp_path / "run", 1)
    put(tmp_path, "", tasks={"train": {"steps": 1}})
    (tmp_path / "rank/run.json").rename(tmp_path / "run/run.json")
    facts = summary_facts({"rank": 0, "directory": str(tmp_path / "run")})
    assert facts["job"]["ranks"] == 2


def test_problems_are_told_with_the_ranks_that_have_them(tmp_path):
    mine = {**PROBLEM, "what": "it is a list"}
    for rank in range(4):
        put(tmp_path, rank, problems=[PROBLEM, *([mine] if rank in (1, 2) else [])])
    (told,) = problems_of_others(facts_of_job(tmp_path))
    assert str(told) == "ranks 1-2: --app: it is a list"
    (tmp_path / "rank0").rename(tmp_path / "gone")
    told = problems_of_others(facts_of_job(tmp_path))
    assert [one.who for one in told] == ["--app", "ranks 1-2: --app"]
    for rank in (1, 2):
        (tmp_path / f"rank{rank}").rename(tmp_path / f"gone{rank}")
    assert [one.who for one in problems_of_others(facts_of_job(tmp_path))] == ["--app"]


def checks(**verdicts):
    return [{"check": name, "verdict": v, "evidence": "it"} for name, v in verdicts.items()]


def test_the_worst_rank_makes_each_check_of_a_job_and_all_are_labelled(tmp_path):
    for rank in range(3):
        put(tmp_path, rank, verify=checks(steps="PASS", loss="FAIL" if rank == 1 else "PASS"))
    put(tmp_path, 3, exit_status=-9)
    facts = facts_of_job(tmp_path)
    made = [(one["check"], one["verdict"], one["rank"]) for one in facts["verify"]]
    assert made == [("steps", "PASS", 0), ("loss", "FAIL", 1), ("all", "SKIP", 3)]
    shown = screen(facts, 80)
    assert "checks of rank 0" in shown
    lines = [line.split(None, 2)[1:] for line in shown.splitlines()[-4:-1]]
    assert lines == [
        ["steps", "it"],
        ["loss", "rank 1: it"],
        ["all", "rank 3: it ended without checks: killed by SIGKILL"],
    ]


def test_a_process_that_only_started_the_others_adds_what_it_alone_has_checked(tmp_path):
    for number, loss in ((1, "PASS"), (2, "WARN")):
        made = checks(probes="SKIP", steps="PASS", loss=loss)
        put(tmp_path, number, name="process", world_size=None, verify=made)
    own = {"script": "main.py", "verify": checks(probes="PASS", steps="SKIP")}
    found = read_run(tmp_path, own)
    made = [(one["check"], one["verdict"], one.get("rank")) for one in checks_of(found)]
    assert made == [("probes", "PASS", None), ("steps", "PASS", 1), ("loss", "WARN", 2)]
    shown = screen({**job_facts(found), "directory": ""}, 80)
    assert "process 2: it" in shown and "main process: it" in shown
    (tmp_path / "process2/run.json").unlink()
    (tmp_path / "process2").rmdir()
    assert len(job_facts(read_run(tmp_path, own))["verify"]) == 3


def test_ranks_of_one_job_are_no_other_programs(tmp_path):
    own = {"process": {"mean": 40.0, "max": 60.0}}
    for rank in range(2):
        cpu = {"mean": 85.0, "max": 99.0, "cores": 2} if rank == 0 else {}
        memory = {"total": 100, "process": {"peak": 30}}
        host = {"cpu": cpu | own, "memory": memory}
        facts = put(tmp_path, rank, host=host, devices=[{"uuid": "GPU-1"}])
        assert others_share(facts) is None
    put(tmp_path, 2, at="elsewhere", host={"cpu": own})
    facts = facts_of_job(tmp_path)
    assert others_share(facts) == pytest.approx(0.05)
    assert facts["host"]["cpu"]["process"] == {"mean": 80.0, "max": 99.0}
    assert facts["host"]["memory"]["process"] == {"peak": 60}
    assert len(facts["devices"]) == 1


def test_a_probe_has_fired_if_it_has_on_one_rank(tmp_path):
    states = [("never fired", 0), ("fired", 3), ("fired", 4), ("unresolved", 0)]
    for rank, (state, fired) in enumerate(states):
        probe = {"selector": "//f > x", "where": "v.py:1", "state": state, "fired": fired}
        put(tmp_path, rank, probes=[probe, {**probe, "selector": "//f > y", "state": "unresolved"}])
    probes = facts_of_job(tmp_path)["probes"]
    assert [(one["state"], one["fired"]) for one in probes] == [("fired", 7), ("unresolved", 7)]


LOOP = """
    import os, sys, time, voir
    for step in range(5):
        voir.give(step=step, loss=1, batch_size=1)
    open(os.environ["RANK"], "w").close()
    while os.path.exists("wait" + os.environ["RANK"]):
        time.sleep(0.01)
    """


class Ranks:
    """Starts ranks of a script that ends once the file ``wait<R>`` is gone."""

    def __init__(self, path):
        self.path, self.started = path, []
        Place(path).write("main.py", LOOP)

    def start(self, rank, *options, **env):
        (self.path / f"wait{rank}").touch()
        known = {"WORLD_SIZE": "2", "MASTER_PORT": "29", "RANK": str(rank), **env}
        command = [*VOIR, "--no-monitor", "--run-dir", "job", *options, "main.py"]
        pipe = {"stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, cwd=self.path, env=environment(known), **pipe)
        self.started.append(process)
        return process

    def begun(self, rank):
        for name in (str(rank), f"job/rank{rank}/run.json"):
            while not (self.path / name).exists():
                time.sleep(0.01)

    def end(self, process, rank):
        (self.path / f"wait{rank}").unlink()
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 0
        return said


@pytest.fixture
def ranks(tmp_path):
    made = Ranks(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.communicate()


def test_of_two_processes_the_last_one_prints_the_job_and_problems_of_rank_1(ranks):
    processes = ranks.start(0), ranks.start(1, VOIR_TAGG="b")  # A misspelt variable.
    for rank in (0, 1):
        ranks.begun(rank)
    assert ranks.end(processes[0], 0) == ""
    while read_header(str(ranks.path / "job/rank1")).control[WORD_STEPS] < 5:
        time.sleep(0.01)  # Its steps are counted ten times a second.
    processes[1].send_signal(signal.SIGTERM)
    said = processes[1].communicate(timeout=60)[1]
    assert processes[1].returncode == -signal.SIGTERM
    assert [said.count(text) for text in ("voir: main.py", "5 steps", "voir: rank 1: ")] == [1] * 3
    idle = json.loads((ranks.path / "job/rank1/run.json").read_text())["idle"]
    assert (idle["step"], idle["doing"]) == (5, "other code")


def test_a_rank_prints_its_own_summary_if_asked_to(ranks):
    processes = [ranks.start(rank, "--summary-rank", "0") for rank in (0, 1)]
    for rank in (0, 1):
        ranks.begun(rank)
    said = [ranks.end(process, rank) for rank, process in enumerate(processes)]
    assert (said[0].startswith("voir: main.py · rank 0 of 2 · finished"), said[1]) == (True, "")


def test_an_error_of_usage_is_printed_by_the_first_rank_and_no_record_by_rank_0(tmp_path):
    place = Place(tmp_path)
    place.write("main.py", "print(1)\n")
    for rank in ("0", "1"):
        env = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2"}
        wrong = place.voir("--skip", "ten", "main.py", env=env)
        assert (wrong.status, "[bad-span]" in wrong.stderr) == (2, rank == "0")
        done = place.voir("--no-record", "main.py", env=env)
        assert (done.seen, "voir: main.py" in done.stderr) == ((0, "1\n"), rank == "0")
