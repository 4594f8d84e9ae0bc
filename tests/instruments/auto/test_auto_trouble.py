"""What else may happen to a script that is watched, and what must not happen because it is."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from instruments.auto import Phases, phases_of
from instruments.auto.loop import Known, Loop
from instruments.auto.operations import MOST, count
from instruments.auto.passes import Pass
from instruments.auto.phases import NAMES
from instruments.auto.sizing import Given
from overseer import Overseer
from tests.running import Place

from .conftest import watched


def test_the_record_says_where_the_time_of_steps_went() -> None:
    train = watched("function_loop.py").tasks["train"]
    parts = train["breakdown"]
    assert set(parts) >= {"loading", "forward", "backward", "optimizer", "other", "steps"}
    assert parts["steps"] == parts["watched"]
    assert all(parts[name] > 0 for name in ("loading", "forward", "backward", "optimizer"))


#: Of each script: what it does, and how many operations that have a gradient one step has.
OPERATING = {
    "one loss": ("(x * w).add(1).sum().backward(); o.step()", 3),
    "two losses, by one optimizer": ("[(x * w).sum().backward() for _ in 'ab']; o.step()", 4),
    "what is not learned from": ("y = x * w; (y * y.detach()).sum().backward(); o.step()", 3),
    "one that hangs on another twice": ("y = x * w; (y * y).sum().backward(); o.step()", 3),
}


@pytest.mark.parametrize("steps", OPERATING)
def test_the_operations_of_a_step_are_counted(steps: str, tmp_path: Path) -> None:
    loop, expected = OPERATING[steps]
    (tmp_path / "main.py").write_text(
        f"""
import torch
x, w = torch.ones(2), torch.nn.Parameter(torch.ones(2))
o = torch.optim.SGD([w], lr=0.1)
for _ in range(12):
    {loop}
"""
    )
    train = watched(tmp_path / "main.py").tasks["train"]
    assert train["breakdown"]["operations"] == expected


def test_of_a_large_graph_no_more_than_is_quick_is_looked_at() -> None:
    import torch

    loss = torch.ones((), requires_grad=True)
    for _ in range(2 * MOST):
        loss = loss + 1
    assert count([loss]) == MOST


@pytest.mark.parametrize("ending", ["raise RuntimeError", "raise KeyboardInterrupt"])
def test_where_the_time_went_is_said_of_a_script_that_fails_too(
    ending: str, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text(THREADS + f"train(20)\n{ending}\n")
    train = watched(tmp_path / "main.py").tasks["train"]
    assert {"forward", "backward"} <= set(train["breakdown"])


@pytest.mark.parametrize("name", ["gan_without_loader.py", "gan_together.py"])
def test_losses_of_further_optimizers_are_told_apart(name: str) -> None:
    train = watched(name).tasks["train"]
    assert list(train["losses"]) == ["optimizer 2"]
    assert set(train["losses"]["optimizer 2"]) == {"first", "last", "min"}
    assert train["losses"]["optimizer 2"]["first"] != train["loss"]["first"]


def test_a_loss_of_a_further_optimizer_that_hangs_does_not_keep_the_run(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "main.py",
        """
        import threading
        import torch

        class Hangs(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                if threading.current_thread() is not threading.main_thread():
                    threading.Event().wait()  # As on a device that is lost.
                return super().__torch_function__(function, types, args, kwargs)

        models = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
        optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in models]
        for _ in range(3):
            for model, optimizer, kind in zip(models, optimizers, (torch.Tensor, Hangs)):
                loss = model(torch.ones(8, 4)).mean()
                torch.autograd.backward(loss.as_subclass(kind))
                optimizer.step()
        """,
    )
    assert place.voir("main.py").status == 0
    record = place.record()
    assert record["tasks"]["train"]["steps"] == 3
    assert set(record["tasks"]["train"]["loss"]) >= {"first", "last"}
    assert "losses" not in record["tasks"]["train"]
    unread = [problem for problem in record["problems"] if problem["slug"] == "loss"]
    assert [problem["what"] for problem in unread] == [
        "3 of 3 could not be read: at the end that took too long"
    ]


def test_phases_lie_in_their_steps() -> None:
    heard: list[tuple[str, int, int]] = []

    def instrument_hear(ov: Overseer) -> Iterator[Any]:
        yield ov.phases.parse_args
        phases_of(ov).listen(lambda *phase: heard.append(phase))

    seen = watched("trainer_class.py", instruments=(instrument_hear,))
    names = [name for name, _, _ in heard]
    assert set(names) <= set(NAMES)
    assert names.count("backward") == names.count("forward") == seen.truth["steps"]
    assert names.count("optimizer") == 2 * seen.truth["steps"]  # zero_grad, and step.
    assert all(begin <= end for _, begin, end in heard)
    steps = [phase for phase in heard if phase[0] == "step"]
    assert len(steps) == seen.truth["steps"] - 1  # The first one's beginning was not seen.
    assert all(a[2] == b[1] for a, b in pairwise(steps))


def test_who_hears_phases_hears_those_of_short_steps_too() -> None:
    heard: list[str] = []

    def instrument_hear(ov: Overseer) -> None:
        phases_of(ov).listen(lambda name, begin, end: heard.append(name))

    seen = watched("long_loop.py", instruments=(instrument_hear,))
    assert heard.count("backward") == seen.truth["steps"] + 1  # One gradient is thrown away.


ELSEWHERE = """
import multiprocessing

