"""``voir compare``: what people read, what programs read, and what is refused.

``VOIR_UPDATE_GOLDEN=1`` makes what is shown now the golden text; look at the difference then.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.views.test_summary import GOLDEN, golden

from .said import said

FIRST = json.loads((GOLDEN / "summary/training.json").read_text(encoding="utf-8"))


def put(directory: Path, pace: float, argv: str, minute: int, **provenance: Any) -> None:
    """A run ``pace`` times as fast as the one in the golden files."""
    facts, random = json.loads(json.dumps(FIRST)), Random(int(pace * 1000))
    task = facts["tasks"]["train"]
    task["rate"] |= {key: task["rate"][key] * pace for key in ("wall", "steady")}
    step = 32 / task["rate"]["steady"]
    means = [step * random.gauss(1, 0.02) for _ in range(90)]
    task["step_seconds"] = {"median": step, "q1": step * 0.98, "q3": step * 1.03}
    task["step_seconds"]["course"] = {"steps": 20, "means": means}
    facts["argv"] = ["voir", *argv.split()]
    facts["seconds"], facts["started"] = 42.31, f"2026-01-05T09:{minute:02}:00.000000Z"
    facts["provenance"] = {"kernel": "Linux 6", **provenance}
    directory.mkdir()
    (directory / "run.json").write_text(json.dumps(facts), encoding="utf-8")


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    git_a, git_b = {"sha": "a" * 40}, {"sha": "b" * 40, "dirty": True}
    for n, (a, b) in enumerate([(1.0, 0.91), (1.01, 0.90), (0.99, 0.89)], 1):
        put(tmp_path / f"a{n}", a, "main.py", 2 * n, git=git_a, packages={"x": "1"})
        put(tmp_path / f"b{n}", b, "main.py --lr 1", 2 * n + 1, git=git_b, packages={"x": "2"})


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("name", "argv"), [("single.txt", ["a1", "b1"]), ("repeats.txt", ["a1,a2,a3", "b1,b2,b3"])]
)
def test_it_is_shown_as_people_have_seen_it(name: str, argv: list[str]) -> None:
    actual = said("compare", *argv)
    golden(f"compare/{name}", actual)
    assert max(map(len, actual.splitlines())) <= 80


@pytest.mark.usefixtures("runs")
def test_a_figure_that_not_all_runs_of_a_side_have_says_how_many_do(tmp_path: Path) -> None:
    for name in ("a2", "b1"):
        path = tmp_path / name / "run.json"
        facts = json.loads(path.read_text())
        task = facts["tasks"]["train"]
        del task["rate"]["steady"]
        task |= {"loss": {}} if name == "b1" else {}
        path.write_text(json.dumps(facts))
    text = said("compare", "a1,a2,a3", "b1,b2,b3")
    assert re.search(r"^  steady .*  A: 2 of 3, B: 2 of 3 runs are steady$", text, re.MULTILINE)
    assert re.search(r"^  last loss .*B: 2 of 3 runs have it$", text, re.MULTILINE)
    assert re.search(r"^  overall .*% \(.*\)$", text, re.MULTILINE)


@pytest.mark.usefixtures("runs")
def test_without_an_interval_figures_stand_side_by_side_and_why_they_do(tmp_path: Path) -> None:
    for name in ("a1", "b1"):
        file = tmp_path / name / "run.json"
        facts = json.loads(file.read_text())
        del facts["tasks"]["train"]["rate"]["steady"]
        facts["tasks"]["train"]["steady"] = {"verdict": "never steady"}
        file.write_text(json.dumps(facts))
    text = said("compare", "a1", "b1")
    assert "  overall           1,388 items/s     1,263 items/s\n" in text
    told = " ".join(text.split())
    assert "train: no difference shown · one run per side, and never steady" in told
    assert "one run a side, without an interval: no percentage is shown" in told
    assert "intervals are 95 %" not in told
    assert re.findall(r"[+-][\d.]+ %", text) == []


@pytest.mark.usefixtures("runs")
def test_programs_get_the_same_as_json() -> None:
    found = json.loads(said("compare", "a1,a2,a3", "b1,b2,b3", "--json", "--threshold", "3"))
    keys = "before after threshold figures verdicts notes differences"
    assert list(found) == keys.split()
    assert (found["before"], found["threshold"]) == (["a1", "a2", "a3"], 0.03)
    (verdict,) = found["verdicts"]
    assert (verdict["task"], verdict["verdict"], verdict["over"]) == ("train", "slower", "pairs")
    assert verdict["interval"][0] < verdict["ratio"] < verdict["interval"][1] < 1
    steady = next(one for one in found["figures"] if one["figure"] == "rate.steady")
    assert (steady["task"], steady["units"]) == ("train", "items/s")
    assert len(steady["before"]) == 3
    assert {one["name"] for one in found["differences"]} >= {"arguments", "git.sha", "x"}


@pytest.mark.usefixtures("runs")
def test_a_run_that_was_killed_is_compared_by_what_there_is(tmp_path: Path) -> None:
    whole = json.loads((tmp_path / "b1/run.json").read_text())
    for key in ("ended", "exit_status", "diagnosis", "overhead"):
        del whole[key]
    whole["tasks"]["train"].pop("loss")
    (tmp_path / "b1/run.json").write_text(json.dumps(whole))
    text = said("compare", "a1", "b1")
    assert "train: B is slower in these runs" in text
    throttled = "but       A: its GPU was throttled (power cap)\n"
    assert f"{throttled}            B did not finish" in text
    (tmp_path / "b2/run.json").write_text('{"script": "main.py"}')
    assert "verdict   nothing to compare" in said("compare", "a1", "b2")


@pytest.mark.usefixtures("runs")
def test_a_directory_of_runs_is_all_of_them(tmp_path: Path) -> None:
    for side in "ab":
        (tmp_path / side).mkdir()
        for number in "12":
            (tmp_path / f"{side}{number}").rename(tmp_path / side / number)
    (tmp_path / "a/notes").mkdir()
    found = json.loads(said("compare", "a", "b,b3", "--json"))
    assert (found["before"], found["after"]) == (["a/1", "a/2"], ["b/1", "b/2", "b3"])


def test_jobs_are_compared_by_the_rates_of_all_their_ranks(tmp_path: Path) -> None:
    for name, size, pace in (("two", 2, 1.0), ("four", 4, 0.65)):
        for rank in range(size):
            directory = tmp_path / name / f"rank{rank}"
            directory.parent.mkdir(exist_ok=True)
            put(directory, pace, "main.py", size)
            facts = json.loads((directory / "run.json").read_text())
            parallel = {"data": [rank, size], "by": "DDP"}
            facts |= {"rank": rank, "world_size": size, "parallel": parallel}
            (directory / "run.json").write_text(json.dumps(facts))
    whole = json.loads(said("compare", "--json", str(tmp_path / "two"), str(tmp_path / "four")))
    (verdict,) = [one for one in whole["verdicts"] if one["task"] == "train"]
    assert (verdict["verdict"], round(verdict["ratio"], 2)) == ("faster", 1.3)
    assert "ranks: 2 in A, 4 in B; rates are of whole jobs" in whole["notes"]
    sides = [str(tmp_path / f"{name}/rank1") for name in ("two", "four")]
    (one,) = [
        each
        for each in json.loads(said("compare", "--json", *sides))["verdicts"]
        if each["task"] == "train"
    ]
    assert (one["verdict"], round(one["ratio"], 2)) == ("slower", 0.65)
