"""Every place code lives: the program is the same with probes there, and their events come."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from .conftest import Make
from .scripts import seen


@dataclass(frozen=True)
class Spot:
    """A program, and by selector the values that a probe must see.

    Attributes:
        defines: What the script begins with: imports and definitions.
        does: What it does then; probes may be set before it or before all.
    """

    name: str
    defines: str
    does: str
    expected: dict[str, list[object]]
    since: tuple[int, int] = (3, 11)

    @property
    def source(self) -> str:
        """The whole program."""
        return f"{self.defines}\n{self.does}\n"


SPOTS = [
    Spot("methods of every kind", """
class A:
    def m(self):
        x = 1
        return x
    @staticmethod
    def s():
        y = 2
        return y
    @classmethod
    def c(cls):
        z = cls.__name__
        return z
    def __call__(self):
        w = 4
        return w
""", "print(A().m(), A.s(), A.c(), A()())",
         {"//A/m > x": [1], "//A/s > y": [2], "//A/c > z": ["A"], "//A/__call__ > w": [4]}),
    Spot("properties", """
import functools
class A:
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
""", "a = A(); a.p = 7; print(a.p, a.once, a.once)",
         {"//A/p > got": [4], "//A/p > put": [7], "//A/once > made": [5]}),
    Spot("decorated", """
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
    Spot("kept by an object, as click keeps a command's function", """
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
    Spot("dataclasses", """
import dataclasses
@dataclasses.dataclass
class D:
    x: int
    def __post_init__(self):
        seen = self.x
    def area(self):
        a = self.x ** 2
        return a
""", "print(D(3).area(), D(3))",
         {"//D/__post_init__ > seen": [3, 3], "//D/area > a": [9]}),
    Spot("nested functions, every closure", """
def outer(k):
    def middle():
        def inner(n):
            total = n + k
            return total
        return inner
    return middle()
""", "fs = [outer(1), outer(10)]\nprint([f(n) for f in fs for n in (1, 2)])",
         {"//outer/middle/inner > total": [2, 3, 11, 12], "//outer/middle > inner": ["f", "f"],
          "//outer > k": [1, 10]}),
    Spot("functions of classes in functions", """
def make(k):
    class B:
        size = k
        def m(self):
            x = super().__init__() or k
            return x
    return B
""", "print([make(k)().m() for k in (1, 2)])",
         {"//make/B/m > x": [1, 2], "//make/B > size": [1, 2]}),
    Spot("defined again", """
def f():
    x = 1
    return x
first = f
def f():
    x = 2
    return x
""", "print(first(), f())", {"//f > x": [1, 2]}),
    Spot("defined later", "def f():\n    x = 1\n    return x\n", """
print(f())
def f():
    x = 2
    return x
def g():
    y = 3
    return y
print(f(), g())
""", {"//f > x": [1, 2], "//g > y": [3]}),
    Spot("defined in a loop", "", """
fs = []
for k in range(2):
    def f(n, k=k):
        x = n + k
        return x
    fs.append(f)
print([f(1) for f in fs])
""", {"//f > x": [1, 2], "// > f": ["f", "f"]}),
    Spot("with type parameters", """
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
          "//outer/inner > both": [("s", "t")]}, since=(3, 12)),
]  # fmt: skip


def plain(value: object) -> object:
    """What stands for a value that has no literal."""
    if isinstance(value, BaseException):
        return type(value).__name__
    return "f" if callable(value) else value


def without_voir(spot: Spot, path: Path) -> tuple[str, str, str]:
    """What the program prints, and how it ends, as plain python."""
    main = ModuleType("__main__")
    main.__dict__["__file__"] = str(path)
    code = compile(spot.source, str(path), "exec", dont_inherit=True)
    before, sys.modules["__main__"] = sys.modules["__main__"], main
    try:
        return seen(lambda: exec(code, main.__dict__), path)
    finally:
        sys.modules["__main__"] = before


def values(events: dict[str, list[dict[str, object]]]) -> dict[str, list[object]]:
    return {
        selector: [plain(value) for event in found for value in event.values()]
        for selector, found in events.items()
    }


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("spot", SPOTS, ids=lambda spot: spot.name)
def test_code_here_is_seen_whether_it_or_the_probe_was_there_first(
    script: Make, spot: Spot, early: bool
) -> None:
    if sys.version_info < spot.since:
        pytest.skip("newer syntax")
    made = script(spot.source)
    expected = without_voir(spot, made.path)
    events: dict[str, list[dict[str, object]]] = {}

    def probe() -> None:
        events.update({selector: made.probe(selector) for selector in spot.expected})

    def act() -> None:
        made.load()
        if not early:
            probe()
        made.run()

    if early:
        probe()
    assert seen(act, made.path) == expected
    assert values(events) == spot.expected
    assert made.problems == []