import torch

multiprocessing.Process()  # Counted when it is made; to start it here would be a fork amid threads.
"""
STEP = "torch.optim.SGD([torch.nn.Parameter(torch.ones(1))]).step()\n"


@pytest.mark.parametrize(("more", "told"), [("", 1), (STEP, 0)], ids=["no step", "a step"])
def test_that_all_happens_in_other_processes_is_told(more: str, told: int, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(ELSEWHERE + more)
    problems = watched(tmp_path / "main.py").problems
    assert len(problems) == told
    assert all("started a process of which voir sees none" in problem for problem in problems)


BY_HAND = """
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters())
for _ in range({n}):
    model(torch.ones(4, 2)).sum().backward()
    for parameter in model.parameters():
        parameter.data.add_(parameter.grad, alpha=-0.1)
"""


@pytest.mark.parametrize(
    ("n", "more", "told"),
    [(3, "", "backward was called 3 times"), (3, "optimizer.step()", None), (1, "", None)],
    ids=["by hand", "a step at last", "hardly begun"],
)
def test_gradients_that_no_optimizer_uses_are_told(
    n: int, more: str, told: str | None, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text(BY_HAND.format(n=n) + more)
    seen = watched(tmp_path / "main.py")
    assert ("train" in seen.tasks) == bool(more)
    assert len(seen.problems) == (told is not None)
    assert all(f"auto: {told}, but no optimizer stepped" in problem for problem in seen.problems)


#: What learns without ``backward``, in ways that may be for something else, too.
TAKEN = {
    "plain tensors": "torch.autograd.grad((x @ weight).sum(), [weight])",
    "a function, beside an optimizer": "taken(values, x)",
    "once": "taken(values, x) if turn == 0 else None",
    "an attack": "with torch.no_grad(): model.eval()(x)\n    taken(values, x)",
}


@pytest.mark.parametrize("taken", TAKEN)
def test_gradients_that_are_taken_where_nothing_else_is_seen_are_told(
    taken: str, tmp_path: Path
) -> None:
    (tmp_path / "main.py").write_text(
        f"""
import torch

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters())
called = torch.func.functional_call
taken = torch.func.grad(lambda values, x: called(model, values, (x,)).sum())
values = {{name: value.detach() for name, value in model.named_parameters()}}
weight = torch.ones(2, 1, requires_grad=True)
for turn in range(6):
    x = torch.ones(4, 2)
    {TAKEN[taken]}
"""
    )
    told = [problem for problem in watched(tmp_path / "main.py").problems if "gradients" in problem]
    assert len(told) == (taken not in ("once", "an attack"))
    assert all("gradients were taken 6 times, but no optimizer" in each for each in told)


def test_the_first_step_of_a_script_without_a_loader_begins_with_its_forward(
    tmp_path: Path,
) -> None:
    (tmp_path / "main.py").write_text(
        """
import time, torch
model = torch.nn.Linear(3, 1)
model.register_forward_pre_hook(
    lambda *_: time.sleep(0.05) if not hasattr(model, "known") else None
)
o = torch.optim.SGD(model.parameters())
for _ in range(4):
    o.zero_grad()
    model(torch.ones(2, 3)).sum().backward()
    o.step()
    model.known = True
