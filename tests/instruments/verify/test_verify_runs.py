"""--verify on runs: it stops when there is evidence, and says what is wrong and what to write."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import pytest

from tests.forks import Job, run_all
from tests.running import PASSING

# Its steps are long by the clock that passes: what voir costs, on the busiest machine, is nothing
# beside them.
SCRIPT = """
    import sys, passing as time

    import torch
    from torch.utils.data import DataLoader, TensorDataset

    def train(model, loader, optimizer):
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(model(x), y) * {scale}
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            {each}
            time.sleep(3)

    torch.manual_seed(1)
    x = torch.randn(1024, 8)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    model = torch.nn.Linear(8, 1)
    for epoch in range({epochs}):
        train(model, DataLoader(data, batch_size=8), torch.optim.SGD(model.parameters(), lr={lr}))
    print("done", epoch + 1)
    {end}
    """
PROBES = """
    def instrument_probes(ov):
        yield ov.phases.load_script
        ov.probe("//train > {loss}").give()
        ov.probe("//train(x as batch) > #endloop_x as step").give()
        ov.probe("// > model").give()
        ov.probe(
            "//train(x as batch, !#loop_x as compute_start, !!#endloop_x as compute_end)"
        ).give()
        {more}
    """
PLAIN = {"scale": 1, "each": "pass", "epochs": 1, "lr": 0.01, "end": "", "loss": "loss", "more": ""}
STEPS = ["--stop", "30"]


class Case(NamedTuple):
    """A run: what differs from a plain one, options, and the checks that fail."""

    differs: dict[str, Any]
    options: list[str]
    failing: list[str]
    status: int = 0
    said: str = ""


CASES = {
    "good": Case({}, [], [], said="stopped early: after "),
    "to its end": Case({}, ["--stop", "1000"], [], said="done 1"),
    "misspelt": Case(
        {"loss": "los"}, STEPS, ["probes"], 3, 'write: ov.probe("//train > loss").give()'
    ),
    "diverges": Case({"lr": 1e9}, STEPS, ["finite loss"], 3, "FAIL  finite loss"),
    "loss limit": Case({}, [*STEPS, "--verify-loss", "0.0001"], ["loss trend"], 3, "wanted 0.0001"),
    "claims": Case({"more": "ov.give(use_cuda=True)"}, STEPS, ["device"], 3, "use_cuda says cuda"),
    "fails": Case({"more": "1 / 0"}, STEPS, ["instruments"], 3, "ZeroDivisionError"),
    "item": Case({"each": "loss.item()"}, STEPS, [], 0, ".item() at main.py:13, 1 a step"),
    "own status": Case({"end": "sys.exit(5)"}, ["--stop", "1000"], [], 5),
    "stopped before its own status": Case({"end": "sys.exit(5)"}, [], [], 0, "stopped early"),
    "own status, and a failure": Case(
        {"loss": "los", "end": "sys.exit(5)"}, ["--stop", "1000"], ["probes"], 3
    ),
    "crash": Case({"each": "1 / 0"}, STEPS, [], 1, "ZeroDivisionError"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, dict[str, Any]]]:
    """Each case's exit status, what was said, and the file of ``--verify-json``."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    jobs = {}
    for name, case in CASES.items():
        place = tmp_path_factory.mktemp(name.replace(" ", "-"))
        values = {**PLAIN, **case.differs}
        (place / "main.py").write_text(dedent(SCRIPT).format(**values))
        (place / "passing.py").write_text(dedent(PASSING))
        (place / "voirfile.py").write_text(dedent(PROBES).format(**values))
        options = ["--verify-json", "checks.json", "--run-dir", "run", *case.options]
        jobs[name] = Job(str(place), [[*options, "main.py"]])
    done = run_all(list(jobs.values()))
    return {
        name: (
            one.statuses[0],
            one.said[0],
            json.loads((Path(job.place) / "checks.json").read_text()),
        )
        for (name, job), one in zip(jobs.items(), done, strict=True)
    }


@pytest.mark.parametrize("name", CASES)
def test_the_run_fails_what_is_wrong_with_it(
    runs: dict[str, tuple[int, str, dict[str, Any]]], name: str
) -> None:
    status, said, written = runs[name]
    failed = [one["check"] for one in written["verify"] if one["verdict"] == "FAIL"]
    case = CASES[name]
    assert status == case.status, said
    if name != "crash":
        assert failed == case.failing, said
    assert case.said in said
    assert written["verdict"] == ("FAIL" if failed else "PASS")
    assert all(
        f"  {verdict['verdict']}  {verdict['check']}" in said for verdict in written["verify"]
    )


def test_it_stops_within_two_hundred_steps_when_nobody_says_how_many(
    runs: dict[str, tuple[int, str, dict[str, Any]]],
) -> None:
    (step,) = [one for one in runs["good"][2]["verify"] if one["check"] == "step"]
    assert 40 <= int(step["evidence"].split()[0]) <= 200 > 128
