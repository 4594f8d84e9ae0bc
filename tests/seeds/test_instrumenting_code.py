"""Milabench's page "Instrumenting code", run as it stands but for the device and the data folder.

Where the page has ``"cuda"`` stands the device that there is; and what stands in for torchvision
has the page's names only, for images that are easily told apart and for a model that a processor
trains in seconds.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.running import Place, Ran

pytest.importorskip("torch")

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
    "transforms": "",
    "datasets": """
        import torch
        def ImageFolder(folder):
            target = torch.arange(320) % 10
            images = torch.nn.functional.one_hot(target, 64).float()
            return torch.utils.data.TensorDataset(images, target)
    """,
    "models": "from torch import nn\ndef resnet18(): return nn.Linear(64, 10)\n",
}
#: 320 images, 64 a batch, 10 epochs.
STEPS, IMAGES = 50, 3200
LOSSES = """
    def instrument_losses(ov):
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
LOSS, STEP = "//train_epoch > loss", "//train_epoch(inp as batch) > #endloop_inp as step"
PAIR = "//train_epoch(inp as batch, !#loop_inp as compute_start, !!#endloop_inp as compute_end)"
ALL = f"""
    from milabench.opt import instrument_argparse
    def instrument_probes(ov):
        yield ov.phases.load_script
        ov.probe("{LOSS}").give()
        ov.probe("{STEP}").give()
        ov.give(use_cuda=True)
        ov.probe("//main > model").give()
        ov.probe("//main > train_loader as loader").give()
        ov.probe("{PAIR}").give()
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("main.py", MAIN)
    for name, text in STAND_IN.items():
        place.write(f"torchvision/{name}.py", text)
    return place


def run(place: Place, voirfile: str, *arguments: str) -> Ran:
    place.write("voirfile.py", voirfile)
    done = place.voir(*arguments, "main.py", warm=True)
    assert done.status in (0, 3), done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_one_instrument_shows_losses_another_gives_them_and_a_third_the_least(place: Place) -> None:
    done = run(place, LOSSES + MINIMUM.replace('print(f"', 'print("'))
    assert len(re.findall(r"^loss: .*\d\.\d", done.stdout, re.MULTILINE)) == STEPS
    least = re.search(r"^Minimum loss: (?:tensor\()?(\d+\.\d+)", done.stdout, re.MULTILINE)
    assert least, done.stdout
    losses = [event["loss"] for event in place.metrics() if "loss" in event]
    assert min(losses) >= float(least[1]) - 1e-3


def test_the_pages_slip_is_named_and_the_script_runs(place: Place) -> None:
    place.write("main.py", "print('ran')\n")
    done = run(place, MINIMUM, "--no-record", "--quiet")  # f"...{}" is no python.
    assert (done.stdout, "[voirfile-syntax]" in done.stderr) == ("ran\n", True)


def test_the_whole_example(place: Place) -> None:
    done = run(place, ALL, "--dash", "--train-rate", "--loading-rate", "--compute-rate")
    assert (done.status, done.stdout) == (0, "")
    assert "loss" in done.stderr
    *once, pair = ["//main > model", "//main > train_loader as loader", PAIR]
    counts = {**dict.fromkeys([LOSS, STEP], STEPS), **dict.fromkeys(once, 1), pair: 2 * STEPS}
    record = place.record()
    fired = {probe["selector"]: probe["fired"] for probe in record["probes"]}
    assert fired.items() >= counts.items()
    task = record["tasks"]["train"]
    assert (task["steps"], task["items"]) == (STEPS, IMAGES)
    assert task["loss"]["last"] < task["loss"]["first"]
    assert task["loading"]["share"] + task["compute"]["share"] == pytest.approx(1, abs=0.01)
    assert {instrument["state"] for instrument in record["instruments"]} == {"ok"}


def test_the_flags_of_old_milabench(place: Place) -> None:
    flags = ["--stop", "7", "--poll-gpu", "1", "--display"]
    flags += ["--metric", "step", "--metric-interval", "2", "--metric-skip", "1"]
    done = run(place, ALL, *flags)
    assert (done.status, place.record()["tasks"]["train"]["steps"]) == (0, 7)
    given = "loss", "step", "batch", "use_cuda", "model", "loader", "compute_start"
    assert all(key in done.stdout for key in given)


def test_verify_says_of_each_thing_to_provide_whether_it_is(place: Place) -> None:
    # The status is 3 where there is no CUDA, which it is told to use.
    done = run(place, ALL, "--no-record", "--verify")
    assert all(what in done.stderr for what in ("loss", "step", "loader", "model"))


def test_the_function_may_be_in_a_package(place: Place) -> None:
    functions, _, rest = MAIN.partition("    def main():")
    imports, _, function = functions.partition("    def train_epoch")
    place.write("somepackage/__init__.py", "")
    place.write("somepackage/train.py", "    def train_epoch" + function)
    imported = f"{imports}    from somepackage.train import train_epoch\n"
    place.write("main.py", f"{imported}    def main():{rest}")
    voirfile = """
        import ptera
        def instrument_absolute(ov):
            yield ov.phases.load_script
            ov.probe("/somepackage.train/train_epoch > loss").give()
        def instrument_by_name(ov):
            yield ov.phases.load_script
            from somepackage.train import train_epoch
            ov.probe("train_epoch > output").give()
            print(ptera.refstring(train_epoch))
    """
    done = run(place, voirfile)
    assert (done.status, done.stdout) == (0, "/somepackage.train/train_epoch\n")
    assert {probe["fired"] for probe in place.record()["probes"]} == {STEPS}
