"""What the timeline of a PyTorch script shows, without a word in the script or a voirfile."""

from __future__ import annotations

import json

import pytest

from overseer.trace import Trace, open_trace
from overseer.trace.reading import Slice
from tests.running import Place

pytest.importorskip("torch")

SCRIPT = """
    import io
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(48, 8), torch.randint(3, (48,)))
    train, test = DataLoader(data, batch_size=8), DataLoader(data, batch_size=16)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for epoch in range(2):
        for x, y in train:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.save(model.state_dict(), io.BytesIO())
        model.eval()
        with torch.no_grad():
            for x, y in test:
                model(x)
        model.train()
    print(f"{float(loss):.6f}")
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("torch"))
    place.write("main.py", SCRIPT)
    return place


@pytest.fixture(scope="module")
def stepped(place: Place) -> Trace:
    return traced(place, "steps")


@pytest.fixture(scope="module")
def detailed(place: Place) -> Trace:
    return traced(place, "ops", "--trace-level", "op", "--trace-steps", "3:5")


def traced(place: Place, name: str, *options: str) -> Trace:
    done = place.voir("--strict", "--no-monitor", "--trace", "--run-dir", name, *options, "main.py")
    assert done.status == 0, done.stderr
    assert done.stdout == place.python("main.py").stdout
    return open_trace(place.path / name)


def row(trace: Trace, name: str) -> list[Slice]:
    return next(thread.slices for thread in trace.threads if thread.name == name)


def test_steps_hold_loading_and_compute(stepped: Trace) -> None:
    steps = [one for one in row(stepped, "train steps") if one.label == "step"]
    assert [one.args for one in steps] == [{"step": n, "items": 8} for n in range(12)]
    assert all({c.label for c in one.children} <= {"loading", "compute"} for one in steps)
    assert all("compute" in [c.label for c in one.children] for one in steps)


def test_passes_and_optimizer_steps_are_there(stepped: Trace) -> None:
    passes = [one.label for one in row(stepped, "passes")]
    assert passes == ["forward", "backward"] * 12
    assert {one.label for one in row(stepped, "optimizer")} == {"optimizer"}
    assert len(row(stepped, "data loader")) >= 12
    assert {one.label for one in row(stepped, "evaluation")} == {"eval"}


def test_every_loss_is_there(stepped: Trace) -> None:
    assert len(stepped.counters["loss"].values) == 12


def test_ends_of_epochs_and_checkpoints_are_marked(stepped: Trace) -> None:
    marks = [(o.label, o.args) for o in stepped.instants() if o.label.startswith("epoch")]
    assert marks == [(f"epoch {n} end", {"steps": 6}) for n in range(2)]
    saved = [one for one in stepped.slices() if one.channel == "checkpoints"]
    assert [one.label for one in saved] == ["checkpoint"] * 2


def test_modules_have_the_names_their_model_knows_them_by(detailed: Trace) -> None:
    calls = [one for one in row(detailed, "MainThread") if one.label == "Sequential"]
    assert [[c.label for c in one.children] for one in calls] == [
        ["Sequential.0", "Sequential.1", "Sequential.2"]
    ] * 2
    assert calls[0].children[1].args == {"module": "ReLU"}


def test_operators_lie_in_the_modules_that_call_them(detailed: Trace) -> None:
    linear = [
        one
        for thread in detailed.threads
        if thread.name.startswith("operators")
        for _, one in thread.walk()
        if one.label == "aten::linear"
    ]
    modules = [
        one
        for _, one in next(t for t in detailed.threads if t.name == "MainThread").walk()
        if one.args.get("module") == "Linear"
    ]
    assert len(linear) == len(modules) == 4
    for operator, module in zip(linear, modules, strict=True):
        assert module.start <= operator.start
        # To the resolution of two clocks.
        assert _end(operator) <= _end(module) + 1_000


def test_profile_shows_all_of_the_first_steps_and_marks_the_rates(place: Place) -> None:
    done = place.voir("--strict", "--no-monitor", "--profile", "--run-dir", "first", "main.py")
    assert done.status == 0, done.stderr
    trace = open_trace(place.path / "first")
    steps = [one for one in row(trace, "train steps") if one.label == "step"]
    assert [one.args["step"] for one in steps] == [0, 1]
    assert [one.label for one in row(trace, "MainThread")].count("Sequential") == 2
    operators = [
        one
        for thread in trace.threads
        if thread.name.startswith("operators")
        for _, one in thread.walk()
    ]
    assert [one.label for one in operators].count("aten::linear") == 4
    facts = json.loads((place.path / "first/run.json").read_text())
    assert facts["tasks"]["train"]["rate"]["profiled"] == 2
    assert (facts["trace"]["level"], facts["trace"]["profiled"]) == ("op", 2)
    assert "2 steps profiled" in done.stderr


def _end(one: Slice) -> int:
    assert one.duration is not None
    return one.start + one.duration
