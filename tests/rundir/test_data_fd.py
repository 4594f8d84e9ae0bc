"""``DATA_FD``: logged events go to that descriptor, and to no other ever; hidden on a terminal."""

from __future__ import annotations

import io
import json
import math
import os
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overseer.rundir import datafd, smuggle
from overseer.rundir.datafd import DataFd
from overseer.rundir.smuggle import Separator, SmuggleWriter, pieces


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):  # The test closed it.
            os.close(end)


def writer(fd, problems, **options):
    return DataFd({"DATA_FD": str(fd)}, problems.append, **options)


def test_logged_events_reach_the_reader_and_nan_stays_a_number(pipe, problems):
    data = writer(pipe[1], problems, owned=True)
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        data.write({"child": True})
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, "a forked child writes nothing"
    data.write({"loss": math.inf, "task": "train"})
    data.write({"loss": math.nan})
    first, second = map(json.loads, os.read(pipe[0], 1000).splitlines())
    assert first == {"loss": math.inf, "task": "train"}
    assert math.isnan(second["loss"])
    data.close()
    assert (data.enabled, data.failure(), problems) == (False, None, [])
    with pytest.raises(OSError):
        os.fstat(pipe[1])


BIG = "99999999999999999999"
WHY = {"not a number": ["three", "0x3"], "not open": ["987", "-1", BIG], "reading only": ["read"]}


@pytest.mark.parametrize(
    ("value", "why"), [("", None), (None, None), *((v, w) for w, vs in WHY.items() for v in vs)]
)
def test_a_value_that_is_no_open_descriptor_is_one_clear_problem(value, why, pipe, problems, capfd):
    value = str(pipe[0]) if value == "read" else value
    data = DataFd({} if value is None else {"DATA_FD": value}, problems.append)
    for step in (1, 2):
        data.write({"step": step})
    assert [problem.slug for problem in problems] == (["data-fd"] if why else [])
    assert not why or (why in problems[0].what and "unset it" in problems[0].remedy)
    assert (data.failure() or {}).get("state") == ("failed" if why else None)
    assert (data.enabled, capfd.readouterr()) == (False, ("", ""))


@pytest.mark.parametrize("blocked", [None, set(), {signal.SIGPIPE}])
def test_a_reader_that_goes_away_is_told_once_and_kills_no_script(pipe, problems, blocked):
    """Not with SIGPIPE as python has it, with its default, nor blocked by the script."""
    handler = signal.SIG_IGN if blocked is None else signal.SIG_DFL
    before = signal.signal(signal.SIGPIPE, handler)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, blocked or ())
    try:
        data = writer(pipe[1], problems)
        os.close(pipe[0])
        for step in (1, 2):
            data.write({"step": step})
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mask | (blocked or set())
        assert signal.sigpending() == set()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGPIPE, before)
    assert ["Broken pipe" in problem.what for problem in problems] == [True]
    assert "Broken pipe" in data.failure()["error"]


def test_a_file_of_the_scripts_that_got_the_number_is_left_alone(pipe, problems, tmp_path):
    data = writer(pipe[1], problems)
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
    data = writer(ours.fileno(), problems)
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
    data = writer(pipe[1], problems)
    for _ in range(100):
        data.write({"text": "x" * 9000})
    assert (data.enabled, len(problems)) == (False, 1)


# Hidden in a stream of text: it comes out again whole, and the text as if it were not there.


def separated(stream):
    separator = Separator()
    fed = [separator.feed(chunk) for chunk in stream]
    return b"".join(s for s, _ in fed) + separator.rest(), b"".join(h for _, h in fed)


@pytest.mark.parametrize("fd", [1, 2])
def test_on_a_standard_stream_lines_are_hidden_in_escape_sequences(fd, problems, capfd):
    data = writer(fd, problems)
    data.write({"step": 1})
    os.write(fd, b"shown\n")
    data.write({"text": "x" * 5000})
    shown, hidden = separated([capfd.readouterr()[fd - 1].encode()])
    assert (shown, problems) == (b"shown\n", [])
    assert [json.loads(line) for line in hidden.splitlines()] == [{"step": 1}, {"text": "x" * 5000}]
    assert max(len(piece) for piece in pieces(b"x" * 10_000)) <= select.PIPE_BUF


def test_a_sequence_is_what_other_readers_of_the_format_expect():
    for text, sequence in (("Jo\n", "\x1b[4:6?0:z"), ("é", "\x1b[<3:9z"), ("", "\x1b[z")):
        assert smuggle.encode_as_escape_sequence(text) == sequence
        assert smuggle.decode_escape_sequence(sequence) == text
    with pytest.raises(ValueError, match="not an escape sequence"):
        smuggle.decode_escape_sequence("plain text")


TEXTS = st.lists(st.binary().filter(lambda text: b"\x1b" not in text), min_size=3, max_size=6)


@given(TEXTS, st.binary(max_size=5000), st.lists(st.integers(0, 10_000), max_size=8))
def test_any_cut_of_the_stream_gives_the_same(texts, data, cuts):
    hidden = [*pieces(data), *[b""] * 6]  # Three pieces at most.
    stream = b"".join(shown + piece for shown, piece in zip(texts, hidden, strict=False))
    places = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    found = separated(stream[a:b] for a, b in pairwise(places))
    assert found == (b"".join(texts), data)


@pytest.mark.parametrize(
    "foreign",
    [b"\x1b[1;31mred\x1b[0m", b"\x1b[123z", b"\x1b", b"\x1b[", b"\x1b[12", b"\x1b]0;title\x07"],
)
def test_other_escape_sequences_are_left_as_they_are(foreign):
    for stream in ([foreign], [bytes([b]) for b in foreign]):
        assert separated(stream) == (foreign, b"")


def test_a_sequence_of_megabytes_in_small_chunks_takes_time_as_its_bytes():
    data = b"x" * 2_000_000
    stream = smuggle.hide(data)
    small = [stream[i : i + 1000] for i in range(0, len(stream), 1000)]
    assert separated(small) == (b"", data)


def test_a_writer_hides_what_is_printed_and_closes_what_is_no_standard_stream(capsys):
    with SmuggleWriter(sys.stdout) as hidden:
        print('{"a": 1}', file=hidden)
    print("still here")
    assert separated([capsys.readouterr().out.encode()]) == (b"still here\n", b'{"a": 1}\n')
    stream = io.StringIO()
    with SmuggleWriter(stream) as hidden:
        assert (hidden.write("four"), hidden.write("")) == (4, 0)
        assert stream.getvalue() == smuggle.encode_as_escape_sequence("four")
    assert stream.closed
