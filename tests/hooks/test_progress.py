"""tqdm's bars as progress, without torch too; a stand-in for tqdm where it is not installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from instruments.hooks.progress import named
from overseer import Overseer
from tests.instruments.inside import run as watched

BAR = """
class tqdm:
    _instances = []

    def __init__(self, iterable, desc="", total=None):
        self.iterable, self.desc, self.n, self.pos = iterable, desc, 0, len(self._instances)
        self._instances.append(self)
        self.total = total if total is not None else len(iterable)

    def __iter__(self):
        self.display()
        for each in self.iterable:
            yield each
            self.n += 1
            self.display()
        self._instances.remove(self)

    def display(self, msg=None, pos=None):
        pass
"""


@pytest.fixture(autouse=True)
def tqdm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in [name for name in sys.modules if name.partition(".")[0] == "tqdm"]:
        monkeypatch.delitem(sys.modules, name)
    package = tmp_path / "tqdm"
    package.mkdir()
    (package / "__init__.py").write_text("from .std import tqdm\n")
    (package / "std.py").write_text(BAR)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    std: ModuleType | None = sys.modules.get("tqdm.std")
    assert std is None or not hasattr(std.tqdm.display, "__wrapped__")
    for name in ("tqdm", "tqdm.std"):
        sys.modules.pop(name, None)


def run(tmp_path: Path, text: str) -> tuple[list[dict[str, Any]], Any]:
    events: list[dict[str, Any]] = []

    def instrument_hear(ov: Overseer) -> None:
        ov.listen(events.append, "progress")

    seen = watched(tmp_path, text, instruments=(instrument_hear,))
    assert (seen.error, seen.problems) == (None, [])
    return events, seen.summary.get("progress")


BARS = """
from tqdm import tqdm
for _ in tqdm(range(3), desc='Files'):
    pass
for epoch in range(3):
    for _ in tqdm(range(2), desc=f'Epoch {epoch}/3'):
        pass
"""


NESTED = """
from tqdm import tqdm
for _ in tqdm(range(2), desc='Epochs'):
    for _ in tqdm(range(1)):
        pass
"""


def test_a_bar_within_another_is_one_of_its_turns(tmp_path: Path) -> None:
    events, _ = run(tmp_path, NESTED)
    inner = [event["turn"] for event in events if event["task"] != "Epochs"]
    assert inner == [(1, 2), (1, 2), (2, 2), (2, 2)]
    outer = [event for event in events if event["task"] == "Epochs"]
    assert ["turn" in event for event in outer] == [True, False, False]


def test_each_drawing_is_progress_and_the_bar_of_each_epoch_has_one_name(tmp_path: Path) -> None:
    events, bars = run(tmp_path, BARS)
    told = [(event["task"], event["progress"]) for event in events]
    assert told[:4] == [("Files", (n, 3)) for n in range(4)]
    assert told[4:] == [("Epoch", (n, 2)) for n in range(3)] * 3
    assert [event["turn"] for event in events] == [None] * 4 + [
        (epoch, 3) for epoch in (1, 2, 3) for _ in range(3)
    ]
    found = [(bar["task"], bar["done"], bar["total"]) for bar in bars]
    assert found == [("Files", 3, 3), ("Epoch", 2, 2)]


def test_the_time_of_a_bar_is_not_that_of_those_before_it(tmp_path: Path) -> None:
    waits = "    time.sleep(0.5 * (epoch < 2))\n    for _"
    script = "import time\n" + BARS.replace("    for _", waits)
    _, bars = run(tmp_path, script)
    assert bars[1]["seconds"] < 0.5


def test_a_script_without_bars_gives_none(tmp_path: Path) -> None:
    assert run(tmp_path, "print(1)\n") == ([], None)


@pytest.mark.parametrize(
    ("text", "position", "name"),
    [("", 0, "progress"), (None, 1, "progress (2)"), ("[2/3] train: ", 0, "train")],
)
def test_names_have_no_numbers(text: object, position: int, name: str) -> None:
    assert named(text, position) == name
