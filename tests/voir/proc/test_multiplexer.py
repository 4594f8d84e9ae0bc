"""Programs run as processes; what they write comes as entries, in the order of each stream."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pytest

from overseer.record.smuggle import encode_as_escape_sequence
from voir.proc import LogEntry, Multiplexer, Source, run

SH = ["bash", "-c"]


@dataclass
class Numbered(LogEntry):
    number: int = 0


def sh(script: str, **options: Any) -> list[LogEntry]:
    return list(run([*SH, script], **options))


def on(pipe: str | None, entries: list[LogEntry]) -> list[tuple[str, object]]:
    return [(e.event, e.data) for e in entries if e.pipe == pipe]


def test_a_program_starts_prints_logs_and_ends() -> None:
    entries = sh("echo out; echo err >&2; echo '{\"loss\": 1}' >&$DATA_FD; exit 3")
    assert on("stdout", entries) == [("line", "out\n")]
    assert on("stderr", entries) == [("line", "err\n")]
    assert on("data", entries) == [("data", {"loss": 1})]
    (start, begun), (end, ended) = on(None, entries)
    assert (start, end) == ("start", "end") == (entries[0].event, entries[-1].event)
    assert begun["command"] == ended["command"]  # type: ignore[index]
    assert ended["return_code"] == 3  # type: ignore[index]


def test_an_event_with_a_name_is_that_event_and_keeps_its_other_keys() -> None:
    entries = sh(
        'echo \'{"$event": "stop", "$data": {"a": 1}, "number": 7}\' >&$DATA_FD',
        constructor=Numbered,
    )
    (stop,) = [entry for entry in entries if entry.pipe == "data"]
    assert stop == Numbered("stop", {"a": 1}, "data", 7)


def test_what_is_no_object_on_the_data_stream_is_a_format_error() -> None:
    entries = sh("echo gargle >&$DATA_FD; echo 5 >&$DATA_FD; echo '[1]' >&$DATA_FD")
    (wrong, five, right) = on("data", entries)
    assert wrong[0] == five[0] == "format_error"
    assert wrong[1]["line"] == "gargle\n"  # type: ignore[index]
    assert wrong[1]["type"] == "JSONDecodeError"  # type: ignore[index]
    assert right == ("data", [1])


def test_an_event_that_the_constructor_refuses_is_a_format_error() -> None:
    entries = sh('echo \'{"$event": "x", "surprise": 1}\' >&$DATA_FD')
    ((event, said),) = on("data", entries)
    assert (event, said["type"]) == ("format_error", "TypeError")  # type: ignore[index]


def test_bytes_that_are_no_text_are_binary_and_json_can_hold_them() -> None:
    entries = sh(r"printf 'ok\n\303(\nok\n'; printf '\377\n' >&$DATA_FD")
    assert on("stdout", entries) == [("line", "ok\n"), ("binary", b"\xc3(\n"), ("line", "ok\n")]
    assert on("data", entries) == [("binary", b"\xff\n")]
    assert all(json.loads(entry.json()) for entry in entries)


def test_a_line_that_comes_in_parts_is_one_line_and_the_last_needs_no_end() -> None:
    entries = sh("printf one; sleep 0.05; printf 'two\\nthree'")
    assert on("stdout", entries) == [("line", "onetwo\n"), ("line", "three")]


def test_a_huge_line_is_one_line() -> None:
    size = 5_000_000
    code = f"import sys; sys.stdout.write('x' * {size} + '\\n')"
    entries = list(run([sys.executable, "-S", "-c", code]))
    assert [len(str(data)) for _, data in on("stdout", entries)] == [size + 1]


def test_a_program_that_closes_its_streams_is_waited_for() -> None:
    entries = sh("echo last words; exec >&- 2>&-; sleep 0.2; exit 4")
    assert on("stdout", entries) == [("line", "last words\n")]
    assert entries[-1].data["return_code"] == 4


def test_a_program_that_is_killed_ends_with_the_signal() -> None:
    entries = sh("echo here; kill -9 $$; echo never")
    assert on("stdout", entries) == [("line", "here\n")]
    assert entries[-1].data["return_code"] == -signal.SIGKILL


def test_what_it_leaves_running_is_not_waited_for() -> None:
    started = time.monotonic()
    entries = sh("echo parent; sleep 30 & exit 0")
    assert entries[-1].event == "end"
    assert on("stdout", entries) == [("line", "parent\n")]
    assert time.monotonic() - started < 20


def test_several_programs_keep_the_order_of_each_stream() -> None:
    multiplexer = Multiplexer(timeout=None, constructor=Numbered)
    loop = (
        "i=0; while [ $i -lt 200 ]; do echo $i; echo $i >&2; echo [$i] >&$DATA_FD; i=$((i+1)); done"
    )
    for number in range(3):
        multiplexer.start([*SH, loop], info={"number": number})
    seen: dict[tuple[int, str | None], list[int]] = defaultdict(list)
    for entry in multiplexer:
        if entry.event == "line":
            seen[entry.number, entry.pipe].append(int(entry.data))
        elif entry.event == "data":
            seen[entry.number, entry.pipe].append(entry.data[0])
    assert len(seen) == 9
    assert all(order == list(range(200)) for order in seen.values())


def test_a_program_may_be_started_while_entries_are_read() -> None:
    multiplexer = Multiplexer(timeout=None, constructor=Numbered)
    multiplexer.start([*SH, "echo first"], info={"number": 1})
    seen = []
    for entry in multiplexer:
        seen.append((entry.event, entry.number))
        if seen[-1] == ("line", 1):
            multiplexer.start([*SH, "echo second"], info={"number": 2})
    assert {("start", 2), ("line", 2), ("end", 2)} <= set(seen)
    assert multiplexer.processes == {}


def test_with_a_timeout_the_caller_gets_its_turn() -> None:
    multiplexer = Multiplexer(timeout=5)
    process = multiplexer.start(["sleep", "30"], info={})
    turns = 0
    for entry in multiplexer:
        turns += entry is None
        if turns == 3:
            process.kill()
    assert turns >= 3
    assert multiplexer.processes == {}


def test_the_table_of_processes_is_what_tools_that_end_them_expect() -> None:
    multiplexer = run(["sleep", "30"], info={"number": 1}, constructor=Numbered, timeout=0)
    for process, (_sources, argv, info, _w) in multiplexer.processes.items():
        assert (argv, info) == (["sleep", "30"], {"number": 1})
        process.kill()
    entries = [entry for entry in multiplexer if entry is not None]
    assert [entry.event for entry in entries] == ["start", "end"]


def test_entries_need_be_no_log_entries() -> None:
    made = list(run(["echo", "hi"], info={"pack": 1}, constructor=lambda **kwargs: kwargs))
    assert {"event": "line", "data": "hi\n", "pipe": "stdout", "pack": 1} in made


def test_entries_put_into_the_buffer_come_before_what_is_read() -> None:
    multiplexer = run(["echo", "hi"])
    multiplexer.buffer.append(LogEntry("data", {"rate": 1}, "data"))
    assert [entry.event for entry in multiplexer] == ["start", "data", "line", "end"]


def test_a_command_that_is_not_there_leaves_nothing_behind() -> None:
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    multiplexer = Multiplexer(timeout=None)
    with pytest.raises(FileNotFoundError):
        multiplexer.start(["no-such-command-anywhere"], info={})
    assert list(multiplexer) == []
    assert not before or set(os.listdir("/proc/self/fd")) == before


def test_all_descriptors_are_closed_at_the_end() -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("there is no /proc")
    before = set(os.listdir("/proc/self/fd"))
    sh("echo hi")
    assert set(os.listdir("/proc/self/fd")) == before


def test_data_hidden_in_stdout_comes_out_of_it() -> None:
    secret = encode_as_escape_sequence('{"secret": true}\n')
    entries = list(run(["echo", "hello", secret, "world"], use_stdout=True))
    assert on("stdout", entries) == [("line", "hello  world\n")]
    assert on("data", entries) == [("data", {"secret": True})]


def test_a_process_that_somebody_else_started_can_be_read() -> None:
    process = subprocess.Popen(["echo", "hi"], stdout=subprocess.PIPE)
    multiplexer = Multiplexer(timeout=None)
    source = Source(process.stdout, {"pipe": "stdout"})
    multiplexer.add_process(proc=process, info={}, argv=["echo"], streams=[source], w=None)
    assert [entry.event for entry in multiplexer] == ["line", "end"]


def test_waiting_leaves_the_processor_alone() -> None:
    calls = []

    class Counting(Multiplexer):
        def _wait(self) -> set[int]:
            calls.append(1)
            return super()._wait()

    multiplexer = Counting(timeout=None)
    multiplexer.start([*SH, "exec >&- 2>&-; sleep 0.5"], info={})
    assert [entry.event for entry in multiplexer] == ["start", "end"]
    assert len(calls) < 15  # Once for each stream's end and the program's; 20 a second without.


def test_every_byte_and_every_line_of_much_output_arrives() -> None:
    code = "import os\nblock = (b'x' * 99 + b'\\n') * 1000\nfor _ in range(300): os.write(1, block)"
    entries = list(run([sys.executable, "-S", "-c", code]))
    lengths = [len(str(data)) for _, data in on("stdout", entries)]
    assert (len(lengths), set(lengths)) == (300_000, {100})
