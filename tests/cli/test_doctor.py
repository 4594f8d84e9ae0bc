"""``voir doctor``: how voir is installed, and how to have the recorder in C; how sound a run is."""

from __future__ import annotations

import re
import sys
import sysconfig
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from overseer import version
from overseer.cli import installation
from overseer.cli.commands import Terminal
from overseer.cli.doctor import doctor
from overseer.trace.reading import ProcessTracks, Slice, Thread, Trace
from overseer.trace.wire import message, number
from tests.running import Place

#: An instant; the file is ASCII.
PACKET = message(1, number(8, 1) + message(11, number(9, 3))).decode()
PIP = "headers: pip install --force-reinstall --no-cache-dir --no-deps"
TRACE = "trace.pftrace"


def findings(text: str) -> dict[str, list[str]]:
    """State, text and remedy of each finding, by what it is about."""
    found = re.findall(r"^(ok|note|bad) +(\S+) +(.*)\n(?: {23}(.*)\n)?", text, re.MULTILINE)
    return {what: [state, *more] for state, what, *more in found}


def examined(*argv: Path, bad: bool = False) -> dict[str, list[str]]:
    """What it finds, which it ends with status 1 for where it is ``bad``."""
    said = list[str]()
    with pytest.raises(SystemExit, match=r"^1$") if bad else nullcontext():
        said.extend(doctor([*map(str, argv)], Terminal()))
    return findings("".join(said))


def test_it_names_versions_recorder_and_shared_memory(tmp_path: Path) -> None:
    done = Place(tmp_path).voir("doctor", env={"VOIR_RECORDER": "python"})
    assert (done.status, done.stderr) == (0, "")
    found = findings(done.stdout)
    assert list(found) == ["voir", "python", "packages", "recorder", "fold", "/dev/shm"]
    assert found["voir"][1].startswith(f"{version} in /")
    assert found["python"][1].startswith(sys.version.split()[0])
    assert re.match(r"ptera \S+, giving \S+, rich \S+, psutil \d", found["packages"][1])
    said = "in Python, which is slower: VOIR_RECORDER=python"
    assert found["recorder"] == ["note", said, "Unset VOIR_RECORDER."]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("free_threaded", "remedy"), [(0, f"{PIP} voir-overseer"), (1, "needs the GIL")]
)
def test_what_is_not_compiled_is_told_with_the_line_that_rebuilds_it(
    monkeypatch: pytest.MonkeyPatch, free_threaded: int, remedy: str
) -> None:
    monkeypatch.delenv("VOIR_RECORDER", raising=False)
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: free_threaded)
    good = [("ok", "recorder", "in C", ""), ("ok", "fold", "compiled", "")]
    assert [*installation.compiled("", "fold.cpython-311.so")] == good
    recorder, fold = installation.compiled("it is not there", "fold.py")
    slower = "in Python, which is slower"
    assert recorder[:3] == ("note", "recorder", f"{slower}: it is not there")
    assert fold[:3] == ("note", "fold", slower)
    assert remedy in recorder.remedy and recorder.remedy == fold.remedy


def test_another_distribution_with_the_package_voir_is_bad(tmp_path: Path) -> None:
    for name in ("voir-0.2.24", "voir_overseer-0.1.0", "voirlike-1.0"):
        Place(tmp_path).write(f"{name}.dist-info/METADATA", "Version: 0.2.24\n")
    (found,) = installation.another_voir([str(tmp_path)])
    said = "0.2.24 is installed too, and both have the package voir"
    assert found[:3] == ("bad", "voir", said)
    assert found.remedy.startswith("pip uninstall voir; then pip install --force-reinstall")


def test_a_missing_package_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"giving": "0.4.3", "rich": "15.0.0", "torch": "2.13.0"}
    monkeypatch.setattr(installation, "installed", lambda paths: there)
    found = examined(bad=True)["packages"]
    assert found == ["bad", "ptera, psutil: not installed", "pip install ptera psutil"]


