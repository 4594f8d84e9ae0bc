"""``DATA_FD``: logged events go to that descriptor, and to no other ever."""

from __future__ import annotations

import json
import math
import os
import select
import signal
import socket
import threading

import pytest

from overseer.record import datafd
from overseer.record.datafd import DataFd
from overseer.record.smuggle import Separator, pieces


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:
            pass  # The test closed it.


def test_logged_events_reach_the_reader_and_nan_stays_a_number(pipe, problems):
    data = DataFd({"DATA_FD": str(pipe[1])}, problems.append, owned=True)
    data.write({"loss": float("inf"), "task": "train"})
    data.write({"loss": float("nan")})
    first, second = map(json.loads, os.read(pipe[0], 1000).splitlines())
    assert first == {"loss": float("inf"), "task": "train"}
    assert math.isnan(second["loss"])
    data.close()
    assert (data.enabled, data.failure(), problems) == (False, None, [])
    with pytest.raises(OSError):
        os.fstat(pipe[1])


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("three", "not a number"),
        ("0x3", "not a number"),
        ("987", "not open"),
        ("-1", "not open"),
        ("99999999999999999999", "not open"),
        ("reading", "reading only"),
        ("", None),
        (None, None),
    ],
)
def test_a_value_that_is_no_open_descriptor_is_one_clear_problem(value, why, pipe, problems, capfd):
    value = str(pipe[0]) if value == "reading" else value
    data = DataFd({} if value is None else {"DATA_FD": value}, problems.append)
    for step in (1, 2):
        data.write({"step": step})
    assert [problem.slug for problem in problems] == (["data-fd"] if why else [])
    assert not why or (why in problems[0].what and "unset it" in problems[0].remedy)
    assert (data.failure() or {}).get("state") == ("failed" if why else None)
    assert (data.enabled, capfd.readouterr()) == (False, ("", ""))


def test_a_reader_that_goes_away_is_told_once_and_the_script_goes_on(pipe, problems):
    data = DataFd({"DATA_FD": str(pipe[1])}, problems.append)
    os.close(pipe[0])
    for step in (1, 2):
        data.write({"step": step})
    assert len(problems) == 1
    assert "Broken pipe" in problems[0].what
    assert "Broken pipe" in data.failure()["error"]


@pytest.mark.parametrize("blocked", [set(), {signal.SIGPIPE}])
def test_a_reader_that_goes_away_kills_no_script_that_has_default_sigpipe(pipe, problems, blocked):
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        data = DataFd({"DATA_FD": str(pipe[1])}, problems.append)
        os.close(pipe[0])
        data.write({"step": 1})
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mask | blocked
        assert (len(problems), signal.sigpending()) == (1, set())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGPIPE, before)


def test_a_file_of_the_scripts_that_got_the_number_is_left_alone(pipe, problems, tmp_path):
    data = DataFd({"DATA_FD": str(pipe[1])}, problems.append)
    with (tmp_path / "theirs").open("wb") as theirs:
        os.dup2(theirs.fileno(), pipe[1])
    data.write({"step": 1})
    assert ((tmp_path / "theirs").read_bytes(), len(problems)) == (b"", 1)


def test_a_slow_reader_of_a_non_blocking_descriptor_gets_whole_lines(problems):
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


def test_one_that_reads_nothing_is_given_up(pipe, problems, monkeypatch):
    monkeypatch.setattr(datafd, "PATIENCE_MS", 0)
    os.set_blocking(pipe[1], False)
    data = DataFd({"DATA_FD": str(pipe[1])}, problems.append)
    for _ in range(100):
        data.write({"text": "x" * 9000})
    assert (data.enabled, len(problems)) == (False, 1)


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
    shown, hidden = Separator().feed(capfd.readouterr()[fd - 1].encode())
    assert (shown, problems) == (b"shown\n", [])
    assert [json.loads(line) for line in hidden.splitlines()] == [{"step": 1}, {"text": "x" * 5000}]
    assert max(len(piece) for piece in pieces(b"x" * 10_000)) <= select.PIPE_BUF
