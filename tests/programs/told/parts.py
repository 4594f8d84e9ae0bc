"""Runs ten programs with options that take a part of voir away, and prints their figures.

``python -m tests.programs.told.parts [--uncompiled] SET ...`` prints them as JSON, by set and
program. A set is options with commas between them, or ``-``. ``VOIR_RECORDER=python``: not in C.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import sys
import tempfile
from importlib.machinery import FileFinder, SourceFileLoader
from multiprocessing import get_context
from pathlib import Path
from textwrap import dedent
from typing import Any

from .programs import LOADING, LOSS_MARK, MARK, PAIR, PROGRAMS

TORCH = """
import torch
from torch import nn

def train_epoch(model, optimizer, batches):
    for batch in batches:
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen = len(batch)

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
data = torch.randn(90, 4)
loader = torch.utils.data.DataLoader(data, batch_size=8)
"""
BY_HAND = """
import torch

def train(batches, weight):
    for batch in batches:
        loss = (batch @ weight).square().mean()
        (grad,) = torch.autograd.grad(loss, weight)
        weight = (weight - 0.01 * grad).detach().requires_grad_()

torch.manual_seed(0)
train(torch.randn(90, 4).split(8), torch.ones(4, requires_grad=True))
"""
EVALUATED = """
@torch.no_grad()
def evaluate(model, batches):
    model.eval()
    for batch in batches:
        error = model(batch).square().mean()
    model.train()
"""
EPOCH = "//train_epoch(batch) > #endloop_batch as step"
EPOCH_PAIR = "//train_epoch(batch, !#loop_batch as compute_start, !!#endloop_batch as compute_end)"
#: By name: a script, and the lines of its voirfile, which say all that hooks say too.
TEN: dict[str, tuple[str, list[str]]] = {
    "a generator": (PROGRAMS["a generator"].script, [MARK, PAIR, "//train > loss"]),
    "functional": (PROGRAMS["functional"].script, [LOSS_MARK, LOADING, "//train > loss"]),
    "break": (PROGRAMS["break"].script, [PAIR, "//train > loss"]),
    "an exception": (PROGRAMS["an exception leaves the loop"].script, [MARK, "//train > loss"]),
    "losses": (PROGRAMS["break"].script, [LOSS_MARK, PAIR, LOADING, "//train > loss"]),
    "loader": (TORCH + "train_epoch(model, optimizer, loader)", [EPOCH, "//train_epoch > loss"]),
    "epochs": (
        TORCH + "for _ in range(3):\n    train_epoch(model, optimizer, loader)",
        [EPOCH, EPOCH_PAIR, "//train_epoch > loss"],
    ),
    "split": (
        TORCH + "train_epoch(model, optimizer, data.split(16))",
        [EPOCH, "//train_epoch > loss"],
    ),
    "by hand": (BY_HAND, ["//train(batch) > #endloop_batch as step", "//train > loss"]),
    "evaluated": (
        TORCH + EVALUATED + "for _ in range(2):\n    train_epoch(model, optimizer, loader)\n"
        "    evaluate(model, loader)",
        [EPOCH, "//train_epoch > loss", "eval: //evaluate(batch) > #endloop_batch as step"],
    ),
}  # fmt: skip


def voirfile(lines: list[str]) -> str:
    """A voirfile of these lines."""
    text = "def instrument_lines(ov):\n    yield ov.phases.load_script\n"
    for line in lines:
        task, colon, selector = line.partition(": ")
        given = f"task={task!r}" if colon else ""
        text += f"    ov.probe({selector if colon else line!r}).give({given})\n"
    return text


def figures(case: tuple[str, str]) -> tuple[str, str, dict[str, Any]]:
    """What is said of a program under a set of options."""
    from overseer.cli.main import Notices, look_ahead, prepare

    name, options = case
    script, lines = TEN[name]
    argv = [word for word in options.split(",") if word != "-"]
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        Path("main.py").write_text(dedent(script))
        if "--bare" in argv:  # As --no-voirfile should be.
            argv.remove("--bare")
        else:
            Path("voirfile.py").write_text(voirfile(lines))
        argv.append("main.py")
        overseer = prepare(argv, *look_ahead(argv, os.environ), Notices(io.StringIO()))
        overseer.stderr = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()):
            overseer(argv)
    tasks = {
        task: {
            "steps": said.get("steps"),
            "items": said.get("items"),
            "why": said.get("items_unknown"),
            "loss": said.get("loss"),
        }
        for task, said in overseer.summary.get("tasks", {}).items()
    }
    problems = {problem.slug for problem in overseer.problems} - {"late-hooks"}  # Torch is there.
    return name, options, {"tasks": tasks, "problems": sorted(problems)}


def uncompiled() -> None:
    """Import the modules of the fold as they stand in their files."""
    files = FileFinder.path_hook((SourceFileLoader, [".py"]))

    def hook(path: str) -> Any:
        if not path.endswith(os.path.join("overseer", "model")):
            raise ImportError(path)
        return files(path)

    sys.path_hooks.insert(0, hook)


def main(arguments: list[str]) -> None:
    """Run all programs, each in a process of its own."""
    if arguments[0] == "--uncompiled":
        uncompiled()
        arguments = arguments[1:]
    import torch._dynamo  # As the first optimizer does. What is voir's, each process imports.

    torch.set_num_threads(1)
    gc.freeze()
    found: dict[str, Any] = {}
    cases = [(name, options) for options in arguments for name in TEN]
    with get_context("fork").Pool(2, maxtasksperchild=1) as processes:
        for name, options, said in processes.imap(figures, cases):
            found.setdefault(options, {})[name] = said
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
