"""Forward passes without gradients beside those that are learned from, as a teacher's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from instruments.auto import Phases
from instruments.auto.loop import Known, Loop
from instruments.auto.passes import Pass, Passes
from instruments.auto.sink import Spent
from instruments.auto.sizing import Given
from overseer.measure.diagnosis import diagnose
from overseer.measure.parts import breakdown

from .conftest import Watched, watched

#: A frozen model's forward takes 10 ms, a trained one's 2.
SCRIPT = """
import time, torch
from torch.utils.data import DataLoader
class Model(torch.nn.Linear):
    def __init__(self, takes):
        super().__init__(4, 4)
        self.takes = takes
    def forward(self, x):
        time.sleep(self.takes)
        return super().forward(x)
@torch.no_grad()
def free(x, takes=None):
    frozen.takes, usual = takes or frozen.takes, frozen.takes
    y = frozen(x)
    frozen.takes = usual
    return y
@torch.no_grad()
def evaluate():
    model.eval()
    for x in torch.randn(9, 4, 4):
        free(x)
        model(x)
    model.train()
def loaded(samples):
    {loaded}
    return torch.stack(samples)
def learn(x):
    {learn}
frozen, model = Model(0.01), Model(0.002)
o = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(4, 4)
{before}
for step, x in enumerate({batches}):
    learn(x)
    {after}
