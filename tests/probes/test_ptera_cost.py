"""What ptera's engine does is counted and some of it timed, whether or not events come of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from overseer.clock import FakeClock
from overseer.probes.ptera_cost import PTERA, TWO_IN
from overseer.sittings import Sittings
from tests.running import Place

from .conftest import Make
from .scripts import Script

SOURCE = """
def inner(a):
    x = a * 2
    return x
def outer(n):
    for k in range(n):
        inner(k)
def loop(n):
    for k in range(n):
        x = k
"""


class Weighed:
    """A script that is weighed by a fake clock; each event of a probe takes 10 us."""

    def __init__(self, made: Script, *selectors: str) -> None:
        self.made = made
        self.clock = FakeClock()
        self.heard = 0
        self.sittings = {number: Sittings() for number in (PTERA, *range(len(selectors)))}
        for selector in selectors:
            made.placed(selector).listen(self.hear)
        made.engine.weigh(self.clock.now_ns, self.sittings.__getitem__)

    def hear(self, event: object) -> None:
        self.clock.advance(10e-6)
        self.heard += 1

    def cost_ns(self) -> float:
        """What is told of ptera."""
        fired, of = self.made.engine.fired[PTERA], self.sittings[PTERA]
        of.end(fired)
        return (of.each_ns or 0.0) * fired


@pytest.fixture
def made(script: Make) -> Script:
    return script(SOURCE).load()


@pytest.mark.parametrize(
    ("selector", "call"),
    [
        ("//outer > //inner > x", "outer(3000)"),
        ("//outer(k) > //inner > #value as r", "outer(3000)"),
        ("//loop > $x", "loop(3000)"),
    ],
)
def test_some_of_it_stands_for_all(made: Script, selector: str, call: str) -> None:
    weighed = Weighed(made, selector)
    made.call(call)
    assert weighed.heard >= 3000
    assert weighed.cost_ns() == pytest.approx(weighed.clock.now_ns(), 0.1)
    assert list(made.engine.fired) == [PTERA]


def test_calls_that_no_event_comes_of_count(made: Script) -> None:
    weighed = Weighed(made, "//outer > //inner > x")
    made.call("inner(1)")
    assert weighed.heard == 0
    assert made.engine.fired == {PTERA: 3}  # It begins, has a value, and ends.


def test_events_of_a_probe_that_ptera_takes_over_are_part_of_that(made: Script) -> None:
    weighed = Weighed(made, "//inner > x", "//outer > //inner > x", "//loop > x")
    made.call("outer(10)")
    made.call("loop(3)")
    assert weighed.heard == 23
    assert set(made.engine.fired) == {PTERA, 2}
    assert made.engine.fired[2] == 3


def test_few_are_timed(made: Script) -> None:
    weighed = Weighed(made, "//outer > //inner > x")
    asked = 0

    def now() -> int:
        nonlocal asked
        asked += 1
        return weighed.clock.now_ns()

    made.engine.weigh(now, weighed.sittings.__getitem__)
    made.call("outer(1000)")
    assert 0 < asked <= 2 * (2 * made.engine.fired[PTERA] // TWO_IN + 2)


def test_until_it_is_weighed_it_is_counted(made: Script) -> None:
    made.probe("//outer > //inner > x")
    made.call("outer(10)")
    assert made.engine.fired == {PTERA: 32}


def test_an_error_of_the_script_passes_through(made: Script) -> None:
    weighed = Weighed(made, "//outer > //inner > x")
    for _ in range(TWO_IN):
        with pytest.raises(TypeError):
            made.call("inner(None)")
    assert made.engine.fired == {PTERA: 2 * TWO_IN}
    assert weighed.heard == 0


def test_own_cost_tells_of_it(tmp_path: Path) -> None:
    """Each event takes 200 us, which ptera's work and the machine's other work add little to."""
    place = Place(tmp_path)
    place.write(
        "voirfile.py",
        """
        from time import thread_time_ns as now

        def instrument_probe(ov):
            yield ov.phases.load_script

            def spend(event):
                until = now() + 200_000
                while now() < until:
                    pass

            ov.probe("//outer > //inner > x").subscribe(spend)
            yield ov.phases.run_script
            ov.give(spent=True)  # So that there is a record.
        """,
    )
    place.write("main.py", SOURCE + "outer(1000)\n")
    assert place.voir("--run-dir", "run", "main.py").status == 0
    told = json.loads((place.path / "run/run.json").read_text())["overhead"]
    assert 0.1 < told["seconds"] - told["outside"] < 0.6
