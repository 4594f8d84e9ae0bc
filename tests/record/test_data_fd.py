"""``DATA_FD``: logged events go to that descriptor, and to no other ever."""

from __future__ import annotations

import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from overseer.record import datafd, lines
from overseer.record.datafd import DataFd
from overseer.smuggle import Separator, pieces

ROOT = Path(__file__).parents[2]


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            pass  # The test closed it.


def test_logged_events_reach_the_reader_as_json_lines(pipe, problems):
    data = DataFd({"DATA_FD": str(pipe[1])}, problems.append)
    data.write({"loss": float("inf"), "task": "train"})
    data.write({"step": 2})
    lines_read = os.read(pipe[0], 1000).splitlines()
    assert [json.loads(line) for line in lines_read] == [
        {"loss": float("inf"), "task": "train"},
        {"step": 2},
    ]
    assert (data.enabled, data.failure(), problems) == (True, None, [])


def test_a_loss_that_is_nan_is_a_number_to_the_reader(pipe, problems):
    data = DataFd({"DATA_FD": str(pipe[1])}, problems.append)
    data.write({"loss": float("nan"), "of": [float("nan")], float("nan"): None})
    read = json.loads(os.read(pipe[0], 1000))
    assert math.isnan(read["loss"])
    assert math.isnan(read["of"][0])
    assert read["NaN"] is None


@pytest.mark.parametrize("environ", [{}, {"DATA_FD": ""}])
def test_without_the_variable_nothing_is_written_anywhere(environ, problems, monkeypatch):
    def forbidden(*args):
        raise AssertionError("written")

    data = DataFd(environ, problems.append)
    monkeypatch.setattr(lines.os, "write", forbidden)
    data.write({"step": 1})
    assert (data.enabled, data.failure(), problems) == (False, None, [])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("three", "not a number"),
        ("3.5", "not a number"),
        ("0x3", "not a number"),
        ("987", "not open"),
        ("-1", "not open"),
        ("99999999999999999999", "not open"),
    ],
)
def test_a_value_that_is_no_open_descriptor_is_one_clear_problem(value, why, problems, capfd):
    data = DataFd({"DATA_FD": value}, problems.append)
    data.write({"step": 1})
    data.write({"step": 2})
    (problem,) = problems
    assert problem.slug == "data-fd"
    assert problem.who == f"DATA_FD={value}"
    assert why in problem.what
    assert "unset it" in problem.remedy
    assert not data.enabled
    assert data.failure()["state"] == "failed"
    assert capfd.readouterr() == ("", "")


def test_a_descriptor_that_is_open_for_reading_only_is_a_problem(pipe, problems):
    DataFd({"DATA_FD": str(pipe[0])}, problems.append)
    assert "reading only" in problems[0].what


def test_a_reader_that_goes_away_is_told_once_and_the_script_goes_on(pipe, problems):
    data = DataFd({"DATA_FD": str(pipe[1])}, problems.append)
    data.write({"step": 1})
    os.close(pipe[0])
    for step in (2, 3):
        data.write({"step": step})
    assert (data.written, data.lost, len(problems)) == (1, 2, 1)
    assert "Broken pipe" in problems[0].what


def test_a_reader_that_goes_away_does_not_kill_a_script_that_has_default_sigpipe():
    code = (
        "import os, signal\n"
        "from overseer.record.datafd import DataFd\n"
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "read, write = os.pipe()\n"
        "data = DataFd({'DATA_FD': str(write)}, lambda problem: None)\n"
        "os.close(read)\n"
        "data.write({'step': 1})\n"
        "print(data.lost, signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.sigpending())\n"
        "os.write(1, b'alive\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-u", "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "1 set() set()\nalive\n"
    assert done.returncode == 0


def test_a_file_of_the_scripts_that_got_the_number_is_left_alone(pipe, problems, tmp_path):
    data = DataFd({"DATA_FD": str(pipe[1])}, problems.append)
    theirs = os.open(tmp_path / "theirs", os.O_CREAT | os.O_RDWR)
    os.dup2(theirs, pipe[1])
    os.close(theirs)
    data.write({"step": 1})
    assert (tmp_path / "theirs").read_bytes() == b""
    assert (data.lost, len(problems)) == (1, 1)


def test_a_slow_reader_of_a_non_blocking_descriptor_still_gets_whole_lines(problems):
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    received = bytearray()

    def read():
        while chunk := theirs.recv(1 << 16):
            received.extend(chunk)

    reader = threading.Thread(target=read)
    data = DataFd({"DATA_FD": str(ours.fileno())}, problems.append)
    reader.start()
    for step in range(200):
        data.write({"step": step, "text": "x" * 9000})
    ours.close()
    reader.join()
    theirs.close()
    assert [json.loads(line)["step"] for line in received.splitlines()] == list(range(200))
    assert problems == []


def test_a_line_that_was_given_up_does_not_spoil_the_next(pipe, problems, monkeypatch):
    monkeypatch.setattr(datafd, "PATIENCE_MS", 0)
    os.set_blocking(pipe[1], False)
    data = DataFd({"DATA_FD": str(pipe[1])}, problems.append)
    while not data.lost:
        data.write({"text": "x" * 9000})
    received = os.read(pipe[0], 1 << 20)
    data.write({"last": True})
    *whole, torn, last = (received + os.read(pipe[0], 1 << 20)).splitlines()
    assert json.loads(last) == {"last": True}
    assert len(whole) == data.written - 1
    assert all(json.loads(line) for line in whole)
    assert torn
    assert not torn.endswith(b"}")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_writes_nothing(pipe, problems):
    data = DataFd({"DATA_FD": str(pipe[1])}, problems.append)
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        data.write({"child": True})
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    data.write({"child": False})
    assert json.loads(os.read(pipe[0], 1000)) == {"child": False}


@pytest.mark.parametrize("fd", [1, 2])
def test_on_a_standard_stream_lines_are_hidden_in_escape_sequences(fd, problems, capfd):
    data = DataFd({"DATA_FD": str(fd)}, problems.append)
    data.write({"step": 1})
    os.write(fd, b"shown\n")
    data.write({"text": "x" * 5000})
    data.close()
    shown, hidden = Separator().feed(capfd.readouterr()[fd - 1].encode())
    assert (shown, problems) == (b"shown\n", [])
    assert [json.loads(line) for line in hidden.splitlines()] == [
        {"step": 1},
        {"text": "x" * 5000},
    ]


def test_a_sequence_fits_into_one_undivided_write():
    longest = max(len(piece) for piece in pieces(b"x" * 10_000))
    assert longest <= select.PIPE_BUF


def test_a_descriptor_that_is_owned_is_closed_at_the_end(pipe, problems):
    data = DataFd({"DATA_FD": str(pipe[1])}, problems.append, owned=True)
    data.write({"step": 1})
    data.close()
    with pytest.raises(OSError):
        os.fstat(pipe[1])
