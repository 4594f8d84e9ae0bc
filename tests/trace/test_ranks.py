"""The ranks of a job on one timeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from overseer.cli.trace import trace as command
from overseer.trace import channel, open_trace
from overseer.trace.process import Process
from overseer.trace.reading import trace_file
from overseer.trace.recorder import BEGIN, END, VALUE, recorder
from overseer.trace.tracks import COUNTER, Track
from overseer.trace.writer import Writer

from .processor import Processor

START = 1 << 60


def write(run: Path, rank: int, pid: int, boot: str = "a", stepped: int = 0) -> Path:
    """A rank's trace: two steps of a microsecond, from the same moment on in each rank.

    Args:
        run: The job's directory.
        rank: The process's.
        pid: The process's.
        boot: What tells its machine.
        stepped: By how much the time of day was set before this rank began.
    """

    def clocks() -> dict[str, Any]:
        return {"realtime_ns": START + stepped, "monotonic_ns": 0, "boot_id": boot}

    file = run / f"rank{rank}/trace.pftrace"
    file.parent.mkdir(parents=True)
    process = Process("main.py", 0, START + stepped, pid=pid, rank=rank, clocks=clocks)
    writer = Writer(str(file), process, recorder, 1 << 20, pytest.fail)
    recorder.start()
    app = channel("app", always=True)
    row, loss = Track("train steps"), Track("loss", COUNTER)
    with app.span("on a thread"):
        pass
    for step in range(2):
        app.at(1000 * step, BEGIN, row, "step", {"step": step})
        app.at(1000 * step + 999, END, row, "step")
        app.at(1000 * step + 999, VALUE, loss, rank + step / 2)
    writer.close()
    recorder.stop()
    return file


STEPS = """
    select p.name as process, p.pid as pid, s.name, s.ts from slice s
    join process_track t on s.track_id = t.id join process p using (upid)
    where s.name = 'step' order by p.pid, s.ts
"""


def merged(processor: Processor, run: Path) -> Processor:
    """The processor with the ranks in it."""
    file = run / "together.pftrace"
    said = command(["export", str(run), "--to", "perfetto", "-o", str(file)])
    assert "".join(said) == f"{file}\n"
    processor.load(file.read_bytes())
    assert processor.error == ""
    assert processor.errors() == {}
    return processor


def test_perfetto_shows_each_rank_as_a_process(tmp_path: Path, processor: Processor) -> None:
    for rank in (0, 1, 10):
        write(tmp_path, rank, pid=100 + rank)
    found = merged(processor, tmp_path).query(STEPS)
    assert [(r["process"], r["pid"], r["ts"] - START) for r in found] == [
        (f"rank {rank}: main.py", 100 + rank, ts) for rank in (0, 1, 10) for ts in (0, 1000)
    ]
    counters = "select p.name, c.value from counter c join process_counter_track t "
    counters += "on c.track_id = t.id join process p using (upid) order by p.pid, c.ts"
    assert [r["value"] for r in processor.query(counters)] == [0.0, 0.5, 1.0, 1.5, 10.0, 10.5]
    threads = processor.query("select upid from thread where name = 'MainThread'")
    assert len({r["upid"] for r in threads}) == 3


def test_processes_of_several_machines_may_have_one_number(
    tmp_path: Path, processor: Processor
) -> None:
    for rank, boot in enumerate("ab"):
        write(tmp_path, rank, pid=7, boot=boot)
    found = merged(processor, tmp_path).query(STEPS)
    assert [r["process"] for r in found] == ["rank 0: main.py"] * 2 + ["rank 1: main.py"] * 2
    assert len({r["pid"] for r in found}) == 2
    summary = "".join(command(["summary", str(tmp_path)]))
    assert "of 2 machines, whose clocks may differ" in summary


def test_a_time_of_day_that_was_set_meanwhile_is_made_up_for(
    tmp_path: Path, processor: Processor
) -> None:
    write(tmp_path, 0, pid=100)
    write(tmp_path, 1, pid=101, stepped=5_000_000_000)
    found = merged(processor, tmp_path).query(STEPS)
    assert [r["ts"] - START for r in found] == [0, 1000, 0, 1000]
    read = [one.start - START for one in open_trace(tmp_path).slices() if one.label == "step"]
    assert read == [0, 1000, 0, 1000]
    assert [t - START for t, _ in open_trace(tmp_path).processes[1].counters["loss"].samples] == [
        999,
        1999,
    ]


def test_they_are_read_as_one_trace(tmp_path: Path) -> None:
    for rank in (1, 0):
        write(tmp_path, rank, pid=100 + rank)
    read = open_trace(tmp_path)
    assert [(p.name, p.pid) for p in read.processes] == [
        ("rank 0: main.py", 100),
        ("rank 1: main.py", 101),
    ]
    assert (read.events, read.unfinished, read.hosts) == (16, 0, 1)
    assert "2 processes" in "".join(command(["summary", str(tmp_path)]))
    with pytest.raises(Exception, match="those of several ranks"):
        trace_file(tmp_path)


def test_they_are_exported_as_one_timeline(tmp_path: Path) -> None:
    for rank, boot in enumerate("ab"):
        write(tmp_path, rank, pid=7, boot=boot)
    file = tmp_path / "trace.json"
    assert "".join(command(["export", str(tmp_path), "--to", "json"])) == f"{file}\n"
    events = json.loads(file.read_text())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert sorted(names.values()) == ["rank 0: main.py", "rank 1: main.py"]
    steps = [names[e["pid"]] for e in events if e["name"] == "step"]
    assert sorted(steps) == ["rank 0: main.py"] * 2 + ["rank 1: main.py"] * 2


def test_tensorboard_has_a_file_for_each(tmp_path: Path) -> None:
    for rank in (0, 1):
        write(tmp_path, rank, pid=100 + rank)
    written = "".join(command(["export", str(tmp_path), "--to", "tensorboard"])).split()
    told = [json.loads(Path(file).read_text())["distributedInfo"] for file in written]
    assert [(one["rank"], one["world_size"]) for one in told] == [(0, 2), (1, 2)]
    assert len(set(written)) == 2


def test_a_rank_that_was_cut_off_does_not_take_the_others_with_it(
    tmp_path: Path, processor: Processor
) -> None:
    for rank in (0, 1):
        write(tmp_path, rank, pid=100 + rank)
    torn = tmp_path / "rank0/trace.pftrace"
    torn.write_bytes(torn.read_bytes()[:-20])
    processes = {r["process"] for r in merged(processor, tmp_path).query(STEPS)}
    assert "rank 1: main.py" in processes
    assert open_trace(tmp_path).torn_bytes > 0


def test_the_viewer_has_all_of_them(
    tmp_path: Path, processor: Processor, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in (0, 1):
        write(tmp_path, rank, pid=100 + rank)
    served: list[bytes] = []

    class Viewer:
        address = "http://127.0.0.1:1/"

        def __init__(self, trace: Path, port: int) -> None:
            served.append(trace.read_bytes())

        def serve(self) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr("overseer.trace.viewer.Viewer", Viewer)
    assert Viewer.address in "".join(command(["view", str(tmp_path), "--no-browser"]))
    found = processor.load(served[0]).query(STEPS)
    assert [r["process"] for r in found] == ["rank 0: main.py"] * 2 + ["rank 1: main.py"] * 2
