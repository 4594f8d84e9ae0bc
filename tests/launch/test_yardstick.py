"""CPython's own test_cmd_line_script, with ``python SCRIPT`` replaced by ``voir SCRIPT``."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("entry", ENTRIES)
def test_cpythons_own_tests_pass_and_voir_runs_what_it_can(entry, tmp_path):
    if importlib.util.find_spec("test.test_cmd_line_script") is None:
        pytest.skip("this python has been installed without its tests")
    yardstick = str(Path(__file__).with_name("yardstick.py"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", yardstick, *ENTRIES[entry]],
        capture_output=True,
        cwd=tmp_path,
        timeout=300,
        check=True,
    )
    report = json.loads(done.stdout)
    verdicts, replaced = report["verdicts"], report["replaced"]
    assert {k: v for k, v in verdicts.items() if v not in ("ok", "skipped")} == {}
    assert verdicts.keys() - set(replaced) - NO_PROGRAM == set()
    assert (len(replaced) >= 38, len(verdicts) >= 44) == (True, True)
