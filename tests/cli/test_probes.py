"""Probes under voir that ptera serves, or not, and pairs that giving makes one event of."""

from __future__ import annotations

from pathlib import Path

import pytest

from overseer.recorder import recorder
from tests.running import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_function_that_the_slow_path_has_rewritten_takes_no_other_probe(place: Place) -> None:
    g, f = "def g(x):\n    y = x * 2\n", "def f(n):\n    for i in range(n):\n        g(i)\n"
    place.write("main.py", f"{g}{f}f(3)\n")
    shows = """
        def instrument_probes(ov):
            yield ov.phases.load_script
            for selector in ("//f > //g > y", "//g > y", "//f > i"):
                ov.probe(selector).subscribe(lambda event, to=selector: print(to, event))
        """
    place.write("voirfile.py", shows)
    ran = place.voir("main.py")
    assert ran.status == 0, ran.stderr
    assert ran.stdout.splitlines() == [f"//f > //g > y {{'y': {2 * i}}}" for i in range(3)]
    for name in ("f", "g"):  # It says so, and what to do.
        assert f"ptera rewrites {name} for a slow selector" in ran.stderr
    assert ran.stderr.count("watch this variable with a slow selector too") == 2


def test_a_run_whose_probe_ptera_cannot_serve_is_recorded_to_its_end(place: Place) -> None:
    place.write("main.py", "def f():\n    x = 1\n\n\nf()\n")
    place.probes(["//f > x > y", "//f > x as loss"])
    ran = place.voir("main.py")
    assert (ran.status, "failed:" in ran.stderr) == (0, False)
    run = place.record()
    assert run["probes"][0]["state"] == "unresolved"
    assert "ended" in run and run["overhead"]["recorder"] == recorder.NAME


def test_giving_makes_one_of_the_two_events_of_a_turn(place: Place) -> None:
    place.write("main.py", "for b in range(4):\n    if b == 1: continue\n    loss = b * 10\n")
    pairs = """
        from contextlib import contextmanager
        def instrument_pairs(ov):
            yield ov.phases.parse_args
            seen = {"wmap": [], "wrap": [], "kwrap": []}
            def turn(**at_start):
                at_end = yield
                return at_start.get("b"), at_end["b"], at_end.get("loss")
            @contextmanager
            def wrapped(name, b=None, **rest):
                seen[name].append(("begin", b))
                yield
                seen[name].append(("end", b))
            def probe():
                return ov.probe("//(b, loss, !#loop_b as start, !!#endloop_b as end)")
            probe().wmap(turn).subscribe(seen["wmap"].append)
            probe().wrap("start", lambda: wrapped("wrap"))
            probe().kwrap("start", lambda **rest: wrapped("kwrap", **rest))
            yield ov.phases.finalize
            print(seen)
        """
    place.write("vf.py", pairs)
    ran = place.voir("--quiet", "--no-record", "--voirfile", "vf.py", "main.py")
    # There is no loss yet: the first begins without other variables.
    starts: list[int | None] = [None, 1, 2, 3]
    ends = [("begin", None), ("end", None)]
    seen = {
        "wmap": [*zip(starts, range(4), (0, 0, 20, 30), strict=True)],
        "wrap": ends * 4,
        "kwrap": [(event, b) for b in starts for event, _ in ends],
    }
    assert (ran.seen, ran.stderr) == ((0, f"{seen}\n"), "")
