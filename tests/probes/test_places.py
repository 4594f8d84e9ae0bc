"""Every place code lives: the program is the same with probes there, and their events come."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Make
from .scripts import Script, seen
from .test_events import plain

#: What a script defines, what it does then, and by selector the values that a probe must see.
SPOTS: dict[str, tuple[str, str, dict[str, list[object]]]] = {
    "methods and properties of every kind": ("""
import functools
class A:
    def m(self):
        x = 1
        return x
    @staticmethod
    def s():
        x = 2
        return x
    @classmethod
    def c(cls):
        x = cls.__name__
        return x
    def __call__(self):
        x = 4
        return x
    @property
    def p(self):
        got = 4
        return got
    @p.setter
    def p(self, value):
        put = value
    @functools.cached_property
    def once(self):
        made = 5
        return made
""", "a = A(); a.p = 7; print(a.m(), A.s(), A.c(), a(), a.p, a.once, a.once)",
         {"//A/m > x": [1], "//A/s > x": [2], "//A/c > x": ["A"], "//A/__call__ > x": [4],
          "//A/p > got": [4], "//A/p > put": [7], "//A/once > made": [5]}),
    "decorated": ("""
import functools
def shown(f):
    def wrapper(*args):
        before = args
        return f(*args)
    return wrapper
def kept(f):
    @functools.wraps(f)
    def wrapper(*args):
        return f(*args)
    return wrapper
@shown
def f(n):
    x = n
    return x
@kept
@functools.lru_cache(maxsize=None)
def g(n):
    y = n
    return y
twice = functools.partial(f, 2)
""", "print(f(1), g(3), g(3), twice())",
         {"//f > x": [1, 2], "//g > y": [3], "//shown/wrapper > before": [(1,), (2,)]}),
    "kept by an object, as click keeps a command's function": ("""
class Command:
    def __init__(self, callback):
        self.callback = callback
    def __call__(self, *args):
        return self.callback(*args)
@Command
def main(n):
    x = n + 1
    return x
""", "print(main(1))",
         {"//main > x": [2]}),
    "nested functions, every closure": ("""
def outer(k):
    def middle():
        def inner(n):
            total = n + k
            return total
        return inner
    return middle()
""", "fs = [outer(1), outer(10)]\nprint([f(n) for f in fs for n in (1, 2)])",
         {"//outer/middle/inner > total": [2, 3, 11, 12],
          "//outer/middle > inner": ["function", "function"], "//outer > k": [1, 10]}),
    "functions of classes in functions": ("""
def make(k):
    class B:
        size = k
        def m(self):
            x = super().__init__() or k
            return x
    return B
""", "print([make(k)().m() for k in (1, 2)])",
         {"//make/B/m > x": [1, 2], "//make/B > size": [1, 2]}),
    "defined again": ("""
def f():
    x = 1
    return x
first = f
def f():
    x = 2
    return x
""", "print(first(), f())", {"//f > x": [1, 2]}),
    "defined later": ("def f():\n    x = 1\n    return x\n", """
print(f())
def f():
    x = 2
    return x
def g():
    y = 3
    return y
print(f(), g())
""", {"//f > x": [1, 2], "//g > y": [3]}),
    "defined in a loop": ("", """
fs = []
for k in range(2):
    def f(n, k=k):
        x = n + k
        return x
    fs.append(f)
print([f(1) for f in fs])
""", {"//f > x": [1, 2], "// > f": ["function", "function"]}),
}  # fmt: skip
if sys.version_info >= (3, 12):
    SPOTS["with type parameters"] = ("""
def step[T](x: T, *rest: T) -> T:
    y = x
    return y
class Box[T]:
    def put(self, item: T) -> T:
        kept = item
        return kept
def outer[S](s: S):
    def inner[T](t: T) -> tuple[S, T]:
        both = s, t
        return both
    return inner
""", "print(step(1, 2), Box[int]().put(3), outer('s')('t'), step.__type_params__)",
         {"//step > y": [1], "//Box/put > kept": [3], "//step > rest": [(2,)],
          "//outer/inner > both": [("s", "t")]})  # fmt: skip


def run(script: Script, before: Callable[[], None], between: Callable[[], None]) -> Any:
    """Load a script and run it; what it prints, and how it ends."""

    def act() -> None:
        before()
        script.load()
        between()
        script.run()

    return seen(act, script.path)


def nothing() -> None:
    """Without probes."""


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("spot", SPOTS.values(), ids=SPOTS)
def test_code_here_is_seen_whether_it_or_the_probe_was_there_first(
    script: Make, spot: tuple[str, str, dict[str, list[object]]], early: bool
) -> None:
    defines, does, expected = spot
    source = f"{defines}\n{does}\n"
    without = run(script(source), nothing, nothing)
    made, events = script(source), {}

    def probe() -> None:
        events.update({selector: made.probe(selector) for selector in expected})

    assert run(made, *((probe, nothing) if early else (nothing, probe))) == without
    values = {
        s: [plain(v) for event in found for v in event.values()] for s, found in events.items()
    }
    assert values == expected
    assert made.problems == []
