"""``voir bench`` as a command: real processes of a small script, and what it prints and returns."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from tests.running import VOIR, Place, Ran

#: Logs a score, and a step time that an option lengthens; no PyTorch, so that it is quick.
SCRIPT = """
import argparse, sys, time
from voir import give, log
p = argparse.ArgumentParser()
p.add_argument("--score", type=float, default=2.0)
p.add_argument("--fail", default="")
p.add_argument("--say", default="said")
a = p.parse_args()
print(a.say)
if a.fail and a.fail in sys.argv:
    sys.exit("this fails")
give(task="train", score=a.score)
"""


def bench(place: Place, *arguments: str) -> Ran:
    """Run ``voir bench`` as a process."""
    return place.run(*VOIR, "bench", *arguments, env={"VOIR_RUN_DIR": ""})


def recorded(place: Place) -> dict[str, object]:
    """The content of the latest bench.json."""
    *_, path = sorted(place.path.glob("voir-runs/*-bench-*/bench.json"))
    facts: dict[str, object] = json.loads(path.read_text())
    return facts


@pytest.fixture
def here(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("main.py", SCRIPT)
    return place


def test_a_value_that_rises_is_an_improvement_and_its_verdict_is_written(here: Place) -> None:
    sides = ["main.py", "--score", "2", "--", "main.py", "--score", "3"]
    ran = bench(here, "--runs", "2", "--metric", "score", "--verdict", "verdict.json", *sides)
    assert ran.status == 0, ran.stderr
    assert "verdict   improvement · B against A: +50 % (+50 to +50)" in ran.stdout
    verdict = json.loads((here.path / "verdict.json").read_text())
    assert (verdict["verdict"], verdict["ratio"], verdict["status"]) == ("improvement", 1.5, 0)
    assert verdict["control"]["pairs"] == 1
    facts = recorded(here)
    assert facts["verdict"] == verdict
    runs = [each["run"] for each in facts["processes"]]  # type: ignore[attr-defined]
    assert runs[:6] == ["A/000", "A2/001", "A/001", "B/001", "B/002", "A/002"]
    (directory,) = here.path.glob("voir-runs/*-bench-*")
    assert (directory / "B/002.out").read_text() == "said\n"
    assert (directory / "B/002/run.json").exists()


def test_a_value_that_falls_is_a_regression(here: Place) -> None:
    ran = bench(here, "--runs", "2", "--metric", "score", "--vary", "score=3,2", "main.py")
    assert (ran.status, "regression · B against A: -33 %" in ran.stdout) == (1, True), ran.stdout


def test_a_script_that_fails_measured_nothing_and_shows_its_output(here: Place) -> None:
    ran = bench(here, "main.py", "--fail", "main.py", "--say", "why")
    assert ran.status == 6
    assert "this fails" in ran.stdout
    assert "verdict   nothing measured · A/000 ended with exit status 1" in ran.stdout


def test_a_metric_that_no_process_has_measured_nothing(here: Place) -> None:
    ran = bench(here, "--runs", "1", "--metric", "speed", "main.py")
    assert ran.status == 6
    assert "the first process has no finite speed" in ran.stdout
    assert "score.last" in ran.stdout


def test_a_stored_result_is_compared_and_doubted(here: Place) -> None:
    first = ["--runs", "2", "--metric", "score", "main.py", "--score"]
    assert bench(here, "--save-baseline", "main", *first, "2").status == 0
    ran = bench(here, "--baseline", "main", *first, "1.5")
    assert (ran.status, "regression · A against the baseline: -25 %" in ran.stdout) == (1, True)
    assert "--ref COMMIT runs both in turns" in " ".join(ran.stdout.split())
    one = bench(here, "--baseline", "main", "--runs", "1", "--metric", "score", "main.py")
    assert (one.status, "inconclusive" in one.stdout) == (5, True)
    ran = bench(here, "--baseline", "main", "--metric", "wall", "main.py")
    assert (ran.status, "the baseline has score in 1" in ran.stdout) == (6, True), ran.stdout
    assert len(recorded(here)["processes"]) == 2  # type: ignore[arg-type]
    ran = bench(here, "--baseline", "none", *first, "1.5")
    assert (ran.status, "voir-baselines/ has main." in ran.stderr) == (2, True)


def git(place: Place, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    ran = place.run("git", *identity, *arguments)
    assert ran.status == 0, ran.stderr
    return ran.stdout


def test_commits_are_compared_in_worktrees_and_the_users_tree_stays(here: Place) -> None:
    here.write(".gitignore", "voir-runs/\ndata\n")
    here.write("data", "needed")
    here.write("sub/train.py", "open('../data')\n" + SCRIPT)
    git(here, "init", "-q", "-b", "main", ".")
    git(here, "add", "-A")
    git(here, "commit", "-qm", "one")
    changed = SCRIPT.replace("default=2.0", "default=4.0")
    here.write("sub/train.py", "open('../data')\n" + changed)
    before = git(here, "status", "--porcelain"), git(here, "stash", "list")
    inside = Place(here.path / "sub")
    missing = bench(inside, "--ref", "main", "--ref", ".", "train.py")
    assert missing.status == 6
    assert "a worktree has committed files only" in " ".join(missing.stdout.split())
    ran = bench(inside, "--runs", "2", "--ref", "main", "--link", "../data", "--metric", "score",
        "train.py")  # fmt: skip
    assert (ran.status, "+100 %" in ran.stdout) == (0, True), ran.stdout + ran.stderr
    assert (git(here, "status", "--porcelain"), git(here, "stash", "list")) == before
    assert len(git(here, "worktree", "list").splitlines()) == 1
    shas = {side.get("sha") for side in recorded(inside)["sides"]}  # type: ignore[attr-defined]
    assert len(shas) == 2
    assert re.search(r"no such commit", bench(inside, "--ref", "nope", "train.py").stderr)


def test_two_benches_at_once_warn_of_each_other(here: Place) -> None:
    path = Path(tempfile.gettempdir()) / f"voir-bench-{os.getuid()}.lock"
    with path.open("w") as file:
        with suppress(OSError):  # Another test's bench may hold it.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        ran = bench(here, "--runs", "1", "--metric", "score", "main.py")
    assert "another bench runs on this machine" in ran.stdout


def test_an_interrupted_bench_shows_what_had_ended_and_ends_its_script(here: Place) -> None:
    here.write("slow.py", "import time\nfrom voir import give\ngive(score=1)\ntime.sleep(0.5)\n")
    line = [*VOIR, "bench", "--until", "0", "--metric", "score", "slow.py"]
    with subprocess.Popen(line, cwd=here.path, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, start_new_session=True) as process:  # fmt: skip
        assert process.stdout is not None
        for shown in process.stdout:
            if shown.split()[:2] == ["2", "A"]:
                os.killpg(process.pid, signal.SIGINT)
                break
        rest = process.stdout.read()
    assert process.returncode == 0
    assert "measured" in rest
    assert "interrupted: only what had ended counts" in rest
    assert len(recorded(here)["processes"]) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "no script"),
        (["--python", "/nowhere/python", "main.py"], "No such file or directory"),
        (["--vary", "lr=1", "main.py"], "names no two different values"),
        (["--ref", "main", "main.py"], "not a git repository"),
        (["--threshold", "many", "main.py"], "is not a percentage"),
        (["--save-baseline", "../x", "main.py"], "is no name of a baseline"),
        (["--verdict", "none/v.json", "main.py"], "there is no such directory"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(
    here: Place, arguments: list[str], expected: str
) -> None:
    ran = bench(here, *arguments)
    assert (ran.status, expected in ran.stderr) == (2, True), ran.stderr
    assert not [*Path(here.path).glob("voir-runs/*")]
