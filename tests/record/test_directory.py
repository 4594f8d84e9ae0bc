"""Where a run is recorded: a directory of its own, made when needed, never one that exists."""

from __future__ import annotations

import errno
import os

import pytest

from overseer.errors import UsageError
from overseer.record import directory as directories
from overseer.record.directory import RunDirectory, claim, safe_name

STARTED = 1_767_605_400_123_456_789  # 2026-01-05 09:30:00 UTC
NAME = "20260105T093000-main-4711"


def directory(tmp_path, problems, **options):
    options = {"parent": str(tmp_path / "voir-runs"), "environ": {}, **options}
    return RunDirectory("a/main.py", 4711, STARTED, report=problems.append, **options)


def test_it_is_made_when_asked_for_and_named_after_time_script_and_process(tmp_path, problems):
    told = []
    run = directory(tmp_path, problems, made=lambda: told.append(run.made))
    run.check()
    assert (run.made, list(tmp_path.iterdir())) == (False, [])
    assert run.path == tmp_path / "voir-runs" / NAME
    assert (run.made, told, problems) == (True, [True], [])
    # In containers every run may be process 1.
    assert [directory(tmp_path, problems).path.name for _ in range(2)] == [f"{NAME}-2", f"{NAME}-3"]


def test_no_record_means_no_directory(tmp_path, problems):
    run = directory(tmp_path, problems, chosen=str(tmp_path / "taken"), enabled=False)
    run.check()
    assert (run.path, list(tmp_path.iterdir()), problems) == (None, [], [])


def test_the_one_the_user_named_may_exist_and_hold_other_things(tmp_path, problems):
    (tmp_path / "notes.txt").write_text("mine")
    run = directory(tmp_path, problems, chosen=str(tmp_path))
    run.check()
    assert (run.path, (tmp_path / "notes.txt").read_text()) == (tmp_path, "mine")


@pytest.mark.parametrize(
    "held", ["run.json", "metrics.jsonl", "trace.pftrace", "job.json", "rank0"]
)
def test_one_that_holds_a_run_is_refused_before_the_script_runs(tmp_path, problems, held):
    (tmp_path / held).touch()
    with pytest.raises(UsageError, match=held) as refused:
        directory(tmp_path, problems, chosen=str(tmp_path)).check()
    assert refused.value.slug == "run-dir-taken"
    assert (tmp_path / held).read_bytes() == b""
    with pytest.raises(UsageError) as refused:
        directory(tmp_path, problems, chosen=str(tmp_path / held)).check()
    assert refused.value.slug == "run-dir-not-a-directory"


def test_of_two_runs_that_were_given_one_the_second_is_told(tmp_path, problems):
    first, second = (directory(tmp_path, problems, chosen=str(tmp_path / "x")) for _ in range(2))
    first.check()
    second.check()
    assert (first.path, second.path, second.path) == (tmp_path / "x", None, None)
    assert ["taken" in p.what or "holds" in p.what for p in problems] == [True]
    with pytest.raises(FileExistsError):
        claim(tmp_path / "x")


@pytest.mark.parametrize("options", [{"parent": ""}, {"chosen": "/dev/null/x"}, {"chosen": "/\0"}])
def test_where_none_can_be_made_that_is_told_once(tmp_path, problems, options):
    run = directory(tmp_path, problems, **options)
    run.check()
    assert (run.path, run.path, run.made) == (None, None, False)
    assert [problem.slug for problem in problems] == ["record-unwritable"]


def test_without_descriptors_it_is_tried_again(tmp_path, problems, monkeypatch):
    def refuse(*args):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    run = directory(tmp_path, problems)
    with monkeypatch.context() as patched:
        patched.setattr(directories, "claim", refuse)
        assert run.path is None
    assert run.path is not None
    assert len(problems) == 1


NAMES = {
    "train.py": "train", "pkg/__main__.py": "pkg", "-m package.module": "package.module",
    "-m package:function": "package-function", "../../etc/passwd": "passwd",
    "träning é.py": "traning-e", "-": "script", "": "script", "пароль.py": "script",
    "a" * 300: "a" * 48, "..": "script", "a\0b\n.pyz": "a-b",
}  # fmt: skip


def test_a_script_of_any_name_makes_a_safe_one():
    assert {script: safe_name(script) for script in NAMES} == NAMES
