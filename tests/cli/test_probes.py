"""Probes under voir: the same program as under python, and exactly its events.

``tests/probes`` has every way to bind a name; here is one of each kind, in one program.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from overseer.recorder import recorder
from tests.running import Place

PROGRAM = """
import asyncio, functools, helper, json
def binds(a, *c, **e):
    global G
    G = x = a
    x, (g, *h) = x + 4, (2, 3)
    try: 1 / 0
    except ZeroDivisionError as error: G = str(error)
    return [w := one for one in range(2)]
def loops():
    for i in range(5):
        if i == 1: continue
        if i == 3: break
    got = yield i
class A:
    @property
    def p(self):
        __private = 4
        return __private
@functools.lru_cache
def cached(n): x = n * 2; return x
def make(k):
    async def add(n): total = n + k; return total
    return add
for epoch in range(2): loss = epoch * 2
print(binds(1), binds(5, 6, z=9), A().p, cached(1), cached(1), cached(2), helper.work(2))
print(next(running := loops()), json.dumps(list(running)))
print([asyncio.run(add(n)) for add in (make(1), make(10)) for n in (1, 2)])
"""
EVENTS = {
    "//binds > a": [1, 5], "//binds > c": [[], [6]], "//binds > e": [{}, {"z": 9}],
    "//binds > G": [1, "division by zero", 5, "division by zero"], "//binds > x": [1, 5, 5, 9],
    "//binds > h": [[3], [3]], "//binds > w": [0, 1, 0, 1], "//binds > #enter": [True, True],
    "//loops > i": [0, 1, 2, 3], "//loops > #endloop_i": [True] * 4, "//loops > got": [None],
    "//A/p > __private": [4], "//make/add > total": [2, 3, 11, 12], "//cached > #value": [2, 4],
    "// > loss": [0, 2], "// > #endloop_epoch": [True] * 2, "/helper/work > result": [4],
    "/helper > READY": [True],
}  # fmt: skip
VOIRFILE = """
import json

def instrument_probes(ov):
    yield ov.phases.parse_args
    seen = {selector: [] for selector in SELECTORS}
    for selector, found in seen.items():
        name = selector.rpartition(" > ")[2]
        ov.probe(selector)[name].subscribe(found.append)
    yield ov.phases.finalize
    with open("events.json", "w") as file:
        json.dump(seen, file)
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_program_is_the_same_and_its_events_are_seen(place: Place) -> None:
    place.write("helper.py", "READY = bool(1)\ndef work(n):\n    result = n * n\n    return result")
    place.write("main.py", PROGRAM)
    place.write("vf.py", VOIRFILE.replace("SELECTORS", repr([*EVENTS])))
    plain = place.python("main.py")
    under = place.voir("--quiet", "--no-record", "--voirfile", "vf.py", "main.py")
    assert (plain.status, plain.stderr) == (0, "")
    assert under == plain
    assert json.loads((place.path / "events.json").read_text()) == EVENTS


def test_a_function_that_the_slow_path_has_rewritten_takes_no_other_probe(place: Place) -> None:
    place.write(
        "main.py",
        """
        def g(x):
            y = x * 2
        def f(n):
            for i in range(n):
                g(i)
        f(3)
        """,
    )
    place.write(
        "voirfile.py",
        """
        def instrument_probes(ov):
            yield ov.phases.load_script
            for selector in ("//f > //g > y", "//g > y", "//f > i"):
                ov.probe(selector).subscribe(lambda event, to=selector: print(to, event))
        """,
    )
    ran = place.voir("main.py")
    assert ran.status == 0, ran.stderr
    assert ran.stdout.splitlines() == [f"//f > //g > y {{'y': {2 * i}}}" for i in range(3)]
    for name in ("f", "g"):  # It says so, and what to do.
        assert f"ptera rewrites {name} for a selector of the slow path" in ran.stderr
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
    place.write(
        "vf.py",
        """
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
        """,
    )
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
