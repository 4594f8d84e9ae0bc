"""Processes that a script starts record beside it, in the directory of its run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.running import Place, faults

#: Starts itself for another rank, and two other programs.
STARTS = """
import os, subprocess, sys
import voir
voir.log(x=1)
def run(*command, **env):
    done = subprocess.run([sys.executable, *command], env={**os.environ, **env})
    print(done.returncode, *done.args[1:], flush=True)
if "RANK" not in os.environ:
    run(sys.argv[0], "again", RANK="1", WORLD_SIZE="2")
    run("other.py", "1")
    run("-m", "other", "2")
    run("-c", "print('as it is')")
print("main", *sys.argv[1:], *[name for name in os.environ if "VOIR" in name], flush=True)
"""
OTHER = """
import sys
import voir
voir.log(x=2)
print("other", sys.argv[1], flush=True)
sys.exit(3)
"""
SAID = """main again
0 main.py again
other 1
3 other.py 1
other 2
3 -m other 2
as it is
0 -c print('as it is')
main
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def members(run: Path) -> dict[str, dict[str, Any]]:
    """``run.json`` of each process that recorded something in a run's directory."""
    files = {path.parent: json.loads(path.read_text()) for path in run.glob("**/run.json")}
    assert [fault for facts in files.values() for fault in faults(facts)] == []
    return {str(path.relative_to(run)): facts for path, facts in sorted(files.items())}


def test_a_script_that_starts_itself_again_for_another_rank_is_one_run(place: Place) -> None:
    place.write("main.py", STARTS)
    place.write("other.py", OTHER)
    done = place.voir("--quiet", "main.py")
    assert done.seen == (0, SAID)
    assert "no step was seen, but the script started other.py and 1 more" in done.stderr
    (run,) = place.runs
    found = members(run)
    assert {name: facts.get("rank") for name, facts in found.items()} == {".": None, "rank1": 1}
    assert found["rank1"]["world_size"] == 2
    assert found["rank1"]["exit_status"] == 0


def test_other_programs_are_recorded_on_request(place: Place) -> None:
    place.write("main.py", STARTS)
    place.write("other.py", OTHER)
    done = place.voir("--follow-children", "--run-dir", "here", "main.py")
    assert done.seen == (0, SAID)
    assert done.stderr.count("voir:") == 1  # Only the run itself prints a summary.
    found = members(place.path / "here")
    assert [*found] == [".", "process1", "process2", "rank1"]
    assert [found[f"process{n}"]["exit_status"] for n in (1, 2)] == [3, 3]
    assert found["process2"]["script"] == "-m other"


def test_a_run_is_recorded_if_a_process_that_it_starts_records_something(place: Place) -> None:
    start = "import subprocess, sys; subprocess.run([sys.executable, 'other.py', sys.argv[1]])"
    place.write("main.py", start)
    place.write("other.py", OTHER)
    assert place.voir("--follow-children", "--quiet", "main.py", "1").status == 0
    (run,) = place.runs
    assert [*members(run)] == [".", "process1"]


def test_nothing_is_left_of_processes_that_record_nothing(place: Place) -> None:
    place.write("main.py", "import subprocess, sys; subprocess.run([sys.executable, 'other.py'])")
    place.write("other.py", "")
    assert place.voir("--no-monitor", "--follow-children", "main.py").status == 0
    assert place.runs == []


@pytest.mark.parametrize("option", ["--no-record", "--strict"])
def test_the_status_of_a_program_stays_its_own(place: Place, option: str) -> None:
    place.write("main.py", STARTS)
    place.write("other.py", OTHER)
    done = place.run(sys.executable, "-m", "voir", "--follow-children", option, "main.py")
    assert done.seen == (0, SAID)
