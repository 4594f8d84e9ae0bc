"""No two figures contradict each other: of random runs, sums and orders hold in all views."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overseer.cli.commands import Terminal
from overseer.cli.runs import runs
from overseer.model.comparability import ComparedSide
from overseer.model.comparison import compare
from overseer.model.diagnosis import diagnose
from overseer.model.events import PART_LOADING
from overseer.model.facts import breakdown, main_name, pause_share
from overseer.model.fold import Fold
from overseer.model.spans import Extent
from overseer.model.steps import Step
from overseer.model.summary import Summary
from overseer.model.tasks import Task
from overseer.rundir.tables import open_database
from overseer.views.summary import rate, render

MS = 1_000_000
NAN = float("nan")
approx = pytest.approx


class Run:
    """A run that is made step by step; time passes in steps and pauses, and nowhere else."""

    def __init__(self, skip: int | None = None) -> None:
        self.now, fold = 10**12, Fold([])
        self.tasks: dict[str, Task] = {}
        fold.tasks = self.tasks
        self.summary = Summary(fold, None if skip is None else Extent(steps=skip))

    def task(self, name: str) -> Task:
        return self.tasks.setdefault(name, Task(name, lambda step: self.summary.add([step])))

    def step(self, task: str, ms: list[float], items: float, compiled: int = 0) -> None:
        step = Step(self.now)
        step.parts = [*(round(part * MS) for part in ms), 0]
        step.waited, step.compiled = ms[PART_LOADING] > 0, compiled
        self.now += sum(step.parts)
        step.end, step.loss, step.backwards = self.now, 1.0, 1
        self.task(task).close(0, step, items)

    def pause(self, task: str, kind: str, ms: int) -> None:
        self.now += ms * MS
        self.task(task).pause(kind, ms * MS)

    def facts(self) -> dict[str, Any]:
        for task in self.tasks.values():
            task.settle()
        seconds = (self.now - 10**12) / 1e9
        facts = {"tasks": self.summary.section(final=True), "seconds": seconds, "exit_status": 0}
        return {"script": "main.py", "started": "2026-01-01T00:00:00Z", "ended": "x", **facts}


def random_facts(random: Random, names: list[str], skip: int | None = None) -> dict[str, Any]:
    """Of tasks in turn, of any speed, with pauses, batches of any size, and steps that compile."""
    run = Run(skip)
    base = {name: [random.randrange(9) / 2 for _ in range(5)] + [1.0] for name in names}
    sizes = {name: random.choice([[8.0, 32.0, 7.0]] * 4 + [[NAN]]) for name in names}
    for name in random.sample(names, random.randrange(len(names) + 1)):
        base[name][PART_LOADING] = 0
    for _ in range(random.randint(1, 5)):
        for name in names:
            for n in range(random.randint(1, 60)):
                uneven = random.choice([1, 1, 1, 1, 2, 9])
                ms = [part * uneven * random.uniform(0.7, 1.5) for part in base[name]]
                run.step(name, ms, random.choice(sizes[name]), compiled=MS * (n == 0))
        if random.random() < 0.5:
            run.pause(names[0], random.choice(["checkpoint", "declared"]), random.randrange(1, 500))
    run.step(names[0], base[names[0]], 8.0)
    return run.facts()


seeds = st.integers(0, 10**6)
task_names = st.lists(st.sampled_from(["train", "eval", "other"]), min_size=1, unique=True)


@given(seeds, task_names, st.none() | st.integers(0, 30))
def test_sums_and_orders_hold(seed: int, names: list[str], skip: int | None) -> None:
    facts = random_facts(Random(seed), names, skip)
    main = main_name({name: facts["tasks"][name]["steps"] for name in names})
    for name, task in facts["tasks"].items():
        of, times = task["rate"], task.get("step_seconds")
        assert task["steps"] == of["n"] + of["skipped"]
        if times is not None:
            assert of["q1"] <= of["median"] <= of["q3"]
            shown = ("q1", "median", "q3", "p95", "p99", "max")
            assert [times[key] for key in shown] == sorted(times[key] for key in shown)
            assert task["steady"]["verdict"] != "steady" or task["steady"]["from_step"] >= 1
        spent = sum(task[key]["seconds"] for key in ("loading", "compute") if key in task)
        if spent:
            assert task["loading"]["share"] + task["compute"]["share"] == approx(1)
            assert task["loading"]["seconds"] / spent == approx(task["loading"]["share"])
            assert sum(task.get("breakdown", {}).values()) in (0, approx(spent))
        assert sum(breakdown(task).values()) in (0, approx(1))
        kinds = task["pause"].get("kinds", {}).values()
        for key in ("count", "seconds"):
            assert task["pause"][key] == approx(sum(kind[key] for kind in kinds))
        wall = (task["items"] if task["units"] == "items" else task["steps"]) / of["wall"]
        assert spent <= wall * 1.000001
        if name == main:
            assert spent + task["pause"]["seconds"] <= wall * 1.000001
            assert 0 <= (pause_share(task) or 0) <= 1
            assert wall <= facts["seconds"] * 1.000001
    (verdict, *_) = compare(
        [ComparedSide("A", [facts]), ComparedSide("B", [facts, facts])]
    ).verdicts
    assert verdict.verdict in ("no difference", "inconclusive")


@given(seeds, st.sampled_from(["train", "eval"]))
def test_all_views_print_the_same_figures(
    tmp_path_factory: pytest.TempPathFactory, seed: int, name: str
) -> None:
    facts = random_facts(Random(seed), [name])
    facts["diagnosis"] = found.as_facts() if (found := diagnose(facts)) else {}
    task, text = facts["tasks"][name], render(facts, 200)
    assert all(each in text for each in rate(task))
    shown = {k: float(v) for k, v in re.findall(r"(\w+) ([\d.]+) %", text.partition("verdict")[0])}
    if "loading" in shown:
        assert shown["loading"] + shown["compute"] == approx(100, abs=1)
        parts = [shown.get(part, 0) for part in ("forward", "backward", "optimizer", "other")]
        assert sum(parts) <= shown["compute"] + 3
    place: Path = tmp_path_factory.mktemp("run")
    (place / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    assert rate(task)[0].removesuffix(" overall") in "".join(runs([str(place)], Terminal()))
    (known,) = json.loads("".join(runs([str(place), "--json"], Terminal())))
    assert known["tasks"][name]["rate"] == task["rate"]
    with closing(open_database(place)) as database:
        query = "select steps, rate_wall, rate_median, rate_n, pause_seconds from tasks"
        of = task["rate"]
        expected = (task["steps"], of["wall"], of.get("median"), of["n"], task["pause"]["seconds"])
        assert database.execute(query).fetchall() == [expected]


def test_an_evaluation_is_as_fast_as_its_own_steps_whatever_lies_between() -> None:
    run = Run()
    for n in range(1200):
        name, backward = ("eval", 0) if n % 300 >= 100 else ("fine-tuning", 3)
        run.step(name, [0, 1, backward, 0, 0, 0], 8.0)
    tasks = run.facts()["tasks"]
    assert tasks["eval"]["rate"]["wall"] == approx(8000)
    assert tasks["fine-tuning"]["rate"]["wall"] == approx(8 * 400 / 2.2)


@pytest.mark.parametrize(
    ("steps", "name"),
    [({"train": 1, "other": 9}, "train"), ({"eval": 9, "a": 2, "b": 3}, "b"), ({"eval": 9}, "eval"),
     ({"train": 0, "eval": 9}, "eval"), ({}, None)],
)  # fmt: skip
def test_a_run_is_about_training_and_about_evaluation_only_if_there_is_no_other(
    steps: dict[str, float], name: str | None
) -> None:
    assert main_name(steps) == name


#: Programs that are slow in one way each: ms of each part of a step, and so many more of computing
#: with each step, the pause after every 20, steps.
SLOW: list[tuple[str, list[float], float, int, int]] = [
    ("loader-bound", [20, 2, 2, 1, 0, 0], 0, 0, 60),
    ("compute-bound", [0.2, 8, 10, 2, 0, 0.2], 0, 0, 60),
    ("host-bound", [0, 2, 2, 1, 0, 20], 0, 0, 60),
    ("pause-heavy", [1, 2, 2, 1, 0, 1], 0, 400, 120),
    ("never steady", [0, 4, 2, 1, 0, 1], 0.6, 0, 80),
    ("no bottleneck found", [6, 12, 12, 1, 0, 10], 0, 0, 60),
    ("", [30, 1, 1, 1, 0, 0], 0, 0, 5),
]


@pytest.mark.parametrize(("verdict", "ms", "more", "pause", "steps"), SLOW)
def test_a_program_is_told_what_it_was_built_to_be_slow_in(
    verdict: str, ms: list[float], more: float, pause: int, steps: int
) -> None:
    run, random = Run(), Random(1)
    for n in range(steps):
        grown = [ms[0], ms[1] + more * n, *ms[2:]]
        run.step("train", [part * random.uniform(0.98, 1.02) for part in grown], 4.0)
        if pause and n % 20 == 19:
            run.pause("train", "evaluation", pause)
    found = diagnose(facts := run.facts())
    assert (found.verdict if found else "") == verdict
    text = render({**facts, "diagnosis": found.as_facts() if found else {}}, 80)
    assert ("\n  verdict " in text) == bool(verdict)
    assert len(text.splitlines()) <= 14
