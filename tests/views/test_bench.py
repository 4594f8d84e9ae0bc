"""What a bench shows, at two widths; with ``VOIR_UPDATE_GOLDEN=1`` that becomes the golden text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from overseer.views.bench import SideFigures, conclusion, line, sides_table, text_of

GOLDEN = Path(__file__).parents[1] / "golden/bench"
SIDES = [
    SideFigures("A", "main 4f2a1c0, batch-size=32", [1398.2, 1412.5, 1426.1]),
    SideFigures("B", "HEAD 077be4c, batch-size=32", [1257, 1271, 1285], 0.8998, (0.8871, 0.9127)),
    SideFigures("A2", "A again", [1396.4, 1421.3], 0.998, (0.9891, 1.007)),
]
LINES = [
    ("A", 0, 14.21, "14.2 s", ["warm-up, not counted"]),
    ("A2", 1, 14.19, "1,396 items/s", []),
    ("B", 12, 15.5, "1,271 items/s", ["its GPU was throttled (power)", "repeats round 3"]),
]  # fmt: skip
WHY = (
    "B against A: -10 % (-11 to -8.7); the reference against itself: -0.2 % (-1.1 to +0.7). This "
    "machine cannot tell 1 % now, 12 % it could"
)
RULES = "train.rate.steady, 95 % intervals over pairs; less than 1 % is no difference"
NOTES = ["disturbed rounds: 3 (again: 12); for example, other programs used 31 % of the processors"]


@pytest.mark.parametrize("width", [80, 120])
def test_a_bench_is_shown_as_the_golden_text(width: int) -> None:
    shown = sides_table(SIDES, "items/s", width)
    shown += "\n" + conclusion([("inconclusive", WHY)], RULES, NOTES, ["--runs 12"], width, False)
    shown += "\n" + sides_table(SIDES[:1], "items/s", width)
    file = GOLDEN / f"{width}.txt"
    if os.environ.get("VOIR_UPDATE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(shown)
    assert shown == file.read_text()
    assert max(map(len, shown.splitlines())) <= width


def test_a_process_is_a_line() -> None:
    lines = [
        "     0  A     14.2 s  14.2 s · warm-up, not counted\n",
        "     1  A2    14.2 s  1,396 items/s\n",
        "    12  B     15.5 s  1,271 items/s · its GPU was throttled (power) · repeats round 3\n",
    ]
    assert [line(*each) for each in LINES] == lines


def test_values_have_their_units() -> None:
    units = [(1234.6, "items/s"), (0.25, "s"), (2**30, "B"), (0.9583, "1"), (61.0, "°C")]
    shown = [text_of(*each) for each in units]
    assert shown == ["1,235 items/s", "0.25 s", "1 GiB", "0.9583", "61 °C"]
