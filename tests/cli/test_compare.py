"""``voir compare``: what people read, what programs read, and what is refused.

``VOIR_UPDATE_GOLDEN=1`` makes what is shown now the golden text; look at the difference then.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.views.test_summary import GOLDEN, golden

from .said import said

FIRST = json.loads((GOLDEN / "summary/training.json").read_text(encoding="utf-8"))


def put(directory: Path, pace: float, argv: str, minute: int, **provenance: Any) -> None:
    """A run ``pace`` times as fast as the one in the golden files."""
    facts = json.loads(json.dumps(FIRST))
    task = facts["tasks"]["train"]
    task["rate"] |= {key: task["rate"][key] * pace for key in ("wall", "steady")}
    step = 32 / task["rate"]["steady"]
    task["step_seconds"] = {"median": step, "q1": step * 0.98, "q3": step * 1.03}
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


SHOWN = {
    "single": ["a1", "b1"],
    "repeats": ["a1,a2,a3", "b1,b2,b3"],
    "sides": ["a1,a2,a3", "b1,b2,b3", "a1,a2", "b3", "b2,b1"],
}


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", SHOWN)
def test_it_is_shown_as_people_have_seen_it(name: str, width: int) -> None:
    actual = said("compare", *SHOWN[name], width=width)
    golden(f"compare/{name}.{width}.txt", actual)
    assert max(map(len, actual.splitlines())) <= width


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
def test_one_run_a_side_shows_numbers_and_what_was_different() -> None:
    text = said("compare", "a1", "b1")
    assert "  overall           1,388 items/s     1,263 items/s\n" in text
    assert "arguments: - → --lr 1" in text
    assert "one run a side: no verdict" in text
    assert re.findall(r"[+-][\d.]+ %", text) == []


@pytest.mark.usefixtures("runs")
def test_programs_get_the_same_as_json() -> None:
    found = json.loads(said("compare", "a1,a2,a3", "b1,b2,b3", "--json", "--threshold", "3"))
    assert (found["reference"], found["threshold"]) == ("A", 0.03)
    assert found["sides"][0] == {"name": "A", "named": "a1,a2,a3", "runs": ["a1", "a2", "a3"]}
    (verdict,) = found["verdicts"]
    assert (verdict["task"], verdict["verdict"], verdict["over"]) == ("train", "slower", "pairs")
    assert verdict["interval"][0] < verdict["ratio"] < verdict["interval"][1] < 1
    steady = next(one for one in found["figures"] if one["figure"] == "rate.steady")
    assert (steady["task"], steady["units"]) == ("train", "items/s")
    assert (len(steady["values"]["A"]), [*steady["against"]]) == (3, ["B"])
    assert {one["name"] for one in found["differences"]} >= {"arguments", "git.sha", "x"}


@pytest.mark.usefixtures("runs")
def test_a_baseline_is_the_reference_wherever_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for number in "123":
        (tmp_path / f"b{number}").rename(tmp_path / "b" / number)
    for argv in (["b", "a1,a2,a3", "--baseline", "a1,a2,a3"], ["b", "--baseline", "a1,a2,a3"]):
        found = json.loads(said("compare", *argv, "--json"))
        (verdict,) = found["verdicts"]
        named = {one["name"]: one["named"] for one in found["sides"]}
        assert (named[found["reference"]], named[verdict["side"]]) == ("a1,a2,a3", "b")
        assert verdict["verdict"] == "slower"


@pytest.mark.usefixtures("runs")
def test_a_run_that_was_killed_is_compared_by_what_there_is(tmp_path: Path) -> None:
    whole = json.loads((tmp_path / "b1/run.json").read_text())
    for key in ("ended", "exit_status", "diagnosis", "overhead"):
        del whole[key]
    whole["tasks"]["train"].pop("loss")
    (tmp_path / "b1/run.json").write_text(json.dumps(whole))
    text = said("compare", "a1", "b1")
    assert "but       A, B: GPUs were throttled (power cap)\n            B: did not finish" in text
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
    assert [each["runs"] for each in found["sides"]] == [["a/1", "a/2"], ["b/1", "b/2", "b3"]]


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
    assert _ratio(whole) == 1.3
    assert "ranks: 2 in A, 4 in B; rates are of whole jobs" in whole["notes"]
    sides = [str(tmp_path / f"{name}/rank1") for name in ("two", "four")]
    assert _ratio(json.loads(said("compare", "--json", *sides))) == 0.65


def _ratio(found: Any) -> float:
    """The ratio of the steady rates of train."""
    figures = {(one["task"], one["figure"]): one["against"]["B"] for one in found["figures"]}
    return round(figures["train", "rate.steady"]["ratio"], 2)
