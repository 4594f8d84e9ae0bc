"""CPython's own test_cmd_line_script, with ``python SCRIPT`` replaced by ``voir SCRIPT``."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

#: Tests that are known to fail, each with the reason. One that passes after all is an error too.
KNOWN: dict[str, str] = {}

#: What gives python no program to run (``-c``, stdin, the interactive prompt): left as it is.
NO_PROGRAM = {
    "test_dash_c_loader",
    "test_issue8202_dash_c_file_ignored",
    "test_repl_stderr_flush",
    "test_repl_stderr_flush_separate_stderr",
    "test_repl_stdout_flush",
    "test_repl_stdout_flush_separate_stderr",
    "test_source_lines_are_shown_when_running_source",
    "test_stdin_loader",
}


ENTRIES = {
    "launcher": [str(Path(__file__).with_name("minivoir.py"))],
    "voir": ["-m", "voir", "--no-record", "--quiet", "--no-voirfile"],
}


@pytest.fixture(scope="module", params=ENTRIES)
def report(request, tmp_path_factory):
    if importlib.util.find_spec("test.test_cmd_line_script") is None:
        pytest.skip("this python has been installed without its tests")
    yardstick = str(Path(__file__).with_name("yardstick.py"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", yardstick, *ENTRIES[request.param]],
        capture_output=True,
        cwd=tmp_path_factory.mktemp("yardstick"),
        timeout=300,
        check=True,
    )
    return json.loads(done.stdout)


def test_cpythons_own_tests_pass(report):
    failed = {k: v for k, v in report["verdicts"].items() if v not in ("ok", "skipped")}
    assert {name: failed[name] for name in failed.keys() - KNOWN.keys()} == {}


def test_what_is_known_to_fail_still_fails(report):
    assert {name for name in KNOWN if report["verdicts"].get(name) == "ok"} == set()


def test_voir_ran_what_it_could(report):
    verdicts = report["verdicts"]
    assert verdicts.keys() - set(report["replaced"]) - NO_PROGRAM == set()
    assert len(report["replaced"]) >= 38
    assert len(verdicts) - len(KNOWN) >= 44
