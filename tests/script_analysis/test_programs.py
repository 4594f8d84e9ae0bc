"""Of all programs, what `voir init` writes; of some, that it makes nothing worse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.programs.record import HERE, programs
from tests.running import Place

from .programs import check, worse
from .record import findings, recorded, text

SEEN = recorded()
LOADING = "//get_batch(!#enter as loading, !!#exit as loaded)"
#: What is written and is no comment: of all others, hooks see all that there is to see.
LIVE = {
    "by_hand": ["//(loss) > #endloop__ as step"],
    "functions_of_parameters": ["//(x as batch, loss) > #endloop_size as step"],
    "gpt_get_batch": [LOADING],
    "module_level": [LOADING],
    "nanogpt": [LOADING],
    "time_first": [LOADING],
}
#: Of what is only commented, some kinds.
SOME = (
    "closure_accumulating",
    "gan",
    "graphs",
    "inference",
    "mnist",
    "semi_supervised",
    "two_tasks",
)


def test_every_program_was_seen() -> None:
    assert sorted(SEEN) == programs(), "python -m tests.script_analysis.record writes it anew"


@pytest.mark.parametrize("name", SEEN)
def test_only_what_hooks_cannot_see_is_no_comment(name: str) -> None:
    compile(text(name, SEEN[name]), "voirfile.py", "exec")
    lines = [line for line in findings(name, SEEN[name]).lines if line.role != "progress"]
    live = [line.code for line in lines if line.live]
    assert live == [f'ov.probe("{selector}").give()' for selector in LIVE.get(name, ())]


QUICK = ("mnist",)


@pytest.mark.parametrize(
    "name",
    [*QUICK, *(pytest.param(n, marks=pytest.mark.slow) for n in (*LIVE, *SOME) if n not in QUICK)],
)
def test_nothing_is_worse_with_the_voirfile(name: str, tmp_path: Path) -> None:
    check(name, Place(tmp_path))


@pytest.mark.parametrize("name", [pytest.param("graphs", marks=pytest.mark.slow), "k_fold"])
def test_a_step_by_a_variable_counts_as_the_hooks_do(name: str, tmp_path: Path) -> None:
    (step,) = [one.code for one in findings(name, SEEN[name]).lines if one.role == "step loss"]
    assert "> loss as step" in step
    place = Place(tmp_path)
    place.write("voirfile.py", text(name, SEEN[name]).replace(f"# {step}", step))
    flags = ["--run-dir", "run", "--voirfile", "voirfile.py"]
    done = place.voir(*flags, str(HERE / f"{name}.py"), warm=True)
    truth = {"losses": None, "unknown": [], **json.loads(done.stdout.splitlines()[-1])}
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert worse(truth, run["tasks"]) == {}
    assert [one["fired"] for one in run["probes"] if "as step" in one["selector"]] == [
        truth["steps"]
    ]


def test_the_progress_is_that_of_the_epochs(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("voirfile.py", text("mnist", SEEN["mnist"]))
    flags = ["--run-dir", "run", "--voirfile", "voirfile.py"]
    place.voir(*flags, str(HERE / "mnist.py"), warm=True)
    events = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    told = [(one["task"], one["progress"], one["units"]) for one in events if "progress" in one]
    assert told == [("train", [epoch, 3], "epochs") for epoch in (1, 2, 3)]
