"""``voir compare``: what people read, what programs read, and what is refused.

``VOIR_UPDATE_GOLDEN=1`` makes what is shown now the golden text; look at the difference then.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from overseer.errors import VoirError
from overseer.rundir import losses, reading
from overseer.rundir.steps import ROW, header
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


SCHEMA = Path(__file__).parents[2] / "docs/compare.schema.json"
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


def as_json(*argv: str) -> Any:
    """What ``voir compare --json`` prints, which is as the schema says."""
    from jsonschema import Draft202012Validator

    schema = json.loads(SCHEMA.read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    found = json.loads(said("compare", *argv, "--json"))
    assert [fault.message for fault in Draft202012Validator(schema).iter_errors(found)] == []
    return found


@pytest.mark.usefixtures("runs")
def test_the_json_is_as_its_schema_says() -> None:
    for argv in SHOWN.values():
        assert as_json(*argv, "--trim")["schema"] == 1


@pytest.mark.usefixtures("runs")
def test_markdown_has_a_table_and_the_verdict(tmp_path: Path) -> None:
    golden("compare/repeats.md", said("compare", *SHOWN["repeats"], "--markdown"))
    hostile = "<img src=x>|@everyone `#1`\n# big **x** [a](b) $e$ &amp; ~~~ \\ !"
    for name in ("a1", "b1"):
        file = tmp_path / name / "run.json"
        facts = json.loads(file.read_text())
        facts["tasks"] = {hostile: facts["tasks"]["train"]}
        facts["provenance"]["packages"] = {hostile: name}
        facts["trace"] = name == "b1"
        file.write_text(json.dumps(facts))
    text = said("compare", "a1", "b1", "--markdown")
    known = re.sub(r"&#\d+;|<br>|\*\*|[|] ---:? ?|[|]", "", text)
    assert re.findall(r"[\\`*_{}\[\]<>|~@#&$!]", known) == []
    assert text.count("everyone") == 2
    assert {line[0] for line in text.splitlines() if line} == {"|", "-"}


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
    found = as_json("a1,a2,a3", "b1,b2,b3", "--threshold", "3")
    assert (found["reference"], found["threshold"]) == ("A", 0.03)
    runs = ["a1", "a2", "a3"]
    assert found["sides"][0] == {"name": "A", "named": "a1,a2,a3", "control": False, "runs": runs}
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


def bench(directory: Path, pace: float, noise: float = 0.001, rounds: int = 4) -> None:
    """A bench of two sides and a control, on a machine that becomes slower by 20 %."""
    processes: list[dict[str, Any]] = []
    for number in range(1, rounds + 1):
        for name, own in (("A", 1.0), ("B", pace), ("A2", 1.0)):
            speed = own * (1 - 0.05 * number) * (1 + noise * (-1) ** number * (name != "A"))
            (directory / name).mkdir(parents=True, exist_ok=True)
            put(directory / f"{name}/{number}", speed, "main.py", number)
            value = 1412.2 * speed
            processes.append({"side": name, "round": number, "run": f"{name}/{number}",
                "exit_status": 0, "value": value})  # fmt: skip
    sides = [{"name": "A", "label": "main 4f2a1c"}, {"name": "B", "label": "HEAD 077be4"}]
    sides.append({"name": "A2", "label": "main 4f2a1c", "control": True})
    metric = {"key": "train.rate.steady", "unit": "items/s", "better": "up"}
    record = {
        "schema": 1,
        "threshold": 0.02,
        "metric": metric,
        "sides": sides,
        "processes": processes,
    }
    (directory / "bench.json").write_text(json.dumps(record))


def test_the_sides_of_a_bench_are_compared_in_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bench(tmp_path / "bench", 0.96)
    record = json.loads((tmp_path / "bench/bench.json").read_text())
    record["processes"][4]["exit_status"] = 1  # B in round 2: the whole round does not count.
    record["processes"][8]["disturbed"] = ["other programs used 31 % of the processors"]
    (tmp_path / "bench/bench.json").write_text(json.dumps(record))
    golden("compare/bench.80.txt", said("compare", "bench"))
    record["metric"] = {"key": "wall", "unit": "s", "better": "down"}
    record["verdict"] = {"side": "B", "verdict": "regression", "why": "+4 %"}
    (tmp_path / "bench/bench.json").write_text(json.dumps(record))
    assert "B: the bench judged wall: regression, +4 %" in said("compare", "bench")
    with pytest.raises(VoirError, match="bench is a bench"):
        said("show", "bench")
    found = as_json("bench")
    assert found["threshold"] == 0.02
    assert as_json("bench", "--threshold", "0")["threshold"] == 0
    assert [len(side["runs"]) for side in found["sides"]] == [3, 3, 3]
    assert [(v["side"], v["verdict"], v["over"]) for v in found["verdicts"]] == [
        ("B", "slower", "pairs"),
        ("A2", "no difference", "pairs"),
    ]


def test_a_bench_whose_control_differs_has_no_verdict(tmp_path: Path) -> None:
    bench(tmp_path / "bench", 0.96)
    record = json.loads((tmp_path / "bench/bench.json").read_text())
    for process in record["processes"]:
        process["side"] = {"B": "A2", "A2": "B"}.get(process["side"], process["side"])
    (tmp_path / "bench/bench.json").write_text(json.dumps(record))
    told = " ".join(said("compare", str(tmp_path / "bench")).split())
    assert "train: inconclusive, " in told
    assert "train: A differs from itself, -4.0 % (" in told
    for process in record["processes"]:  # B is 4 % slower than A, and not than the control.
        factor = {"A2": 1.0, "B": 1.0}.get(process["side"], 1.04)
        file = tmp_path / "bench" / process["run"] / "run.json"
        facts = json.loads(file.read_text())
        noise = 1 - 0.1 * (process["round"] % 2) * (process["side"] == "A2")
        facts["tasks"]["train"]["rate"]["steady"] = 1000 * factor * noise
        file.write_text(json.dumps(facts))
    told = " ".join(said("compare", str(tmp_path / "bench")).split())
    assert "train: inconclusive, -3.8 % (-3.8 to -3.8)" in told


def test_two_benches_and_a_stored_baseline_are_not_paired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bench(tmp_path / "old", 0.5)
    bench(tmp_path / "new", 0.5)
    found = as_json("old", "new")
    assert [side["name"] for side in found["sides"]] == ["A", "B", "A2", "C", "D", "C2"]
    overs = {verdict["side"]: verdict["over"] for verdict in found["verdicts"]}
    assert overs == {"B": "pairs", "A2": "pairs", "C": "runs", "D": "runs", "C2": "runs"}
    (tmp_path / "voir-baselines").mkdir()
    stored = json.loads((tmp_path / "old/bench.json").read_text())
    stored["processes"] = [each for each in stored["processes"] if each["side"] == "A"]
    stored["sides"] = stored["sides"][:1]
    (tmp_path / "voir-baselines/main.json").write_text(json.dumps(stored))
    text = said("compare", "new", "--baseline", "main")
    assert "A main 4f2a1c · main · 4 runs" in text
    assert "train: C is slower than A, -50 %" in text
    assert "B, C, B2: not paired with A" in text


def test_losses_and_the_parts_of_a_step_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for n in range(3):
        put(tmp_path / f"a{n}", 1 + n / 1000, "main.py", n)
        put(tmp_path / f"b{n}", 0.9 + n / 1000, "main.py", n + 10)
        facts = json.loads((tmp_path / f"b{n}/run.json").read_text())
        facts["tasks"]["train"]["breakdown"]["loading"] += 1863 * 0.0041
        facts["tasks"]["train"]["breakdown"]["other"] += 1863 * 0.0002
        (tmp_path / f"b{n}/run.json").write_text(json.dumps(facts))
        for side in "ab":
            rows = [step(at, 1 / (at + (side == "b" and at > 6)), n + 1) for at in range(1, 11)]
            (tmp_path / f"{side}{n}/steps.npy").write_bytes(header(10) + b"".join(rows))
    text = said("compare", "a0,a1,a2", "b0,b1,b2", "--trim")
    assert "step      train: B loading +4.1 of +4.3 ms\n" in text
    assert "losses    train: B parted from step 7 of 10\n" in text
    # Rates of 32 / (0.021, 0.022, 0.023) s each ten times, all left out but those after step 12.
    assert "trimmed" not in text
    single = said("compare", "a0", "b0")
    assert "losses    train: B parted from step 7 of 10\n" in single
    for name in ("a0", "b0"):
        file = tmp_path / name / "run.json"
        facts = json.loads(file.read_text())
        facts["tasks"]["train"]["rate"]["skipped"] = 2
        file.write_text(json.dumps(facts))
    pooled = as_json("a0", "b0", "--trim")["trimmed"]["train"]
    assert pooled["A"] == {"n": 6, "mean": pytest.approx(1600), "std": 0.0, "sem": 0.0}
    (tmp_path / "a0/metrics.jsonl").write_text(
        "".join(f'{{"task": "train", "train_rate": {rate}}}\n' for rate in (10, 20, 30, 40, 99))
    )
    pooled = as_json("a0", "b0", "--trim")["trimmed"]["train"]
    assert (pooled["A"]["n"], pooled["A"]["mean"]) == (3, 30)


def step(number: int, loss: float, seed: int) -> bytes:
    """A row of a step of 32 items and 20 ms."""
    times = (4_000_000, 16_000_000, 0, 0, 0, 0)
    return ROW.pack(number, b"train", 0, 1, 32.0, loss, *times, 0, 1, 0)


def test_each_record_is_read_once_and_losses_of_ten_runs_a_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(30):
        put(tmp_path / f"run{n}", 1.0, "main.py", n)
    read: list[str] = []

    def counted(function: Any) -> Any:
        return lambda path, *more: read.append(Path(path).name) or function(path, *more)

    monkeypatch.setattr(reading, "read_json", counted(reading.read_json))
    monkeypatch.setattr(losses, "steps_of", counted(losses.steps_of))
    names = [",".join(str(tmp_path / f"run{n}") for n in those) for those in THIRDS]
    said("compare", *names)
    assert read.count("run.json") == 30
    assert len(read) == 30 + 20


THIRDS = [range(0, 15), range(15, 30)]


def test_what_is_no_record_of_a_bench_is_refused(tmp_path: Path) -> None:
    for content in ("", "[]", '{"processes": 3}'):
        (tmp_path / "bench.json").write_text(content)
        with pytest.raises(VoirError, match=r"cannot be read|not the record of a bench"):
            said("compare", str(tmp_path))


ODD = (None, True, -1, 1e308, "NaN", "x" * 300, [], {}, [1], {"a": 1})


def test_a_damaged_record_of_a_bench_is_read_or_refused(tmp_path: Path) -> None:
    bench(tmp_path, 0.96, rounds=2)
    record = json.loads((tmp_path / "bench.json").read_text())
    for number in range(150):
        random, changed = Random(number), json.loads(json.dumps(record))
        for one in (changed, *changed["processes"][: random.randrange(6)], changed["sides"][0]):
            one[random.choice([*one])] = random.choice(ODD)
        (tmp_path / "bench.json").write_text(json.dumps(changed))
        with suppress(VoirError):
            assert said("compare", str(tmp_path), "--markdown")


def test_a_bench_of_which_no_round_counts_says_so(tmp_path: Path) -> None:
    bench(tmp_path, 0.96, rounds=2)
    record = json.loads((tmp_path / "bench.json").read_text())
    for process in record["processes"]:
        process["exit_status"] = 1
    (tmp_path / "bench.json").write_text(json.dumps(record))
    with pytest.raises(VoirError, match="none of its rounds counts"):
        said("compare", str(tmp_path))
    alone = {**record, "sides": record["sides"][:1], "processes": record["processes"][::3]}
    for process in alone["processes"]:
        process["exit_status"] = 0
    (tmp_path / "bench.json").write_text(json.dumps(alone))
    with pytest.raises(VoirError, match="alone has nothing to be compared with"):
        said("compare", str(tmp_path))


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
