"""Several forward passes on one batch of an evaluation's loader: its steps are the batches."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from instruments.auto.passes import Pass
from instruments.auto.per_batch import FEW, WAIT_NS, PerBatch

ASK, FETCH, LEARN, PASS = "?", ".", "+", "o"
CASES = {
    "one each": ("?.o?.o?.o?", "1 1 1"),
    "three each": ("?.ooo?.ooo?.ooo?", "3 3 3"),
    "more and more": ("?.o?.oo?.ooo?.o?.oo?", "1 1 1 3 1 2"),
    "broken off": ("?.ooo?.ooo+", "3 3"),
    "one batch that a model is timed on": ("?.oooo+", "1 1 1 1"),
    "fetched beforehand": ("?.?.?.?ooo?", "1 1 1"),
    "fetched beforehand, again": ("?.?.?.?ooo+?.?.?.?ooo?", "1 1 1 1 1 1"),
    "read ahead": ("?.?.oo?.oo?oo+", "2 2 2"),
    "no loader": ("ooo", "1 1 1"),
    "none asked": ("..oo", "1 1"),
}


def told(
    what: str, feeds: bool = False, at_once: bool = False, each_ns: int = 1
) -> list[tuple[int, int, object]]:
    """The steps that come of it: from and to which pass, and the mark it has."""
    steps: list[tuple[int, int, object]] = []
    fetches = passes = 0

    def emit(made: Pass) -> None:
        steps.append((made.began, made.ended, made.mark))

    batches = PerBatch(emit, lambda now: f"mark {now}", lambda _: feeds, at_once)
    for happens in what:
        if happens == ASK:
            batches.asks("held out", fetches)
        elif happens == FETCH:
            fetches += 1
        elif happens == LEARN:
            batches.ends()
        else:
            passes += 1
            now = passes * each_ns
            batches.made(Pass(1, fetches, "eval", 8, began=now, ended=now))
    batches.ends()
    return steps


@pytest.mark.parametrize("case", CASES)
def test_passes_on_one_batch_are_one_step(case: str) -> None:
    what, expected = CASES[case]
    sizes = [int(n) for n in expected.split()]
    steps = told(what)
    assert [last - first + 1 for first, last, _ in steps] == sizes
    assert sum(sizes) == what.count(PASS)


def test_where_there_is_one_on_each_only_the_first_is_told_late() -> None:
    assert [mark for *_, mark in told("?.o?.o?.o?")] == ["mark 1", None, None]


def test_a_step_of_several_has_the_mark_of_the_last() -> None:
    assert [mark for *_, mark in told("?.oo?.oo?")] == ["mark 2", "mark 4"]


def test_what_is_done_beside_training_is_not_on_its_batch() -> None:
    assert len(told("?.ooo?.ooo?", feeds=True)) == 6


def test_only_so_many_wait_where_it_is_not_known_that_there_are_several() -> None:
    steps = told("?." + PASS * (FEW + 9) + "?.oo?." + PASS * (FEW + 9) + "?")
    assert len(steps) == FEW + 9 + 2


def test_they_do_not_wait_for_long() -> None:
    assert len(told("?.oooooo?.ooo?", each_ns=WAIT_NS // 3)) == 6 + 1


def test_each_is_told_at_once_where_the_run_may_be_stopped_there() -> None:
    assert [mark for *_, mark in told("?.oo?.oo?", at_once=True)] == [None] * 4


HEAD = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    data = DataLoader(list(torch.randn(44, 4)), batch_size=8)
    held = DataLoader(list(torch.randn(36, 4)), batch_size=8)

    def attacked(x, backward):
        delta = torch.zeros_like(x, requires_grad=True)
        for _ in range(3):
            loss = model(x + delta).mean()
            if backward:
                loss.backward()
                slope = delta.grad
            else:
                slope, = torch.autograd.grad(loss, delta)
            delta.data = delta + 0.1 * slope.sign()
            delta.grad = None
        return (x + delta).detach()
"""
TRAINING = """
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train(prepared=lambda x: x):
        model.train()
        for x in data:
            x = prepared(x)
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
"""
EVALUATIONS = {
    "several views": """
        for x in held:
            with torch.no_grad():
                sum(model(x.flip(1) * scale) for scale in range(4))
    """,
    "in parts": """
        for x in held:
            with torch.no_grad():
                torch.cat([model(part) for part in x.split(3)])
    """,
    "token by token": """
        for number, x in enumerate(held):
            with torch.no_grad():
                for _ in range(2 + number % 3):
                    model(x)
    """,
    "attacked": """
        for x in held:
            x = attacked(x, backward=False)
            with torch.no_grad():
                model(x)
    """,
}


def run(tmp_path: Path, *script: str) -> dict[str, tuple[int, int]]:
    """Run a script of these parts; the steps and items of each of its tasks."""
    pytest.importorskip("torch", reason="torch comes with the extra [examples]")
    from .conftest import watched

    (tmp_path / "main.py").write_text("".join(dedent(part) for part in script))
    seen = watched(tmp_path / "main.py")
    assert (seen.error, seen.problems) == (None, [])
    return {name: (task["steps"], task["items"]) for name, task in seen.tasks.items()}


def each_epoch(evaluation: str) -> str:
    lines = dedent(evaluation).strip("\n").splitlines()
    return "\n".join(
        ["", "for epoch in range(3):", "    train()", "    model.eval()"]
        + [f"    {line}" for line in lines]
    )


@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_an_evaluation_has_as_many_steps_as_batches(tmp_path: Path, evaluation: str) -> None:
    counts = run(tmp_path, HEAD, TRAINING, each_epoch(EVALUATIONS[evaluation]))
    assert counts == {"train": (18, 132), "eval": (15, 108)}


def test_so_it_has_behind_steps_that_are_only_counted(tmp_path: Path) -> None:
    """There it is not told that the evaluation's loader is asked for its first batch."""
    head = HEAD.replace("randn(44, 4)", "randn(320, 4)") + "    import time\n"
    training = TRAINING.replace("optimizer.step()", "optimizer.step(); time.sleep(0.006)")
    counts = run(tmp_path, head, training, each_epoch(EVALUATIONS["several views"]))
    assert counts == {"train": (120, 960), "eval": (15, 108)}


def test_without_training_too(tmp_path: Path) -> None:
    counts = run(tmp_path, HEAD, "\nmodel.eval()\n", dedent(EVALUATIONS["several views"]))
    assert counts == {"inference": (5, 36)}


def test_an_attack_on_what_is_evaluated_is_nothing_that_is_learned(tmp_path: Path) -> None:
    attack = """
        for x in held:
            x = attacked(x, backward=True)
            with torch.no_grad():
                model(x)
    """
    training = TRAINING.replace("lambda x: x", "lambda x: attacked(x, backward=True)")
    assert run(tmp_path, HEAD, training, each_epoch(attack))["train"] == (18, 132)
