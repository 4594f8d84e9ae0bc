"""``voir try``: fixes are accepted, and changes that do less are not, however fast they are."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

from overseer.bench import judging
from overseer.bench.judging import Verdict
from overseer.bench.same_work import OtherWork, Work, differences
from overseer.bench.trial import Trial, judged_trial
from tests.running import VOIR, Place, Ran

from .changes import CHEATS, FIXES, SAME, Change
from .simulate import Machine

FASTER, AS_FAST = {"B": 1 / 1.5}, dict[str, float]()
IMPROVED = Verdict(judging.IMPROVEMENT, "+50 % (+49 to +51)", "B", ratio=1.5)


def work(text: str, monkeypatch: pytest.MonkeyPatch) -> Work:
    """What a script gives, in this process, with a module ``voir`` that keeps it."""
    counts, results = Counter[str](), dict[str, float]()
    losses = dict[str, dict[int, float]]()

    def give(step: int, batch_size: int, task: str = "train", loss: float | None = None) -> None:
        counts[f"{task} steps"] += 1
        counts[f"{task} items"] += batch_size
        if loss is not None:
            counts[f"{task} losses"] += 1
            losses.setdefault(task, {})[step] = loss

    def log(accuracy: float) -> None:
        counts["accuracy logged"] += 1
        results["accuracy"] = accuracy

    module = ModuleType("voir")
    vars(module).update(give=give, log=log)
    monkeypatch.setitem(sys.modules, "voir", module)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    exec(compile(text, __file__, "exec"), {"__name__": "__main__", "__file__": __file__})
    return Work(dict(counts), results, losses)


def judged(change: Change, effects: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> Trial:
    """The verdict on a change: times are simulated, the work is the script's."""
    before, after = (work(text, monkeypatch) for text in change[1:])
    (verdict,) = Machine(1, effects).bench().verdicts()
    return judged_trial(verdict, differences([before] * 15, [after] * 10), True)


@pytest.mark.parametrize("fix", FIXES, ids=lambda change: change.name)
def test_a_fix_is_accepted(fix: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(fix, FASTER, monkeypatch).verdict == "accept"


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda change: change.name)
def test_less_work_is_rejected(cheat: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = judged(cheat, FASTER, monkeypatch)
    assert (trial.verdict, trial.why[0]) == ("reject", "the work is not the same")


def test_no_change_is_not_accepted() -> None:
    alike = [Work({"train items": 100.0}, {}, {})]
    verdicts = Counter(
        judged_trial(Machine(seed, AS_FAST).bench().verdicts()[0], differences(alike, alike), True)
        .verdict for seed in range(100)
    )  # fmt: skip
    assert verdicts["accept"] == 0
    assert verdicts["reject"] > 0  # No difference of more than 1 %.


def noisy(random: Random, lower: float = 0.0, steps: int = 60) -> Work:
    """A process of another seed."""
    level = random.gauss(0, 0.02) - lower
    losses = {step: 2 * 0.98**step + level + random.gauss(0, 0.1) for step in range(steps)}
    items = 3200 + random.randrange(-50, 50)
    return Work({"train steps": 100, "train items": items}, {"accuracy": level}, {"train": losses})


def test_processes_with_other_seeds_do_the_same_work_within_their_noise() -> None:
    false = found = 0
    for seed in range(100):
        random = Random(seed)
        sides = [[noisy(random) for _ in range(each)] for each in (15, 10)]
        false += bool(differences(*sides))
        found += bool(differences(sides[0], [noisy(random, 0.2) for _ in range(10)]))
        few = [noisy(random) for _ in range(7)]
        false += bool(differences(few[:4], few[4:], exact=True))
    assert (false, found) == (0, 100)


STEADY = Work({"train steps": 2, "train items": 64}, {"f1": 0.5}, {"train": {1: 2.0, 2: 1.0}})


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (STEADY, []),
        (STEADY._replace(counts={**STEADY.counts, "train items": 32.0}),
         [("train items", "train items: 32, A has 64", True)]),
        (STEADY._replace(counts={"train steps": 2}),
         [("train items", "train items: none, A has 64", True)]),
        (STEADY._replace(counts={**STEADY.counts, "parameters": 9}), []),
        (STEADY._replace(results={"f1": 0.6}), [("f1", "f1 is 0.6, A has 0.5", True)]),
        (STEADY._replace(losses={"train": {1: 2.0, 2: 1.001}}),
         [("train losses", "train losses differ from step 2 by up to 0.001 of their size", False)]),
        (STEADY._replace(losses={"train": {1: 2.0, 2: 1.5}}),
         [("train losses", "train losses differ from step 2 (1.5, A has 1)", True)]),
        (STEADY._replace(losses={"train": {1: 2.0, 2: 1.000001}}), []),
        (STEADY._replace(voirfiles=("other",)),
         [("voirfile", "the voirfile was changed", True)]),
    ],
)  # fmt: skip
def test_a_difference_is_named(after: Work, expected: list[tuple[str, str, bool]]) -> None:
    found = differences([STEADY] * 3, [STEADY, after])
    assert [(each.what, each.sure) for each in found] == [
        (what, sure) for what, _, sure in expected
    ]
    assert all(each.why.startswith(why) for each, (_, why, _) in zip(found, expected, strict=True))


def test_losses_and_results_may_differ_if_they_are_what_is_compared() -> None:
    other = STEADY._replace(losses={"train": {1: 1.0, 2: 0.5}}, results={"f1": 0.9})
    assert differences([STEADY] * 3, [other] * 3, learning=True) == []
    fewer = other._replace(counts={**STEADY.counts, "train steps": 1})
    assert [each.what for each in differences([STEADY], [fewer], learning=True)] == ["train steps"]


