"""Windows, series and the ``tasks`` of run.json: items over seconds of the same steps."""

from __future__ import annotations

from typing import Any

import pytest

from overseer.model.events import LOADING, OTHER
from overseer.model.fold import Fold
from overseer.model.rates import Rates, Window, abreast
from overseer.model.series import ROWS, Series
from overseer.model.spans import Span
from overseer.model.steps import Step
from overseer.model.summary import Summary

from .events import SITES, Writer

NAN = float("nan")
MS = 1_000_000


def step(number: int, ms: float = 10, **other: Any) -> Step:
    """A step of 32 items, a quarter of which is loading."""
    made = Step(other.pop("start", round(number * ms * MS)))
    made.parts[LOADING] = round(ms * MS / 4)
    made.parts[OTHER] = round(ms * MS) - made.parts[LOADING]
    made.end = made.start + made.ns
    made.task, made.number, made.thread, made.items = "train", number, 1, 32.0
    made.pause, made.waited = 0, True
    for name, value in other.items():
        setattr(made, name, value)
    return made


def windows(steps: list[Step], interval: Span, chunk: int = 5, **options: Any) -> list[Window]:
    found: list[Window] = []
    rates = Rates(found.append, interval, **options)
    for at in range(0, len(steps), chunk):
        rates.add(steps[at : at + chunk])
    rates.finish()
    return found


# Windows


