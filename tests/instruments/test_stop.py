"""``--stop N`` and ``early_stop``: the script ends at the N-th step, whatever tells the steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from instruments.early_stop import early_stop
from overseer import Overseer

from .inside import run

#: What each script does before it prints how often each of its parts has come.
COUNTS = """
from collections import Counter

done = Counter({0: 0})
"""
TORCH = (
    COUNTS
    + """
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
model, other = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)

def learn(model, optimizer, x=torch.ones(2, 4)):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
    done[id(model) == id(other)] += 1
"""
)
END = """
finally:
    print(*(done[key] for key in sorted(done)))
"""
#: By what tells the steps: the body of a script that makes a hundred, and for which ``n`` it has
#: printed what.
SOURCES: dict[str, tuple[str, dict[int, list[str]]]] = {
    "marks": (
        COUNTS
        + """
import giving
try:
    for _ in range(100):
        done[0] += 1
        giving.give(step=True, batch_size=4)
""",
        {1: ["1"], 7: ["7"]},
    ),
    "iterate": (
        COUNTS
        + """
import voir
try:
    for x in voir.iterate("train", range(100), report_batch=True, batch_size=4):
        done[0] += 1
""",
        {1: ["1"], 7: ["7"]},
    ),
    "optimizer": (
        TORCH
        + """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
try:
    for _ in range(100):
        learn(model, optimizer)
""",
        {1: ["0"], 7: ["6"]},  # It is stopped within the seventh call.
    ),
    "accumulation": (
        TORCH
        + """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
try:
    for n in range(100):
        model(torch.ones(2, 4)).mean().backward()
        done[0] += 1
        if n % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
""",
        {1: ["4"], 5: ["20"]},
    ),
    "several optimizers": (
        TORCH
        + """
first, second = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))
try:
    for _ in range(100):
        learn(model, first)
        learn(other, second)
""",
        {5: ["5", "4"]},
    ),
    "several optimizers to a batch": (
        TORCH
        + """
first, second = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))
try:
    for (x,) in DataLoader(TensorDataset(torch.ones(200, 4)), batch_size=2):
        learn(model, first, x)
        learn(other, second, x)
        learn(other, second, x)
""",
        {5: ["5", "9"]},
    ),
    "scaler": (
        TORCH
        + """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
try:
    for _ in range(100):
        scaler.scale(model(torch.ones(2, 4)).mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        done[0] += 1
""",
        {6: ["5"]},
    ),
    "optimizers within a backward": (
        TORCH
        + """
optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
for p in optimizers:
    p.register_post_accumulate_grad_hook(lambda p: optimizers[p].step())
try:
    for _ in range(100):
        model(torch.ones(2, 4)).mean().backward()
        done[0] += 1
""",
        {1: ["0"], 6: ["5"]},
    ),
    "backwards": (
        TORCH
        + """
try:
    for _ in range(100):
        model(torch.ones(2, 4)).mean().backward()
        done[0] += 1
""",
        {1: ["0"], 7: ["6"]},
    ),
    "batches": (
        TORCH
        + """
model.eval()
try:
    with torch.no_grad():
        for (x,) in DataLoader(TensorDataset(torch.ones(200, 4)), batch_size=2):
            model(x)
            done[0] += 1
""",
        {1: ["1"], 7: ["7"]},
    ),
    "threads": (
        TORCH
        + """
import threading
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
try:
    for _ in range(20):
        thread = threading.Thread(target=learn, args=(model, optimizer))
        thread.start()
        thread.join()
    for _ in range(100):
        learn(model, optimizer)
""",
        {30: ["29"]},
    ),
}
CASES = [(source, n) for source, (_, counts) in SOURCES.items() for n in counts]


@pytest.mark.parametrize(("source", "n"), CASES, ids=str)
def test_a_script_ends_at_the_nth_step(source: str, n: int, tmp_path: Path) -> None:
    body, counts = SOURCES[source]
    if "torch" in body:
        pytest.importorskip("torch", reason="torch comes with the extra [examples]")
    ran = run(tmp_path, body + END, "--stop", str(n))
    assert (ran.error, ran.status) == (None, 0)
    assert ran.printed == counts[n]
    assert ran.stopped == f"after {n} steps" if n > 1 else "after a step"
    (task,) = ran.tasks.values()
    assert task["steps"] == n


def test_a_stop_that_never_comes_leaves_the_script(tmp_path: Path) -> None:
    body = SOURCES["marks"][0]
    ran = run(tmp_path, body + END, "--stop", "101")
    assert (ran.printed, ran.stopped, ran.problems) == (["100"], None, [])


def test_a_script_without_steps_is_told_so(tmp_path: Path) -> None:
    ran = run(tmp_path, "print(1)", "--stop", "5")
    assert (ran.printed, ran.status) == (["1"], 0)
    assert ran.problems == ["nothing-given"]
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


@pytest.mark.parametrize(
    ("options", "n"),
    [
        ({"n": 6}, "6"),
        ({"n": 6.0}, "6"),
        ({"n": 6, "task": "train"}, "6"),
        ({"key": "accuracy", "n": 3}, "12"),
        ({"key": "accuracy", "n": 3, "task": "eval"}, "12"),
        ({"key": "accuracy", "n": 3, "task": "train"}, "40"),
    ],
    ids=str,
)
def test_other_keys_and_tasks_can_be_counted(
    options: dict[str, Any], n: str, tmp_path: Path
) -> None:
    ran = run(tmp_path, GIVES, instruments=(early_stop(**options),))
    assert ran.printed == [n]
    assert (ran.error, ran.status) == (None, 0)


def test_a_signal_is_logged_in_the_place_of_a_stop(tmp_path: Path) -> None:
    seen: list[Any] = []

    def instrument_listens(ov: Overseer) -> Any:
        ov.listen_log(seen.append, "$event")
        yield ov.phases.init

    stop = early_stop(n=3, signal="enough")
    ran = run(tmp_path, GIVES, instruments=(stop, instrument_listens))
    assert ran.printed == ["40"]
    assert sum(event["$event"] == "enough" for event in seen) == 1


class Enough(Exception):
    """The voirfile's own."""


def test_a_signal_may_be_the_voirfiles_own(tmp_path: Path) -> None:
    ran = run(tmp_path, GIVES, instruments=(early_stop(n=3, signal=Enough),))
    assert ran.printed == ["3"]
    assert (isinstance(ran.error, Enough), ran.status) == (True, 1)


SWALLOWED = """
import giving
n = stopped = 0
for _ in range(300):
    try:
        n += 1
        giving.give(step=True)
    except BaseException:
        stopped += 1
print(n, stopped)
"""


def test_a_stop_that_is_swallowed_comes_again_and_then_lets_go(tmp_path: Path) -> None:
    ran = run(tmp_path, SWALLOWED, "--stop", "10")
    assert ran.printed == ["300", "101"]
    assert ran.problems == ["stop-swallowed"]


@pytest.mark.parametrize(
    "wrong", [{"key": 5}, {"n": 0}, {"n": 1.5}, {"n": True}, {"n": "5"}, {"signal": 3}], ids=str
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    ran = run(tmp_path, GIVES, instruments=(early_stop(**wrong),))
    assert ran.problems == ["option-value"]
    assert ran.printed == ["40"]


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", ""])
def test_a_flag_without_a_number_is_refused(text: str, tmp_path: Path) -> None:
    ran = run(tmp_path, GIVES, f"--stop={text}")
    assert getattr(ran.error, "slug", "") == "option-value"
    assert ran.printed == []