"""
LOADER = "DataLoader(torch.randn(120, 4), batch_size=4, collate_fn=loaded)"
MADE = "(torch.randn(4, 4) for _ in range(30))"
LIST = "[torch.randn(4, 4)] * 30"
LOSS = "loss = (model(x) - t).pow(2).mean(); o.zero_grad(); loss.backward()"
TAUGHT = f"t = free(x); {LOSS}; o.step()"
CLOSURE = f"def closure():\n        t = free(x); {LOSS}\n        return loss"
TEACHES = "t = free(x); o.zero_grad(); ((model(x) - t).pow(2).mean() / 2).backward()"
#: Of each way in which its forward belongs to a step: what is other than usual.
BELONGS = {
    "ahead": {},
    "twice": {"learn": f"t = free(x) + free(x); {LOSS}; o.step()", "batches": LOADER},
    "behind": {"learn": "y = model(x); t = free(x); (y - t).sum().backward(); o.step()"},
    "below": {"learn": "o.zero_grad(); model(free(x)).pow(2).mean().backward(); o.step()"},
    "of a list": {"batches": LIST},
    "of a generator": {"batches": MADE},
    "in each part of a batch": {"learn": f"{TEACHES}; {TEACHES}; o.step()"},
    "in a closure": {"learn": f"{CLOSURE}\n    o.step(closure)"},
    "behind a step": {
        "learn": "(model(x) - 1).sum().backward(); o.step(); o.zero_grad(); free(x)",
        "batches": LIST,
    },
}


def run(tmp_path: Path, **parts: str) -> tuple[dict[str, float], Watched]:
    """The shares of a step of the script, some of which is other than usual."""
    usual = {"loaded": "pass", "learn": TAUGHT, "before": "", "batches": LOADER, "after": ""}
    (tmp_path / "main.py").write_text(SCRIPT.format(**(usual | parts)))
    seen = watched(tmp_path / "main.py")
    assert (seen.error, seen.problems) == (None, [])
    shares = breakdown(seen.tasks["train"])
    assert sum(shares.values()) == pytest.approx(1)
    return shares, seen


@pytest.mark.parametrize("name", BELONGS)
def test_a_frozen_models_forward_is_the_steps_wherever_it_comes(name: str, tmp_path: Path) -> None:
    shares, seen = run(tmp_path, **BELONGS[name])
    assert list(seen.tasks) == ["train"]
    assert seen.tasks["train"]["steps"] == 30
    assert shares["forward"] > 0.75
    verdict = diagnose({"seconds": 60.0, "tasks": seen.tasks})
    assert verdict is None or verdict.verdict != "host-bound"


def test_so_it_is_where_most_steps_are_only_counted(tmp_path: Path) -> None:
    before = "frozen.takes, model.takes = 0.002, 0.0005"
    shares, seen = run(tmp_path, before=before, batches=LOADER.replace("120", "1600"))
    parts = seen.tasks["train"]["breakdown"]
    assert parts["watched"] < 0.5 * parts["steps"]
    assert shares["forward"] > 0.55


#: Of each way in which it does not: what is other than usual.
APART = {
    "before a loader's first batch": {"before": "free(x, 0.5)"},
    "before the first of a list": {"before": "free(x, 0.5)", "batches": LIST},
    "before the first of a generator": {"before": "free(x, 0.5)", "batches": MADE},
    "within loading": {"loaded": "free(torch.stack(samples))"},
    "within a generator": {
        "before": "def give():\n    for x in [torch.randn(4, 4)] * 30:\n        yield free(x)",
        "batches": "give()",
    },
    "in evaluations": {"after": "if step % 10 == 9: [free(torch.randn(4, 4)) for _ in range(9)]"},
    "in evaluations of another": {"after": "step % 10 == 9 and evaluate()"},
    "once, behind a batch's step": {"after": "step == 20 and free(x, 0.5)"},
    "once, behind an epoch": {
        "batches": "(x for _ in range(2) for x in DataLoader(torch.randn(60, 4), batch_size=4))",
        "after": "step == 14 and free(x, 0.5)",
    },
}
ALONE = "(model(x) - 1).pow(2).mean().backward(); o.step(); o.zero_grad(); time.sleep(0.01)"


@pytest.mark.parametrize("name", APART)
def test_what_it_does_elsewhere_is_no_steps_forward(name: str, tmp_path: Path) -> None:
    shares, seen = run(tmp_path, **({"learn": ALONE} | APART[name]))
    assert seen.tasks["train"]["steps"] == 30
    assert 0.03 < shares["forward"] < 0.3


class Kept:
    """What becomes of steps: what they spent is kept."""

    holding = told = False
    train = 0

    def __init__(self) -> None:
        self.spent: list[Spent | None] = []

    def step(self, now: int, items: Any, losses: Any, spent: Spent | None, **how: bool) -> None:
        self.spent.append(spent)

    def mark(self, now: int) -> None: ...
    def lasts(self, now: int) -> None: ...
    def fetches(self) -> None: ...
    def counted(self, items: int | None, loss: object) -> None: ...
    def evaluated(self, made: Pass) -> None: ...
    def other(self, role: object, losses: object) -> None: ...
    def count_tokens(self) -> None: ...
    def settle(self, over: bool = False, asked: bool = False, again: bool = False) -> None: ...


def test_what_is_moved_to_a_device_has_come_when_the_first_forward_begins() -> None:
    kept, known = Kept(), Known()
    loop = Loop(kept, Phases(), known)
    known.optimizers = 1
    for now in (1000, 2000):
        loop.fetched("loader", 4, now, now + 10)
        for model, learns, begin in ((1, False, now + 30), (2, True, now + 50)):
            made = Pass(model, 1, "eval", 4)
            evaluated = loop.forward_begins(model, learns, learns)
            loop.forward_ends(made, Given(4, True), begin, begin + 7, learns, evaluated)
        loop.backward_begins(now + 57, ())
        loop.backward_ends(now + 60)
        loop.optimizer_begins(now + 60, 3)
        loop.optimizer_ends(now + 65, 3, 3)
    assert [spent and spent[1:6] for spent in kept.spent] == 2 * [(10, 20, 14, 3, 5)]


def told(rounds: str, evaluated: str = "") -> str:
    """The passes that are told as such: a letter is a model's, a ``!`` learns.

    Args:
        rounds: What happens, in turn.
        evaluated: Models of which it is certain that nothing is learned from them.
    """
    found: list[Pass] = []
    passes = Passes(found.append)
    for at, each in enumerate(rounds):
        if each == "!":
            passes.learned()
            continue
        model = ord(each)
        passes.begins(model, 0, True, each in evaluated)
        passes.ended(Pass(model, 0, "inference", 4, at))
    assert len({made.ended for made in found}) == len(found), "a pass is told twice"
    return "".join(chr(made.model) for made in found)


PASSES = {
    "one of a step": ("a!a!a!", ""),
    "several": ("aaa!aaa!", "aaaaaa"),
    "an actor and a critic": ("acacac!acac!", "aaaaa"),
    "a critic's once more": ("acacacc!acacc!", "aaacaac"),
    "and again": ("acacccc!", "aaccc"),
    "that go on": ("acaccacac", "aaccc"),
    "one after another": ("aaabbb!", "aaabbb"),
    "one after another, twice": ("aabb!aabb!", "aabbaabb"),
}


@pytest.mark.parametrize("name", PASSES)
def test_passes_are_told_once(name: str) -> None:
    rounds, expected = PASSES[name]
    assert told(rounds) == expected


#: The same, where it is certain of ``m``, the model that is trained.
BESIDE = {
    "once more": ("mtmtmtt!", "mmmt"),
    "ahead, teaches the next step": ("tmtmtmt!", "mmm"),
    "is evaluated then": ("mtmtmtttt!", "mmmttt"),
    "ahead, is evaluated then": ("tmtmtmttt!", "mmmttt"),
}


@pytest.mark.parametrize("name", BESIDE)
def test_what_is_evaluated_beside_the_trained_model(name: str) -> None:
    rounds, expected = BESIDE[name]
    assert told(rounds, evaluated="m") == expected