"""
    )
    train = watched(tmp_path / "main.py").tasks["train"]
    assert train["steps"] == 4
    assert train["first_step_seconds"] >= 0.05
    assert set(train["breakdown"]) >= {"forward", "backward"}
    assert train["breakdown"]["steps"] <= 4


def test_the_first_step_which_is_held_back_says_when_it_ended() -> None:
    heard: list[dict[str, Any]] = []

    def instrument_hear(ov: Overseer) -> Iterator[Any]:
        yield ov.phases.parse_args
        ov.listen(heard.append, "step")
        phases_of(ov).listen(lambda *phase: ends.append(phase[2]))

    ends: list[int] = []
    watched("accumulation.py", instruments=(instrument_hear,))
    assert heard[0]["$ended"] in ends
    assert all("$ended" not in event for event in heard[1:])


def test_where_one_of_several_optimizers_steps_alone_no_step_is_held_back_for_long(
    tmp_path: Path,
) -> None:
    heard: list[dict[str, Any]] = []

    def instrument_hear(ov: Overseer) -> Iterator[Any]:
        yield ov.phases.parse_args
        ov.listen(heard.append, "step")

    (tmp_path / "main.py").write_text(
        """
import torch

model = torch.nn.Linear(4, 1)
unused = torch.optim.SGD([torch.zeros(1)], lr=0.1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for (batch,) in torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(torch.ones(480, 4)), batch_size=8
):
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    )
    train = watched(tmp_path / "main.py", instruments=(instrument_hear,)).tasks["train"]
    assert (train["steps"], train["items"]) == (60, 480)
    late = ["$ended" in event for event in heard]
    assert late[:32] == [True] * 32
    assert not any(late[33:])


def test_gradients_that_several_epochs_are_accumulated_over_are_one_step(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        """
import time
import torch

data = torch.utils.data.TensorDataset(torch.ones(32, 4))
loader = torch.utils.data.DataLoader(data, batch_size=8)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
number = 0
for epoch in range(10):
    for (batch,) in loader:
        model(batch).sum().backward()
        time.sleep(0.01)
        number += 1
        if number % 10 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
    )
    train = watched(tmp_path / "main.py", "--skip", "0").tasks["train"]
    assert (train["steps"], train["items"]) == (4, 320)
    assert train["first_step_seconds"] >= 10 * 0.01
    assert train["compute"]["seconds"] >= 40 * 0.01


def test_the_first_step_is_told_of_before_a_generator_is_asked_for_the_next_batch(
    tmp_path: Path,
) -> None:
    def instrument_hear(ov: Overseer) -> Iterator[Any]:
        yield ov.phases.parse_args
        ov.listen(lambda event: print("step", event["step"]), "step")

    (tmp_path / "main.py").write_text(
        """
import torch

def batches():
    for number in range(1, 4):
        yield torch.ones(8, 4)
        print("after", number)

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for batch in batches():
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    )
    told = watched(tmp_path / "main.py", instruments=(instrument_hear,)).output.splitlines()
    assert told == ["step 1", "after 1", "step 2", "after 2", "step 3", "after 3"]


@pytest.mark.parametrize("passes", ["", "model(next(iter(valid))[0])"])
def test_a_batch_that_is_looked_at_before_the_training_counts_for_nothing(
    tmp_path: Path, passes: str
) -> None:
    (tmp_path / "main.py").write_text(
        f"""
import torch
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.ones(32, 4)), batch_size=8)
valid = DataLoader(TensorDataset(torch.ones(128, 4)), batch_size=64)
model = torch.nn.Linear(4, 1)
fixed = next(iter(valid))
sample = next(iter(loader))
with torch.no_grad():
    model.eval()
    {passes}
    model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for epoch in range(2):
    for (batch,) in loader:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
    )
    train = watched(tmp_path / "main.py").tasks["train"]
    assert (train["steps"], train["items"]) == (8, 64)


def test_the_first_step_is_told_of_before_an_evaluation_s_loader_begins(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        """
import time
import torch
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.ones(160, 4)), batch_size=8)
valid = DataLoader(TensorDataset(torch.ones(32, 4)), batch_size=8)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for number, (batch,) in enumerate(loader):
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if number == 0:
        time.sleep(2.0)
        with torch.no_grad():
            model.eval()
            for (batch,) in valid:
                model(batch)
            model.train()
