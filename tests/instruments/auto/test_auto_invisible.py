"""What a script may see of the hooks: nothing in tracebacks, warnings and torch's own code."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

import torch

from instruments.auto.codes import Codes
from instruments.auto.frames import mend

from .conftest import plain, watched
from .test_auto_precedence import LOSS, STEP, giving

FAILS = """
import traceback

import torch

torch.set_num_threads(1)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.inner(x)


def fails(model):
    try:
        model(torch.ones(2, 3))
    except RuntimeError:
        print(traceback.format_exc())


model = Model()
fails(model)
hook = model.register_forward_hook(lambda *call: None)
fails(model)
hook.remove()
try:
    raise ValueError
except ValueError:
    fails(torch.nn.Sequential(model))
print(len(model._forward_hooks), model(torch.ones(2, 4)).shape)
"""

FAILS_ELSEWHERE = """
import traceback

import torch

torch.set_num_threads(1)


class Model(torch.nn.Linear):
    def train(self, mode=True):
        raise KeyError(mode)


def fails(function, *args):
    try:
        function(*args)
    except Exception:
        print(traceback.format_exc())


torch.manual_seed(1)
model = Model(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
compiled = torch.compile(model, backend="eager")
for _ in range(2):
    fails(model.eval)
    fails(model.zero_grad, 1, 2)
    fails(optimizer.zero_grad, 1, 2)
    fails(scaler.scale, "no number")
    fails(compiled, torch.ones(2, 3))
    print(scaler.scale(compiled(torch.ones(2, 4)).sum()).item())
fails(torch.ones(2).backward)
fails(torch.utils.data.DataLoader, [], -1)
fails(list, torch.utils.data.DataLoader([{1}]))
torch._dynamo.reset()
"""


EMPTY = """
import traceback

import torch

try:
    torch.optim.SGD([], lr=0.1)
except ValueError:
    print(traceback.format_exc())
"""


def test_an_optimizer_that_cannot_be_made_says_so_as_ever(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(EMPTY)
    assert watched(tmp_path / "main.py").output == plain(tmp_path / "main.py")


def test_tracebacks_are_as_without_hooks(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(FAILS)
    seen = watched(tmp_path / "main.py")
    assert seen.output == plain(tmp_path / "main.py")
    assert "in inner" in seen.output  # Where the script itself has a hook.
    assert seen.problems == []


def test_tracebacks_through_functions_of_torch_are_as_ever(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(FAILS_ELSEWHERE)
    seen = watched(tmp_path / "main.py")
    assert seen.output == plain(tmp_path / "main.py")
    assert seen.output.count("Traceback") > 8
    assert seen.problems == []


def test_what_ends_a_script_is_mended_too() -> None:
    """Torch calls no hook on the way of a KeyboardInterrupt."""

    class Interrupted(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self) -> None:
            raise KeyboardInterrupt

    def names(hooked: bool) -> list[tuple[str, int | None]]:
        module = Interrupted()
        if hooked:
            module.register_forward_hook(lambda *call: None)
        with pytest.raises(KeyboardInterrupt) as caught:
            module()
        mend(caught.value, lambda module: hooked)
        entries = traceback.extract_tb(caught.value.__traceback__)
        return [(entry.name, entry.lineno) for entry in entries[1:]]

    assert names(True) == names(False)


COPIED = """
import copy

import torch


class Model(torch.nn.Linear):
    def forward(self, x):
        copies.append(copy.deepcopy(self))
        return super().forward(x)


copies = []
model = Model(4, 1)
model(torch.ones(2, 4))
print(copies[0](torch.ones(3, 4)).shape, len(model._forward_hooks))
"""


def test_a_model_that_copies_itself_at_work_may(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(COPIED)
    seen = watched(tmp_path / "main.py")
    assert (seen.error, seen.problems) == (None, [])
    assert seen.output == plain(tmp_path / "main.py")


COMPILED = """
import warnings

import torch

torch.set_num_threads(1)
warnings.filterwarnings("error", message="Using `torch.compile")
activation = torch.compile(torch.nn.ReLU(), backend="eager")
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    model(activation(torch.ones(3, 2))).sum().backward()
    optimizer.step()
torch._dynamo.reset()
"""


def test_torch_does_not_warn_of_hooks_where_a_compiled_module_is_called(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(COMPILED)
    seen = watched(tmp_path / "main.py")
    assert (seen.error, seen.problems) == (None, [])
    assert (seen.tasks["train"]["steps"], seen.tasks["train"]["items"]) == (3, 9)


TOLD = """
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
torch.set_num_threads(1)
data = TensorDataset(torch.randn(480, 4), torch.randn(480, 1))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
hooks = sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks
seen = []


def train(loader):
    for inp, target in loader:
        loss = torch.nn.functional.mse_loss(model(inp), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        probed = any("voir" in name for name in backward.__code__.co_names)
        seen.append((loss.item(), len(hooks), probed))


backward = torch.autograd.backward
while hasattr(backward, "__wrapped__"):
    backward = backward.__wrapped__
for _ in range(2):
    train(DataLoader(data, batch_size=4))
print(sum(not hooks for _, hooks, _ in seen), sum(not probed for _, _, probed in seen))
print(seen[-1][0])
"""


@pytest.mark.parametrize("told", [True, False], ids=["told by others", "told by nobody"])
def test_steps_that_others_tell_of_go_without_hooks(tmp_path: Path, told: bool) -> None:
    (tmp_path / "main.py").write_text(TOLD)
    selectors = (STEP, LOSS) if told else ()
    seen = watched(tmp_path / "main.py", instruments=(giving(*selectors),))
    assert (seen.error, seen.problems) == (None, [])
    assert (seen.tasks["train"]["steps"], seen.tasks["train"]["items"]) == (240, 960)
    counts, last = seen.output.splitlines()
    assert seen.tasks["train"]["loss"]["last"] == pytest.approx(float(last))
    without_hook, without_probe = map(int, counts.split())
    assert (without_hook > 0, without_probe > 0) == (told, told)


def test_code_that_somebody_else_has_changed_is_left_alone() -> None:
    def function() -> int:
        return 1

    def other() -> int:
        return 2

    codes = Codes(function)
    before = function.__code__
    function.__code__ = before.replace(co_name="marked")
    codes.placed()
    codes.use(0)
    assert function.__code__ is before
    function.__code__ = other.__code__
    codes.use(-1)
    codes.close()
    assert function() == 2


TRACED = """
import warnings

import torch

warnings.simplefilter("ignore", DeprecationWarning)
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
inputs, targets = torch.randn(4, 8), torch.randn(4, 2)
for steps in (0, 3, 60):
    for _ in range(steps):
        loss = (model(inputs) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error", torch.jit.TracerWarning)
        print(torch.jit.trace(model, inputs).inlined_graph)
        model.eval()
        print(torch.jit.trace(model, inputs).inlined_graph)
        model.train()
"""


def test_graphs_that_are_traced_have_the_script_s_operations_alone(tmp_path: Path) -> None:
    """A size that is asked for while ``torch.jit.trace`` looks on is an operation of the graph."""
    script = tmp_path / "main.py"
    script.write_text(TRACED)
    expected = plain(script)
    run = watched(script)
    assert run.error is None
    assert _renumbered(run.output) == _renumbered(expected)
    assert run.tasks["train"]["steps"] == 63
    assert run.tasks["train"]["items"] == 252


def _renumbered(text: str) -> list[str]:
    """Without the numbers of classes, which count on in one process."""
    return re.sub(r"\.___torch_mangle_\d+", "", text).splitlines()