def test_shared_memory_that_cannot_be_used_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert installation.shared_memory(str(tmp_path)).state == "ok"
    assert not list(tmp_path.iterdir())
    full_disk = Path("/dev/full").open("wb")  # noqa: SIM115
    none = installation.shared_memory(str(tmp_path / "none"))
    monkeypatch.setattr(installation, "TemporaryFile", lambda dir: full_disk)
    full = installation.shared_memory("/dev/shm")
    assert none[::2] == ("note", "cannot be used: No such file or directory")
    assert full[::2] == ("note", "cannot be used: No space left on device")
    assert "run's directory" in none.remedy == full.remedy


ENDED = '{"ended": "x", "exit_status": 0, "problems": [{}]}'


@pytest.mark.parametrize(
    ("name", "content", "state", "said"),
    [
        ("run.json", ENDED, "ok", "complete, exit status 0; 1 problem under the key problems"),
        ("run.json", '{"ended": "x", "ended_by": "killed"}', "ok", "complete, killed"),
        ("run.json", "{}", "note", "has no end: it is running, or ran on another machine"),
        ("run.json", "{", "bad", "run.json is not a valid run.json"),
        ("run.json", None, "bad", "is missing"),
        ("metrics.jsonl", "{}\n{}\n", "ok", "2 events"),
        ("metrics.jsonl", '{}\n{"torn', "note", "1 event, 1 torn line"),
        ("metrics.jsonl", "x\n{}\ny\n", "bad", "1 event, 2 torn lines"),
        ("metrics.jsonl", None, "note", "is missing: nothing was given or logged"),
        (TRACE, None, "note", "is not there"),
        (TRACE, "x" * 999, "bad", "is not a Perfetto trace"),
        (TRACE, f"{PACKET}{'x' * 999}", "bad", "1 event in 1 row; unreadable: 999"),
        ("trace.log", "x", "note", "is not written yet; its log is there"),
    ],
)
def test_of_each_file_it_says_how_sound_it_is(
    tmp_path: Path, name: str, content: str | None, state: str, said: str
) -> None:
    for file, text in {"run.json": ENDED, "metrics.jsonl": "", name: content}.items():
        if text is not None:
            (tmp_path / file).write_text(text)
    found = examined(tmp_path, bad=state == "bad")
    assert [*found] == ["run.json", "metrics.jsonl", TRACE]
    about = found[TRACE if name == "trace.log" else name]
    assert (about[0], said in about[1]) == (state, True), about
    if name == "trace.log":
        assert about[2] == f"Write it: voir trace export {tmp_path}"


@pytest.mark.parametrize(
    ("counts", "state", "said", "remedy"),
    [
        ({}, "ok", "", ""),
        ({"unfinished": 1}, "note", "; 1 span without an end", ""),
        ({"dropped": 3}, "note", "; 3 events dropped", "--trace-max-mb"),
        ({"torn_bytes": 20, "broken_packets": 2}, "bad",
         "; unreadable: 20 bytes and 2 packets", "copy it again"),
    ],
)  # fmt: skip
def test_of_a_trace_it_says_what_its_reader_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: Any, state: str, said: str, remedy: str
) -> None:
    file = tmp_path / TRACE
    file.touch()
    processes = [ProcessTracks("main.py", 1, [Thread("row", None, [Slice("a", "b", 0)])])]
    trace = Trace(file, processes, events=7, **counts)
    monkeypatch.setattr("overseer.cli.doctor.read_trace", lambda path: trace)
    for argv in (file, tmp_path):
        found = examined(argv, bad=state == "bad")
        assert [*found] == [TRACE]
        assert found[TRACE][:2] == [state, f"7 events in 1 row{said}"]
        assert remedy in found[TRACE][2]


def test_of_a_job_each_rank_is_examined(tmp_path: Path) -> None:
    for rank in (2, 10):
        Place(tmp_path).write(f"rank{rank}/run.json", ENDED)
    (tmp_path / f"rank2/{TRACE}").symlink_to(tmp_path / "nowhere")
    found = examined(tmp_path, bad=True)
    assert [*found][::3] == ["rank2/run.json", "rank10/run.json"]
    assert found[f"rank2/{TRACE}"][:2] == ["bad", "is not a regular file"]
