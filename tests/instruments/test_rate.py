"""``--train-rate`` and its kin, and ``rate()`` in a voirfile: what is logged, given and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from instruments.rate import rate
from overseer.errors import VoirError
from overseer.measure import draining, pipeline

from .inside import Ran, run

#: Ten steps of four items each, in pairs; the end of the iterator that is asked for is none.
PAIRS = """
import voir
for x in voir.iterate("train", iter(range(10)), report_batch=True, batch_size=4):
    pass
"""
#: Ten steps of four items each, and no more is known; of two tasks; and without their items.
MARKS = "import giving\nfor i in range(10):\n    giving.give(step=True, batch_size=4)\n"
TASKS = MARKS + "    giving.give(step=True, batch_size=4, task='eval')\n"
NO_SIZE = MARKS.replace(", batch_size=4", "")
FLAGS = ("train_rate", "loading_rate", "compute_rate")


def windows(ran: Ran, key: str = "train_rate") -> list[dict[str, Any]]:
    """The windows that were logged with the key."""
    return [event for event in ran.logged if key in event]


@pytest.mark.parametrize("key", FLAGS)
def test_a_flag_logs_its_rate_for_each_window(key: str, tmp_path: Path) -> None:
    ran = run(tmp_path, PAIRS, f"--{key.replace('_', '-')}", "--interval", "4")
    events = windows(ran, key)
    assert len(events) == 3  # The last one is of two steps.
    assert {(event["task"], event["units"]) for event in events} == {("train", "items/s")}
    assert all(event[key] > 0 for event in events)
    assert not any(windows(ran, other) for other in FLAGS if other != key)
    assert (ran.problems, ran.tasks["train"]["steps"], ran.tasks["train"]["items"]) == ([], 10, 40)


def test_loading_and_compute_come_with_their_shares(tmp_path: Path) -> None:
    ran = run(tmp_path, PAIRS, "--loading-rate", "--compute-rate", "--interval", "100")
    (loading,), (compute,) = windows(ran, "loading_rate"), windows(ran, "compute_rate")
    assert loading["loading_share"] + compute["compute_share"] == pytest.approx(1)


def test_a_rate_in_a_voirfile_and_a_flag_have_windows_of_their_own(tmp_path: Path) -> None:
    ran = run(tmp_path, MARKS, "--train-rate", "--interval", "2", instruments=(rate(interval=5),))
    assert len(windows(ran)) == 5
    assert [(event["task"], event["units"]) for event in ran.given] == [("train", "items/s")] * 2


def test_steps_without_items_have_a_rate_of_steps(tmp_path: Path) -> None:
    ran = run(tmp_path, NO_SIZE, "--train-rate", "--interval", "5")
    assert {event["units"] for event in windows(ran)} == {"steps/s"}
    assert ("items" in ran.tasks["train"], ran.problems) == (False, ["batch-size"])


@pytest.mark.parametrize(
    ("asked", "given", "items"),
    [
        ({"batch_size_calc": 32}, 2, 320),
        ({"batch_size_calc": len}, 2, 30),
        ({"skip": 1}, 1, 30),
        ({"method": "delta"}, 2, 30),
    ],
    ids=str,
)
def test_a_rate_in_a_voirfile_counts_as_it_says(
    asked: dict[str, Any], given: int, items: int, tmp_path: Path
) -> None:
    text = MARKS.replace("batch_size=4", "batch=[1, 2, 3]")
    ran = run(tmp_path, text, instruments=(rate(interval=5, **asked),))
    assert (len(ran.given), ran.tasks["train"]["items"]) == (given, items)


@pytest.mark.parametrize("skip", ["--skip", "--metric-skip"])
def test_what_is_skipped_is_in_no_window(skip: str, tmp_path: Path) -> None:
    ran = run(tmp_path, MARKS, "--train-rate", "--interval", "1", skip, "7")
    found = ran.tasks["train"]["rate"]
    assert (len(windows(ran)), found["n"], found["skipped"]) == (3, 3, 7)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (MARKS, ("--skip", "100s")),
        (MARKS, ("--skip", "10")),
        (MARKS, ("--train-rate", "--skip", "20")),
        (MARKS, ("--loading-rate",)),
        ("print(1)", ("--train-rate",)),
    ],
)
def test_a_skip_of_everything_and_a_flag_without_a_figure_are_told_once(
    text: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    assert run(tmp_path, text, *options).problems == ["no-rate"]


@pytest.mark.parametrize(("metric", "steps"), [("step", 10), ("wrap", 5)])
def test_metric_chooses_what_a_step_is(metric: str, steps: int, tmp_path: Path) -> None:
    text = """
import voir, giving
pairs = voir.iterate("train", range(5), report_batch=True, batch_size=4)
for i in range(10):
    if i % 2:
        next(pairs)
    giving.give(step=True, batch_size=4)
list(pairs)
"""
    assert run(tmp_path, text, "--metric", metric).tasks["train"]["steps"] == steps


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("interval", ["0", "-1", "ten", "nan", "0s", "-1s", "1e400s", "1.5", ""]),
        ("metric-interval", ["0", "ten", "-1s"]),
        ("skip", ["-1", "x"]),
        ("items-per-step", ["0", "x", "1.5", "4444444444444"]),
        ("metric", ["both"]),
    ],
)
def test_values_that_cannot_be_are_refused(option: str, values: list[str], tmp_path: Path) -> None:
    for text in values:
        ran = run(tmp_path, MARKS, f"--{option}={text}")
        assert (isinstance(ran.error, VoirError), ran.tasks) == (True, {}), text


def test_a_method_that_is_none_is_told(tmp_path: Path) -> None:
    assert run(tmp_path, MARKS, instruments=(rate(method="both"),)).problems == ["bad-method"]


def test_a_huge_interval_is_one_window_and_items_are_multiplied(tmp_path: Path) -> None:
    options = ("--train-rate", "--interval", "1000000000", "--items-per-step", "1000")
    ran = run(tmp_path, MARKS, *options)
    assert (len(windows(ran)), ran.tasks["train"]["items"]) == (1, 40_000)


def test_tasks_have_windows_of_their_own(tmp_path: Path) -> None:
    ran = run(tmp_path, TASKS, "--train-rate", "--interval", "5")
    assert sorted(event["task"] for event in windows(ran)) == ["eval", "eval", "train", "train"]
    assert {name: task["steps"] for name, task in ran.tasks.items()} == {"train": 10, "eval": 10}


MANY = "import giving\nfor i in range(150_000):\n    giving.give(step=True, batch_size=4)\n"


def test_steps_that_come_faster_than_they_are_read_are_all_counted(tmp_path: Path) -> None:
    ran = run(tmp_path, MANY)
    assert (ran.tasks["train"]["steps"], ran.tasks["train"]["items"]) == (150_000, 600_000)
    assert ran.problems == []


def test_where_events_are_lost_no_figure_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "BACKLOG", 0)
    monkeypatch.setattr(pipeline.Pipeline, "tick", lambda self: None)
    ran = run(tmp_path, MANY, "--train-rate")
    assert list(ran.tasks["train"]) == ["steps_at_least"]
    assert 0 < ran.tasks["train"]["steps_at_least"] < 150_000
    assert ran.problems == ["lost-steps"]
    assert not windows(ran)
