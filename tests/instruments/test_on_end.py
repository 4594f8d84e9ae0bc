"""``--on-end COMMAND``: real runs that end in every way, and what the command then sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running import Place, Ran

#: Appends how the run ended.
TELLS = 'echo "$VOIR_ENDED, $VOIR_EXIT_STATUS: $VOIR_MESSAGE" >> told'
DIVERGES = """
    from voir import give
    for step in range(4):
        give(step=step, batch_size=1, loss=2.0 if step < 2 else float("nan"))
    """
#: The process group is that of the test otherwise.
KILLED = """
    import os, signal
    os.setpgid(0, 0)
    os.killpg(0, signal.SIGKILL)
    """


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("tells.sh", TELLS)
    return place


def run(place: Place, script: str, *options: str, **more: dict[str, str]) -> Ran:
    """Run a script; the command has ended too, as it holds stderr."""
    place.write("main.py", script)
    command = ("--quiet", "--no-monitor", "--on-end", "sh tells.sh", *options, "main.py")
    return place.voir(*command, **more)


def told(place: Place) -> list[str]:
    """What the command has written, a line for each time it ran."""
    file = place.path / "told"
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        ("print('done')", ["ended, 0: finished"]),
        ("raise ValueError('no shard\\n3')", ["failed, 1: ValueError: no shard 3, main.py:1"]),
        ("raise SystemExit(7)", ["failed, 7: exit status 7"]),
        ("import os\nos.kill(os.getpid(), 15)", ["killed, -15: killed by SIGTERM"]),
        (KILLED, ["killed, : killed"]),
        (DIVERGES, ["diverged, : the loss is NaN, at first 2", "ended, 0: finished"]),
    ],
    ids=["ended", "error", "status", "signal", "killed", "diverged"],
)
def test_the_command_runs_once_with_how_the_run_ended(
    place: Place, script: str, lines: list[str]
) -> None:
    run(place, script)
    assert told(place) == lines
    assert "ended" in place.record()  # That of a killed run, too.


def test_it_is_no_child_of_the_script_and_not_for_the_children_of_that(place: Place) -> None:
    place.write("other.py", "from voir import give\ngive(loss=float('nan'))\n")
    done = run(
        place,
        """
        import os, subprocess, sys
        try:
            os.wait()
        except ChildProcessError:
            print("no child", flush=True)
        subprocess.run([sys.executable, "other.py"])
        if os.fork():
            os.wait()
        """,
        "--follow-children",
    )
    assert done.seen == (0, "no child\n")
    diverged, ended = told(place)
    assert diverged == "diverged, : process 1: the loss is NaN, at first NaN"
    assert ended.startswith("ended, 0: ")


def test_of_a_job_the_first_rank_tells_the_end_of_all(place: Place) -> None:
    ranks = [{"RANK": str(n), "WORLD_SIZE": "2", "MASTER_PORT": "29876"} for n in (1, 0)]
    for env in ranks:
        run(place, "import os\nassert os.environ['RANK'] == '0', 'late'", env=env)
    (job,) = place.runs
    assert told(place) == ["failed, 1: rank 1: AssertionError: late, main.py:2"]
    assert sorted(each.name for each in job.glob("rank*")) == ["rank0", "rank1"]


def test_a_command_that_does_not_exist_is_one_line_on_stderr(place: Place) -> None:
    done = run(place, "print('done')", "--on-end", "no-such-command --now")
    assert done.seen == (0, "done\n")
    (line,) = done.stderr.splitlines()
    assert "no-such-command: not found" in line


def test_the_command_sees_the_environment_but_not_itself(place: Place) -> None:
    place.write("tells.sh", 'echo "$HOME, $VOIR_ON_END, $(cat)" >> told; echo shown')
    done = run(place, "", env={"HOME": "/home/me"})
    assert told(place) == ["/home/me, , "]
    assert (done.stdout, done.stderr) == ("", "shown\n")


def test_a_run_that_the_command_starts_takes_none_from_a_file(place: Place) -> None:
    place.write("pyproject.toml", "[tool.voir]\non_end = 'echo again >> told'\n")
    for ended, lines in ({"VOIR_ENDED": "failed"}, []), ({}, ["again"]):
        place.voir("--quiet", "--no-monitor", place.write("main.py", "").name, env=ended)
        assert told(place) == lines


def test_it_needs_the_record(place: Place) -> None:
    done = run(place, "print('done')", "--no-record")
    assert done.seen == (2, "")
    assert "Leave out one of them." in done.stderr
    assert told(place) == []
