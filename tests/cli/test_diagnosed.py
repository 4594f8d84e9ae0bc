"""Scripts built to be slow in one way each, run without a voirfile: what they are told."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.forks import Job, run_all
from tests.running import PASSING

#: Time passes where it is said to: in the loader, the forward pass, the script, between epochs.
SCRIPT = """
    import {clock} as time

    import torch
    from torch.utils.data import DataLoader, Dataset

    loading, forward, other, pause, kept = {loading}, {forward}, {other}, {pause}, {kept}


    class Data(Dataset):
        def __len__(self):
            return 4 * {steps}

        def __getitem__(self, index):
            if index % 4 == 0:  # Once a batch, as elsewhere: each sleep may be late.
                time.sleep(loading)
            return torch.randn(8), torch.tensor(index % 2)


    class Model(torch.nn.Linear):
        seen = 0

        def forward(self, x):
            self.seen += 1
            time.sleep(forward(self.seen) if callable(forward) else forward)
            return super().forward(x)


    def train(model, loader, optimizer):
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            leak.append(bytearray(kept) or None)
            time.sleep(other)


    leak = []
    model = Model(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range({epochs}):
        train(model, DataLoader(Data(), batch_size=4), optimizer)
        time.sleep(pause)
    """
#: A script that is quick in everything, whatever else the machine does.
QUICK = {
    "clock": "passing",
    "loading": 0.0,
    "forward": 0.0,
    "other": 0.0,
    "pause": 0.0,
    "kept": 0,
    "epochs": 1,
}
#: What the script holds is looked at every so often, in real time.
REAL = "time"
THROTTLED = """
    def instrument_device(ov):
        yield ov.phases.run_script
        held = {"thermal slowdown (hardware)": 0.6}
        ov.summary["devices"] = [{"kind": "cuda", "index": 0, "throttled": held}]
    """
LATE = "lambda n: 0.004 + 0.0006 * n"
#: Of each script: what differs, its voirfile, and the verdict; None for no verdict.
CASES: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "loader": ({"loading": 0.02, "forward": 0.005, "steps": 30}, "", "loader-bound"),
    "compute": ({"forward": 0.02, "steps": 30}, "", "compute-bound"),
    "host": ({"forward": 0.005, "other": 0.02, "steps": 30}, "", "host-bound"),
    "pause": ({"forward": 0.005, "pause": 0.4, "steps": 20, "epochs": 4}, "", "pause-heavy"),
    "memory": (
        {"clock": REAL, "forward": 0.02, "kept": 5 << 20, "steps": 55},
        "",
        "memory growing",
    ),
    "throttled": ({"forward": 0.015, "steps": 30}, THROTTLED, "throttled"),
    "unsteady": ({"forward": LATE, "steps": 80}, "", "never steady"),
    "fine": (
        {"loading": 0.006, "forward": 0.024, "other": 0.01, "steps": 40},
        "",
        "nothing to complain of",
    ),
    "thin": ({"loading": 0.03, "steps": 5}, "", None),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], str]]:
    """What ``run.json`` holds for each script, and what was said at its end."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    found: dict[str, tuple[dict[str, Any], str]] = {}
    left = dict(CASES)
    # Sleeps in real time are as long as they should be on most days, not on all of them.
    for _ in range(3):
        jobs = {}
        for name, (differs, voirfile, _) in left.items():
            place = tmp_path_factory.mktemp(name)
            (place / "main.py").write_text(dedent(SCRIPT).format(**{**QUICK, **differs}))
            if differs.get("clock") != REAL:
                (place / "passing.py").write_text(dedent(PASSING))
            if voirfile:
                (place / "voirfile.py").write_text(dedent(voirfile))
            options = ["--monitor-interval", "0.05", "--run-dir", "run"]
            if differs.get("clock") != REAL:  # Where other programs pass real time, this one not.
                options = ["--no-monitor", "--run-dir", "run"]
            jobs[name] = Job(str(place), [[*options, "main.py"]])
        for name, one in zip(jobs, run_all(list(jobs.values())), strict=True):
            assert one.statuses == [0], one.said
            record = Path(jobs[name].place) / "run/run.json"
            found[name] = json.loads(record.read_text()), one.said[0]
        left = {name: case for name, case in CASES.items() if _verdict(found[name]) != case[2]}
        if not left:
            break
    return found


def _verdict(run: tuple[dict[str, Any], str]) -> str | None:
    verdict: str | None = run[0].get("diagnosis", {}).get("verdict")
    return verdict


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_is_what_the_script_was_built_to_be(
    runs: dict[str, tuple[dict[str, Any], str]], name: str
) -> None:
    run, said = runs[name]
    assert run.get("diagnosis", {}).get("verdict") == CASES[name][2], said


@pytest.mark.parametrize("name", CASES)
def test_the_end_of_a_run_takes_fourteen_lines_of_eighty_cells(
    runs: dict[str, tuple[dict[str, Any], str]], name: str
) -> None:
    run, said = runs[name]
    lines = said.splitlines()
    assert len(lines) <= 14, said
    assert all(len(line) <= 80 for line in lines if "record" not in line), said
    assert "\x1b" not in said
    diagnosis = run.get("diagnosis")
    assert (diagnosis is not None) == ("\n  verdict " in said)
    for key in diagnosis or ():
        assert diagnosis[key].split()[0] in said
