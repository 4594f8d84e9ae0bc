"""Traces of several machines on one timeline: merged, read, exported, summed up."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from overseer.errors import VoirError
from overseer.recorder import sites as k
from overseer.trace import digest, open_trace, timeline
from overseer.trace.digest import EDGES, LabelDigest, digest_of, read_digest
from overseer.trace.reading import read_trace
from overseer.trace.timeline import Timeline, shifted
from tests.cli.said import said

from .conftest import NOW, WALL, Making, event, row

STEPS, STEP = 40, 1_000_000
SLICES = """
    select process.name as process, s.name, s.ts, s.dur from slice s
    join process_track t on s.track_id = t.id join process using (upid) where s.dur > 0
"""


def clock(host, time):
    """What a host's clock shows, in ns: ``b`` is 3 ms ahead and 40 ppm fast."""
    return time + (3_000_000 + time * 40 // 1_000_000 if host == "b" else 0)


def written(job, rank, host, numbers=True, label="ProcessGroup.allreduce"):
    """The trace of a rank: each step has a collective, and a wait that ends on all at once."""
    place = job / f"rank{rank}"
    place.mkdir(parents=True)
    made, chosen = Making(place / "trace.log"), random.Random(rank)
    call = made.site(k.COMMUNICATION, label, group="0")
    wait, span = made.site(k.COMMUNICATION, "Work.wait"), made.site(k.SPAN, "work", channel="app")
    for n in range(STEPS):
        since, late = clock(host, n * STEP), chosen.randrange(9000)
        begun, end = since + 100_000 * rank, clock(host, n * STEP + 500_000) + late
        made.host(
            event(call, begun, 9000, 64.0, what=n + 1 if numbers else 0),
            event(wait, begun + 9500, end - begun - 9500),
        )
        made.values(event(span, begun - 50_000, 40_000))
    made.trace(rank=rank, host=host, boot_id=f"boot of {host}")
    return place / "trace.pftrace"


@pytest.fixture(params=[True, False], ids=["aligned", "beside"])
def job(request, tmp_path):
    """The traces of two machines with two ranks each; with or without common collectives."""
    hosts = enumerate("aabb")
    job = tmp_path / "job"
    files = [written(job, rank, host, numbers=request.param) for rank, host in hosts]
    return files, request.param, job


def test_perfetto_shows_machines_on_one_clock_or_laid_beside(job, tmp_path, processor):
    files, known, _ = job
    merged = tmp_path / "all.pftrace"
    Timeline(files).merge(merged)
    processor.load(merged.read_bytes())
    assert (processor.error, processor.errors()) == ("", {})
    found = processor.query("select name from process where name != '' order by name")
    names = [one["name"] for one in found]
    beside = "" if known else " (clock not aligned)"
    assert names == [f"rank {rank} on a: made" for rank in (0, 1)] + [
        f"rank {rank} on b{beside}: made" for rank in (2, 3)
    ]
    waits = {}
    for one in processor.query(f"{SLICES} and s.name = 'wait' order by s.ts"):
        waits.setdefault(one["process"], []).append(one["ts"] + one["dur"])
    assert [len(ends) for ends in waits.values()] == [STEPS] * 4
    apart = max(max(ends) - min(ends) for ends in zip(*waits.values(), strict=True))
    assert apart < 20_000 if known else apart > 100_000
    # All that our reader finds in the single traces is there, moved.
    trace = open_trace(merged)
    assert trace.torn_bytes == trace.broken_packets == 0
    assert trace.events == sum(read_trace(file).events for file in files)
    ours = sorted(
        (p.name, s.label, s.start, s.duration)
        for p in trace.processes for t in p.threads if t.tid is None for _, s in t.walk()
    )  # fmt: skip
    assert ours == sorted(tuple(one.values()) for one in processor.query(SLICES))


def test_the_job_is_read_and_exported_on_the_same_clock(job, tmp_path):
    files, known, directory = job
    Timeline(files).merge(tmp_path / "all.pftrace")
    merged, read = open_trace(tmp_path / "all.pftrace"), open_trace(directory)
    both = [
        [(p.name, s.label, s.start, s.duration) for p in one.processes for t in p.threads
         for _, s in t.walk()] for one in (merged, read)
    ]  # fmt: skip
    assert both[0] == both[1]
    assert (read.hosts, len(read.notes)) == (2, 1)
    assert ("aligned within" in read.notes[0]) == known
    out = tmp_path / "all.json"
    said("trace", "export", str(directory), "-o", str(out))
    events = json.loads(out.read_text())["traceEvents"]
    starts = sorted(one["ts"] for one in events if one["ph"] == "X")
    first = min(start for _, _, start, _ in both[0])
    assert starts == sorted((start - first) / 1000 for _, _, start, _ in both[0])


def test_the_summary_of_a_job_is_summed_up_from_digests(job, monkeypatch):
    files, known, directory = job
    for place in (timeline, digest):
        monkeypatch.setattr(place, "read_trace", None)  # No events are read.
    text = said("trace", "summary", str(directory))
    lines = text.splitlines()
    assert lines[0].startswith(f"job · {STEPS * 3 * 2 * 4:,} events · ")
    assert ("aligned within" in lines[1], "b is laid beside" in lines[1]) == (known, not known)
    (work,) = [one for one in lines if one.startswith("work") and str(STEPS * 4) in one]
    assert work.split() == ["work", "app", str(STEPS * 4), "6.40", "ms"] + ["40.0", "us"] * 4
    assert "rank 0: made" in text and "rank 3: made" in text
    assert lines[-1].endswith(f"voir trace summary {files[0].parent}")


def test_a_digest_is_what_reading_finds(job, tmp_path):
    files, *_ = job
    found, read = read_digest(files[2]), digest_of(read_trace(files[2]))
    assert found.size < files[2].stat().st_size
    for name in ("rank", "name", "host", "boot", "anchor", "begin", "end", "events", "rows"):
        assert getattr(found, name) == getattr(read, name), name
    key = "{0.channel} {0.label}".format
    assert sorted(found.labels, key=key) == sorted(read.labels, key=key)
    copy = tmp_path / "earlier.pftrace"
    copy.write_bytes(files[2].read_bytes()[: found.size])
    assert replace(read_digest(copy), size=read.size) == read


def test_percentiles_of_classes_are_nearly_those_of_spans():
    from array import array

    chosen = random.Random(5)
    took = [int(chosen.lognormvariate(12, 2)) for _ in range(5000)]
    one, other = LabelDigest("x", "y"), LabelDigest("x", "y")
    one.add(array("q", took[:700]))
    other.add(array("q", took[700:]))
    one.merge(other)
    found, exact = one.figures(), sorted(took)[4749]
    assert (found.count, found.total) == (5000, sum(took))
    assert (found.min, found.max) == (min(took), max(took))
    assert abs(found.p95 / exact - 1) < 0.03
    few = LabelDigest("x", "y")
    few.add(array("q", [1000, 1003]))
    assert few.figures().p95 == 1003
    assert sum(one.classes.values()) == 5000 and max(one.classes) < len(EDGES)


@pytest.mark.parametrize(
    ("label", "more", "kept"),
    [
        ("ProcessGroup.allreduce", {}, STEPS), ("ProcessGroup._allgather_base", {}, STEPS),
        ("ProcessGroup.barrier", {}, STEPS), ("ProcessGroup.broadcast", {}, 0),
        ("ProcessGroup.allreduce", {"device": True}, 0),
        ("ProcessGroup.allreduce", {"queued": True}, 0),
        ("ProcessGroup.barrier", {"device": True}, STEPS),
    ],
)  # fmt: skip
def test_only_collectives_that_end_together_tell_clocks(making, label, more, kept):
    call = making.site(k.COMMUNICATION, label, group="0")
    wait = making.site(k.COMMUNICATION, "Work.wait")
    if "device" in more:
        making.site(k.DEVICE, "cuda:0")
    for n in range(STEPS):
        making.host(event(call, n * STEP, 9, what=n + 1), event(wait, n * STEP + 20, 300))
    making.host(event(call, 50 * STEP, 9, what=77), event(wait, 51 * STEP, 300))  # Asynchronous.
    making.trace(**more)
    moments = read_digest(making.path.with_suffix(".pftrace")).moments.get("0", {})
    assert len(moments) == kept
    assert not kept or moments[1] == WALL + 320


def test_of_many_collectives_the_same_ones_are_kept_everywhere():
    from overseer.trace.digest import MAX_MOMENTS, Digester

    kept = []
    for since in (1, 2500):
        digester = Digester()
        for n in range(since, 10_000):
            digester.moment("0", n, n)
        kept.append(digester.digest(0).moments["0"])
        assert MAX_MOMENTS // 2 <= len(kept[-1]) <= MAX_MOMENTS
    assert len(kept[0].keys() & kept[1].keys()) > 400


def test_what_ddp_waits_for_counts_by_step_where_there_is_one_group(making):
    making.steps(12)
    ddp = making.site(k.COMMUNICATION, "DDP")
    making.host(*(event(ddp, 1000 * n + 400, 100) for n in range(12)))
    making.trace()
    read = read_digest(making.path.with_suffix(".pftrace"))
    assert read.moments == {"DDP": {n + 1: WALL + 1000 * n + 500 for n in range(12)}}
    call = making.site(k.COMMUNICATION, "ProcessGroup.allreduce", group="5")
    wait = making.site(k.COMMUNICATION, "Work.wait")
    making.host(event(call, 20_000, 9, what=1), event(wait, 20_010, 9))
    making.trace()
    assert read_digest(making.path.with_suffix(".pftrace")).moments.keys() == {"5"}


def test_timestamps_are_moved_alike_in_python_and_in_c(job):
    compiled = pytest.importorskip("overseer.recorder._shift").shift
    data = job[0][0].read_bytes()
    for at, offset, rate in ((WALL, -5_000_003, 5e-5), (WALL + 77, 123, 0.0), (0, -(1 << 62), 0)):
        for end in (len(data), len(data) - 1, 100, 0):
            one, other = bytearray(data[:end]), bytearray(data[:end])
            assert compiled(one, at, offset, rate) == shifted(other, at, offset, rate) <= end
            assert one == other
    spoilt = bytearray(data[:200] + b"\xff" * 30 + data[200:])
    assert compiled(bytearray(spoilt), 0, 5, 0.0) == shifted(spoilt, 0, 5, 0.0) < len(data)


def test_ranks_of_one_machine_have_its_clock_whatever_their_anchors(tmp_path):
    for rank, anchor in enumerate((WALL, WALL + 70_000)):
        (tmp_path / f"rank{rank}").mkdir()
        made = Making(tmp_path / f"rank{rank}" / "trace.log")
        made.host(event(made.site(k.SPAN, "work", channel="app", row="r"), 500, 10))
        made.trace(rank=rank, boot_id="b", wall_ns=anchor, now_ns=NOW)
    trace = open_trace(tmp_path)
    assert [one.start for one in row(trace, "r")] == [WALL + 500] * 2
    assert trace.notes == []


def test_a_rank_whose_trace_is_none_is_left_out_and_said(tmp_path):
    files = [written(tmp_path, rank, "a") for rank in range(3)]
    for file in files:
        file.with_suffix(".log").unlink()
    files[1].write_bytes(b"nothing of ours")
    files[2].write_bytes(files[2].read_bytes()[:-100])  # Without its digest.
    trace = open_trace(tmp_path)
    assert [one.name for one in trace.processes] == ["rank 0: made", "rank 2: made"]
    assert trace.notes == [f"left out: {files[1]} is not a Perfetto trace"]
    assert trace.notes[0] in said("trace", "summary", str(tmp_path))
    files[0].write_bytes(b"")
    files[2].write_bytes(b"{}")
    Timeline(files).merge(tmp_path / "none.pftrace")
    files[0].write_bytes(b"no")
    with pytest.raises(VoirError, match="is not a Perfetto trace"):
        Timeline(files)
