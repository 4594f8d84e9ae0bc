"""What of a step is its forward, its optimizer's, and neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from instruments.auto.forward import EACH, FEW, TIMES, Forward
from overseer.measure.diagnosis import Diagnosis, diagnose
from overseer.measure.parts import breakdown
from tests.running import Place

from .conftest import Watched, explained, watched

#: Between forward and ``backward`` some get the next batch, some act on what the model says.
BETWEEN = """
import time, torch
class Model(torch.nn.Linear):
    def forward(self, x):
        time.sleep(0.002)
        return super().forward(x)
model = Model(4, 2)
o = torch.optim.SGD(model.parameters(), lr=0.1)
{before}
for _ in range(30):
    {forward}
    {between}
    loss.backward()
    o.step()
    o.zero_grad()
"""
GET = "time.sleep(0.01); x = torch.randn(8, 4)"
CASES = {
    "the next batch": ("x = torch.randn(8, 4)", "loss = model(x).pow(2).mean() / 2", GET),
    "an environment": (
        "",
        "kept = [(model(torch.randn(1, 4)).sum(), time.sleep(0.005))[0] for _ in range(3)]",
        "loss = torch.stack(kept).mean()",
    ),
}


def _run(script: str, tmp_path: Path) -> tuple[dict[str, float], Watched]:
    """The shares of a step of a script."""
    (tmp_path / "main.py").write_text(script)
    seen = watched(tmp_path / "main.py")
    assert seen.error is None
    assert not seen.problems
    return breakdown(seen.tasks["train"]), seen


def _verdict(seen: Watched) -> Diagnosis | None:
    return diagnose({"seconds": 60.0, "tasks": seen.tasks})


@pytest.mark.parametrize("name", CASES)
def test_what_lies_between_modules_and_backward_may_be_no_forward(
    name: str, tmp_path: Path
) -> None:
    before, forward, between = CASES[name]
    shares, seen = _run(BETWEEN.format(before=before, forward=forward, between=between), tmp_path)
    assert shares["other"] > 0.5
    assert 0.05 < shares["forward"] < 0.45
    verdict = _verdict(seen)
    assert verdict is not None
    assert verdict.verdict == "host-bound"
    assert "or makes batches" in verdict.why


def test_a_batch_that_a_loader_gives_there_is_loading(tmp_path: Path) -> None:
    before = """
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self):
        return 31
    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.randn(4)
batches = iter(DataLoader(Data()))
x = next(batches)
"""
    script = BETWEEN.format(
        before=before, forward="loss = model(x).sum()", between="x = next(batches)"
    )
    shares, _ = _run(script, tmp_path)
    assert shares["loading"] > 0.4
    assert 0.1 < shares["forward"] < 0.5
    assert sum(shares.values()) == pytest.approx(1)


#: A criterion that finds out what is to be compared with what, as DETR's does.
CRITERION = """
class Matcher(torch.nn.Module):
    @torch.no_grad()
    def forward(self, out):
        time.sleep(0.01)
        return torch.zeros_like(out)
