"""Gradients that are taken and thrown away, and batches that are taken once, before the steps."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from instruments.auto.batches import Batches

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from .conftest import watched

MODEL = 1

HEAD = """
    import time
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    torch.manual_seed(0)
    losses, steps, epochs = [], [], []  # Of the latter the seconds, by the script's own clock.

    def loader(n=80, size=8):
        return DataLoader(list(torch.randn(n, 4)), batch_size=size)

    def optimize(model):
        return torch.optim.SGD(model.parameters(), lr=0.01)

    def learn(model, optimizer, x):
        began = time.perf_counter()
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        steps.append(time.perf_counter() - began)

    model, data = nn.Linear(4, 1), loader()
    optimizer = optimize(model)
"""


def run(tmp_path: Path, script: str) -> dict[str, Any]:
    """What is said of training; under ``truth``, what the script's own clock says."""
    path = tmp_path / "main.py"
    told = '\nprint(f\'{{"first": {losses[0]!r}, "steps": {steps}, "epochs": {epochs}}}\')\n'
    path.write_text(dedent(HEAD) + dedent(script) + told)
    seen = watched(path)
    assert (seen.error, seen.problems) == (None, [])
    train: dict[str, Any] = seen.tasks["train"]
    assert train["loss"]["first"] == pytest.approx(seen.truth["first"])
    train["truth"] = seen.truth
    return train


#: What takes the one batch, and what is done before the first step.
TAKEN = {
    "by next": "x = next(iter(data))",
    "by a variable's": "batches = iter(data); x = next(batches)",
    "by a loop": "for x in data: break",
    "and tried": "x = next(iter(data)); model(x)",
}


@pytest.mark.parametrize("taken", TAKEN)
def test_what_is_done_behind_the_only_batch_is_no_part_of_the_first_step(
    tmp_path: Path, taken: str
) -> None:
    script = f"""
    {TAKEN[taken]}
    optimizer = optimize(model)
    time.sleep(1.5)
    for _ in range(40):
        learn(model, optimizer, x)
        time.sleep(0.002)
    """
    train = run(tmp_path, script)
    assert (train["steps"], train["items"]) == (40, 320)
    assert train["first_step_seconds"] < train["truth"]["steps"][0] + 0.75


#: What loops do with each of the batches that they ask for.
ASKING = {
    "a step": "learn(model, optimizer, x)",
    "steps with parts of it": "[learn(model, optimizer, part) for part in x.split(2)]",
    "steps with what is made of it": """
            with torch.no_grad():
                for _ in range(3):
                    time.sleep(0.1)
                    made = model(x).repeat(1, 4)
            for _ in range(4):
                learn(model, optimizer, made)""",
    "another optimizer's step": "learn(model, optimizer, x); learn(rival, its, x)",
    "gradients accumulated": """
            for part in x.split(4):
                loss = model(part).pow(2).mean() / 2
                loss.backward()
            if not losses:
                losses.append(2 * loss.item())
            optimizer.step()
            optimizer.zero_grad()""",
    "an evaluation": """
            learn(model, optimizer, x)
            with torch.no_grad():
                model.eval()(x)
            model.train()""",
}


@pytest.mark.parametrize("asking", ASKING)
def test_what_is_done_with_a_batch_of_a_loop_s_is_its_step_s(tmp_path: Path, asking: str) -> None:
    script = f"""
    rival = nn.Linear(4, 1)
    its = optimize(rival)
    for epoch in range(2):
        for turn, x in enumerate(data):
            if not losses:
                time.sleep(0.2)
            {ASKING[asking]}
    """
    path = tmp_path / "main.py"
    path.write_text(dedent(HEAD) + dedent(script))
    train = watched(path).tasks["train"]
    assert train["steps"] >= 20
    assert train["first_step_seconds"] >= (0.5 if "made" in asking else 0.2)


