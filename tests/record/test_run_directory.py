"""Where a run is recorded: a directory of its own, made when needed, never one that exists."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from overseer.errors import UsageError
from overseer.record.directory import RunDirectory, claim, safe_name, stamp

STARTED = 1_767_605_400_123_456_789  # 2026-01-05 09:30:00 UTC


def directory(tmp_path, problems, script="main.py", environ=None, **options):
    options.setdefault("base", tmp_path / "voir-runs")
    return RunDirectory(
        script, 4711, STARTED, report=problems.append, environ=environ or {}, **options
    )


def test_it_is_named_after_the_time_the_script_and_the_process(tmp_path, problems):
    path = directory(tmp_path, problems, "examples/digits/main.py").path
    assert path == tmp_path / "voir-runs" / "20260105T093000-main-4711"
    assert path.is_dir()


def test_nothing_is_made_until_it_is_asked_for(tmp_path, problems):
    run = directory(tmp_path, problems)
    run.check()
    assert not run.made
    assert list(tmp_path.iterdir()) == []
    assert run.path is not None
    assert run.made


def test_it_stays_where_the_run_began_when_the_script_moves(tmp_path, problems, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    default = RunDirectory("main.py", 1, STARTED, report=problems.append, environ={})
    named = directory(tmp_path, problems, run_dir=Path("mine"))
    monkeypatch.chdir("elsewhere")
    assert default.path == tmp_path / "voir-runs" / "20260105T093000-main-1"
    assert named.path == tmp_path / "mine"


def test_no_record_means_no_directory(tmp_path, problems):
    run = directory(tmp_path, problems, run_dir=tmp_path / "taken", enabled=False)
    run.check()
    assert run.path is None
    assert list(tmp_path.iterdir()) == []
    assert problems == []


def test_two_runs_of_the_same_second_and_pid_do_not_share(tmp_path, problems):
    # In containers every run may be process 1.
    paths = [directory(tmp_path, problems).path for _ in range(3)]
    assert [path.name for path in paths] == [
        "20260105T093000-main-4711",
        "20260105T093000-main-4711-2",
        "20260105T093000-main-4711-3",
    ]


def test_the_variable_names_the_directory_unless_the_option_does(tmp_path, problems):
    environ = {"VOIR_RUN_DIR": str(tmp_path / "by-variable")}
    assert directory(tmp_path, problems, environ=environ).path == tmp_path / "by-variable"
    chosen = directory(tmp_path, problems, environ=environ, run_dir=tmp_path / "by-option")
    assert chosen.path == tmp_path / "by-option"
    assert (
        directory(tmp_path, problems, environ={"VOIR_RUN_DIR": ""}).path.parent.name == "voir-runs"
    )


def test_a_named_directory_may_exist_and_hold_other_things(tmp_path, problems):
    (tmp_path / "notes.txt").write_text("mine")
    run = directory(tmp_path, problems, run_dir=tmp_path)
    run.check()
    assert run.path == tmp_path
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "held", ["run.json", "metrics.jsonl", "trace.pftrace", "job.json", "rank0"]
)
def test_a_directory_that_holds_a_run_is_refused_before_the_script_runs(tmp_path, problems, held):
    (tmp_path / held).touch()
    with pytest.raises(UsageError, match=held) as refused:
        directory(tmp_path, problems, run_dir=tmp_path).check()
    assert refused.value.slug == "run-dir-taken"
    assert "another directory" in refused.value.remedy
    assert (tmp_path / held).read_bytes() == b""


def test_a_file_is_no_directory(tmp_path, problems):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError) as refused:
        directory(tmp_path, problems, run_dir=tmp_path / "file").check()
    assert refused.value.slug == "run-dir-not-a-directory"
    assert (tmp_path / "file").read_text() == "mine"


def test_of_two_runs_sent_to_one_directory_the_later_is_not_recorded(tmp_path, problems):
    first, second = (directory(tmp_path, problems, run_dir=tmp_path / "same") for _ in range(2))
    first.check()
    second.check()
    assert first.path == tmp_path / "same"
    (tmp_path / "same" / "metrics.jsonl").write_text("{}\n")
    assert second.path is None
    assert [problem.slug for problem in problems] == ["record-unwritable"]
    assert (tmp_path / "same" / "metrics.jsonl").read_text() == "{}\n"


def test_of_two_processes_that_claim_a_directory_at_once_one_gets_it(tmp_path):
    assert claim(tmp_path) == tmp_path
    with pytest.raises(FileExistsError):
        claim(tmp_path)


@pytest.fixture
def read_only(tmp_path, monkeypatch):
    """A directory nobody may write to; for root, who may, the system is made to refuse."""
    place = tmp_path / "read-only"
    place.mkdir(mode=0o555)
    if os.access(place, os.W_OK):
        monkeypatch.setattr(Path, "mkdir", _refuse)
    yield place
    place.chmod(0o755)


def _refuse(self, *args, **kwargs):
    if not self.is_dir():
        raise PermissionError(13, "Permission denied", str(self))


def test_a_directory_that_cannot_be_made_is_reported_once_and_the_run_goes_on(read_only, problems):
    run = RunDirectory(
        "main.py", 1, STARTED, report=problems.append, base=read_only / "runs", environ={}
    )
    assert run.path is None
    assert run.path is None
    assert not run.made
    (problem,) = problems
    assert problem.slug == "record-unwritable"
    assert "Permission denied" in problem.what
    assert str(read_only) in problem.who
    assert "--run-dir" in problem.remedy
    assert "--no-record" in problem.remedy


@pytest.mark.parametrize("name", ["x" * 300, "nul\0"])
def test_a_name_that_no_file_system_takes_is_reported(tmp_path, problems, name):
    run = directory(tmp_path, problems, run_dir=tmp_path / name)
    run.check()
    assert run.path is None
    assert len(problems) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_makes_no_directory(tmp_path, problems):
    run = directory(tmp_path, problems)
    pid = os.fork()
    if not pid:
        os._exit(0 if run.path is None else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("main.py", "main"),
        ("../x/train.v2.py", "train.v2"),
        ("-m pkg.mod", "pkg.mod"),
        ("-m pkg.mod:fn", "pkg.mod-fn"),
        ("pkg/__main__.py", "pkg"),
        ("examples/digits/", "digits"),
        ("app.pyz", "app"),
        ("my script (final).py", "my-script-final"),
        ("träning.py", "traning"),
        ("训练.py", "script"),
        ("-", "script"),
        ("", "script"),
        (".", "script"),
        ("..", "script"),
        ("/", "script"),
        ("-rf.py", "rf"),
        (".hidden.py", "hidden"),
        ("a\nb\x1b[31m.py", "a-b-31m"),
        ("caf\udce9.py", "caf"),
        ("x" * 500 + ".py", "x" * 48),
        ("no_suffix", "no_suffix"),
    ],
)
def test_every_script_name_becomes_a_safe_one(script, name):
    assert safe_name(script) == name


def test_the_stamp_is_utc_and_sorts():
    assert stamp(STARTED) == "20260105T093000"
    assert stamp(0) == "19700101T000000"


def test_importing_it_imports_nothing_heavy():
    import subprocess

    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import overseer.record.directory, overseer.record.metrics, overseer.record.datafd\n"
        "import overseer.record.provenance\n"
        "heavy = {'rich', 'giving', 'ptera', 'reactivex', 'psutil', 'torch', 'numpy', 'asyncio',"
        " 'email', 'urllib.request', 'hashlib', 'subprocess', 'tempfile', 'shutil', 'shlex'}\n"
        "print(sorted(heavy & (set(sys.modules) - before)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