@pytest.mark.parametrize("chunk", [1, 5, 64])
@pytest.mark.parametrize("n", [1, 9, 10, 11, 64, 100])
def test_windows_of_steps_hold_every_step_once(n: int, chunk: int) -> None:
    found = windows([step(i + 1) for i in range(n)], Span(steps=10), chunk)
    assert [w.steps for w in found] == [10] * (n // 10) + [n % 10] * (n % 10 > 0)
    assert [w.first for w in found] == list(range(1, n + 1, 10))
    assert all(w.rate == pytest.approx(3200) for w in found)


def test_windows_of_seconds_close_with_the_step_that_fills_them() -> None:
    found = windows([step(i + 1, 400) for i in range(12)], Span(seconds=1))
    assert [w.steps for w in found] == [3, 3, 3, 3]


def test_the_rate_is_the_sum_of_items_over_the_sum_of_seconds() -> None:
    """Not the mean of rates: that of a fast and a slow step is too high."""
    (found,) = windows([step(1), step(2, 30, start=20 * MS)], Span(steps=2))
    assert found.rate == pytest.approx(64 / 0.04)
    assert (found.loading_share, found.compute_share) == pytest.approx((0.25, 0.75))
    assert (found.loading_rate, found.compute_rate) == pytest.approx((64 / 0.01, 64 / 0.03))


def test_what_is_not_known_is_none_or_in_steps() -> None:
    (found,) = windows([step(i + 1, items=NAN, waited=False) for i in range(4)], Span(steps=4))
    assert (found.units, found.rate) == ("steps", pytest.approx(100))
    assert (found.loading_share, found.loading_rate, found.compute_rate) == (None, None, None)


@pytest.mark.parametrize(("skip", "first"), [(Span(steps=7), 8), (Span(seconds=0.05), 6)])
def test_what_is_skipped_is_in_no_window(skip: Span, first: int) -> None:
    found = windows([step(i + 1) for i in range(20)], Span(steps=1), skip=skip)
    assert [w.first for w in found] == list(range(first, 21))


def test_each_task_has_windows_of_its_own() -> None:
    steps = [step(i // 2 + 1, task=("train", "eval")[i % 2]) for i in range(10)]
    assert {(w.task, w.steps) for w in windows(steps, Span(steps=5))} == {("train", 5), ("eval", 5)}


def test_threads_at_once_add_up() -> None:
    steps = [step(i + 1, start=(i // 2) * 10 * MS, thread=i % 2) for i in range(20)]
    (found,) = windows(steps, Span(steps=20))
    assert found.rate == pytest.approx(6400)
    assert abreast([(0, 10), (5, 15)]) == pytest.approx(20 / 15)
    assert abreast([]) == 1


def test_a_step_of_which_only_the_end_was_told_is_in_no_window() -> None:
    found = windows([step(1, 0), *(step(i + 2) for i in range(4))], Span(steps=2))
    assert [(w.first, w.steps, w.rate) for w in found] == [
        (2, 2, pytest.approx(3200)), (4, 2, pytest.approx(3200)),
    ]  # fmt: skip


def test_items_are_counted_as_often_as_asked() -> None:
    (found,) = windows([step(1)], Span(steps=1), multiplier=10)
    assert found.rate == pytest.approx(32_000)


# Series


@pytest.mark.parametrize("n", [0, 1, ROWS - 1, ROWS, ROWS + 1, 5 * ROWS + 3])
def test_totals_are_exact_however_long_the_run_and_its_rows_bounded(n: int) -> None:
    series = Series()
    for number in range(1, n + 1):
        series.add(step(number, 10 + number % 3), 1, 32)
    of = series.totals()
    assert (of.n, of.items) == (n, 32 * n)
    assert of.ns == sum(10 + number % 3 for number in range(1, n + 1)) * MS
    assert len(series.rows) <= 2 * ROWS
    assert sum(row.n for row in series.rows) == n


def test_totals_from_a_step_on_leave_out_the_steps_before() -> None:
    series = Series()
    for number in range(1, 101):
        series.add(step(number), 1, NAN if number < 50 else 32)
    assert series.totals().items != series.totals().items
    assert (series.totals(51).n, series.totals(51).items) == (50, 1600)
    assert series.totals(5000).n == 0


# The tasks of run.json

LOADED = "next:2 A 8; learn:3 M 8; back:4 1; opt:1 O"


def section(text: str, skip: Span | None = None, multiplier: int = 1) -> dict[str, Any]:
    steps: list[Step] = []
    fold = Fold(SITES, steps.append)
    summary = Summary(fold, skip, multiplier)
    fold.feed(Writer().write("made O; " + text).data)
    fold.finish()
    summary.add(steps)
    return summary.section(final=True)


def test_of_marks_alone_the_first_step_counts_and_is_in_no_rate() -> None:
    train = section("5 { wait 10; mark 32 }")["train"]
    assert (train["steps"], train["items"]) == (5, 160)
    assert train["rate"]["wall"] == pytest.approx(3200)
    assert train["rate"]["median"] == pytest.approx(3200)
    assert (train["rate"]["n"], train["rate"]["skipped"]) == (4, 1)


def test_a_run_of_which_all_is_known_has_every_figure() -> None:
    found = section(f"200 {{ {LOADED} }}; 3 {{ next B 5; look M 5 }}; end B")
    train = found["train"]
    assert (train["steps"], train["items"], train["units"]) == (200, 1600, "items")
    assert train["rate"]["median"] == pytest.approx(800)
    assert train["rate"]["steady"] == pytest.approx(800)
    assert train["rate"]["n"] + train["rate"]["skipped"] == 200
    assert train["loading"]["share"] == pytest.approx(0.2)
    assert train["compute"]["share"] == pytest.approx(0.8)
    whole = sum(train["breakdown"].values())
    shares = {name: seconds / whole for name, seconds in train["breakdown"].items() if seconds}
    assert shares == pytest.approx(
        {"loading": 0.2, "forward": 0.3, "backward": 0.4, "optimizer": 0.1}
    )
    assert train["loss"] == {"first": 1, "last": 1, "min": 1}
    assert train["first_step_seconds"] == pytest.approx(0.01)
    assert train["pause"]["kinds"]["evaluation"]["count"] == 1
    assert (found["eval"]["steps"], found["eval"]["items"]) == (3, 15)


def test_what_is_not_known_is_absent() -> None:
    train = section("20 { learn M nan; back nan; opt O }")["train"]
    assert train["units"] == "steps"
    assert {"items", "loading", "compute", "loss"} & set(train) == set()
    assert section("wait 5") == {}


def test_pauses_are_in_the_wall_rate_and_in_no_other() -> None:
    train = section(f"100 {{ {LOADED} }}; pause:1000; 100 {{ {LOADED} }}")["train"]
    assert train["rate"]["median"] == pytest.approx(800)
    assert train["rate"]["wall"] == pytest.approx(1600 / 3.0)
    assert train["pause"]["kinds"] == {"declared": {"seconds": 1.0, "count": 1}}


def test_a_fixed_skip_takes_the_place_of_the_warm_up_that_is_found() -> None:
    text = f"10 {{ wait 50; {LOADED} }}; 100 {{ {LOADED} }}"
    train = section(text, Span(steps=10))["train"]
    assert (train["rate"]["n"], train["rate"]["skipped"]) == (100, 10)
    assert train["rate"]["steady"] == pytest.approx(800)


def test_items_are_multiplied_everywhere() -> None:
    train = section(f"50 {{ {LOADED} }}", multiplier=4)["train"]
    assert (train["items"], train["rate"]["median"]) == (1600, pytest.approx(3200))


def test_steps_in_which_something_was_compiled_are_in_no_rate() -> None:
    slow = "next:2 A 8; learn:900 M 8 { compile:800 }; back:4 1; opt:1 O"
    train = section(f"{LOADED}; {slow}; 60 {{ {LOADED} }}")["train"]
    assert train["compiled"]["steps"] == 1
    assert train["rate"]["q1"] == pytest.approx(800)
    assert train["rate"]["n"] + train["rate"]["skipped"] == 62


def test_losses_that_are_not_finite_are_counted_and_leave_the_lowest_alone() -> None:
    train = section(f"{LOADED}; next A 8; learn M 8; back inf; opt O; {LOADED}")["train"]
    assert train["loss"] == {"first": 1, "last": 1, "min": 1, "not_finite": 1}
