"""Windows, series and the ``tasks`` of run.json: items over seconds of the same steps."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest

from overseer.model.events import PART_LOADING, PART_OTHER
from overseer.model.fold import Fold
from overseer.model.rates import Rates, Window, abreast
from overseer.model.series import MAX_BLOCKS, StepSeries
from overseer.model.spans import Extent
from overseer.model.steps import Step
from overseer.model.summary import Summary

from .events import SITES, Writer

NAN = float("nan")
MS = 1_000_000


def step(number: int, ms: float = 10, **other: Any) -> Step:
    """A step of 32 items, a quarter of which is loading."""
    made = Step(other.pop("start", round(number * ms * MS)))
    made.parts[PART_LOADING] = round(ms * MS / 4)
    made.parts[PART_OTHER] = round(ms * MS) - made.parts[PART_LOADING]
    made.end = made.start + made.ns
    made.task, made.number, made.thread, made.items = "train", number, 1, 32.0
    made.pause, made.waited = 0, True
    for name, value in other.items():
        setattr(made, name, value)
    return made


def windows(steps: list[Step], interval: Extent, chunk: int = 5, **options: Any) -> list[Window]:
    found: list[Window] = []
    rates = Rates(found.append, interval, **options)
    for at in range(0, len(steps), chunk):
        rates.add(steps[at : at + chunk])
    rates.finish()
    return found


# Windows


@pytest.mark.parametrize("chunk", [1, 64])
@pytest.mark.parametrize("n", [1, 10, 11, 64])
def test_windows_of_steps_hold_every_step_once(n: int, chunk: int) -> None:
    found = windows([step(i + 1) for i in range(n)], Extent(steps=10), chunk)
    assert [w.steps for w in found] == [10] * (n // 10) + [n % 10] * (n % 10 > 0)
    assert [w.first for w in found] == list(range(1, n + 1, 10))
    assert all(w.rate == pytest.approx(3200) for w in found)


def test_windows_of_seconds_close_with_the_step_that_fills_them() -> None:
    found = windows([step(i + 1, 400) for i in range(12)], Extent(seconds=1))
    assert [w.steps for w in found] == [3, 3, 3, 3]


def test_the_rate_is_the_sum_of_items_over_the_sum_of_seconds() -> None:
    """Not the mean of rates: that of a fast and a slow step is too high."""
    steps = [step(1), step(2, 30, start=20 * MS)]
    (found,) = windows(steps, Extent(steps=2))
    assert found.rate == pytest.approx(64 / 0.04)
    assert (found.loading_share, found.compute_share) == pytest.approx((0.25, 0.75))
    assert (found.loading_rate, found.compute_rate) == pytest.approx((64 / 0.01, 64 / 0.03))
    (counted,) = windows(steps, Extent(steps=2), multiplier=10)
    assert counted.rate == pytest.approx(640 / 0.04)


def test_unknown_figures_are_none_or_in_steps() -> None:
    (found,) = windows([step(i + 1, items=NAN, waited=False) for i in range(4)], Extent(steps=4))
    assert (found.units, found.rate) == ("steps", pytest.approx(100))
    assert (found.loading_share, found.loading_rate, found.compute_rate) == (None, None, None)


def test_windows_are_in_steps_from_the_first_step_on_whose_items_are_unknown() -> None:
    steps = [step(i + 1, items=NAN if i == 3 else 32.0) for i in range(8)]
    steps += [step(i + 1, task="eval") for i in range(2)]
    units = [(w.task, w.units) for w in windows(steps, Extent(steps=2))]
    assert units == [
        ("train", "items"), *[("train", "steps")] * 3, ("eval", "items"),
    ]  # fmt: skip
    skipped = windows(steps[:8], Extent(steps=2), skip=Extent(steps=4))
    assert [(w.units, w.rate) for w in skipped] == [("steps", pytest.approx(100))] * 2


@pytest.mark.parametrize(("skip", "first"), [(Extent(steps=7), 8), (Extent(seconds=0.05), 6)])
def test_windows_leave_skipped_steps_out(skip: Extent, first: int) -> None:
    steps = [
        step(1, 0),
        *(step(i + 1) for i in range(1, 20)),
    ]  # Of the first only its end is known.
    assert [w.first for w in windows(steps, Extent(steps=1))] == list(range(2, 21))
    found = windows([step(i + 1) for i in range(20)], Extent(steps=1), skip=skip)
    assert [w.first for w in found] == list(range(first, 21))


def test_each_task_has_windows_of_its_own_and_threads_at_once_add_up() -> None:
    steps = [step(i // 2 + 1, task=("train", "eval")[i % 2]) for i in range(10)]
    assert {(w.task, w.steps) for w in windows(steps, Extent(steps=5))} == {
        ("train", 5),
        ("eval", 5),
    }
    steps = [step(i + 1, start=(i // 2) * 10 * MS, thread=i % 2) for i in range(20)]
    assert [w.rate for w in windows(steps, Extent(steps=20))] == [pytest.approx(6400)]
    assert (abreast([(0, 10), (5, 15)]), abreast([])) == (pytest.approx(20 / 15), 1)


# Series


@pytest.mark.parametrize(
    "n", [0, 1, MAX_BLOCKS - 1, MAX_BLOCKS, MAX_BLOCKS + 1, 5 * MAX_BLOCKS + 3]
)
def test_totals_are_exact_however_long_the_run_and_its_rows_bounded(n: int) -> None:
    series = StepSeries()
    for number in range(1, n + 1):
        at = step(number, 10 + number % 3)
        series.add(at, 1, 32, at.ns)
    of = series.totals()
    assert (of.n, of.items) == (n, 32 * n)
    assert of.ns == sum(10 + number % 3 for number in range(1, n + 1)) * MS
    kept = series.since(0).n
    assert len(kept) <= 2 * MAX_BLOCKS
    assert sum(kept) == n


def test_totals_from_a_step_on_leave_out_the_steps_before() -> None:
    series = StepSeries()
    for number in range(1, 101):
        series.add(step(number), 1, NAN if number < 50 else 32, step(number).ns)
    assert series.totals().items != series.totals().items
    assert (series.totals(51).n, series.totals(51).items) == (50, 1600)
    assert series.totals(5000).n == 0


# The tasks of run.json

LOADED = "next:2 A 8; learn:3 M 8; back:4 1; opt:1 O"


def section(text: str, skip: Extent | None = None, multiplier: int = 1) -> dict[str, Any]:
    steps: list[Step] = []
    fold = Fold(SITES, steps.append)
    summary = Summary(fold, skip, multiplier)
    fold.feed(Writer().write("made O; " + text).data)
    fold.finish()
    summary.add(steps)
    return summary.section(final=True)


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


def test_training_is_listed_first_even_if_it_ran_later() -> None:
    assert list(section(f"3 {{ wait 10; mark eval 8 }}; 20 {{ {LOADED} }}")) == ["train", "eval"]


def test_unknown_figures_are_absent() -> None:
    train = section("20 { learn M nan; back nan; opt O }")["train"]
    assert train["units"] == "steps"
    assert {"items", "loading", "compute", "loss"} & set(train) == set()
    assert section("wait 5") == {}


SLOW = "next:2 A 8; learn:900 M 8 { compile:800 }; back:4 1; opt:1 O"
WARM = f"10 {{ wait 50; {LOADED} }}; 100 {{ {LOADED} }}"
#: Events, options, and some of the figures.
FIGURES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "of marks alone the first step counts and is in no rate": (
        "5 { wait 10; mark 32 }", {},
        {"steps": 5, "items": 160, "rate.wall": 3200, "rate.median": 3200, "rate.n": 4,
         "rate.skipped": 1}),
    "pauses are in the wall rate and in no other": (
        f"100 {{ {LOADED} }}; pause:1000; 100 {{ {LOADED} }}", {},
        {"rate.median": 800, "rate.wall": 1600 / 3, "pause.kinds.declared.seconds": 1,
         "pause.kinds.declared.count": 1, "pause.count": 1}),
    "a fixed skip takes the place of the warm-up that is found": (
        WARM, {"skip": Extent(steps=10)}, {"rate.n": 100, "rate.skipped": 10, "rate.steady": 800}),
    "items are multiplied everywhere": (
        f"50 {{ {LOADED} }}", {"multiplier": 4}, {"items": 1600, "rate.median": 3200}),
    "steps in which something was compiled are in no rate": (
        f"{LOADED}; {SLOW}; 60 {{ {LOADED} }}", {},
        {"compiled.steps": 1, "rate.q1": 800, "rate.n": 61, "rate.skipped": 1}),
    "losses that are not finite are counted and leave the lowest alone": (
        f"{LOADED}; next A 8; learn M 8; back inf; opt O; {LOADED}", {},
        {"loss.first": 1, "loss.last": 1, "loss.min": 1, "loss.not_finite": 1}),
}  # fmt: skip


@pytest.mark.parametrize(("text", "options", "expected"), FIGURES.values(), ids=FIGURES)
def test_figures(text: str, options: dict[str, Any], expected: dict[str, Any]) -> None:
    train = section(text, **options)["train"]
    found = {path: reduce(lambda at, key: at[key], path.split("."), train) for path in expected}
    assert found == pytest.approx(expected)
