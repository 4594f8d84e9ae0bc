"""``--verify``: which verdict each evidence leads to, and what it says of broken voirfiles."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from instruments.verify.checks import STOCK_INSTRUMENTS, Evidence, judge
from instruments.verify.syncs import SYNC_METHODS, Syncs
from overseer.views.checks import render
from tests.running import Place
from tests.views.test_summary import golden

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
FIRED = {"selector": "//f > x", "state": "fired", "fired": 200}
RUN: dict[str, Any] = {
    "script": "main.py",
    "exit_status": 0,
    "seconds": 10.0,
    "stopped_early": "after 200 steps",
    "probes": [FIRED],
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


SEEN = {"steps": 200, "items": 600}
END = "//f(x as batch) > #endloop_x as step"
GIVEN = {"told_by": "marks", "marks": {END: 200}, "batches": True, "given": 200}
PAIR = "//f(!#loop_x as compute_start, !!#endloop_x as compute_end)"
ONCE = 'ov.probe("//f(x as batch) > loss as step").give()'
UNEXPLAINED = {"kinds": {"unexplained": {"seconds": 3.0, "count": 9}}}
NOT_REACHED = {"probes": [failed(hint="it was never reached")]}
WATTS = (("watts", "gpu.power"),)
#: By check and verdict: the evidence, and what is said of it or what to write.
CASES: dict[str, tuple[Evidence, str]] = {
    "probes FAIL: one failed": (evidence(run={"probes": [failed()]}), "its hint"),
    "probes FAIL: many failed": (evidence(run={"probes": [failed()] * 7}), "and 2 more"),
    "probes SKIP: not reached before the stop": (evidence(run=NOT_REACHED, cut=True), "1000"),
    "probes FAIL: not reached in all of the script": (evidence(run=NOT_REACHED), "never reached"),
    "probes SKIP: only voir's own, which waits": (
        evidence(run={"probes": [failed(where=f"{STOCK_INSTRUMENTS}argparse_options.py:16")]}),
        "no voirfile sets any",
    ),
    "steps FAIL: none": (evidence({"steps": None}), "//FUNCTION(BATCH as batch)"),
    "steps WARN: none, and no probes": (
        evidence({"steps": None}, run={"probes": []}), "//FUNCTION(BATCH as batch)"
    ),
    "steps WARN: none, as it failed": (
        evidence({"steps": None}, run={"exit_status": 1}), "with status 1 None"
    ),
    "steps SKIP: made by children": (
        evidence({"steps": None}, run={"probes": []}, children=True),
        "none of which has checked them None",
    ),
    "steps FAIL: an option ignores them": (
        evidence({"steps": None}, ignored="leave --metric out"), "none was seen leave --metric out"
    ),
    "steps FAIL: fewer are given": (
        evidence({"steps": 3, "items": 48}, **{**GIVEN, "given": 0}, hooks={"steps": 200}),
        "3 are given, but the hooks saw 200 ov.probe",
    ),
    "steps WARN: one more is given": (
        evidence(**GIVEN, hooks={"steps": 199}), "200 are given, but the hooks saw 199"
    ),
    "steps PASS: the hooks saw as many": (evidence(**GIVEN, hooks={"steps": 200}), "200, given"),
    "steps PASS: the stop came within one": (
        evidence(**GIVEN, hooks={"steps": 199}, cut=True), "200, given"
    ),
    "steps FAIL: the script and a voirfile give them": (
        evidence(**{**GIVEN, "marks": {END: 100, "": 100}}), "and voir.iterate or give() (100)"
    ),
    "steps WARN: turns that leave count": (
        evidence(**GIVEN, line=lambda role: ONCE), f"turns without a step {ONCE}"
    ),
    "steps PASS: no turn leaves": (evidence(**GIVEN), "given"),
    "loss SKIP: none": (evidence({"loss": None}, losses=0), "> LOSS as loss"),
    "loss FAIL: not finite": (evidence(not_finite=30), "30 of 200"),
    "loss FAIL: of evaluations": (evidence(given=48, elsewhere=40), "40 of 48"),
    "loss WARN: some steps have none": (evidence(given=150), "150 are given, of 200 steps"),
    "loss PASS: one in ten steps": (evidence(given=20), "all finite"),
    "loss WARN: not what backward was called on": (
        evidence(given=200, hooks={"steps": 200, "loss": {"first": 4.0}}), "that of backward 4"
    ),
    "loss PASS: of some of the micro-batches": (
        evidence(given=800, hooks={"steps": 200, "loss": {"first": 4.0}}), "all finite"
    ),
    "loss FAIL: it stays high": (evidence(loss_limit=0.3), "0.4, wanted 0.3"),
    "loss PASS: it comes down": (evidence(loss_limit=0.4), "2 to 0.5"),
    "items SKIP: unknown": (evidence({"items": None}), "as step"),
    "items FAIL: no batch": (evidence(**GIVEN, sizeless=200, hooks=SEEN), "no length"),
    "items WARN: no batch, and none was seen": (evidence(**GIVEN, sizeless=200), "no length"),
    "items WARN: no batch, in the line that would be written": (
        evidence(**GIVEN, sizeless=200, line=lambda role: None), "batch_size_calc"
    ),
    "items FAIL: another batch": (
        evidence(**GIVEN, hooks=SEEN), "16 a step are given, but the hooks saw 3"
    ),
    "items PASS: in another unit": (
        evidence(**{**GIVEN, "batches": False}, hooks=SEEN), "16 a step"
    ),
    "loading WARN: the hooks saw more": (
        evidence(pairs={PAIR: 200}, hooks={"steps": 200, "loading": {"share": 0.4}}),
        "12 % of the time, but the hooks saw 40 %",
    ),
    "loading WARN: a pair around all of it": (
        evidence({"loading": {"share": 0.0}}, pairs={PAIR: 200}), "between the pairs ov."
    ),
    "loading PASS: no line would show more": (
        evidence({"loading": {"share": 0.0}}, pairs={PAIR: 200}, line=lambda role: None), "0 %"
    ),
    "loading SKIP: unknown": (evidence({"loading": None}), "as loading"),
    "steady WARN: never": (evidence({"steady": {"verdict": "never steady"}}), "never, in 200"),
    "steady SKIP: too few steps": (evidence({"steady": {}}), "too few"),
    "pauses WARN: unexplained": (evidence({"pause": UNEXPLAINED}), "as pause"),
    "own cost PASS: some per cent": (evidence(own_shares=(0.03, 0.04)), "at least 4 %"),
    "own cost WARN: a probe in an inner loop": (
        evidence(run={"probes": [{**FIRED, "fired": 20_000}]}, own_shares=(0.03, 0.04)),
        "//f > x fires 100 times a step",
    ),
    "own cost WARN: dear once": (evidence(own_shares=(0.01, 0.4)), "at least 20 %"),
    "own cost FAIL: dear twice in a row": (evidence(own_shares=(0.3, 0.4)), "at least 35 %"),
    "own cost WARN: dear on short steps": (
        evidence({"step_seconds": {"median": 0.005}}, own_shares=(0.3, 0.4)), "of steps of 5"
    ),
    "own cost SKIP: unknown": (evidence(own_shares=()), "too short to judge"),
    "instruments WARN: a problem": (
        evidence(run={"problems": [{"who": "auto", "what": "odd", "remedy": "Do that."}]}),
        "Do that.",
    ),
    "keys SKIP: none is declared": (evidence(promised=0), "no instrument"),
    "keys FAIL: one never came": (evidence(unkept=WATTS), 'ov.give(gpu={"power": ...})'),
    "keys SKIP: one could not come": (
        evidence(run={"seconds": 1.0}, unkept=WATTS), "1.0 s are too short"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_verdict(name: str) -> None:
    case, said = CASES[name]
    check, verdict = name.partition(":")[0].rsplit(" ", 1)
    found = {one.check: one for one in judge(case)}
    assert found[check].verdict == verdict
    assert said in f"{found[check].evidence} {found[check].hint}"
    assert "FAIL" not in {one.verdict for one in found.values() if one.check != check}


SCREENS = {
    "good": evidence(),
    "broken": evidence(
        {"steady": {"verdict": "never steady"}, "loading": None},
        run={"probes": [failed(selector="//trian > loss", state="unresolved")]},
        instead=lambda probe: 'ov.probe("//train > loss").give()',
        not_finite=30,
        own_shares=(0.1, 0.2),
    ),
}


@pytest.mark.parametrize("name", SCREENS)
def test_what_is_shown(name: str) -> None:
    checks = [one.as_facts() for one in judge(SCREENS[name])]
    golden(f"verify/{name}.80.txt", render({**SCREENS[name].run, "verify": checks}, 80))


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


#: What a voirfile says, the check that fails, and what is said to write or to look at.
BROKEN = {
    "good": (STEP, None, "48, given"),
    "misspelt function": (STEP.replace("train", "trian"), "probes", STEP),
    "misspelt variable": (STEP.replace("loss", "los"), "probes", "loss) >"),
    "wrong batch": (STEP.replace("x as batch", "few as batch"), "items", STEP),
    "no batch": (STEP.replace("x as batch", "model as batch"), "items", STEP),
    "loss of another task": (
        'ov.probe("//evaluate > loss").give()', "loss", 'ov.probe("//train > loss").give()'
    ),
    "step in the wrong loop": (
        'ov.probe("//main > #endloop_epoch as step").give()', "steps", STEP
    ),
    "it raises": ("1 / 0", "instruments", "voirfile.py:3"),
    "a subscriber raises": (
        'ov.probe("//train > loss").subscribe(lambda event: 1 / 0)', "instruments", "voirfile.py:3"
    ),
    "nothing given": ('ov.probe("//train > loss")', "probes", 'ov.probe("//train > loss").give()'),
    "NaN": (STEP, "loss", "not finite"),
}  # fmt: skip


#: Those that run in the fast tests: each takes seconds, most of it for PyTorch's imports.
QUICK = "good", "misspelt function", "wrong batch", "it raises"


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(n, marks=pytest.mark.slow) for n in BROKEN if n not in QUICK)]
)
def test_a_broken_voirfile_fails_the_check_that_it_breaks(name: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    line, check, expected = BROKEN[name]
    place = Place(tmp_path)
    place.write("main.py", dedent(SCRIPT).format(lr=1e9 if name == "NaN" else 0.01))
    head = "def instrument_probes(ov):\n    yield ov.phases.load_script\n"
    place.write("voirfile.py", f"{head}    {line}\n")
    ran = place.voir("--no-record", "--verify-json", "checks.json", "main.py", warm=True)
    status, said = ran.status, " ".join((ran.stdout + ran.stderr).split())
    written = json.loads((tmp_path / "checks.json").read_text())
    failing = [one["check"] for one in written["verify"] if one["verdict"] == "FAIL"]
    assert failing == ([check] if check else []), said
    assert (status, written["verdict"]) == ((3, "FAIL") if check else (0, "PASS"))
    assert expected in said


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
    before = {name: vars(torch.Tensor).get(name) for name in SYNC_METHODS}
    syncs = Syncs()
    with syncs:
        for _ in range(4):
            torch.ones(1).item()
        float(torch.ones(1))
    (site,) = syncs.facts({"steps": 4, "step_seconds": {"median": 0.1}})
    assert (site["call"], site["device"], site["each"]) == (".item()", "cpu", 1.0)
    assert 0 < site["share"] < 1
    assert {name: vars(torch.Tensor).get(name) for name in SYNC_METHODS} == before