#: What gradients of batches are taken for without an optimizer's step; and whether all of a loader.
TAKES = """
    def take(most=99, before=True):
        for number, x in enumerate(data):
            if number == most:
                break
            if before:
                model.zero_grad()
            model(x).abs().mean().backward()
            time.sleep(0.004)
            if not before:
                model.zero_grad()

    def train():
        began = time.perf_counter()
        for x in data:
            learn(model, optimizer, x)
            time.sleep(0.004)
        epochs.append(time.perf_counter() - began)
"""
LOOPS = {
    "before the training": "take(); train(); train()",
    "of some before the training": "take(6); train(); train()",
    "behind each epoch": "train(); take(); train(); take()",
    "of some behind each epoch": "train(); take(6); train(); take(6)",
    "put to zero at once": "take(before=False); train(); take(6, False); train()",
    "before the training with another optimizer": """
    for task in range(2):
        optimizer = optimize(model)
        train()
        take()""",
}


@pytest.mark.parametrize("loops", LOOPS)
def test_batches_of_which_only_gradients_are_taken_are_in_no_step(
    tmp_path: Path, loops: str
) -> None:
    train = run(tmp_path, dedent(TAKES) + dedent(LOOPS[loops]))
    assert (train["steps"], train["items"]) == (20, 160)
    compute, loading = train["compute"]["seconds"], train["loading"]["seconds"]
    assert compute + loading < sum(train["truth"]["epochs"]) + 0.01


def test_so_they_are_behind_steps_that_are_only_counted(tmp_path: Path) -> None:
    script = dedent(TAKES) + "data = loader(800)\nfor _ in range(3): train(); take()"
    train = run(tmp_path, script)
    assert (train["steps"], train["items"]) == (300, 2400)
    assert train["compute"]["seconds"] < sum(train["truth"]["epochs"]) + 0.02


#: What a script adds gradients of up by itself, for each step: parts of a loader's batches, or of
#: what it has, or a loader's batches.
ADDS_UP = {
    "parts": "(x.split(1) for x in data)",
    "parts of what is no loader's": "(x.split(1) for x in torch.randn(10, 8, 4))",
    "batches": "zip(*[iter(loader(80, 2))] * 4)",
}


@pytest.mark.parametrize("added", ADDS_UP)
def test_gradients_that_a_script_adds_up_by_itself_are_learned_from(
    tmp_path: Path, added: str
) -> None:
    """Each is made smaller by itself, for privacy say."""
    script = f"""
    weights = list(model.parameters())
    for epoch in range(2):
        for parts in {ADDS_UP[added]}:
            sums = [torch.zeros_like(weight) for weight in weights]
            for part in parts:
                optimizer.zero_grad()
                model(part).pow(2).mean().backward()
                for total, weight in zip(sums, weights):
                    total.add_(weight.grad.clamp(-1, 1))
            for total, weight in zip(sums, weights):
                weight.grad = total
            optimizer.step()
    """
    path = tmp_path / "main.py"
    path.write_text(dedent(HEAD) + dedent(script))
    train = watched(path).tasks["train"]
    assert (train["steps"], train["items"]) == (20, 160)


#: What is done with a batch before it is trained on, many times.
BEFORE = {
    "gradients": "model.zero_grad(); model(x).pow(2).mean().backward()",
    "gradients that add up": "model(x).pow(2).mean().backward()",
    "gradients between": "loss = model(x).pow(2).mean(); model.zero_grad(); loss.backward()",
}


@pytest.mark.parametrize("before", BEFORE)
def test_what_was_tried_with_a_batch_is_no_part_of_the_first_step(
    tmp_path: Path, before: str
) -> None:
    script = f"""
    x = torch.randn(8, 4)
    for _ in range(60):
        {BEFORE[before]}
        time.sleep(0.005)
    for _ in range(20):
        learn(model, optimizer, x)
    """
    train = run(tmp_path, script)
    assert (train["steps"], train["items"]) == (20, 160)
    assert train["first_step_seconds"] < train["truth"]["steps"][0] + 0.1


