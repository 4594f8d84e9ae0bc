"""Every way to bind a name, under voir: the same program as under python, and exactly its events.

Each case is a program and, by selector, the values that a probe on it must see, in order.
"""

# ruff: noqa: E501

from __future__ import annotations

import json
from pathlib import Path

import pytest

from overseer.recorder import recorder
from tests.running import Place

CASES: dict[str, tuple[str, dict[str, list[object]]]] = {
    "plain and chained": (
        "def f():\n    x = y = 1\n    x = x + 1\n    return x\nprint(f())",
        {"//f > x": [1, 2], "//f > y": [1]},
    ),
    "augmented": ("def f():\n    x = 1\n    x += 4\n    return x\nprint(f())", {"//f > x": [1, 5]}),
    "annotated, with and without a value": (
        "def f():\n    x: int = 3\n    y: int\n    return x\nprint(f())",
        {"//f > x": [3]},
    ),
    "walrus": (
        "def f():\n    if (n := 4) > 3:\n        pass\n    return [m := i for i in range(3)], m\nprint(f())",
        {"//f > n": [4], "//f > m": [0, 1, 2]},
    ),
    "tuples, stars, nesting": (
        "def f():\n    a, (b, *c) = 1, (2, 3, 4)\n    [d, e] = iter([5, 6])\n    return a\nprint(f())",
        {"//f > a": [1], "//f > b": [2], "//f > c": [[3, 4]], "//f > d": [5], "//f > e": [6]},
    ),
    "a wrong unpacking fails as ever": (
        "def f():\n    a, b = 1, 2\n    try:\n        a, b = 7, 8, 9\n    except ValueError as e:\n"
        "        print(e)\n    return a\nprint(f())",
        {"//f > a": [1]},
    ),
    "for, with break, continue and else": (
        "def f():\n    for i in range(5):\n        if i == 1: continue\n        if i == 3: break\n"
        "    else:\n        print('no')\n    return i\nprint(f())",
        {"//f > i": [0, 1, 2, 3], "//f > #endloop_i": [True] * 4, "//f > #loop_i": [True] * 4},
    ),
    "while, by a variable of its body": (
        "def f():\n    n = 3\n    while n:\n        n -= 1\nprint(f())",
        {"//f > n": [3, 2, 1, 0], "//f > #endloop_n": [True] * 3},
    ),
    "with": (
        "import contextlib\ndef f():\n    with contextlib.nullcontext((1, 2)) as (a, b):\n        pass\n"
        "    return b\nprint(f())",
        {"//f > a": [1], "//f > b": [2]},
    ),
    "except as": (
        "def f():\n    try:\n        1 / 0\n    except ZeroDivisionError as e:\n        text = str(e)\n"
        "    return text\nprint(f())",
        {"//f > text": ["division by zero"]},
    ),
    "import as": (
        "def f():\n    import math as m\n    from os import sep\n    x = m.floor(2.5)\n    return x\nprint(f())",
        {"//f > x": [2], "//f > sep": ["/"]},
    ),
    "match": (
        "def f(v):\n    match v:\n        case {'a': a, **rest}:\n            return a\n"
        "        case [first, *others]:\n            return first\nprint(f({'a': 1, 'b': 2}), f([3, 4]))",
        {"//f > a": [1], "//f > rest": [{"b": 2}], "//f > first": [3], "//f > others": [[4]]},
    ),
    "parameters of every kind": (
        "def f(a, /, b=2, *c, d=4, **e):\n    return a\nprint(f(1), f(5, 6, 7, d=8, z=9))",
        {
            "//f > a": [1, 5],
            "//f > b": [2, 6],
            "//f > c": [[], [7]],
            "//f > d": [4, 8],
            "//f > e": [{}, {"z": 9}],
        },
    ),
    "global and nonlocal": (
        "G = 0\ndef f():\n    global G\n    G = 5\n    n = 1\n    def g():\n        nonlocal n\n        n = 2\n"
        "    g()\n    return n\nprint(f(), G)",
        {"//f > G": [5], "//f > n": [1], "//f/g > n": [2]},
    ),
    "methods of every kind": (
        "class A:\n    def m(self):\n        x = 1\n        return x\n    @staticmethod\n    def s():\n"
        "        y = 2\n        return y\n    @classmethod\n    def c(cls):\n        z = 3\n        return z\n"
        "    @property\n    def p(self):\n        w = 4\n        return w\nprint(A().m(), A.s(), A.c(), A().p)",
        {"//A/m > x": [1], "//A/s > y": [2], "//A/c > z": [3], "//A/p > w": [4]},
    ),
    "private names": (
        "class A:\n    def m(self):\n        __x = 1\n        return __x\nprint(A().m())",
        {"//A/m > __x": [1]},
    ),
    "generators": (
        "def f():\n    for i in range(2):\n        got = yield i\ng = f()\nprint(next(g), g.send('s'))",
        {"//f > got": ["s"], "//f > i": [0, 1]},
    ),
    "async functions": (
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    x = 1\n    return x\nprint(asyncio.run(f()))",
        {"//f > x": [1]},
    ),
    "closures, each of them": (
        "def make(k):\n    def add(n):\n        total = n + k\n        return total\n    return add\n"
        "a, b = make(1), make(10)\nprint(a(1), b(1), a(2))",
        {"//make/add > total": [2, 11, 3]},
    ),
    "decorated and cached": (
        "import functools\n@functools.lru_cache\ndef f(n):\n    x = n * 2\n    return x\nprint(f(1), f(1), f(2))",
        {"//f > x": [2, 4]},
    ),
    "defined after other code has run": (
        "print('first')\ndef f():\n    x = 1\n    return x\nprint(f())",
        {"//f > x": [1]},
    ),
    "defined twice": (
        "def f():\n    x = 1\n    return x\na = f()\ndef f():\n    x = 2\n    return x\nprint(a, f())",
        {"//f > x": [1, 2]},
    ),
    "the script's top level": (
        "import os\nfor epoch in range(3):\n    loss = epoch * 2\nprint(loss)",
        {"// > loss": [0, 2, 4], "// > epoch": [0, 1, 2], "// > #endloop_epoch": [True] * 3},
    ),
    "markers": (
        "def f(n):\n    if n: raise KeyError(n)\n    return 7\nf(0)\ntry:\n    f(1)\nexcept KeyError: pass\nprint('x')",
        {"//f > #value": [7], "//f > #enter": [True, True]},
    ),
    "a default is evaluated once": (
        "def d():\n    print('evaluated')\n    return []\ndef f(a=d()):\n    a.append(1)\n    n = len(a)\n    return n\n"
        "print(f(), f())",
        {"//f > n": [1, 2]},
    ),
    "super, and a class in a function": (
        "class A:\n    def m(self):\n        return 1\ndef f():\n    class B(A):\n        def m(self):\n"
        "            x = super().m() + 1\n            return x\n    return B().m()\nprint(f())",
        {"//f/B/m > x": [2]},
    ),
    "a deleted variable": (
        "def f():\n    x = 1\n    del x\n    return 'gone'\nprint(f())",
        {"//f > x": [1]},
    ),
    "a module imported later, and the standard library": (
        "import json, helper\nprint(helper.work(2), json.dumps([1]))",
        {"/helper/work > result": [4], "/helper > READY": [True]},
    ),
}

