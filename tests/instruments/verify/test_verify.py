"""``--verify``: which verdict each evidence leads to, and what it says of broken voirfiles."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest

from instruments.verify.checks import OWN, Evidence, judge
from instruments.verify.syncs import METHODS, Syncs
from overseer.views.checks import render
from tests.forks import Job, run_all
from tests.running import Place

GOLDEN = Path(__file__).parents[2] / "golden" / "verify"
TASK: dict[str, Any] = {
    "steps": 200,
    "items": 3200,
    "loss": {"first": 2.0, "last": 0.5, "min": 0.4},
    "rate": {"wall": 320.0},
    "step_seconds": {"median": 0.05},
    "steady": {"verdict": "steady", "from_step": 9},
    "loading": {"share": 0.12},
    "pause": {"kinds": {"evaluation": {"seconds": 1.5, "count": 3}}},
}
RUN: dict[str, Any] = {
    "script": "main.py",
    "exit_status": 0,
    "seconds": 10.0,
    "stopped_early": "after 200 steps",
    "probes": [{"selector": "//f > x", "state": "fired", "fired": 200}],
    "instruments": [{"name": "instrument_probes", "state": "ok"}],
    "tasks": {"train": TASK},
}
GOOD: dict[str, Any] = {"losses": 200, "own_shares": (0.002, 0.003), "promised": 2}


def evidence(task: dict[str, Any] | None = None, run: Any = None, **more: Any) -> Evidence:
    """That of a good run, but for what is given; a None takes a fact away."""
    facts = {key: value for key, value in {**TASK, **(task or {})}.items() if value is not None}
    return Evidence({**RUN, "tasks": {"train": facts}, **(run or {})}, **{**GOOD, **more})


def failed(**more: Any) -> dict[str, Any]:
    """A probe that came to nothing."""
    return {"selector": "//f > x", "state": "never fired", "hint": "its hint", **more}


GIVEN = {"told_by": "marks", "steps_given": 200, "batches": True}
UNEXPLAINED = {"kinds": {"unexplained": {"seconds": 3.0, "count": 9}}}
#: The evidence, the check, its verdict, and what it says or what it says to write.
CASES: dict[str, tuple[Evidence, str, str, str]] = {
    "a probe failed": (
        evidence(run={"probes": [failed()]}, instead=lambda probe: "ov.probe(1)"),
        "probes",
        "FAIL",
        "ov.probe(1)",
    ),
    "not reached before the stop": (
        evidence(run={"probes": [failed(hint="it was never reached")]}, cut=True),
        "probes",
        "SKIP",
        "--stop 1000",
    ),
    "not reached in all of the script": (
        evidence(run={"probes": [failed(hint="it was never reached")]}),
        "probes",
        "FAIL",
        "never reached",
    ),
    "voir's own probe waits": (
        evidence(run={"probes": [failed(where=f"{OWN}argparse_options.py:16")]}),
        "probes",
        "SKIP",
        "no voirfile sets any",
    ),
    "no steps": (evidence({"steps": None}), "steps", "FAIL", "//FUNCTION(BATCH as batch)"),
    "no steps, no probes": (
        evidence({"steps": None}, run={"probes": []}),
        "steps",
        "WARN",
        "//FUNCTION(BATCH as batch)",
    ),
    "no steps, as it failed": (
        evidence({"steps": None}, run={"exit_status": 1}),
        "steps",
        "WARN",
        "with status 1 None",
    ),
    "fewer steps are given": (
        evidence(**{**GIVEN, "steps_given": 3}, hooks={"steps": 200}, line=lambda role: role),
        "steps",
        "FAIL",
        "3 are given, but the hooks saw 200",
    ),
    "about as many are given": (evidence(**GIVEN, hooks={"steps": 198}), "steps", "PASS", "given"),
    "no loss": (evidence({"loss": None}, losses=0), "loss", "SKIP", "> LOSS as loss"),
    "a loss that is none": (evidence(not_finite=30), "loss", "FAIL", "30 of 200"),
    "a loss of evaluations": (evidence(given=48, elsewhere=40), "loss", "FAIL", "40 of 48"),
    "a loss that stays high": (evidence(loss_limit=0.3), "loss", "FAIL", "0.4, wanted 0.3"),
    "a loss that comes down": (evidence(loss_limit=0.4), "loss", "PASS", "2 to 0.5"),
    "unknown items": (evidence({"items": None}), "items", "SKIP", "as step"),
    "no batch": (
        evidence(**GIVEN, sizeless=200, hooks={"steps": 200, "items": 600}),
        "items",
        "FAIL",
        "no length",
    ),
    "no batch, and none was seen": (evidence(**GIVEN, sizeless=200), "items", "WARN", "no length"),
    "another batch": (
        evidence(**GIVEN, hooks={"steps": 200, "items": 600}),
        "items",
        "FAIL",
        "16 a step are given, but the hooks saw 3",
    ),
    "items in another unit": (
        evidence(**{**GIVEN, "batches": False}, hooks={"steps": 200, "items": 600}),
        "items",
        "PASS",
        "16 a step",
    ),
    "unknown loading": (evidence({"loading": None}), "loading", "SKIP", "as loading"),
    "never steady": (
        evidence({"steady": {"verdict": "never steady"}}),
        "steady",
        "WARN",
        "never, in 200",
    ),
    "too few steps": (evidence({"steady": {}}), "steady", "SKIP", "too few"),
    "unexplained pauses": (evidence({"pause": UNEXPLAINED}), "pauses", "WARN", "as pause"),
    "dear once": (evidence(own_shares=(0.01, 0.4)), "own cost", "WARN", "at least 20 %"),
    "dear twice in a row": (evidence(own_shares=(0.3, 0.4)), "own cost", "FAIL", "at least 35 %"),
    "dear on short steps": (
        evidence({"step_seconds": {"median": 0.005}}, own_shares=(0.3, 0.4)),
        "own cost",
        "WARN",
        "of steps of 5",
    ),
    "a problem": (
        evidence(run={"problems": [{"who": "auto", "what": "odd", "remedy": "Do that."}]}),
        "instruments",
        "WARN",
        "Do that.",
    ),
    "a key that never came": (
        evidence(unkept=(("watts", "gpu.power"),)),
        "keys",
        "FAIL",
        'ov.give(gpu={"power": ...})',
    ),
    "a key that could not come": (
        evidence(run={"seconds": 1.0}, unkept=(("watts", "gpu.power"),)),
        "keys",
        "SKIP",
        "1.0 s are too short",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_verdict(name: str) -> None:
    case, check, verdict, said = CASES[name]
    found = {one.check: one for one in judge(case)}
    assert found[check].verdict == verdict
    assert said in f"{found[check].evidence} {found[check].hint}"
    others = {one.verdict for one in found.values() if one.check != check}
    assert "FAIL" not in others


def test_a_good_run_passes_every_check() -> None:
    checks = judge(evidence())
    assert [one.check for one in checks] == [
        "probes", "steps", "loss", "items", "loading", "steady", "pauses", "own cost",
        "instruments", "keys",
    ]  # fmt: skip
    assert {one.verdict for one in checks} == {"PASS"}


SCREENS = {
    "good": evidence(),
    "broken": evidence(
        {"steady": {"verdict": "never steady"}, "loading": None},
        run={"probes": [failed(selector="//trian > loss", state="unresolved")]},
        not_finite=30,
        own_shares=(0.1, 0.2),
        instead=lambda probe: 'ov.probe("//train > loss").give()',
    ),
}


@pytest.mark.parametrize("name", SCREENS)
def test_what_is_shown(name: str, tmp_path: Path) -> None:
    checks = [one.as_facts() for one in judge(SCREENS[name])]
    shown = render({**SCREENS[name].run, "verify": checks}, 80)
    (tmp_path / f"{name}.txt").write_text(shown)
    assert shown == (GOLDEN / f"{name}.80.txt").read_text()


SCRIPT = """
    import torch
    from torch.nn.functional import mse_loss
    from torch.utils.data import DataLoader, TensorDataset

    def train(model, loader, optimizer):
        for x, y in loader:
            few = x[:3]
            loss = mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            for x, y in loader:
                loss = mse_loss(model(x), y)
        model.train()

    def main():
        x = torch.randn(256, 8)
        loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16)
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr={lr})
        for epoch in range(3):
            train(model, loader, optimizer)
            evaluate(model, loader)

    main()
    """
STEP = 'ov.probe("//train(x as batch, loss) > #endloop_x as step").give()'


class Broken(NamedTuple):
    """What a voirfile says, the check that fails, and what is said to write or to look at."""

    lines: list[str]
    check: str | None
    said: str
    lr: float = 0.01


BROKEN = {
    "good": Broken([STEP], None, "48, given"),
    "misspelt function": Broken([STEP.replace("train", "trian")], "probes", STEP),
    "misspelt variable": Broken([STEP.replace("loss", "los")], "probes", "loss) >"),
    "wrong batch": Broken([STEP.replace("x as batch", "few as batch")], "items", STEP),
    "no batch": Broken([STEP.replace("x as batch", "model as batch")], "items", STEP),
    "loss of another task": Broken(['ov.probe("//evaluate > loss").give()'], "loss", STEP),
    "step in the wrong loop": Broken(
        ['ov.probe("//main > #endloop_epoch as step").give()'], "steps", STEP
    ),
    "it raises": Broken(["1 / 0"], "instruments", "voirfile.py:3"),
    "a subscriber raises": Broken(
        ['ov.probe("//train > loss").subscribe(lambda event: 1 / 0)'],
        "instruments",
        "voirfile.py:3",
    ),
    "nothing given": Broken(
        ['ov.probe("//train > loss")'], "probes", 'ov.probe("//train > loss").give()'
    ),
    "NaN": Broken([STEP], "loss", "not finite", 1e9),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, dict[str, Any]]]:
    """Of each voirfile: the exit status, what was said, and the file of ``--verify-json``."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    jobs = {}
    for name, case in BROKEN.items():
        place = tmp_path_factory.mktemp(name.replace(" ", "-"))
        (place / "main.py").write_text(dedent(SCRIPT).format(lr=case.lr))
        lines = ["def instrument_probes(ov):", "    yield ov.phases.load_script"]
        lines += [f"    {line}" for line in case.lines]
        (place / "voirfile.py").write_text("\n".join([*lines, ""]))
        jobs[name] = Job(str(place), [["--no-record", "--verify-json", "checks.json", "main.py"]])
    done = run_all(list(jobs.values()))
    return {
        name: (
            one.statuses[0],
            one.said[0],
            json.loads((Path(job.place) / "checks.json").read_text()),
        )
        for (name, job), one in zip(jobs.items(), done, strict=True)
    }


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_voirfile_fails_the_check_that_it_breaks(runs: Any, name: str) -> None:
    (status, said, written), case = runs[name], BROKEN[name]
    failing = [one["check"] for one in written["verify"] if one["verdict"] == "FAIL"]
    assert failing == ([case.check] if case.check else []), said
    assert status == (3 if case.check else 0)
    assert case.said in said
    assert written["verdict"] == ("FAIL" if case.check else "PASS")


def test_several_ranks_stop_at_the_same_step(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "main.py",
        """
        import time

        def train(data):
            for x in data:
                loss = 1 / x
                time.sleep(0.008)

        train(range(1, 240))
        """,
    )
    place.probes(["//train(loss) > #endloop_x as step"])
    rank = {"RANK": "0", "WORLD_SIZE": "2"}
    done = place.voir("--no-record", "--verify", "main.py", env=rank)
    assert "stopped early: after 200 steps" in done.stderr


def test_calls_that_wait_are_counted_where_the_script_makes_them() -> None:
    torch = pytest.importorskip("torch")
    before = {name: vars(torch.Tensor).get(name) for name in METHODS}
    syncs = Syncs()
    with syncs:
        for _ in range(4):
            torch.ones(1).item()
        float(torch.ones(1))
    (site,) = syncs.facts({"steps": 4, "step_seconds": {"median": 0.1}})
    assert (site["call"], site["device"], site["each"]) == (".item()", "cpu", 1.0)
    assert 0 < site["share"] < 1
    assert {name: vars(torch.Tensor).get(name) for name in METHODS} == before
