"""A model that is evaluated, and teaches another in the steps of training."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from instruments.auto.passes import Pass, Passes
from instruments.auto.per_batch import PerBatch

TRAIN, LEARN, ENDS = "T", "!", "$"
#: What happens: a loader is asked, of which ``T`` feeds training; ``t`` is a teacher's pass, ``m``
#: one of the model that is trained, of which it is certain that nothing is learned from it; ``!``
#: learns.
ROUNDS = {
    "evaluated before": ("HtHtHtHTt!Tt!Tt!T", "ttt"),
    "twice in a step": ("HtHtHTtt!Ttt!T", "tt"),
    "two loaders at once": ("HtHtHTUt!TUt!TUt!T", "tt"),
    "each epoch": ("HtHtHTt!Tt!THtHtHTt!Tt!T", "tttt"),
    "before the student": ("Tt!Tt!THtHtHHmHmHTt!Tt!T", "ttmm"),
    "behind the student": ("Tt!Tt!THmHmHHtHtHTt!Tt!T", "mmtt"),
    "had been trained": ("T!T!THmHmHTm!Tt!Tt!T", "mm"),
    "a batch it is tested on then": ("HtHtHGtGTt!Tt!T", "ttt"),
    "another loader's then": ("HtHtHGtGtGTt!T", "tttt"),
    "loaders in turn": ("HtGtHtGtHGTt!T", "tttt"),
    "what is trained on": ("T!T!HmHmHTmTmTmT!T!", "mmmmm"),
    "a batch that is trained on, each time": ("T!Tm!Tm!THmHmHTm!Tm!", "mmmmmm"),
    "a batch that is trained on, from then on": ("T!THmHmHTm!Tm!Tm!", "mmmm"),
    "several with a batch that is trained on": ("T!THmHmHTmmm!T!T", "mmmmm"),
    "within a step": ("T!T!THmHGm!T!", "mm"),
    "broken off, and learned from no loader": ("HtHtHGt!!HtHtHGt!!H", "tttttt"),
    "broken off at the end": ("HtHtHGt$", "ttt"),
    "no loader's": ("tttt!t!t!", "tttt"),
}


def told(rounds: str) -> str:
    """The passes that are told as an evaluation's, in order."""
    found: list[Pass] = []
    fed: set[object] = set()
    fetches = 0
    batches = PerBatch(found.append, lambda now: f"mark {now}", fed.__contains__)
    passes = Passes(batches.made, batches)
    for at, each in enumerate(rounds):
        if each == LEARN:
            passes.learned()
            if batches.waiting:
                batches.ends()
            fed.add(TRAIN)
        elif each == ENDS:
            batches.ends()
        elif each.isupper():
            batches.asks(each, fetches)
            fetches += not rounds[at + 1 : at + 2].isupper()  # The last time it has no more.
        else:
            model = ord(each)
            passes.begins(model, fetches, True, each == "m")
            passes.ended(Pass(model, fetches, "eval", 4, at, at))
    assert len({made.began for made in found}) == len(found), "a pass is told twice"
    return "".join(chr(made.model) for made in found)


@pytest.mark.parametrize("name", ROUNDS)
def test_what_a_teacher_does_in_a_step_is_no_evaluation(name: str) -> None:
    rounds, expected = ROUNDS[name]
    assert told(rounds) == expected


def test_what_was_a_pass_by_itself_is_told_with_its_own_time_and_mark() -> None:
    found: list[Pass] = []
    batches = PerBatch(found.append, lambda now: f"mark {now}", lambda _: False)
    passes = Passes(batches.made, batches)
    for fetches, source in enumerate("HHHG"):
        batches.asks(source, fetches)
        assert passes.begins(1, fetches + 1, True) == (fetches in (1, 2))
        passes.ended(Pass(1, fetches + 1, "eval", 4, 10 * fetches, 10 * fetches))
    assert len(found) == 3
    batches.asks("G", 4)
    assert [(made.ended, made.mark) for made in found[3:]] == [(30, "mark 30")]


#: A teacher's forward takes 10 ms, a student's 2.
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
data = DataLoader(torch.randn(44, 4), batch_size=8)
held = DataLoader(torch.randn(20, 4), batch_size=8)
teacher, student = Model(0.01), Model(0.002)
def test(model):
    model.eval()
    with torch.no_grad():
        for x in held:
            model(x)
def pretrain(epochs):
    o = torch.optim.SGD(teacher.parameters(), lr=0.01)
    teacher.train()
    for _ in range(epochs):
        for x in data:
            o.zero_grad()
            teacher(x).pow(2).mean().backward()
            o.step()
def distil():
    teacher.eval()
    student.train()
    for x in data:
        with torch.no_grad():
            t = teacher(x)
        o.zero_grad()
        (student(x) - t).pow(2).mean().backward()
        o.step()
o = torch.optim.SGD(student.parameters(), lr=0.01)
{before}
for _ in range(2):
    distil()
{after}
"""
#: What is done before training and after each epoch; epochs of training, and of evaluation.
SCRIPTS = {
    "the teacher before": ("test(teacher)", "", 2, 1),
    "the student, too": ("test(teacher)", "test(student)", 2, 3),
    "the teacher each epoch": ("", "test(teacher)", 2, 2),
    "the student each epoch": ("", "test(student)", 2, 2),
    "both": ("", "test(teacher); test(student)", 2, 4),
    "both, the teacher last": ("", "test(student); test(teacher)", 2, 4),
    "a teacher that was trained": ("pretrain(2); test(teacher)", "test(student)", 4, 3),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_teacher_that_is_evaluated_is_none_of_its_steps(tmp_path: Path, name: str) -> None:
    pytest.importorskip("torch", reason="torch comes with the extra [examples]")
    from .conftest import watched

    before, after, trained, evaluated = SCRIPTS[name]
    script = SCRIPT.format(before=before, after=indent(after, "    "))
    (tmp_path / "main.py").write_text(script)
    seen = watched(tmp_path / "main.py")
    assert (seen.error, seen.problems) == (None, [])
    counts = {task: (each["steps"], each["items"]) for task, each in seen.tasks.items()}
    assert counts == {"train": (6 * trained, 44 * trained), "eval": (3 * evaluated, 20 * evaluated)}


def test_so_it_is_where_most_steps_are_only_counted(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch comes with the extra [examples]")
    from .conftest import watched

    script = SCRIPT.replace("randn(44, 4)", "randn(2400, 4)")
    for takes in ("0.01", "0.002"):
        script = script.replace(f"Model({takes})", "Model(0.0005)")
    after = "    test(student); test(teacher)"
    (tmp_path / "main.py").write_text(script.format(before="test(teacher)", after=after))
    tasks = watched(tmp_path / "main.py").tasks
    assert tasks["train"]["breakdown"]["watched"] < tasks["train"]["steps"] == 600
    assert (tasks["eval"]["steps"], tasks["eval"]["items"]) == (15, 100)


def test_the_first_step_has_the_teachers_forward_in_it(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch comes with the extra [examples]")
    from .conftest import watched

    script = SCRIPT.replace("Model(0.01)", "Model(0.1)")
    (tmp_path / "main.py").write_text(script.format(before="test(teacher)", after=""))
    train = watched(tmp_path / "main.py").tasks["train"]
    assert train["first_step_seconds"] > 0.1