VOIRFILE = """
import json

def instrument_probes(ov):
    yield ov.phases.parse_args
    seen = {selectors!r}
    for selector in seen:
        name = selector.rpartition(" > ")[2]
        def add(event, selector=selector, name=name):
            seen[selector].append(event[name])
        ov.probe(selector).subscribe(add)
    yield ov.phases.finalize
    with open("events.json", "w") as file:
        json.dump(seen, file)
"""


@pytest.mark.parametrize(("program", "expected"), CASES.values(), ids=CASES.keys())
def test_the_program_is_the_same_and_its_events_are_seen(
    tmp_path: Path, program: str, expected: dict[str, list[object]]
) -> None:
    place = Place(tmp_path)
    place.write(
        "helper.py", "READY = bool(1)\ndef work(n):\n    result = n * n\n    return result\n"
    )
    (tmp_path / "main.py").write_text(program + "\n")
    empty: dict[str, list[object]] = {selector: [] for selector in expected}
    place.write("vf.py", VOIRFILE.replace("{selectors!r}", repr(empty)))
    plain = place.python("main.py")
    under = place.voir("--quiet", "--no-record", "--voirfile", "vf.py", "main.py")
    assert under == plain, under.stderr
    assert json.loads((tmp_path / "events.json").read_text()) == expected


def test_a_function_that_the_slow_path_has_rewritten_takes_no_other_probe(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "main.py",
        "def g(x):\n    y = x * 2\n    return y\n\n\ndef f(n):\n    for i in range(n):\n        g(i)\n"
        "\n\nf(3)\n",
    )
    place.write(
        "voirfile.py",
        "def instrument_probes(ov):\n    yield ov.phases.load_script\n"
        '    ov.probe("//f > //g > y").subscribe(lambda event: print("slow", event))\n'
        '    ov.probe("//g > y").subscribe(lambda event: print("after", event))\n'
        '    ov.probe("//f > i").subscribe(lambda event: print("beside", event))\n',
    )
    ran = place.voir("main.py")
    assert ran.status == 0, ran.stderr
    assert ran.stdout.splitlines() == [f"slow {{'y': {2 * i}}}" for i in range(3)]
    for name in ("f", "g"):  # It says so, and what to do.
        assert f"ptera rewrites {name} for a selector of the slow path" in ran.stderr
    assert ran.stderr.count("watch this variable with a slow selector too") == 2


def test_a_run_whose_probe_ptera_cannot_serve_is_recorded_to_its_end(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", "def f():\n    x = 1\n\n\nf()\n")
    place.write(
        "voirfile.py",
        """
        def instrument_probes(ov):
            yield ov.phases.load_script
            ov.probe("//f > x > y").give()
            ov.probe("//f > x as loss").give()
        """,
    )
    ran = place.voir("main.py")
    assert (ran.status, "failed:" in ran.stderr) == (0, False)
    run = place.record()
    assert run["probes"][0]["state"] == "unresolved"
    assert "ended" in run and run["overhead"]["recorder"] == recorder.NAME
