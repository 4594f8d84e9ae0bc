"""A directory of runs that others can write to: reading it writes nothing, waits for nothing."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from overseer.errors import VoirError
from overseer.rundir.runfile import utc
from overseer.trace import finish
from tests.running import Place
from tests.trace.conftest import Making
from voir.runs import open_database, open_trace, read_run

from .said import said

PID, NOBODY = 4_194_305, 65534
HOSTILE = "\x1b[2J\x9b31m\u202edlo\u2066"


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Gives a directory and what is in it to another user."""

    def give(directory: Path) -> None:
        if os.geteuid():
            monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
            return
        for path in (directory, *directory.iterdir()):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    return give


def killed(directory: Path) -> Path:
    """The run of a process that has been killed, with a log of its trace."""
    directory.mkdir(parents=True)
    host = {"hostname": os.uname().nodename}
    facts = {"pid": PID, "started": utc(10**18), "provenance": host, "script": "theirs.py"}
    (directory / "run.json").write_text(json.dumps(facts))
    (directory / "metrics.jsonl").touch()
    making = Making(directory / "trace.log")
    making.steps(3)
    making.write()
    return directory


NEWER = "voir 9.1 or newer is needed"


def listing(directory: Path) -> dict[str, tuple[int, float]]:
    return {
        each.name: (each.lstat().st_size, each.lstat().st_mtime) for each in directory.iterdir()
    }


