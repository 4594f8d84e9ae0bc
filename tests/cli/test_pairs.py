"""Pairs of probes under voir, with giving's operators for pairs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.running import Place

SCRIPT = """
def train(loader, scale):
    for batch in loader:
        if batch == 1:
            continue
        loss = batch * scale
        if batch == 3:
            break

train(range(5), 10)
"""

VOIRFILE = """
import json
from contextlib import contextmanager

PAIR = "//train(batch, loss, !#loop_batch as start, !!#endloop_batch as end)"

def instrument_pairs(ov):
    yield ov.phases.parse_args
    seen = {"wmap": [], "wrap": [], "kwrap": []}

    def turn(**at_start):
        at_end = yield
        return [at_start.get("batch"), at_end["batch"], at_end.get("loss")]

    @contextmanager
    def wrapped():
        seen["wrap"].append("begin")
        yield
        seen["wrap"].append("end")

    @contextmanager
    def kwrapped(batch=None, **rest):
        seen["kwrap"].append(["begin", batch])
        yield
        seen["kwrap"].append(["end", batch])

    ov.probe(PAIR).wmap(turn).subscribe(seen["wmap"].append)
    ov.probe(PAIR).wrap("start", wrapped)
    ov.probe(PAIR).kwrap("start", kwrapped)
    yield ov.phases.finalize
    with open("seen.json", "w") as file:
        json.dump(seen, file)
"""


def test_giving_makes_one_of_the_two_events_of_a_turn(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", SCRIPT)
    place.write("vf.py", VOIRFILE)
    ran = place.voir("--quiet", "--no-record", "--voirfile", "vf.py", "main.py")
    assert (ran.status, ran.stderr) == (0, "")
    seen = json.loads((tmp_path / "seen.json").read_text())
    turns = [[event, batch] for batch in range(4) for event in ("begin", "end")]
    # There is no loss yet: the first begins without other variables.
    turns[:2] = [["begin", None], ["end", None]]
    assert seen["wmap"] == [[None, 0, 0], [1, 1, 0], [2, 2, 20], [3, 3, 30]]
    assert seen["wrap"] == ["begin", "end"] * 4
    assert seen["kwrap"] == turns
