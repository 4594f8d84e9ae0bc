"""``--train-rate`` and its kin, and ``rate()`` in a voirfile: what is logged, given and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from instruments.rate import rate
from overseer.errors import VoirError

from .inside import Ran, run

#: Ten steps of four items each, in pairs.
PAIRS = """
import voir
for x in voir.iterate("train", [[i] * 4 for i in range(10)], report_batch=True, batch_size=4):
    pass
"""
#: Ten steps of four items each, and no more is known.
MARKS = """
import giving
for i in range(10):
    giving.give(step=True, batch_size=4)
"""
NO_SIZE = MARKS.replace(", batch_size=4", "")
FLAGS = ("train_rate", "loading_rate", "compute_rate")


def logged(ran: Ran, key: str) -> list[dict[str, Any]]:
    """The windows that have the key."""
    return [event for event in ran.logged if key in event]


def test_where_the_end_of_an_iterator_is_asked_for_is_no_step(tmp_path: Path) -> None:
    ran = run(tmp_path, PAIRS.replace("[[i] * 4 for i in range(10)]", "iter(range(10))"))
    assert (ran.tasks["train"]["steps"], ran.tasks["train"]["items"]) == (10, 40)


@pytest.mark.parametrize("key", FLAGS)
def test_a_flag_logs_its_rate_for_each_window(key: str, tmp_path: Path) -> None:
    ran = run(tmp_path, PAIRS, f"--{key.replace('_', '-')}", "--interval", "4")
    events = logged(ran, key)
    assert len(events) == 3  # The last one is of two steps.
    assert {(event["task"], event["units"]) for event in events} == {("train", "items/s")}
    assert all(event[key] > 0 for event in events)
    assert not any(logged(ran, other) for other in FLAGS if other != key)
    assert ran.problems == []


def test_loading_and_compute_come_with_their_shares(tmp_path: Path) -> None:
    ran = run(tmp_path, PAIRS, "--loading-rate", "--compute-rate", "--interval", "100")
    (loading,), (compute,) = logged(ran, "loading_rate"), logged(ran, "compute_rate")
    assert loading["loading_share"] + compute["compute_share"] == pytest.approx(1)


def test_rates_are_given_to_whoever_listens(tmp_path: Path) -> None:
    ran = run(tmp_path, MARKS, instruments=(rate(interval=5),))
    assert [(event["task"], event["units"]) for event in ran.given] == [("train", "items/s")] * 2


def test_a_rate_in_a_voirfile_and_a_flag_have_windows_of_their_own(tmp_path: Path) -> None:
    ran = run(tmp_path, MARKS, "--train-rate", "--interval", "2", instruments=(rate(interval=5),))
    assert (len(logged(ran, "train_rate")), len(ran.given)) == (5, 2)


def test_steps_without_items_have_a_rate_of_steps(tmp_path: Path) -> None:
    ran = run(tmp_path, NO_SIZE, "--train-rate", "--interval", "5")
    assert {event["units"] for event in logged(ran, "train_rate")} == {"steps/s"}
    assert "items" not in ran.tasks["train"]
    assert ran.problems == ["batch-size"]


@pytest.mark.parametrize(
    ("asked", "windows", "items"),
    [
        ({"batch_size_calc": 32}, 2, 320),
        ({"batch_size_calc": len}, 2, 30),
        ({"skip": 1}, 1, 30),
        ({"method": "delta"}, 2, 30),
    ],
    ids=str,
)
def test_a_rate_in_a_voirfile_counts_as_it_says(
    asked: dict[str, Any], windows: int, items: int, tmp_path: Path
) -> None:
    text = "import giving\nfor i in range(10):\n    giving.give(step=True, batch=[1, 2, 3])\n"
    ran = run(tmp_path, text, instruments=(rate(interval=5, **asked),))
    assert len(ran.given) == windows
    assert ran.tasks["train"]["items"] == items


@pytest.mark.parametrize("skip", ["--skip", "--metric-skip"])
def test_what_is_skipped_is_in_no_window(skip: str, tmp_path: Path) -> None:
    ran = run(tmp_path, MARKS, "--train-rate", "--interval", "1", skip, "7")
    assert len(logged(ran, "train_rate")) == 3
    found = ran.tasks["train"]["rate"]
    assert (found["n"], found["skipped"]) == (3, 7)


@pytest.mark.parametrize(
    "options", [("--skip", "100s"), ("--skip", "10"), ("--train-rate", "--skip", "20")]
)
def test_a_skip_of_everything_is_told_once(options: tuple[str, ...], tmp_path: Path) -> None:
    assert run(tmp_path, MARKS, *options).problems == ["no-rate"]


def test_a_flag_that_never_has_a_figure_says_what_to_write(tmp_path: Path) -> None:
    assert run(tmp_path, MARKS, "--loading-rate").problems == ["no-rate"]
    assert run(tmp_path, "print(1)", "--train-rate").problems == ["no-rate"]


def test_items_per_step_multiplies(tmp_path: Path) -> None:
    ran = run(tmp_path, MARKS, "--items-per-step", "1000")
    assert ran.tasks["train"]["items"] == 40_000


@pytest.mark.parametrize(("metric", "steps"), [("step", 10), ("wrap", 5)])
def test_metric_chooses_what_a_step_is(metric: str, steps: int, tmp_path: Path) -> None:
    text = """
import voir
import giving
pairs = voir.iterate("train", range(5), report_batch=True, batch_size=4)
for i in range(10):
    if i % 2:
        next(pairs)
    giving.give(step=True, batch_size=4)
for _ in pairs:
    pass
"""
    ran = run(tmp_path, text, "--metric", metric)
    assert ran.tasks["train"]["steps"] == steps


@pytest.mark.parametrize("text", ["0", "-1", "ten", "nan", "0s", "-1s", "1e400s", "1.5", ""])
@pytest.mark.parametrize("option", ["--interval", "--metric-interval"])
def test_a_window_that_is_none_is_refused(option: str, text: str, tmp_path: Path) -> None:
    ran = run(tmp_path, MARKS, f"{option}={text}")
    assert isinstance(ran.error, VoirError)
    assert ran.tasks == {}


@pytest.mark.parametrize(
    "wrong",
    ["--skip=-1", "--skip=x", "--items-per-step=0", "--items-per-step=x", "--items-per-step=1.5",
     "--items-per-step=4444444444444", "--metric=both"],
)  # fmt: skip
def test_other_wrong_values_are_refused(wrong: str, tmp_path: Path) -> None:
    ran = run(tmp_path, MARKS, wrong)
    assert ran.error is not None
    assert ran.tasks == {}


def test_a_method_that_is_none_is_told(tmp_path: Path) -> None:
    ran = run(tmp_path, MARKS, instruments=(rate(method="both"),))
    assert ran.problems == ["bad-method"]


def test_a_huge_interval_is_one_window(tmp_path: Path) -> None:
    ran = run(tmp_path, MARKS, "--train-rate", "--interval", "1000000000")
    assert len(logged(ran, "train_rate")) == 1


def test_tasks_have_windows_of_their_own(tmp_path: Path) -> None:
    text = MARKS + MARKS.replace("step=True", "step=True, task='eval'").replace(
        "import giving\n", ""
    )
    ran = run(tmp_path, text, "--train-rate", "--interval", "5")
    tasks = [event["task"] for event in logged(ran, "train_rate")]
    assert sorted(tasks) == ["eval", "eval", "train", "train"]
    assert {name: task["steps"] for name, task in ran.tasks.items()} == {"train": 10, "eval": 10}
