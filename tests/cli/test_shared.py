"""A directory of runs that others can write to: reading it writes nothing, waits for nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from overseer.errors import VoirError
from overseer.record.runfile import utc
from tests.running import Place
from tests.trace.conftest import Making

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
