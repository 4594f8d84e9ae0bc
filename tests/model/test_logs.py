"""Recorded programs: the fold finds the steps, items, losses and evaluations that they count."""

from __future__ import annotations

import json
import math
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import overseer.recorder
from overseer.model.fold import TRAIN, Fold
from overseer.model.steps import Step
from tests.programs import replay
from tests.programs.record import LOGS, SIZE, programs, read

PATHS = sorted(LOGS.glob("*.log.gz"))


def name(path: Path) -> str:
    return path.name.partition(".")[0]


def in_python() -> type[Fold]:
    """The fold as it stands in its file, beside the one that is compiled where there is one."""
    sys.modules.setdefault("in_python.recorder", overseer.recorder)
    files = Path(overseer.recorder.__file__).parents[1] / "model"
    names = "events later pauses steps alike tasks declared optimizers fold"
    for module in names.split():
        spec = spec_from_file_location(f"in_python.model.{module}", files / f"{module}.py")
        assert spec is not None and spec.loader is not None
        made = sys.modules[spec.name] = module_from_spec(spec)
        spec.loader.exec_module(made)
    found: type[Fold] = made.Fold
    return found


IN_PYTHON = in_python()


def folded(
    path: Path, piece: int = 1 << 16, kind: type[Fold] = Fold
) -> tuple[dict[str, Any], Fold, list[Step]]:
    head, data = read(path)
    steps: list[Step] = []
    fold = kind(head["sites"], steps.append)
    for at in range(0, len(data), piece * SIZE):
        fold.feed(data[at : at + piece * SIZE])
    fold.finish()
    return head["truth"], fold, steps


def figures(fold: Fold) -> dict[str, Any]:
    """The figures of a run; None: unknown."""
    task = fold.tasks.get(TRAIN)
    found: dict[str, Any] = {"steps": 0, "items": 0, "losses": [], "evaluations": {}}
    if task is not None:
        known = task.items == task.items
        found |= {"steps": task.steps, "items": task.items if known else None}
        if task.losses.n:
            found["losses"] = [task.losses.first, task.losses.last]
    for other in fold.tasks.values():
        if other is not task:
            items = other.items if other.items == other.items else None
            found["evaluations"][other.name] = [other.steps, items]
    return found


def expected(truth: dict[str, Any]) -> dict[str, Any]:
    """The expected figures: the truth, without those that the program marks as unknown."""
    true = {key: truth[key] for key in ("steps", "items", "losses", "evaluations")}
    for unknown in truth["unknown"]:
        if unknown.startswith("evaluations."):
            true["evaluations"][unknown.partition(".")[2]][1] = None
        else:
            true[unknown] = {"items": None, "losses": [], "steps": 0, "evaluations": {}}[unknown]
    if not true["steps"]:
        true["items"] = 0
    return true


def close(found: list[float], true: list[float]) -> bool:
    pairs = zip(found, true, strict=False)
    return len(found) == len(true) and all(
        math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-7) or (a != a and b != b) for a, b in pairs
    )


def test_every_program_has_a_log() -> None:
    assert [name(path) for path in PATHS] == programs()


def compare(path: Path) -> None:
    """Hold what is told of a program against what it counts itself."""
    truth, fold, _ = folded(path)
    found, true = figures(fold), expected(truth)
    losses = found.pop("losses"), true.pop("losses")
    assert found == true
    assert losses[1] is None or close(*losses), losses


@pytest.mark.parametrize("path", PATHS, ids=name)
def test_figures_are_those_that_the_program_counts(path: Path) -> None:
    compare(path)
    steps = folded(path)[2]
    for step in steps:
        assert all(part >= 0 for part in step.parts), (step.number, step.parts)
        assert step.ns + step.pause <= step.end - step.start, step.number

    def shown(steps: list[Step]) -> list[Any]:
        return [(s.task, s.number, s.parts, s.pause, s.start) for s in steps]

    # In pieces of any size, compiled or not.
    assert shown(folded(path, 1)[2]) == shown(folded(path, 7, IN_PYTHON)[2]) == shown(steps)


def test_a_log_can_be_read_by_people(capsys: pytest.CaptureFixture[str]) -> None:
    replay.main(["--events", str(LOGS / "accumulation.log.gz")])
    said = capsys.readouterr().out.splitlines()
    truth = read(LOGS / "accumulation.log.gz")[0]["truth"]
    assert sum(line.startswith("step ") for line in said) == truth["steps"]
    assert sum(" optimizer " in line for line in said) >= truth["steps"]
    assert said[-1] == f"train: {truth['steps']} steps, {truth['items']} items"


@pytest.mark.parametrize("program", ["mnist", "two_tasks", "without_backward"])
def test_another_fold_goes_on_from_a_snapshot(program: str) -> None:
    head, data = read(LOGS / f"{program}.log.gz")
    first: list[Step] = []
    one = Fold(head["sites"], first.append)
    half = len(data) // SIZE // 2 * SIZE
    one.feed(data[:half])
    state = json.loads(json.dumps(one.snapshot()))
    assert state["steps"] == {task: one.steps(task) for task in one.tasks}
    rest: list[Step] = []
    other = Fold(head["sites"], rest.append)
    other.restore(state)
    assert other.snapshot() == state
    other.feed(data[half:])
    other.finish()
    one.feed(data[half:])
    one.finish()
    assert other.told_by == one.told_by
    for task in {step.task for step in rest}:
        numbers = [step.number for step in rest if step.task == task]
        begun = state["steps"].get(task, 0) + 1
        assert numbers == list(range(begun, begun + len(numbers)))
        # The step under way at the snapshot is not in it.
        assert one.tasks[task].steps - other.tasks[task].steps in (0, 1)
