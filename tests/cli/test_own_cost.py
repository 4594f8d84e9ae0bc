"""The own cost that is told is the truth within a factor of two, where the truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.running import Place

SCRIPT = """
    from voir import give

    def train(n):
        for i in range(n):
            loss = i

    def batches(n):
        for i in range(n):
            yield i

    train(100)
    for batch in batches(100):
        pass
    for i in range(100):
        give(outside=i)
    """
#: A subscriber that uses two milliseconds of the processor, whatever else the machine does.
VOIRFILE = """
    import time

    def spin(event):
        since = time.thread_time()
        while time.thread_time() - since < 0.002:
            pass

    def instrument_slow(ov):
        yield ov.phases.load_script
        {wish}
    """


def overhead(tmp_path: Path, wish: str) -> dict[str, Any]:
    place = Place(tmp_path)
    place.write("main.py", SCRIPT)
    place.write("voirfile.py", VOIRFILE.format(wish=wish))
    assert place.voir("--no-monitor", "main.py").status == 0
    found: dict[str, Any] = place.record()["overhead"]
    return found


@pytest.mark.parametrize(
    "wish",
    [
        "ov.probe('//train > loss').subscribe(spin); ov.give(seen=True)",
        "ov.probe('//train > loss').give(); ov.listen(spin, 'loss')",
        "ov.probe('//batches > #yield').subscribe(spin)",
        "ov.listen(spin, 'outside')",
    ],
)
def test_what_subscribers_take_is_in_it(tmp_path: Path, wish: str) -> None:
    told = overhead(tmp_path, wish)
    # A hundred events of 2 ms of the processor's time: what others use of it is not in them.
    assert 0.1 < told["seconds"] - told["outside"] < 0.4


def test_starting_and_ending_are_in_it_and_told_apart(tmp_path: Path) -> None:
    told = overhead(tmp_path, "ov.listen(lambda event: None, 'outside')")
    assert 0 < told["outside"] <= told["seconds"]
    assert told["seconds"] - told["outside"] < 0.1
    assert 0 < told["share"] <= 1
