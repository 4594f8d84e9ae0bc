"""Small functions for property tests: generated, deterministic, and traced as plain python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from textwrap import indent
from types import FrameType
from typing import Any

from hypothesis import strategies as st

NAMES = ["a", "b", "c", "d"]
FILENAME = "<program>"

#: Every value is new, so that to bind a name is to change it; every choice depends on the count.
PRELUDE = """
count = 0
def tick():
    global count
    count += 1
    return count * 1000
def ticks(n):
    return [tick() for _ in range(n)]
def flip():
    return tick() // 1000 * 7 % 5 < 3
def more():
    return count < 60 and flip()
def use(*values):
    return values
class Boom(Exception):
    pass
class manager:
    def __enter__(self):
        return tick()
    def __exit__(self, kind, error, traceback):
        return kind is Boom and flip()
"""


#: Statements, of two names; ``BODY``, ``ELSE`` and ``LOOP`` are blocks: the last may be left.
SIMPLE = [
    "{a} = tick()", "{a} = {b} = tick()", "{a}, {b} = ticks(2)",
    "({a},\n *{b}) = (\n    ticks(3)\n)", "{a} += tick()", "{a}: int = tick()", "del {a}",
    "use({a})", "use(({a} := tick()),\n    tick())", "[({a} := tick()) for _ in range(2)]",
    "def inner(): return {a}", "return {a}", "return", "return use(\n    tick())",
    "raise Boom(tick())", "assert flip()", "pass",
]  # fmt: skip
COMPOUND = [
    "if flip():\nBODY\nelse:\nELSE",
    "for {a} in ticks(2):\nLOOP\nelse:\nELSE",
    "while more():\nLOOP",
    "while ({a} := tick()) and more():\nLOOP",
    "with manager() as {a}:\nBODY",
    "with manager() as {a}, manager() as {b}:\nBODY",
    "try:\nBODY\nexcept Boom as {a}:\nELSE",
    "try:\nBODY\nfinally:\nELSE",
    "match ticks(2):\n  case [{a}, {b}] if flip():\nBODY\n  case {a}:\nELSE",
]
YIELDS = ["{a} = yield tick()", "yield tick()"]


def statements(templates: list[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.sampled_from(NAMES), min_size=2, max_size=2, unique=True)
    return st.tuples(st.sampled_from(templates), pairs).map(
        lambda one: one[0].replace("{a}", one[1][0]).replace("{b}", one[1][1])
    )


def bodies(statement: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(statement, min_size=1, max_size=4).map("\n".join)


def compound(body: st.SearchStrategy[str], looped: st.SearchStrategy[str]) -> Any:
    def filled(parts: tuple[str, str, str, str]) -> str:
        text, *blocks = parts
        for name, block in zip(("BODY", "ELSE", "LOOP"), blocks, strict=True):
            text = text.replace(name, indent(block, "    "))
        return text

    return st.tuples(statements(COMPOUND), body, body, looped).map(filled)


def functions(*templates: str, end: str = "") -> st.SearchStrategy[str]:
    """Functions of statements like these."""
    leaf = statements([*SIMPLE, *templates])
    looped = bodies(st.one_of(leaf, st.sampled_from(["break", "continue"])))
    programs = st.recursive(
        bodies(leaf),
        lambda inner: bodies(st.one_of(leaf, compound(inner, st.one_of(inner, looped)))),
        max_leaves=6,
    )
    return programs.map(lambda body: f"def f(a, *, b=0):\n{indent(body + end, '    ')}\n")


def generators() -> st.SearchStrategy[str]:
    """Functions that yield."""
    return functions(*YIELDS, end="\nyield")


def run(namespace: dict[str, Any]) -> str:
    """Call ``f`` (to its end, for a generator); its value, or its error with lines."""
    namespace["count"] = 0
    try:
        value = namespace["f"](1)
        value = _driven(value, namespace["tick"]) if hasattr(value, "send") else value
        return f"{_plain(value)} {namespace['count']}"
    except Exception as error:
        at, traceback = [], error.__traceback__
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == FILENAME:
                at.append(traceback.tb_lineno)
            traceback = traceback.tb_next
        return f"{error!r} {at} {error.__context__!r} {namespace['count']}"


def _driven(generator: Any, tick: Callable[[], int]) -> object:
    """Everything the generator yields, and what it returns; it is sent something new each time."""
    given = [next(generator)]
    while True:
        try:
            given.append(generator.send(tick()))
        except StopIteration as stop:
            return [*given, _plain(stop.value)]


def _plain(value: object) -> str:
    return "inner" if callable(value) else repr(value)


def traced_lines(namespace: dict[str, Any]) -> set[int | None]:
    """The lines of ``f`` that a tracer sees, as coverage does."""
    seen: list[int | None] = []

    def local(frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            seen.append(frame.f_lineno)
        return local

    _traced(namespace, lambda frame: local if frame.f_code.co_name == "f" else None, seen)
    return set(seen)


def bindings(namespace: dict[str, Any], name: str) -> list[object]:
    """The values that ``name`` takes in ``f``, seen before and after every instruction."""
    values: list[object] = []
    absent = object()
    last: list[object] = [absent]

    def local(frame: FrameType, event: str, argument: object) -> Any:
        frame.f_trace_opcodes = True
        value = frame.f_locals.get(name, absent)
        if value is absent and frame.f_code.co_name != "f":
            return local  # A comprehension that does not know the name.
        if value is not last[0]:
            last[0] = value
            # None is what the end of an ``except ... as`` leaves for a moment.
            if value is not absent and value is not None:
                values.append(value)
        return local

    _traced(namespace, lambda frame: local if frame.f_code.co_name in _OF_F else None, values)
    return values


_OF_F = ("f", "<listcomp>")


def _traced(
    namespace: dict[str, Any], choose: Callable[[FrameType], Any], results: list[Any]
) -> None:
    def tracer(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename != FILENAME or frame.f_lineno <= PRELUDE.count("\n"):
            return None
        local = choose(frame)
        return local(frame, event, argument) if local is not None else None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        run(namespace)
    finally:
        sys.settrace(before)
