"""Files are made where nothing was, read where they are files, and neither waits nor follows."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from overseer import files

SPARSE = 10 << 30


def test_a_whole_file_takes_the_place_of_a_link_and_leaves_what_that_led_to(tmp_path: Path) -> None:
    secret, path = tmp_path / "secret", tmp_path / "run.json"
    secret.write_text("kept")
    path.symlink_to(secret)
    with files.whole(path) as file:
        assert Path(file.name).parent == tmp_path
        file.write(b"new")
    assert (secret.read_text(), path.read_text(), path.is_symlink()) == ("kept", "new", False)
    assert sorted(os.listdir(tmp_path)) == ["run.json", "secret"]


def test_names_of_drafts_cannot_be_foreseen_and_nothing_is_left_of_a_failure(
    tmp_path: Path,
) -> None:
    names = []
    for _ in range(2):
        with pytest.raises(KeyError), files.whole(tmp_path / "x") as file:
            names.append(file.name)
            raise KeyError
    assert names[0] != names[1]
    assert not os.listdir(tmp_path)
    with pytest.raises(OSError) as caught, files.whole(tmp_path / "none/x"):
        pass
    assert caught.value.filename == str(tmp_path / "none/x")


def test_a_new_file_is_no_link_and_none_that_exists(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    for name in ("link", "file"):
        with pytest.raises(FileExistsError):
            files.new(tmp_path / name)
    with pytest.raises(OSError):
        files.descriptor(tmp_path / "link", os.O_WRONLY | os.O_APPEND)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    with open(tmp_path / "large", "wb") as file:
        file.truncate(SPARSE)
    for name, said in (
        ("fifo", "regular"),
        ("zeros", "regular"),
        (".", "regular"),
        ("large", "the limit is"),
    ):
        with pytest.raises(OSError, match=said):
            files.read(tmp_path / name)


def test_json_that_is_nested_too_deeply_is_a_value_error(tmp_path: Path) -> None:
    (tmp_path / "deep").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="deep"):
        files.read_json(tmp_path / "deep")


CLOSED = """
import os, sys
from overseer import files
for fd in (0, 1, 2): os.close(fd)
found = [files.new("a"), files.descriptor("a", os.O_WRONLY), files.reading("a").fileno()]
os._exit(0 if min(found) > 2 else 1)
"""


def test_no_file_is_a_standard_stream(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", CLOSED], cwd=tmp_path, env=env).returncode == 0


LIMITED = """
import os, resource, signal
from overseer import files
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
for _ in range(2):
    try:
        with files.whole("a") as file: file.write(b"x")
    except OSError as error: print(error.strerror, os.listdir(), flush=True)
print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.sigpending(), flush=True)
open("b", "wb", buffering=0).write(b"x")
"""


def test_a_limit_of_file_sizes_is_an_error_and_kills_only_by_the_scripts_own_writes(
    tmp_path: Path,
) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = [sys.executable, "-c", LIMITED]
    done = subprocess.run(run, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout == "File too large []\n" * 2 + "set() set()\n"
    assert done.returncode == -signal.SIGXFSZ
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 0
