"""``--stop N`` and ``early_stop``: the script ends at the N-th step, whatever tells the steps."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from instruments.early_stop import early_stop

from .inside import Ran, run

#: What a script begins with; it ends by printing how often each of its parts has come.
COUNTS = """
from collections import Counter
import threading
import giving, voir
done = Counter({0: 0})
"""
TORCH = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
model, other = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
loader = DataLoader(TensorDataset(torch.ones(200, 4)), batch_size=2)
def backward(x=torch.ones(2, 4)):
    model(x).mean().backward()
def learn(model, optimizer, x=torch.ones(2, 4)):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
    done[id(model) == id(other)] += 1
"""
ONE = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
TWO = "first, second = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))\n"
#: By what tells the steps: the body of a script that makes a hundred, and for which ``n`` it has
#: printed what.
SOURCES: dict[str, tuple[str, dict[int, str]]] = {
    "marks": ("""
for _ in range(100):
    done[0] += 1
    giving.give(step=True, batch_size=4)
""", {1: "1", 7: "7"}),
    "iterate": ("""
for x in voir.iterate("train", range(100), report_batch=True, batch_size=4):
    done[0] += 1
""", {1: "1", 7: "7"}),
    "optimizer": (ONE + """
for _ in range(100):
    learn(model, optimizer)
""", {1: "0", 7: "6"}),  # It is stopped within the seventh call.
    "accumulation": (ONE + """
for n in range(100):
    backward()
    done[0] += 1
    if n % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
""", {1: "4", 5: "20"}),
    "several optimizers": (TWO + """
for _ in range(100):
    learn(model, first)
    learn(other, second)
""", {5: "5 4"}),
    "several optimizers to a batch": (TWO + """
for (x,) in loader:
    learn(model, first, x)
    learn(other, second, x)
    learn(other, second, x)
""", {5: "5 9"}),
    "scaler": (ONE + """
scaler = torch.amp.GradScaler("cpu")
for _ in range(100):
    scaler.scale(model(torch.ones(2, 4)).mean()).backward()
    scaler.step(optimizer)
    scaler.update()
    done[0] += 1
""", {6: "5"}),
    "optimizers within a backward": ("""
optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
for p in optimizers:
    p.register_post_accumulate_grad_hook(lambda p: optimizers[p].step())
for _ in range(100):
    backward()
    done[0] += 1
""", {1: "0", 6: "5"}),
    "backwards": ("""
for _ in range(100):
    backward()
    done[0] += 1
""", {1: "0", 7: "6"}),
    "batches": ("""
model.eval()
with torch.no_grad():
    for (x,) in loader:
        model(x)
        done[0] += 1
""", {1: "1", 7: "7"}),
    "threads": (ONE + """
for _ in range(20):
    thread = threading.Thread(target=learn, args=(model, optimizer))
    thread.start()
    thread.join()
for _ in range(100):
    learn(model, optimizer)
""", {30: "29"}),
}  # fmt: skip
CASES = [(source, n) for source, (_, counts) in SOURCES.items() for n in counts]


def stopped(place: Path, source: str, n: int) -> Ran:
    """A script of ``SOURCES`` with ``--stop n``."""
    body = indent(SOURCES[source][0], "    ")
    start = COUNTS if source in ("marks", "iterate") else COUNTS + TORCH
    end = "finally:\n    print(*(done[key] for key in sorted(done)))\n"
    return run(place, f"{start}try:\n{body}{end}", "--stop", str(n))


@pytest.mark.parametrize(("source", "n"), CASES, ids=str)
def test_a_script_ends_at_the_nth_step(source: str, n: int, tmp_path: Path) -> None:
    if source not in ("marks", "iterate"):
        pytest.importorskip("torch", reason="torch comes with the extra [examples]")
    ran = stopped(tmp_path, source, n)
    assert (ran.error, ran.status, " ".join(ran.printed)) == (None, 0, SOURCES[source][1][n])
    assert ran.stopped == f"after {n} steps" if n > 1 else "after a step"
    assert [task["steps"] for task in ran.tasks.values()] == [n]


def test_a_stop_that_never_comes_leaves_the_script_and_no_steps_are_told(tmp_path: Path) -> None:
    ran = stopped(tmp_path, "marks", 101)
    assert (ran.printed, ran.stopped, ran.problems) == (["100"], None, [])
    ran = run(tmp_path, "print(1)", "--stop", "5")
    assert (ran.printed, ran.status, ran.problems) == (["1"], 0, ["nothing-given"])
    assert run(tmp_path, "1 / 0", "--stop", "5").problems == []  # It came to no step.


GIVES = """
import giving
n = 0
try:
    for epoch in range(10):
        for i in range(4):
            n += 1
            giving.give(step=i, task="train", batch_size=2)
        giving.give(accuracy=epoch, task="eval")
finally:
    print(n)
"""


class Enough(Exception):
    """The voirfile's own."""


#: What is asked for, and how many steps there are then.
ASKED: list[tuple[dict[str, Any], str]] = [
    ({"n": 6}, "6"),
    ({"n": 6.0}, "6"),
    ({"n": 6, "task": "train"}, "6"),
    ({"key": "accuracy", "n": 3}, "12"),
    ({"key": "accuracy", "n": 3, "task": "eval"}, "12"),
    ({"key": "accuracy", "n": 3, "task": "train"}, "40"),
    ({"n": 3, "signal": Enough}, "3"),
]


@pytest.mark.parametrize(("options", "n"), ASKED, ids=str)
def test_keys_and_tasks_are_counted_and_the_signal_ends_the_run(
    options: dict[str, Any], n: str, tmp_path: Path
) -> None:
    ran = run(tmp_path, GIVES, instruments=(early_stop(**options),))
    assert (ran.printed, ran.status) == ([n], int("signal" in options))
    assert type(ran.error) is options.get("signal", type(None))


def test_a_signal_is_logged_in_the_place_of_a_stop(tmp_path: Path) -> None:
    ran = run(tmp_path, GIVES, instruments=(early_stop(n=3, signal="enough"),))
    logged = [event["$event"] for event in ran.logged if "$event" in event]
    assert (ran.printed, logged.count("enough")) == (["40"], 1)


SWALLOWED = """
import giving
n = stopped = 0
for _ in range(300):
    try:
        n += 1
        giving.give(step=True, batch_size=1)
    except BaseException:
        stopped += 1
print(n, stopped)
"""


def test_a_stop_that_is_swallowed_comes_again_and_then_lets_go(tmp_path: Path) -> None:
    ran = run(tmp_path, SWALLOWED, "--stop", "10")
    assert (ran.printed, ran.problems) == (["300", "101"], ["stop-swallowed"])


@pytest.mark.parametrize(
    "wrong", [{"key": 5}, {"n": 0}, {"n": 1.5}, {"n": True}, {"n": "5"}, {"signal": 3}], ids=str
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    ran = run(tmp_path, GIVES, instruments=(early_stop(**wrong),))
    assert (ran.printed, ran.problems) == (["40"], ["option-value"])


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", ""])
def test_a_flag_without_a_number_is_refused(text: str, tmp_path: Path) -> None:
    ran = run(tmp_path, GIVES, f"--stop={text}")
    assert (getattr(ran.error, "slug", ""), ran.printed) == ("option-value", [])