COMMANDS = (
    "runs {}", "show {}/one", "compare {0}/one {0}/one", "sql {}/one", "sql {}/one --json *",
    "doctor {}/one", "trace summary {}/one", "trace export {}/one --to json",
    "trace export {}/one --to tensorboard",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_what_belongs_to_another_user_is_left_as_it_is(
    command: str, tmp_path: Path, strangers: Callable[[Path], None]
) -> None:
    run = killed(tmp_path / "one")
    secret = tmp_path / "secret"
    secret.write_text("kept")
    names = ("trace.pftrace.part", "trace.json.part", "trace.json", f".run.json.{os.getpid()}.tmp")
    for name in names:
        (run / name).symlink_to(secret)
    strangers(run)
    before = listing(run)
    text = ""
    try:
        text = said(*command.format(tmp_path).split())
    except VoirError as error:
        text = str(error)
    except SystemExit:
        pass  # voir doctor: something is bad.
    assert (listing(run), secret.read_text()) == (before, "kept")
    if command.startswith(("runs", "show", "compare")):
        assert text.count("another user") >= 1
    if command.startswith("trace"):
        assert "another user" in text


@pytest.mark.parametrize("theirs", ["run.json", "link of run.json", "link of the directory"])
def test_what_another_user_has_laid_in_ones_own_directory_is_left_as_it_is(
    theirs: str, tmp_path: Path
) -> None:
    if os.geteuid():
        pytest.skip("only root can give a file away")
    runs = tmp_path / "runs"
    run = killed(runs / "one" if "directory" not in theirs else tmp_path / "elsewhere")
    file = given = run / "run.json"
    if theirs == "link of run.json":
        file = run.rename(tmp_path / "moved") and tmp_path / "moved" / "run.json"
        run.mkdir()
        given.symlink_to(file)
    elif theirs == "link of the directory":
        runs.mkdir()
        given = runs / "one"
        given.symlink_to(run)
    os.chown(given, NOBODY, NOBODY, follow_symlinks=False)
    before = (file.read_text(), given.lstat().st_uid, given.is_symlink())
    assert "another user" in said("runs", str(runs))
    assert (file.read_text(), given.lstat().st_uid, given.is_symlink()) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_a_read_only_copy_is_read_by_every_command_and_left_as_it_is(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also by root, who may write anywhere."""
    run = killed(tmp_path / "one")
    finish(run)
    run.chmod(0o555)
    before = listing(run)
    try:
        text = said(
            *command.format(tmp_path).split(),
            *["-o", str(tmp_path / "out")] * ("export" in command),
        )
        assert text
    except (SystemExit, VoirError) as error:  # voir doctor: something is bad; * is no query.
        assert command.startswith("doctor") or "*" in command, error
    finally:
        run.chmod(0o755)
    assert listing(run) == before
    assert "finished" not in capfd.readouterr().err


def test_reading_in_python_writes_nothing_and_commands_say_what_they_finished(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = killed(tmp_path / "one")
    before = listing(run)
    read = read_run(run)
    assert (read.facts["ended_by"], read.finished, read.unfinished) == ("killed", False, True)
    with closing(open_database(run)) as database:
        (value,) = database.execute("select value from run where key = 'ended_by'").fetchone()
        assert value == "killed"
    with pytest.raises(VoirError, match="has not been exported") as none:
        open_trace(run)
    assert none.value.slug == "no-trace"
    assert listing(run) == before
    for _ in range(2):
        said("show", str(run))
    assert capfd.readouterr().err == f"voir: {run}: it was killed; its record is finished now\n"
    assert (read_run(run).unfinished, len(open_trace(run).processes)) == (False, 1)


def test_a_record_of_a_newer_voir_is_a_line_of_that_run_only(tmp_path: Path) -> None:
    for name, facts in (("a", {"schema": 3, "version": "9.1"}), ("b", {"schema": 2}), ("c", {})):
        (tmp_path / name).mkdir()
        facts |= {"script": f"{name}.py", "started": "2026-11-28T00:00:00Z", "ended": "x"}
        (tmp_path / name / "run.json").write_text(json.dumps(facts))
    listed = said("runs", str(tmp_path), width=200)
    assert [text for text in (NEWER, "b.py", "c.py") if text not in listed] == []
    new = tmp_path / "a"
    for argv in (["show", new], ["sql", new], ["compare", new, tmp_path / "b"]):
        with pytest.raises(VoirError, match=re.escape(NEWER)):
            said(*map(str, argv))


def test_what_is_ones_own_is_finished_whatever_links_lie_there(tmp_path: Path) -> None:
    run, secret = killed(tmp_path / "one"), tmp_path / "secret"
    secret.write_text("kept")
    for name in ("trace.pftrace.part", "trace.pftrace", f".run.json.{os.getpid()}.tmp"):
        (run / name).symlink_to(secret)
    assert "killed" in said("runs", str(tmp_path))
    assert "another user" not in said("show", str(run))
    assert json.loads((run / "run.json").read_text())["ended_by"] == "killed"
    assert (run / "trace.pftrace").stat().st_size > 100
    assert secret.read_text() == "kept"


def fifo(path: Path) -> None:
    os.mkfifo(path)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def large(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(10 << 30)


def brackets(path: Path) -> None:
    path.write_text('{"started": "2026", "tasks": ' + "[" * 100_000)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def types(path: Path) -> None:
    path.write_text('{"started": [], "tasks": {"a": {"rate": "x", "loss": [1], "steps": {}}}}')


def numbers(path: Path) -> None:
    host = {"hostname": os.uname().nodename}
    path.write_text(json.dumps({"pid": 10**30, "started": "2026", "provenance": host}))


@pytest.mark.parametrize("lay", [fifo, zeros, large, brackets, loop, types, numbers])
@pytest.mark.parametrize("name", ["run.json", "rank0/run.json", "job.json", "metrics.jsonl"])
def test_one_run_that_cannot_be_read_is_one_line_and_the_others_are_listed(
    name: str, lay: Callable[[Path], None], tmp_path: Path
) -> None:
    for each in ("a", "b"):
        (tmp_path / each).mkdir()
        facts = {"script": f"{each}.py", "started": "2026-11-28T00:00:00Z", "ended": "x"}
        (tmp_path / each / "run.json").write_text(json.dumps(facts))
    (tmp_path / "hostile" / name).parent.mkdir(parents=True)
    lay(tmp_path / "hostile" / name)
    lines = said("runs", str(tmp_path)).splitlines()
    assert len(lines) <= 4
    assert {"a.py", "b.py"} <= {word for line in lines for word in line.split()}
    for command in ("show", "sql", "doctor"):
        try:
            said(command, str(tmp_path / "hostile"))
        except (VoirError, SystemExit):
            pass


def test_what_others_write_is_shown_without_what_a_terminal_obeys(tmp_path: Path) -> None:
    run = killed(tmp_path / "one")
    (run / "trace.log").unlink()
    facts = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**facts, "ended": "x", "ended_by": HOSTILE}))
    for command in ("doctor", "show"):
        text = said(command, str(run))
        assert not {"\x1b", "\x9b", "\u202e", "\u2066"} & {*text}
        assert "dlo" in text


def test_exceptions_are_quoted_without_what_a_terminal_obeys(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("voirfile.py", f"raise ValueError({HOSTILE!r} + '\\nmore')\n")
    place.write("main.py", "print('ran')\n")
    done = place.voir("main.py")
    assert (done.seen, "dlo" in done.stderr) == ((0, "ran\n"), True)
    assert not {"\x1b", "\x9b", "\u202e", "\u2066"} & {*done.stderr}
