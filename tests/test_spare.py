"""A script that uses up its descriptors keeps its summary and its record."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from overseer.spare import FIRST, HIGH, MANY, Spare
from tests.running import Place

LEAKS = """
    import resource, time

    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    files = []

    def train(loader):
        for batch in loader:
            loss = 1.0
            time.sleep({pause})
            try:
                files.append(open(__file__))
            except OSError:
                time.sleep({later})
                raise

    train([[1] * 4] * 500)
    """
PROBES = """
    def instrument_probes(ov):
        yield ov.phases.load_script
        ov.probe("//train(batch) > #endloop_batch as step").give()
        ov.probe("//train > loss").give()
    """


@pytest.mark.parametrize(("pause", "later"), [(0.0, 0), (0.02, 0), (0.0, 2.5)])
def test_the_end_of_a_run_has_descriptors_when_the_script_has_none(
    tmp_path: Path, pause: float, later: float
) -> None:
    place = Place(tmp_path)
    place.write("main.py", LEAKS.format(pause=pause, later=later))
    place.write("voirfile.py", PROBES)
    ran = place.voir("main.py")
    assert ran.status == 1
    assert "the end of the run" not in ran.stderr
    assert "voir: main.py · exit status 1" in ran.stderr, ran.stderr
    run = place.record()
    assert run["exit_status"] == 1
    assert run["tasks"]["train"]["steps"] > 30
    assert {"python", "packages"} <= set(run["provenance"])
    assert not run["problems"]
    assert sum("loss" in event for event in place.metrics()) > 30


def test_the_numbers_a_script_gets_and_inherits_are_those_of_python(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "main.py",
        """
        import os, subprocess, sys
        from giving import give

        give(x=1)
        print(os.open(os.devnull, os.O_RDONLY))
        code = "import os; print(sorted(os.listdir('/proc/self/fd')))"
        subprocess.run([sys.executable, "-c", code], close_fds=False)
        """,
    )
    assert place.voir("--no-record", "main.py").stdout == place.python("main.py").stdout


def test_a_number_that_the_script_has_made_its_own_is_left_open(tmp_path: Path) -> None:
    spare = Spare()
    with (tmp_path / "own").open("w") as file:
        os.dup2(file.fileno(), FIRST)
        spare.release()
        os.fstat(FIRST)
    os.close(FIRST)
    for number in range(FIRST, FIRST + MANY):
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(number)


def test_where_no_descriptor_is_to_be_had_none_is_held(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "full.py",
        """
        import os, resource
        from overseer.spare import Spare

        resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
        Spare().release()
        print("held none")
        """,
    )
    ran = place.python("full.py")
    assert ran.seen == (0, "held none\n"), ran.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the size of the table is told by /proc")
def test_there_is_room_for_the_log_before_the_script_begins(tmp_path: Path) -> None:
    """With threads, to make some takes 10 ms, on the script's if that is the first to log."""
    place = Place(tmp_path)
    place.write(
        "main.py",
        """
        import os

        with open("/proc/self/status") as status:
            (line,) = (line for line in status if line.startswith("FDSize"))
        print(line.split()[1], [fd for fd in map(int, os.listdir("/proc/self/fd")) if fd > 100])
        """,
    )
    size, taken = place.voir("main.py").stdout.split(maxsplit=1)
    assert int(size) > HIGH
    assert taken == "[]\n"
