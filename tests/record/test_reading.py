"""A run reads back in whatever state its process left it."""

from __future__ import annotations

import json
import math

import pytest

from overseer.errors import VoirError
from overseer.record.reading import as_number, read_run


def write(directory, facts=None, events=""):
    directory.mkdir(parents=True, exist_ok=True)
    if facts is not None:
        (directory / "run.json").write_text(json.dumps(facts))
    (directory / "metrics.jsonl").write_text(events)


def test_a_run_gives_its_facts_and_its_events(tmp_path):
    write(tmp_path, {"pid": 1, "ended": "now"}, '{"step": 1}\n{"step": 2}\n')
    for path in (tmp_path, str(tmp_path), tmp_path / "run.json"):
        run = read_run(path)
        assert run.facts["pid"] == 1
        assert list(run.metrics) == [{"step": 1}, {"step": 2}]
        assert run.finished
        assert run.ranks == ()


@pytest.mark.parametrize("length", range(len('{"step": 1}\n{"step": 2}\n')))
def test_a_log_that_breaks_off_anywhere_reads_up_to_there(tmp_path, length):
    whole = '{"step": 1}\n{"step": 2}\n'
    write(tmp_path, {}, whole[:length])
    metrics = read_run(tmp_path).metrics
    assert len(list(metrics)) == whole[:length].count("\n")
    assert metrics.torn == (0 if whole[:length].endswith("\n") or not length else 1)


def test_a_line_that_is_no_object_is_passed_over_and_counted(tmp_path):
    write(tmp_path, {}, '{"step": 1}\n\x00\x00\n[1]\n\n{"step": 2}\n')
    metrics = read_run(tmp_path).metrics
    assert [event["step"] for event in metrics] == [1, 2]
    assert metrics.torn == 3
    assert len(list(metrics)) == 2
    assert metrics.torn == 3


def test_a_run_still_going_on_or_killed_is_not_finished(tmp_path):
    write(tmp_path, {"pid": 1})
    assert not read_run(tmp_path).finished


def test_a_run_killed_before_its_first_facts_still_has_its_events(tmp_path):
    write(tmp_path, None, '{"step": 1}\n')
    run = read_run(tmp_path)
    assert run.facts == {}
    assert len(list(run.metrics)) == 1


def test_the_ranks_of_a_job_come_in_order_and_the_first_speaks_for_all(tmp_path):
    for rank in (10, 2, 0):
        write(
            tmp_path / f"rank{rank}",
            {"rank": rank, "world_size": 11, "ended": "now"},
            '{"step": 1}\n',
        )
    (tmp_path / "job.json").write_text("{}")
    run = read_run(tmp_path)
    assert [rank.facts["rank"] for rank in run.ranks] == [0, 2, 10]
    assert run.facts["rank"] == 0
    assert list(run.metrics) == [{"step": 1}]
    assert run.missing_ranks == [1, 3, 4, 5, 6, 7, 8, 9]
    assert run.finished
    assert read_run(tmp_path / "rank2").facts["rank"] == 2


def test_a_job_is_finished_when_every_rank_is(tmp_path):
    write(tmp_path / "rank0", {"rank": 0, "ended": "now"})
    write(tmp_path / "rank1", {"rank": 1})
    assert not read_run(tmp_path).finished


@pytest.mark.parametrize(
    ("content", "slug"),
    [
        (b"{", "run-damaged"),
        (b"", "run-damaged"),
        (b"[1]", "run-damaged"),
        (b"\xff\xfe", "run-damaged"),
    ],
)
def test_a_damaged_run_file_is_named_with_what_is_wrong(tmp_path, content, slug):
    write(tmp_path)
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(VoirError, match=r"run\.json") as damaged:
        read_run(tmp_path)
    assert damaged.value.slug == slug


def test_a_run_file_that_cannot_be_read_is_an_error_of_its_own(tmp_path):
    (tmp_path / "run.json").mkdir()
    with pytest.raises(VoirError) as unreadable:
        read_run(tmp_path)
    assert unreadable.value.slug == "run-unreadable"


def test_a_directory_without_a_run_and_no_directory_at_all_are_told_apart(tmp_path):
    with pytest.raises(VoirError) as empty:
        read_run(tmp_path)
    with pytest.raises(VoirError) as missing:
        read_run(tmp_path / "gone")
    assert (empty.value.slug, missing.value.slug) == ("not-a-run", "run-missing")


def test_numbers_that_json_cannot_hold_are_numbers_again():
    assert as_number(1) == 1.0
    assert as_number("Infinity") == math.inf
    assert as_number("-Infinity") == -math.inf
    assert math.isnan(as_number("NaN"))
    for other in (None, True, "1", "nan", [], {}):
        assert as_number(other) is None
