"""``voir doctor``: how voir is installed, and how to have the recorder in C; how sound a run is."""

from __future__ import annotations

import json
import re
import sys
import sysconfig
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import pytest

from overseer import version
from overseer.cli import installation
from overseer.cli.commands import Terminal
from overseer.cli.doctor import doctor
from overseer.errors import VoirError
from overseer.trace.reading import Process, Slice, Thread, Trace
from overseer.trace.wire import message, number
from tests.running import Place

#: An instant; the file is ASCII.
PACKET = message(1, number(8, 1) + message(11, number(9, 3))).decode()
PIP = "pip install --force-reinstall --no-cache-dir --no-deps"


def lines(text: str) -> dict[str, tuple[str, str]]:
    """State and text of each finding, by what it is about."""
    found = re.findall(r"^(ok|note|bad) +(\S+) +(.*)$", text, re.MULTILINE)
    return {what: (state, said) for state, what, said in found}


def examined(argv: list[str]) -> tuple[str, int]:
    """What it prints, and the exit status."""
    said, status = list[str](), 0
    try:
        said.extend(doctor(argv, Terminal()))
    except SystemExit as ended:
        status = int(ended.code or 0)
    return "".join(said), status


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says where pip has installed voir from; it is not there."""
    monkeypatch.delenv("VOIR_RECORDER", raising=False)
    left = PathDistribution(tmp_path / "voir_overseer.egg-info")
    found = [left, PathDistribution(tmp_path)]
    monkeypatch.setattr(installation, "distributions", lambda name: found)
    return tmp_path / "direct_url.json"


def test_it_names_versions_recorder_and_shared_memory(tmp_path: Path) -> None:
    done = Place(tmp_path).voir("doctor")
    assert (done.status, done.stderr) == (0, "")
    found = lines(done.stdout)
    assert list(found) == ["voir", "python", "packages", "recorder", "fold", "/dev/shm"]
    assert found["voir"][1].startswith(f"{version} in /")
    assert found["python"][1].startswith(sys.version.split()[0])
    assert re.match(r"ptera \S+, giving \S+, rich \S+, psutil \d", found["packages"][1])
    assert not list(tmp_path.iterdir())


def test_a_fallback_that_was_asked_for_is_told(tmp_path: Path) -> None:
    done = Place(tmp_path).voir("doctor", env={"VOIR_RECORDER": "python"})
    assert done.status == 0
    said = "in Python, which is slower: VOIR_RECORDER=python"
    assert lines(done.stdout)["recorder"] == ("note", said)
    assert "Unset VOIR_RECORDER." in done.stdout


def test_the_recorder_in_c_needs_no_remedy() -> None:
    assert installation.recorder_in_use("C", "") == ("ok", "recorder", "in C", "")


def test_a_fold_that_is_not_compiled_is_told_with_the_same_remedy() -> None:
    assert installation.fold_in_use("fold.cpython-311.so") == ("ok", "fold", "compiled", "")
    state, _, said, what = installation.fold_in_use("fold.py")
    assert (state, said, what) == ("note", "in Python, which is slower", remedy())


def remedy() -> str:
    """What to do when there is no extension."""
    return installation.recorder_in_use("Python", "it is not there").remedy


def test_where_the_extension_is_missing_the_line_that_rebuilds_it_is_shown(origin: Path) -> None:
    assert remedy() == f"With a C compiler and Python's headers: {PIP} voir-overseer"
    for written in ("", "{", '{"url": "https://example.org/voir.whl", "archive_info": {}}'):
        origin.write_text(written)
        assert remedy().endswith(f"{PIP} voir-overseer")


@pytest.mark.parametrize("info, option", [({"editable": True}, "-e "), ({}, "")])
def test_what_was_installed_from_a_checkout_is_rebuilt_from_it(
    origin: Path, info: dict[str, Any], option: str
) -> None:
    origin.write_text(json.dumps({"url": "file:///some%20where/voir", "dir_info": info}))
    assert remedy().endswith(f"{PIP} {option}'/some where/voir'")


def test_a_free_threaded_python_has_no_other_recorder(
    origin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: 1)
    assert "interpreter lock" in remedy()


def test_a_missing_package_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"giving": "0.4.3", "rich": "15.0.0", "torch": "2.13.0"}
    monkeypatch.setattr(installation, "installed", lambda paths: there)
    text, status = examined([])
    assert status == 1
    assert lines(text)["packages"] == ("bad", "ptera, psutil: not installed")
    assert "pip install ptera psutil\n" in text


def test_shared_memory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    assert installation.shared_memory(str(tmp_path)).state == "ok"
    assert not list(tmp_path.iterdir())
    said = "cannot be used: No such file or directory"
    assert installation.shared_memory(str(tmp_path / "none"))[:1] == ("note",)
    assert installation.shared_memory(str(tmp_path / "none")).said == said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_shared_memory_that_is_full_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full")
    monkeypatch.setattr(installation, "TemporaryFile", lambda dir: full.open("wb"))
    finding = installation.shared_memory("/dev/shm")
    assert (finding.state, finding.said) == ("note", "cannot be used: No space left on device")
    assert "run's directory" in finding.remedy


# A run

ENDED = '{"ended": "x", "exit_status": 0, "problems": [{}]}'
COPY = "copy it anew"


@pytest.mark.parametrize(
    ("name", "content", "state", "said"),
    [
        ("run.json", ENDED, "ok", "complete, exit status 0; 1 problem under its key problems"),
        ("run.json", '{"ended": "x", "ended_by": "killed"}', "ok", "complete, killed"),
        ("run.json", "{}", "note", "has no end: the run goes on, or ran on another machine"),
        ("run.json", "{", "bad", "run.json is no valid run.json"),
        ("run.json", None, "bad", "is missing"),
        ("metrics.jsonl", "{}\n{}\n", "ok", "2 events"),
        ("metrics.jsonl", '{}\n{"torn', "note", "1 event, 1 torn line"),
        ("metrics.jsonl", "x\n{}\ny\n", "bad", "1 event, 2 torn lines"),
        ("metrics.jsonl", None, "note", "is missing: nothing was given or logged"),
        ("trace.pftrace", None, "note", "is not there"),
        ("trace.pftrace", "x" * 999, "bad", "is no Perfetto trace"),
        ("trace.pftrace", f"{PACKET}{'x' * 999}", "bad", "1 event in 1 row; unreadable are 999"),
    ],
)
def test_of_each_file_it_says_how_sound_it_is(
    tmp_path: Path, name: str, content: str | None, state: str, said: str
) -> None:
    files = {"run.json": ENDED, "metrics.jsonl": "", name: content}
    for file, text in files.items():
        if text is not None:
            (tmp_path / file).write_text(text)
    text, status = examined([str(tmp_path)])
    found = lines(text)
    assert [*found] == ["run.json", "metrics.jsonl", "trace.pftrace"]
    assert found[name][0] == state
    assert said in found[name][1]
    assert status == (state == "bad")


def test_a_log_of_which_no_trace_could_be_made_is_named(tmp_path: Path) -> None:
    for file, text in {"run.json": ENDED, "metrics.jsonl": "", "trace.log": "x"}.items():
        (tmp_path / file).write_text(text)
    text, _ = examined([str(tmp_path)])
    assert lines(text)["trace.pftrace"] == ("note", "is not made yet: its log is there")
    assert f"voir trace export {tmp_path}" in text


@pytest.mark.parametrize(
    ("counts", "state", "said", "remedy"),
    [
        ({}, "ok", "7 events in 1 row", ""),
        ({"unfinished": 1}, "note", "7 events in 1 row; 1 span without an end", ""),
        ({"dropped": 3}, "note", "7 events in 1 row; 3 events were dropped", "--trace-max-mb"),
        ({"torn_bytes": 20, "broken_packets": 2}, "bad",
         "7 events in 1 row; unreadable are 20 bytes and 2 packets", COPY),
    ],
)  # fmt: skip
def test_of_a_trace_it_says_what_its_reader_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: Any, state: str, said: str, remedy: str
) -> None:
    file = tmp_path / "trace.pftrace"
    file.touch()
    trace = Trace(file, [Process("main.py", 1, [Thread("row", None, [Slice("a", "b", 0)])])])
    monkeypatch.setattr("overseer.cli.doctor.read_trace", lambda path: trace)
    for key, value in {"events": 7, **counts}.items():
        setattr(trace, key, value)
    for argv in (file, tmp_path):
        text, _ = examined([str(argv)])
        assert lines(text) == {"trace.pftrace": (state, said)}
        assert remedy in text


def test_of_a_job_each_rank_is_examined_and_what_is_not_there_is_refused(tmp_path: Path) -> None:
    for rank in (2, 10):
        (tmp_path / f"rank{rank}").mkdir()
        (tmp_path / f"rank{rank}/run.json").write_text(ENDED)
    (tmp_path / "rank2/trace.pftrace").symlink_to(tmp_path / "nowhere")
    found = lines(examined([str(tmp_path)])[0])
    assert [*found][::3] == ["rank2/run.json", "rank10/run.json"]
    assert found["rank2/trace.pftrace"] == ("bad", "is no file that can be read")
    with pytest.raises(VoirError, match="no such directory"):
        examined([str(tmp_path / "nowhere")])
