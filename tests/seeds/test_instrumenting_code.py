"""Milabench's page "Instrumenting code", run as it stands but for the device and the data folder.

Where the page has ``"cuda"`` stands the device that there is; the data folder is one with the
digits of scikit-learn in it; and what stands in for torchvision has the page's names only, for
reading that folder and for a model that a processor trains in seconds.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.running import Place, Ran

pytest.importorskip("torch")
pytest.importorskip("sklearn")

MAIN = """
    import torch
    import torch.nn as nn
    import torchvision.datasets as datasets
    import torchvision.models as tvmodels
    import torchvision.transforms as transforms

    def train_epoch(model, criterion, optimizer, loader, device):
        for inp, target in loader:
            inp = inp.to(device)
            target = target.to(device)
            output = model(inp)
            loss = criterion(output, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def main():
        torch.cuda.manual_seed(1234)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

        model = tvmodels.resnet18()
        model.to(device)

        criterion = nn.CrossEntropyLoss().to(device)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        train = datasets.ImageFolder("digits")
        train_loader = torch.utils.data.DataLoader(train, batch_size=64, shuffle=True)

        for epoch in range(10):
            train_epoch(model, criterion, optimizer, train_loader, device)

    if __name__ == "__main__":
        main()
"""
STAND_IN = {
    "torchvision/__init__.py": "",
    "torchvision/transforms.py": "",
    "torchvision/datasets.py": """
        import torch
        from torch.utils.data import TensorDataset

        def ImageFolder(folder):
            return TensorDataset(*torch.load(f"{folder}/digits.pt"))
    """,
    "torchvision/models.py": """
        import torch.nn as nn

        def resnet18():
            return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    """,
}
#: 320 images, 64 a batch, 10 epochs.
STEPS, IMAGES = 50, 3200

LOSSES = """
    def instrument_probes(ov):
        yield ov.phases.load_script
        ov.probe("//train_epoch > loss").display()
"""
MINIMUM = """
    def instrument_probes(ov):
        yield ov.phases.load_script
        ov.probe("//train_epoch > loss").give()

    def instrument_display_min(ov):
        yield ov.phases.init
        ov.given["?loss"].min().print(f"Minimum loss: {}")
"""
ALL = """
    # Instrument argparse
    from milabench.opt import instrument_argparse

    def instrument_probes(ov):
        yield ov.phases.load_script

        # Give the loss
        ov.probe("//train_epoch > loss").give()

        # Give batch + step
        ov.probe("//train_epoch(inp as batch) > #endloop_inp as step").give()

        # Always use CUDA
        ov.give(use_cuda=True)

        # Give the model
        ov.probe("//main > model").give()

        # Give the loader
        ov.probe("//main > train_loader as loader").give()

        # Compute start/end
        # This basically creates a probe that has two trigger points, one
        # for ! and another for !!.
        ov.probe("//train_epoch(inp as batch, !#loop_inp as compute_start, !!#endloop_inp as compute_end)").give()
"""  # noqa: E501


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from sklearn.datasets import load_digits

    found: Any = load_digits()
    images = torch.tensor(found.images[:320], dtype=torch.float32) / 16
    file = tmp_path_factory.mktemp("data") / "digits.pt"
    torch.save((images, torch.tensor(found.target[:320])), file)
    return file


@pytest.fixture
def place(tmp_path: Path, digits: Path) -> Place:
    place = Place(tmp_path)
    place.write("main.py", MAIN)
    for name, text in STAND_IN.items():
        place.write(name, text)
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits" / "digits.pt").symlink_to(digits)
    return place


def fired(place: Place) -> dict[str, int]:
    """How often each probe fired, by its focus."""
    return {probe["selector"]: probe["fired"] for probe in place.record()["probes"]}


def ok(done: Ran) -> Ran:
    assert done.status == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_one_instrument_shows_losses_another_gives_them_and_a_third_the_least(place: Place) -> None:
    shown = LOSSES.replace("instrument_probes", "instrument_losses")
    place.write("voirfile.py", shown + MINIMUM.replace('print(f"', 'print("'))
    done = ok(place.voir("main.py"))
    assert len(re.findall(r"^loss: .*\d\.\d", done.stdout, re.MULTILINE)) == STEPS
    least = re.search(r"^Minimum loss: (?:tensor\()?(\d+\.\d+)", done.stdout, re.MULTILINE)
    assert least, done.stdout
    losses = [event["loss"] for event in place.metrics() if "loss" in event]
    assert min(losses) >= float(least[1]) - 1e-3


def test_the_pages_slip_is_named_and_the_script_runs(place: Place) -> None:
    place.write("voirfile.py", MINIMUM)  # f"...{}" is no python.
    place.write("main.py", "print('ran')\n")
    done = ok(place.voir("--no-record", "--quiet", "main.py"))
    assert (done.stdout, "[voirfile-syntax]" in done.stderr) == ("ran\n", True)


def test_the_whole_example(place: Place) -> None:
    place.write("voirfile.py", ALL)
    rates = ["--train-rate", "--loading-rate", "--compute-rate"]
    done = ok(place.voir("--dash", *rates, "main.py"))
    assert done.stdout == ""
    assert "loss" in done.stderr
    run = place.record()
    counts = fired(place)
    assert counts["//train_epoch > loss"] == STEPS
    assert counts["//train_epoch(inp as batch) > #endloop_inp as step"] == STEPS
    assert counts["//main > model"] == counts["//main > train_loader as loader"] == 1
    task = run["tasks"]["train"]
    assert (task["steps"], task["items"]) == (STEPS, IMAGES)
    assert task["loss"]["last"] < task["loss"]["first"]
    assert task["loading"]["share"] + task["compute"]["share"] == pytest.approx(1, abs=0.01)
    assert [i["state"] for i in run["instruments"]] == ["ok"] * len(run["instruments"])


def test_the_flags_of_old_milabench(place: Place) -> None:
    place.write("voirfile.py", ALL)
    flags = ["--stop", "7", "--poll-gpu", "1", "--display"]
    flags += ["--metric", "step", "--metric-interval", "2", "--metric-skip", "1"]
    done = ok(place.voir(*flags, "main.py"))
    assert place.record()["tasks"]["train"]["steps"] == 7
    for key in ("loss", "step", "batch", "use_cuda", "model", "loader", "compute_start"):
        assert key in done.stdout


def test_verify_says_of_each_thing_to_provide_whether_it_is(place: Place) -> None:
    place.write("voirfile.py", ALL)
    done = place.voir("--no-record", "--verify", "main.py")
    assert done.status in (0, 3), done.stderr  # It is told to use CUDA, where there may be none.
    for what in ("loss", "step", "loader", "model"):
        assert what in done.stderr


def test_the_function_may_be_in_a_package(place: Place) -> None:
    functions, _, rest = MAIN.partition("    def main():")
    imports, _, function = functions.partition("    def train_epoch")
    place.write("somepackage/__init__.py", "")
    place.write("somepackage/train.py", "    def train_epoch" + function)
    place.write(
        "main.py", f"{imports}    from somepackage.train import train_epoch\n    def main():{rest}"
    )
    place.write(
        "voirfile.py",
        """
        import ptera

        def instrument_absolute(ov):
            yield ov.phases.load_script
            ov.probe("/somepackage.train/train_epoch > loss").give()

        def instrument_by_name(ov):
            yield ov.phases.load_script
            from somepackage.train import train_epoch
            ov.probe("train_epoch > output").give()
            print(ptera.refstring(train_epoch))
        """,
    )
    done = ok(place.voir("main.py"))
    assert done.stdout == "/somepackage.train/train_epoch\n"
    assert set(fired(place).values()) == {STEPS}