#: What is done with batches of 8 of two loaders: ``A`` and ``B`` give one, which is learned from,
#: ``0`` puts gradients to zero, ``!`` steps; ``a`` has no more, and ``+`` learns from a part more.
ROUNDS = {
    "as ever": ("0A!0A!", [8, 8]),
    "one left out": ("0A!0A0A!0A!", [8, 16, 8]),
    "two left out": ("0A!0A0A0A!0A!", [8, 24, 8]),
    "a loop of gradients": ("0A!a0A0A0Aa0A!0A!", [8, 8, 8]),
    "one loop behind another": ("0A!a0A0A0Aa0A0A0Aa0A!", [8, 8]),
    "of another loader": ("0A!a0B0B0Bb0A!", [8, 8]),
    "in the first turn": ("0A0A0Aa0A!", [8]),
    "looked at first": ("AAA0aA!0A!", [8, 8]),
    "looked at first, put to zero in the loop": ("AAAa0A!0A!", [8, 8]),
    "left over": ("0AA!0Aa0AA!0AA!", [16, 16, 16]),
    "an attack": ("0A+0+0!0A+0+0!", [8, 8]),
    "an attack at an epoch's end": ("0A+0+0!a0A+0+0!", [8, 8]),
    "added up by itself": ("0A0A0A!0A0Aa0A!0A0Aa0A!", [24, 24, 24]),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_what_was_put_to_zero_counts_where_it_may_have_been_learned_from(name: str) -> None:
    what, items = ROUNDS[name]
    batches, found = Batches(), []
    for each in what:
        if each in "AB":
            batches.fetched(each, 8)
        if each in "AB+":
            batches.given(MODEL, 8)
            batches.learned()
        elif each == "0":
            batches.zeroed()
        elif each == "!":
            found.append(batches.take())
        else:
            batches.exhausted(each.upper())
            batches.begun()
    assert found == items


@pytest.mark.parametrize("tried", [1, 3])
@pytest.mark.parametrize("zeroed", ["optimizer.zero_grad()", "pass"])
def test_gradients_of_a_few_batches_that_are_looked_at_first_are_in_no_step(
    tmp_path: Path, tried: int, zeroed: str
) -> None:
    """They are put to zero at once, or at the top of the loop that trains."""
    script = f"""
    for n, x in enumerate(data):
        model(x).pow(2).mean().backward()
        if n + 1 == {tried}:
            break
    {zeroed}
    for _ in range(2):
        for x in data:
            learn(model, optimizer, x)
    """
    train = run(tmp_path, script)
    assert (train["steps"], train["items"]) == (20, 160)


def test_what_an_epoch_leaves_over_of_an_accumulation_is_dropped_where_it_is_put_to_zero(
    tmp_path: Path,
) -> None:
    script = """
    for _ in range(3):
        for n, x in enumerate(data):
            if n % 4 == 0:
                optimizer.zero_grad()
                total = 0.0
            loss = model(x).pow(2).mean() / 4
            loss.backward()
            total += loss.item()
            if n % 4 == 3:
                optimizer.step()
                losses.append(total)
    """
    train = run(tmp_path, script)
    assert (train["steps"], train["items"]) == (6, 6 * 32)


def test_a_loss_is_told_where_its_gradients_are_kept_beside_and_put_to_zero(
    tmp_path: Path,
) -> None:
    script = """
    for x in data:
        loss = model(x).pow(2).mean()
        loss.backward()
        kept = [p.grad.clone() for p in model.parameters()]
        optimizer.zero_grad()
        for p, grad in zip(model.parameters(), kept):
            p.grad = grad
        optimizer.step()
        losses.append(loss.item())
    """
    train = run(tmp_path, script)
    assert (train["steps"], train["items"]) == (10, 80)