def test_an_improvement_without_evidence_of_the_same_work_is_inconclusive() -> None:
    bare = [Work({"train steps": 10}, {}, {})]
    (only,) = differences(bare, bare)
    assert (only.what, only.sure) == ("evidence", False)
    assert judged_trial(IMPROVED, [only], True).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("verdict", "spread", "expected"),
    [
        (judging.IMPROVEMENT, True, ("accept", 0)),
        (judging.IMPROVEMENT, False, ("inconclusive", 5)),
        (judging.REGRESSION, False, ("reject", 1)),
        (judging.EQUIVALENT, True, ("reject", 1)),
        (judging.INCONCLUSIVE, True, ("inconclusive", 5)),
        (judging.UNMEASURED, True, ("nothing measured", 6)),
    ],
)
def test_the_verdict_of_the_bench_decides_if_the_work_is_the_same(
    verdict: str, spread: bool, expected: tuple[str, int]
) -> None:
    trial = judged_trial(Verdict(verdict, "why"), [], spread)
    assert (trial.verdict, trial.status) == expected
    other = [OtherWork("train items", 64, 32, "train items: 32, A has 64")]
    assert judged_trial(Verdict(verdict, "why"), other, spread).status == 1


# Real processes


class Tried:
    """A repository with a script that is changed.

    Args:
        place: Its directory.
        change: The change.
    """

    def __init__(self, place: Place, change: Change) -> None:
        self._place = place
        place.write(".gitignore", "voir-runs/\n")
        place.write("main.py", change.before)
        identity = ("-c", "user.name=a", "-c", "user.email=a@localhost")
        for words in (["init", "-q", "."], ["add", "-A"], ["commit", "-qm", "one"]):
            assert place.run("git", *identity, *words).status == 0
        place.write("main.py", change.after)

    def judge(self, *options: str) -> Ran:
        """Run ``voir try``."""
        return self._place.run(*VOIR, "try", "a change", *options, "--", "main.py",
            env={"VOIR_RUN_DIR": ""})  # fmt: skip


#: The keys of ``voir try --json``, a promise to programs.
KEYS = ["schema", "verdict", "status", "change", "why", "metric", "threshold", "ratio", "interval",
    "pairs", "work", "doubts", "next", "directory"]  # fmt: skip


def test_a_cheat_is_rejected_as_json_after_three_rounds(tmp_path: Path) -> None:
    ran = Tried(Place(tmp_path), CHEATS[4]).judge("--json")
    assert ran.status == 1, ran.stdout + ran.stderr
    facts = json.loads(ran.stdout)
    assert list(facts) == KEYS
    assert (facts["schema"], facts["verdict"], facts["change"]) == (1, "reject", "a change")
    assert [each["what"] for each in facts["work"]] == ["eval steps", "eval items", "accuracy"]
    assert facts["pairs"] == 3
    (path,) = tmp_path.glob("voir-runs/*/bench.json")
    stored = json.loads(path.read_text())
    assert (stored["name"], stored["verdict"]["trial"]) == ("a change", facts)


def test_a_change_that_fails_is_rejected(tmp_path: Path) -> None:
    fails = SAME._replace(after=f"import nothing\n{SAME.before}")
    ran = Tried(Place(tmp_path), fails).judge()
    assert (ran.status, "B/001 ended with exit status 1" in ran.stdout) == (1, True), ran.stdout


#: Its loss depends on its seed more than on the change.
SEEDED = """
import argparse, random
from voir import give
parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=5)
random.seed(parser.parse_args().seed)
for step in range(20):
    give(step=step, batch_size=8, loss=1.0 + random.random() / 10 - 0.0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gain", "options", "verdict"),
    [
        ("0.2", [], "inconclusive"),  # Of one seed.
        ("0.2", ["--seed", "seed"], "accept"),
        ("0.0002", ["--seed", "seed"], "reject"),
        ("0.0002 * random.random()", ["--seed", "seed"], "inconclusive"),
    ],
)
def test_a_loss_is_judged_over_seeds(
    gain: str, options: list[str], verdict: str, tmp_path: Path
) -> None:
    change = Change("a gain", SEEDED, SEEDED.replace("0.0)", f"{gain})"))
    ran = Tried(Place(tmp_path), change).judge("--metric", "loss", "--runs", "6", *options)
    assert f"verdict   {verdict}" in ran.stdout, ran.stdout + ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize("fix", FIXES, ids=lambda change: change.name)
def test_fixes_of_real_scripts_are_accepted(fix: Change, tmp_path: Path) -> None:
    ran = Tried(Place(tmp_path), fix).judge("--runs", "5")
    assert (ran.status, "accept" in ran.stdout) == (0, True), ran.stdout + ran.stderr
    assert "the same work: train steps 40" in " ".join(ran.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize("cheat", CHEATS, ids=lambda change: change.name)
def test_real_cheats_are_rejected(cheat: Change, tmp_path: Path) -> None:
    ran = Tried(Place(tmp_path), cheat).judge()
    assert (ran.status, "the work is not the same" in ran.stdout) == (1, True), ran.stdout


@pytest.mark.slow
def test_a_real_comment_is_not_accepted(tmp_path: Path) -> None:
    ran = Tried(Place(tmp_path), SAME).judge("--runs", "5")
    assert ran.status in (1, 5), ran.stdout


def test_an_unchanged_tree_is_refused(tmp_path: Path) -> None:
    ran = Tried(Place(tmp_path), SAME._replace(after=SAME.before)).judge()
    assert (ran.status, "the working tree is the same as HEAD" in ran.stderr) == (2, True)
