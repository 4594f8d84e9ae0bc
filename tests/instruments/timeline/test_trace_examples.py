"""The walk-through: the same timeline of the same script, once with edits and once with none."""

from __future__ import annotations

from pathlib import Path

import pytest

from overseer.trace import Trace, open_trace
from tests.running import Place

EXAMPLE = Path(__file__).parents[3] / "examples/tracing"
#: Enough that psutil, which the monitors import meanwhile, is there before the end.
EPOCHS = 12


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trace]:
    pytest.importorskip("sklearn")
    place = Place(tmp_path_factory.mktemp("tracing"))
    options = {
        "edited": ["--no-voirfile", str(EXAMPLE / "edited.py")],
        "unedited": ["--voirfile", str(EXAMPLE / "voirfile.py"), str(EXAMPLE / "main.py")],
    }
    printed, found = set(), {}
    for name, arguments in options.items():
        run = place.path / name
        done = place.voir(
            "--strict",
            "--quiet",
            "--monitor-interval",
            "0.02",
            "--trace",
            "--run-dir",
            str(run),
            *arguments,
            "--epochs",
            str(EPOCHS),
        )
        assert (done.status, done.stderr) == (0, ""), done.stderr
        printed.add(done.stdout)
        found[name] = open_trace(run)
    printed.add(place.python(str(EXAMPLE / "edited.py"), "--epochs", str(EPOCHS)).stdout)
    assert len(printed) == 1, "the script must do the same, however it is watched"
    return found


@pytest.mark.parametrize("name", ["edited", "unedited"])
def test_epochs_hold_training_and_validation(traces: dict[str, Trace], name: str) -> None:
    main = next(t for t in traces[name].threads if t.name == "MainThread")
    found = [(one.label, [c.label for c in one.children], one.channel) for one in main.slices]
    expected = ["training", "validation"]
    assert found == [(f"Epoch:{n}", expected, "Digits application") for n in range(EPOCHS)]


@pytest.mark.parametrize("name", ["edited", "unedited"])
def test_each_epoch_is_marked(traces: dict[str, Trace], name: str) -> None:
    marks = [o for o in traces[name].instants() if o.channel == "Instant events"]
    assert [mark.label for mark in marks] == [f"Epoch {n} begin" for n in range(EPOCHS)]


def test_both_have_the_same_losses_and_accuracies(traces: dict[str, Trace]) -> None:
    def values(name: str, *counters: str) -> list[list[float]]:
        return [traces[name].counters[counter].values for counter in counters]

    edited = values("edited", "Loss: training", "Loss: validation", "Accuracy")
    assert edited == values("unedited", "Training loss", "Validation loss", "Accuracy")
    assert [len(found) for found in edited] == [45 * EPOCHS, EPOCHS, EPOCHS]


def test_figures_of_the_machine_are_there(traces: dict[str, Trace]) -> None:
    assert len(traces["edited"].counters["CPU load"].values) == EPOCHS
    assert traces["unedited"].counters["cpu.memory"].unit == "B"


def test_steps_lie_on_a_row_of_their_own(traces: dict[str, Trace]) -> None:
    steps = [one for one in traces["unedited"].slices() if one.label == "step"]
    assert [one.args["step"] for one in steps] == list(range(45 * EPOCHS))
