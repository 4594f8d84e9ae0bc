"""All programs: what `voir init` writes makes nothing worse, and no check of theirs fails.

It takes six minutes, and is run by name: ``python -m pytest tests/script_analysis/programs.py``.
Some of them are in ``test_programs.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.model.test_logs import close, expected
from tests.programs.record import HERE, programs
from tests.running import Place

from .record import findings, observed, text

#: Programs of which a check fails rightly: their losses are infinite.
DIVERGING = {"diverging"}
#: More steps than any program has: without it, ``--verify`` stops some of them.
ALL = ["--stop", "1000000"]


def check(name: str, place: Place) -> None:
    """Hold a program with its voirfile against what it counts itself, and see what verify says."""
    pytest.importorskip("torch")
    seen = observed(name, place)
    place.write("voirfile.py", text(name, seen))
    steps = "train" in seen["tasks"] or any(
        "step" in one.role for one in findings(name, seen).lines
    )
    flags = ["--verify", *(ALL if steps else []), "--voirfile", "voirfile.py"]
    done = place.voir("--run-dir", "run", *flags, str(HERE / f"{name}.py"), warm=True)
    truth = {"losses": None, "unknown": [], **json.loads(done.stdout.splitlines()[-1])}
    run = json.loads((place.path / "run" / "run.json").read_text())
    assert worse(truth, run.get("tasks", {})) == {}
    if name not in DIVERGING:
        failed = [one for one in run["verify"] if one["verdict"] == "FAIL"]
        assert (failed, done.status) == ([], run["exit_status"])


def worse(truth: dict[str, Any], tasks: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What of a run is not as the program counts it itself, where hooks alone see that."""
    true, train = expected(truth), tasks.get("train", {})
    loss = train.get("loss", {})
    found = {
        "steps": train.get("steps", 0),
        "items": train.get("items"),
        "losses": [float(loss[end]) for end in ("first", "last") if end in loss],
        "evaluations": {
            task: [facts["steps"], facts.get("items")]
            for task, facts in tasks.items()
            if task != "train"
        },
    }
    if not true["steps"]:  # There may be some now.
        true = {"evaluations": true["evaluations"]}
    losses = true.pop("losses", None)
    differing = {
        key: (found[key], true[key])
        for key in true
        if found[key] != true[key] and true[key] is not None
    }
    if losses and losses[1] is not None and not close(found["losses"], losses):
        differing["losses"] = (found["losses"], losses)
    return differing


@pytest.mark.parametrize("name", programs())
def test_nothing_is_worse_with_the_voirfile(name: str, tmp_path: Path) -> None:
    check(name, Place(tmp_path))
