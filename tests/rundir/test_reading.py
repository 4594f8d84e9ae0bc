"""A run reads back in whatever state its process left it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from overseer.errors import VoirError
from overseer.rundir.reading import as_number, read_run

#: A record of voir 0.2.0 before ``run.json`` had a ``schema``.
SCHEMA1 = Path(__file__).parent / "schema1"
STEPS = '{"step": 1}\n{"step": 2}\n'


def write(directory, facts=None, events=""):
    directory.mkdir(parents=True, exist_ok=True)
    if facts is not None:
        (directory / "run.json").write_text(json.dumps(facts))
    (directory / "metrics.jsonl").write_text(events)


def test_a_run_gives_its_facts_and_its_events(tmp_path):
    write(tmp_path, None, STEPS)
    assert (read_run(tmp_path).facts, len([*read_run(tmp_path).metrics])) == ({}, 2), "killed early"
    write(tmp_path, {"pid": 1, "ended": "now"}, STEPS)
    for path in (tmp_path, str(tmp_path), tmp_path / "run.json"):
        run = read_run(path)
        assert list(run.metrics) == [{"step": 1}, {"step": 2}]
        assert (run.facts["pid"], run.finished, run.ranks) == (1, True, ())


@pytest.mark.parametrize("length", range(len(STEPS)))
def test_a_log_that_breaks_off_anywhere_reads_up_to_there(tmp_path, length):
    whole = STEPS[:length]
    write(tmp_path, {"pid": 1}, whole)
    run = read_run(tmp_path)
    assert len(list(run.metrics)) == whole.count("\n")
    assert run.metrics.torn == (0 if whole.endswith("\n") or not length else 1)
    assert not run.finished, "it goes on, or was killed"


def test_a_line_that_is_no_object_is_passed_over_and_counted(tmp_path):
    write(tmp_path, {}, '{"step": 1}\n\x00\x00\n[1]\n\n{"step": 2}\n')
    metrics = read_run(tmp_path).metrics
    for _ in range(2):
        assert ([event["step"] for event in metrics], metrics.torn) == ([1, 2], 3)


def test_the_ranks_of_a_job_come_in_order_and_the_first_speaks_for_all(tmp_path):
    for rank in (10, 2, 0):
        facts = {"rank": rank, "world_size": 11, "ended": "now"}
        write(tmp_path / f"rank{rank}", facts, '{"step": 1}\n')
    (tmp_path / "job.json").write_text("{}")
    run = read_run(tmp_path)
    assert [rank.facts["rank"] for rank in run.ranks] == [0, 2, 10]
    assert (run.facts["rank"], list(run.metrics)) == (0, [{"step": 1}])
    assert (run.missing_ranks, run.finished) == ([1, 3, 4, 5, 6, 7, 8, 9], True)
    assert read_run(tmp_path / "rank2").facts["rank"] == 2
    write(tmp_path / "rank1", {"rank": 1})
    assert not read_run(tmp_path).finished, "a job is when every rank is"


STARTED = [
    # Whether the first process made steps, its rank, the others, and who the ranks are.
    (True, 0, ["rank1"], [0, 1]),
    (True, 1, ["rank0"], [0, 1]),
    (False, None, ["rank0", "rank1", "process1"], [0, 1]),
    (True, None, ["process1", "process2"], []),
    (False, None, ["process2", "process10"], [2, 10]),
    (False, None, [], []),
]


@pytest.mark.parametrize(("trains", "rank", "others", "ranks"), STARTED)
def test_a_process_and_those_that_it_started_are_a_job(tmp_path, trains, rank, others, ranks):
    own = {"pid": 1, "tasks": {"train": {"steps": 1}} if trains else {}, "ended": "now"}
    write(tmp_path, {**own, **({} if rank is None else {"rank": rank})})
    for name in others:
        write(tmp_path / name, {"pid": 2, "ended": "now"})
    run = read_run(tmp_path)
    assert [one.rank for one in run.ranks] == ranks
    assert run.facts["pid"] == (1 if trains or not others else 2)
    assert run.finished and (run.starter is not None) == bool(ranks)
    (tmp_path / "run.json").unlink()
    (tmp_path / "metrics.jsonl").unlink()
    if others:
        assert len(read_run(tmp_path).ranks) == len([o for o in others if o[:4] == others[0][:4]])


DAMAGED = [(content, "run-damaged") for content in (b"{", b"", b"[1]", b"\xff\xfe")]


@pytest.mark.parametrize(
    ("content", "slug"), [*DAMAGED, ("directory", "run-unreadable"), ("nothing", "not-a-run")]
)
def test_what_is_wrong_with_a_run_that_cannot_be_read_is_told(tmp_path, content, slug):
    file = tmp_path / "run.json"
    if content == "directory":
        file.mkdir()
    elif content != "nothing":
        file.write_bytes(content)
    for path, expected in ((tmp_path, slug), (tmp_path / "gone", "run-missing")):
        with pytest.raises(VoirError) as told:
            read_run(path)
        assert told.value.slug == expected
        assert expected == "run-missing" or "run.json" in str(told.value)


def test_a_record_of_the_first_schema_reads_and_one_of_a_newer_names_the_voir_that_it_needs(
    tmp_path,
):
    run = read_run(SCHEMA1)
    assert ("schema" in run.facts, run.facts["tasks"]["train"]["steps"]) == (False, 40)
    assert sum("loss" in event for event in run.metrics) == 4
    for schema, readable in ((1, True), (2, True), (3, False), ("3", True)):
        write(tmp_path, {"schema": schema, "version": "0.9.1", "ended": "now"})
        if readable:
            assert read_run(tmp_path).finished
            continue
        with pytest.raises(VoirError) as told:
            read_run(tmp_path)
        has = f"{tmp_path}/run.json has schema 3, and this voir reads up to 2"
        needed = f"voir 0.9.1 or newer is needed: {has}"
        assert (told.value.slug, told.value.what) == ("run-newer", needed)


def test_numbers_that_json_cannot_hold_are_numbers_again():
    assert [as_number(text) for text in (1, "Infinity", "-Infinity")] == [1.0, math.inf, -math.inf]
    assert math.isnan(as_number("NaN"))
    assert [as_number(other) for other in (None, True, "1", "nan", [], {})] == [None] * 6
