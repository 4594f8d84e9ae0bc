"""Programs run as processes; what they write comes as entries, in the order of each stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overseer.rundir.smuggle import encode_as_escape_sequence
from voir.proc import Lines, LogEntry, Multiplexer, Source, run

SH = ["bash", "-c"]
SLEEP = ["sleep", "30"]
WAIT = None
ALL_PIPES = "echo $i; echo $i >&2; echo [$i] >&$DATA_FD"
NUMBERS = f"i=0; while [ $i -lt 200 ]; do {ALL_PIPES}; i=$((i+1)); done"


@dataclass
class Numbered(LogEntry):
    number: int = 0


def by_pipe(entries: list[LogEntry]) -> dict[str, list[Any]]:
    """What came from each pipe; of what is no plain line, the event too; and how it ended."""
    found: dict[str, list[Any]] = defaultdict(list)
    for entry in entries[1:-1]:
        data = entry.data
        if entry.event == "format_error":
            data = data["line"], data["type"]
        found[entry.pipe or ""].append(data if entry.event == "line" else (entry.event, data))
    start, end = entries[0], entries[-1]
    assert (start.event, start.pipe, end.event, end.pipe) == ("start", None, "end", None)
    assert start.data["command"] == end.data["command"]
    assert start.data["time"] <= end.data["time"]
    return {**found, "end": end.data["return_code"]}


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (
            "echo out; echo err >&2; echo '{\"loss\": 1}' >&$DATA_FD; exit 3",
            {"stdout": ["out\n"], "stderr": ["err\n"], "data": [("data", {"loss": 1})], "end": 3},
        ),
        (
            "echo gargle >&$DATA_FD; echo 5 >&$DATA_FD; echo '[1]' >&$DATA_FD; "
            'echo \'{"$event": "x", "surprise": 1}\' >&$DATA_FD',
            {
                "data": [
                    ("format_error", ("gargle\n", "JSONDecodeError")),
                    ("format_error", ("5\n", "TypeError")),
                    ("data", [1]),
                    ("format_error", ('{"$event": "x", "surprise": 1}\n', "TypeError")),
                ],
                "end": 0,
            },
        ),
        (
            r"printf 'ok\n\303(\nok\n'; printf '[1]\n\377\n' >&$DATA_FD",
            {
                "stdout": ["ok\n", ("binary", b"\xc3(\n"), "ok\n"],
                "data": [("data", [1]), ("binary", b"\xff\n")],
                "end": 0,
            },
        ),
        ("printf one; sleep 0.05; printf 'two\\nend'", {"stdout": ["onetwo\n", "end"], "end": 0}),
        ("echo last; exec >&- 2>&-; sleep 0.2; exit 4", {"stdout": ["last\n"], "end": 4}),
        ("echo here; kill -9 $$; echo never", {"stdout": ["here\n"], "end": -9}),
        ("echo parent; sleep 30 & exit 0", {"stdout": ["parent\n"], "end": 0}),
    ],
)
def test_what_a_program_writes_and_how_it_ends(script: str, expected: dict[str, Any]) -> None:
    started = time.monotonic()
    entries = list(run([*SH, script]))
    assert by_pipe(entries) == expected
    assert all(json.loads(entry.json()) for entry in entries)
    assert time.monotonic() - started < 20


def test_an_event_with_a_name_is_that_event_and_keeps_its_other_keys() -> None:
    script = 'echo \'{"$event": "stop", "$data": {"a": 1}, "number": 7}\' >&$DATA_FD'
    entries = list(run([*SH, script], constructor=Numbered))
    assert entries[1] == Numbered("stop", {"a": 1}, "data", 7)
    assert (entries[1].get("number", 0), entries[1].get("no", 5)) == (7, 5)


@given(st.lists(st.binary(max_size=50), max_size=20))
def test_lines_come_out_whole_however_the_bytes_arrive(chunks: list[bytes]) -> None:
    lines = Lines(lambda event, data: data if event == "binary" else data.encode())
    found = [line for chunk in chunks for line in lines.feed(chunk)]
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in found)
    assert b"".join([*found, *lines.feed(b"", last=True)]) == b"".join(chunks)


def test_only_a_newline_ends_a_line_and_what_is_no_text_leaves_its_neighbours_text() -> None:
    lines = Lines(lambda event, data: data)
    assert lines.feed(b"one\n\xff\xfe\nthree\n") == ["one\n", b"\xff\xfe\n", "three\n"]
    assert lines.feed("a\rb\u2028c\x0bd\ne".encode()) == ["a\rb\u2028c\x0bd\n"]
    assert lines.feed(b"", last=True) == ["e"]


def test_every_byte_and_every_line_of_much_output_arrives() -> None:
    code = """if True:
        import os
        block = (b"x" * 99 + b"\\n") * 1000
        for _ in range(100): os.write(1, block)
        os.write(1, b"y" * 5_000_000 + b"\\n")"""
    *lines, huge = by_pipe(list(run([sys.executable, "-S", "-c", code])))["stdout"]
    assert (len(lines), set(map(len, lines)), len(huge)) == (100_000, {100}, 5_000_001)


def test_several_programs_keep_the_order_of_each_stream() -> None:
    multiplexer = Multiplexer(WAIT, Numbered)
    for number in range(3):
        multiplexer.start([*SH, NUMBERS], info={"number": number})
    seen: dict[tuple[int, str | None], list[int]] = defaultdict(list)
    for entry in multiplexer:
        if entry.pipe:
            value = entry.data if entry.event == "line" else entry.data[0]
            seen[entry.number, entry.pipe].append(int(value))
    assert len(seen) == 9
    assert all(order == list(range(200)) for order in seen.values())


def test_a_program_may_be_started_while_entries_are_read() -> None:
    multiplexer = run(["echo", "first"], info={"number": 1}, constructor=Numbered)
    seen = []
    for entry in multiplexer:
        seen.append((entry.event, entry.number))
        if seen[-1] == ("line", 1):
            multiplexer.start(["echo", "second"], info={"number": 2})
    assert {("start", 2), ("line", 2), ("end", 2)} <= set(seen)
    assert multiplexer.processes == {}


def test_with_a_timeout_the_caller_gets_its_turn_and_the_table_of_processes_ends_them() -> None:
    multiplexer = run(SLEEP, info={"number": 1}, constructor=Numbered, timeout=5)
    events = []
    for entry in multiplexer:
        events.append(entry and entry.event)
        if events.count(None) == 3:
            for process, (_sources, argv, info, _w) in multiplexer.processes.items():
                assert (argv, info) == (SLEEP, {"number": 1})
                process.kill()
    assert [event for event in events if event] == ["start", "end"]
    assert multiplexer.processes == {}


def test_entries_need_be_no_log_entries_and_those_in_the_buffer_come_first() -> None:
    multiplexer = run(["echo", "hi"], info={"pack": 1}, constructor=lambda **kwargs: kwargs)
    multiplexer.buffer.append({"event": "mine"})
    _start, mine, line, _end = multiplexer
    assert mine == {"event": "mine"}
    assert line == {"event": "line", "data": "hi\n", "pipe": "stdout", "pack": 1}


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_all_descriptors_are_closed_at_the_end() -> None:
    before = set(os.listdir("/proc/self/fd"))
    multiplexer = Multiplexer(WAIT)
    with pytest.raises(FileNotFoundError):
        multiplexer.start(["no-such-command-anywhere"])
    assert list(multiplexer) == []
    assert len(list(run(["echo", "hi"]))) == 3
    assert set(os.listdir("/proc/self/fd")) == before


def test_data_hidden_in_stdout_comes_out_of_it() -> None:
    secret = encode_as_escape_sequence('{"secret": true}\n')
    entries = list(run(["echo", "hello", secret, "world"], use_stdout=True))
    expected = {"stdout": ["hello  world\n"], "data": [("data", {"secret": True})], "end": 0}
    assert by_pipe(entries) == expected


def test_a_process_that_somebody_else_started_can_be_read() -> None:
    process = subprocess.Popen(["echo", "hi"], stdout=subprocess.PIPE)
    multiplexer = Multiplexer(WAIT)
    sources = [Source(process.stdout, {"pipe": "stdout"}), Source(None, {})]
    to_close = os.dup(0)
    multiplexer.add_process(proc=process, info={}, argv=["echo"], streams=sources, w=to_close)
    assert [entry.event for entry in multiplexer] == ["line", "end"]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(to_close)


@pytest.mark.parametrize("pidfd", [True, False])
def test_waiting_leaves_the_processor_alone(pidfd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not pidfd:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    multiplexer = run([*SH, "exec >&- 2>&-; sleep 0.3"])
    began = time.process_time()
    assert [entry.event for entry in multiplexer] == ["start", "end"]
    assert time.process_time() - began < 0.1