class Criterion(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.matcher, self.models = Matcher(), []
    def forward(self, out):
        return (out - self.matcher(out)).pow(2).mean() + sum(m(out).mean() for m in self.models)
criterion, metric, x = Criterion(), Matcher(), torch.randn(8, 4)
{more}
"""
MORE = {
    "a matcher": "",
    "a model within": "criterion.models.append(torch.nn.Linear(2, 1))",
    "an outer one": "criterion = torch.nn.Sequential(criterion)",
}


@pytest.mark.parametrize("name", MORE)
def test_a_module_without_parameters_that_computes_the_loss_is_forward(
    name: str, tmp_path: Path
) -> None:
    script = BETWEEN.format(
        before=CRITERION.format(more=MORE[name]),
        forward="out = model(x)",
        between="loss = criterion(out)",
    )
    shares, seen = _run(script + "assert not criterion._forward_hooks", tmp_path)
    assert shares["forward"] > 0.75
    assert shares["other"] < 0.2
    assert (seen.tasks["train"]["steps"], seen.tasks["train"]["items"]) == (30, 240)
    verdict = _verdict(seen)
    assert verdict is None or "Python around" not in verdict.why


def test_one_that_computes_no_gradient_is_none(tmp_path: Path) -> None:
    forward, between = "out = model(x)", "loss = out.pow(2).mean(); metric(out)"
    before = CRITERION.format(more="")
    shares, _ = _run(BETWEEN.format(before=before, forward=forward, between=between), tmp_path)
    assert shares["other"] > 0.5
    assert shares["forward"] < 0.45


def test_one_that_fails_leaves_no_hook(tmp_path: Path) -> None:
    before = """
class Fails(torch.nn.Module):
    error = ValueError
    def forward(self, out):
        time.sleep(0.005)
        if self.error is not None:
            raise self.error
        return out.mean()
fails, x = Fails(), torch.randn(8, 4)
def both(out):
    for Fails.error in (ValueError, KeyboardInterrupt, None):
        try:
            loss = fails(out)
        except BaseException:
            pass
    return loss
"""
    script = BETWEEN.format(before=before, forward="out = model(x)", between="loss = both(out)")
    shares, seen = _run(script + "assert not fails._forward_hooks", tmp_path)
    assert seen.tasks["train"]["steps"] == 30
    assert 0.1 < shares["forward"] < 0.9
    assert sum(shares.values()) == pytest.approx(1)


#: A model of which one module is but the beginning.
FUNCTIONAL = """
import torch
e = torch.nn.Embedding(50, 128)
weights = [torch.nn.Parameter(0.05 * torch.randn(128, 128)) for _ in range(20)]
o = torch.optim.SGD([*e.parameters(), *weights], lr=0.1)
for _ in range(40):
    h = {first}
    for w in weights:
        h = torch.tanh(h @ w)
    loss = torch.nn.functional.cross_entropy(h, torch.zeros(64, dtype=torch.long))
    o.zero_grad()
    loss.backward()
    o.step()
"""


def test_a_forward_beside_modules_is_one(tmp_path: Path) -> None:
    first = "e(torch.randint(0, 50, (64,)))"
    # What else the machine does lies anywhere: the run it disturbs least tells.
    runs = [_run(FUNCTIONAL.format(first=first), tmp_path) for _ in range(3)]
    shares, seen = min(runs, key=lambda run: run[0]["other"])
    assert shares["forward"] > shares["other"]
    assert shares["forward"] > 0.3 * shares["backward"]
    verdict = _verdict(seen)
    assert verdict is None or "Python around" not in verdict.why


def test_where_no_module_is_seen_nothing_is_said_to_be_around_the_model(tmp_path: Path) -> None:
    shares, seen = _run(FUNCTIONAL.format(first="torch.randn(64, 128)"), tmp_path)
    assert "forward" not in shares
    verdict = _verdict(seen)
    assert verdict is None or "Python around" not in verdict.why


class Nodes:
    """Operations that have been made, as somebody says."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> int:
        return self.made


def _beside(took: int, others: int, backward: int, within: int = 10) -> int:
    """What is the forward's of time beside a module of ten operations that took a millisecond."""
    nodes = Nodes()
    forward = Forward(nodes)
    forward.module_begins()
    nodes.made += within
    forward.begins(loading=5)
    forward.module_ends(1_000_000)
    nodes.made += others
    assert forward.ends(1_000_000 + took + 700, loading=5 + 700) == 1_000_000
    counted = forward.beside(backward)
    assert forward.beside(backward) == 0
    return counted


def test_a_loss_is_the_forwards_as_long_as_it_is_one() -> None:
    ms = 1_000_000
    assert _beside(ms, 3, 2 * ms) == ms
    assert _beside(9 * ms, 3, 2 * ms) == 3 * EACH
    many = 9 * FEW
    assert _beside(5 * ms, many, 2 * ms, within=1) == 5 * ms
    assert _beside(90 * ms, many, 2 * ms, within=many) == TIMES * ms
    # Nobody knows what was made: it may all have been a model.
    assert _beside(5 * ms, 0, 2 * ms, within=0) == 5 * ms
    assert _beside(90 * ms, 0, 2 * ms, within=0) == 2 * TIMES * ms
    assert _beside(0, 0, 0) == 0


def test_what_a_module_without_parameters_takes_is_the_forwards_if_it_is_in_the_graph() -> None:
    ms = 1_000_000
    nodes = Nodes()
    forward = Forward(nodes)

    def step(made: int, inner: int, took: int) -> int:
        forward.module_begins()
        nodes.made += 10
        forward.begins(loading=0)
        forward.module_ends(ms)
        assert forward.bare_counts
        forward.bare_begins(ms)
        assert not forward.bare_counts
        forward.module_begins()
        nodes.made += made
        forward.module_ends(inner)
        forward.bare_ends(ms + took)
        forward.bare_ends(ms + took)
        taken = forward.ends(ms + took, loading=0)
        assert not forward.bare_counts
        return taken + forward.beside(ms)

    assert step(made=3, inner=0, took=20 * ms) == 21 * ms
    assert step(made=3, inner=5 * ms, took=20 * ms) == 21 * ms
    assert not forward.cut
    assert step(made=0, inner=0, took=20 * ms) == ms
    assert forward.cut


#: A closure that does more than to compute a loss and its gradients.
CLOSURE = """
import time, torch
model = torch.nn.Linear(4, 1)
o = {optimizer}
x, calls = torch.randn(8, 4), []
for _ in range(20):
    def closure():
        calls.append(time.sleep(0.004))
        o.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        time.sleep(0.002)
        return loss
    o.step({called})
print('{{"calls": %d}}' % len(calls))
"""
SGD, LBFGS = (
    f"torch.optim.{kind}(model.parameters(), {more})"
    for kind, more in (("SGD", "lr=0.1"), ("LBFGS", "max_iter=3, tolerance_grad=0, lr=0.01"))
)


@pytest.mark.parametrize("called", ["closure", "closure=closure"])
@pytest.mark.parametrize(("optimizer", "most"), [(SGD, 1), (LBFGS, 4)], ids=["SGD", "LBFGS"])
def test_what_a_closure_does_besides_is_no_work_of_the_optimizer(
    optimizer: str, most: int, called: str, tmp_path: Path
) -> None:
    shares, seen = _run(CLOSURE.format(optimizer=optimizer, called=called), tmp_path)
    train = seen.tasks["train"]
    assert train["steps"] == 20
    assert 20 <= seen.truth["calls"] <= 20 * most
    assert shares["other"] > 0.5
    assert 0 < shares["optimizer"] < 0.4
    assert shares["forward"] > 0
    assert shares["backward"] > 0


#: Closures that fail: one after another, and one that nobody catches.
FAILS = """
import torch
w = torch.nn.Parameter(torch.ones(2))
o = torch.optim.SGD([w], lr=0.1)
def closure():
    o.zero_grad()
    loss = w.sum()
    loss.backward()
    if fails:
        raise ValueError("a loss of its own")
    return loss
for fails in (False, True, False):
    try:
        print(float(o.step(closure)), w.tolist())
    except ValueError as error:
        print(error)
fails = True
o.step(closure=closure)
"""


def test_a_closure_that_fails_does_as_without_voir(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", FAILS)
    run, plain = place.voir("main.py"), place.python("main.py")
    assert run.seen == plain.seen
    assert run.stderr.startswith(plain.stderr)


#: Steps that are mostly only counted, and pauses between epochs of loaders of their own.
EPOCHS = """
import time, torch
from torch.utils.data import DataLoader
model = torch.nn.Linear(4, 1)
o = torch.optim.SGD(model.parameters(), lr=0.01)
def loaded(samples):
    time.sleep(0.002)
    return torch.stack(samples)
for _ in range(3):
    for x in DataLoader(torch.randn(200, 4), batch_size=4, collate_fn=loaded):
        o.zero_grad()
        model(x).sum().backward()
        o.step()
        time.sleep(0.003)
    time.sleep(0.25)
"""


def test_the_parts_of_steps_are_what_loading_and_compute_are(tmp_path: Path) -> None:
    _, seen = _run(EPOCHS, tmp_path)
    train: dict[str, Any] = seen.tasks["train"]
    parts = train["breakdown"]
    assert parts["watched"] < parts["steps"]
    assert explained(train["pause"]) == 2
    assert parts["loading"] == pytest.approx(train["loading"]["seconds"])
    rest = sum(parts.get(n, 0) for n in ("transfer", "forward", "backward", "optimizer", "other"))
    assert rest == pytest.approx(train["compute"]["seconds"], rel=1e-6)
    assert parts["other"] > 0.4 * rest