"""
    )
    train = watched(tmp_path / "main.py", "--skip", "0").tasks["train"]
    assert train["pause"]["seconds"] >= 2.0
    assert train["compute"]["seconds"] < 2.0


class Nowhere:
    holding = False

    def step(self, *what: object, more: bool) -> None: ...
    def counted(self, *what: object) -> None: ...
    def mark(self, *what: object) -> None: ...
    def evaluated(self, *what: object) -> None: ...
    def settle(self, **how: bool) -> None: ...


def test_memory_does_not_grow_with_steps() -> None:
    import torch

    loop, tensor = Loop(Nowhere(), Phases(), Known()), torch.tensor(1.0)

    def steps(n: int) -> int:
        for i in range(n):
            loop.fetched("loader", 4, i, i)
            loop.forward_begins(i % 50, True, True)
            loop.forward_ends(Pass(i % 50, i, "eval", 4), Given(4, False), i, i, True, False)
            loop.backward_begins(i, tensor)
            loop.backward_ends(i)
            loop.optimizer_begins(i, i % 7)
            loop.optimizer_ends(i, i % 7, i % 7)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = steps(500)
        assert steps(5000) - before < 5000
    finally:
        tracemalloc.stop()


FORKS = """
    import os, sys
    import torch

    def train(steps):
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(steps):
            loss = model(torch.randn(3, 4)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    torch.manual_seed(1)
    torch.set_num_threads(1)
    train(3)
    sys.stdout.flush()
    child = os.fork()
    value = train(2 if child else 50)
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    print(value)
    """


def test_what_a_forked_child_trains_is_its_own(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", FORKS)
    under, plain = place.voir("main.py"), place.python("main.py")
    assert under.seen == plain.seen
    assert place.record()["tasks"]["train"]["steps"] == 5
    assert place.record()["problems"] == []


def test_torch_that_is_imported_late_is_seen(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("training.py", "import torch\n\ndef model():\n    return torch.nn.Linear(4, 1)\n")
    place.write(
        "main.py",
        """
        import sys

        def main():
            from training import model
            import torch
            made = model()
            optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
            for _ in range(4):
                made(torch.ones(2, 4)).sum().backward()
                optimizer.step()
            print(sorted(name for name in sys.modules if name.startswith("torch._dynamo"))[:1])

        main()
        """,
    )
    under = place.voir("main.py")
    assert under.seen == place.python("main.py").seen
    train = place.record()["tasks"]["train"]
    assert (train["steps"], train["items"]) == (4, 8)
    assert "train     4 steps · 8 items" in under.stderr


THREADS = """
import threading

import torch

torch.set_num_threads(1)


shared = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
turn = threading.Lock()


def train(steps, ready=None):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        loss = model(torch.randn(3, 4)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    repeat(step, steps, ready)


def infer(steps, ready):
    with torch.no_grad():
        repeat(lambda: shared(torch.randn(3, 4)), steps, ready)


def repeat(step, steps, ready):
    if ready is not None:
        with turn:  # Until it is known of both that they use modules, one by one.
            step()
        ready.wait(60)
        steps -= 1
    for _ in range(steps):
        step()


def race(target, ready=None):
    threads = [threading.Thread(target=target, args=(n, ready)) for n in (120, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


"""


def race(call: str, tmp_path: Path) -> tuple[int, int]:
    (tmp_path / "main.py").write_text(THREADS + call)
    seen = watched(tmp_path / "main.py")
    assert seen.error is None
    assert seen.problems == []
    (task,) = seen.tasks.values()
    return task["steps"], task["items"]


@pytest.mark.parametrize("target", ["train", "infer"])
def test_threads_that_use_models_at_once_each_have_their_steps(target: str, tmp_path: Path) -> None:
    assert race(f"race({target}, threading.Barrier(2))", tmp_path) == (320, 960)


def test_a_thread_that_joins_one_whose_steps_are_only_counted_has_its_steps(
    tmp_path: Path,
) -> None:
    steps, items = race("race(train)", tmp_path)
    assert steps == 320
    assert items == 960  # The first forward of the second may not be seen.


def test_threads_that_train_in_turn_have_their_steps(tmp_path: Path) -> None:
    call = "train(10)\nthread = threading.Thread(target=train, args=(300,))\n"
    assert race(f"{call}thread.start()\nthread.join()\ntrain(300)", tmp_path) == (610, 1830)


#: A model in the place of one that is gone, where steps are only counted: it is given a list.
REPLACED = """
import torch
class Means(torch.nn.Linear):
    def forward(self, xs):
        return torch.stack([super(Means, self).forward(x).mean() for x in xs])
def learn(model, x, n):
    o = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(n):
        model(x).sum().backward()
        o.step()
        o.zero_grad()
    return id(model)
gone, kept = learn(torch.nn.Linear(4, 2), torch.randn(8, 4), 60), []
while len(kept) < 200 and gone not in map(id, kept):
    kept.append(Means(4, 2))
learn(kept[-1], [torch.randn(4)] * 5, 30)
"""


def test_a_model_in_the_place_of_one_that_is_gone_is_another(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(REPLACED)
    seen = watched(tmp_path / "main.py")
    assert (seen.error, seen.problems) == (None, [])
    assert seen.tasks["train"]["steps"] == 90
    assert seen.tasks["train"]["items"] == 60 * 8 + 30 * 5
