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


def lines(*parts: str) -> str:
    return "\n".join(parts)


def block(text: str) -> str:
    return indent(text, "    ")


names = st.sampled_from(NAMES)
pairs = st.lists(names, min_size=2, max_size=2, unique=True)

simple = st.one_of(
    names.map(lambda n: f"{n} = tick()"),
    pairs.map(lambda p: f"{p[0]} = {p[1]} = tick()"),
    pairs.map(lambda p: f"{p[0]}, {p[1]} = ticks(2)"),
    pairs.map(lambda p: f"({p[0]},\n *{p[1]}) = (\n    ticks(3)\n)"),
    names.map(lambda n: f"{n} += tick()"),
    names.map(lambda n: f"{n}: int = tick()"),
    names.map(lambda n: f"del {n}"),
    names.map(lambda n: f"use({n})"),
    names.map(lambda n: f"use(({n} := tick()),\n    tick())"),
    names.map(lambda n: f"[({n} := tick()) for _ in range(2)]"),
    names.map(lambda n: f"def inner(): return {n}"),
    names.map(lambda n: f"return {n}"),
    st.just("return"),
    st.just("return use(\n    tick())"),
    st.just("raise Boom(tick())"),
    st.just("assert flip()"),
    st.just("pass"),
)
yields = st.one_of(names.map(lambda n: f"{n} = yield tick()"), st.just("yield tick()"))
leaves = st.sampled_from(["break", "continue"])


def compound(body: st.SearchStrategy[str], looped: st.SearchStrategy[str]) -> Any:
    """Statements with blocks; the blocks of loops may be left."""
    one = st.tuples(names, body, body)
    return st.one_of(
        one.map(lambda t: lines("if flip():", block(t[1]), "else:", block(t[2]))),
        st.tuples(names, looped, body).map(
            lambda t: lines(f"for {t[0]} in ticks(2):", block(t[1]), "else:", block(t[2]))
        ),
        looped.map(lambda t: lines("while more():", block(t))),
        st.tuples(names, looped).map(
            lambda t: lines(f"while ({t[0]} := tick()) and more():", block(t[1]))
        ),
        one.map(lambda t: lines(f"with manager() as {t[0]}:", block(t[1]))),
        st.tuples(pairs, body).map(
            lambda t: lines(f"with manager() as {t[0][0]}, manager() as {t[0][1]}:", block(t[1]))
        ),
        one.map(lambda t: lines("try:", block(t[1]), f"except Boom as {t[0]}:", block(t[2]))),
        one.map(lambda t: lines("try:", block(t[1]), "finally:", block(t[2]))),
        st.tuples(pairs, body, body).map(
            lambda t: lines(
                "match ticks(2):",
                block(lines(f"case [{t[0][0]}, {t[0][1]}] if flip():", block(t[1]))),
                block(lines(f"case {t[0][0]}:", block(t[2]))),
            )
        ),
    )


def bodies(statements: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(statements, min_size=1, max_size=4).map("\n".join)


def _programs(leaf: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    looped = bodies(st.one_of(leaf, leaves))
    return st.recursive(
        bodies(leaf),
        lambda inner: bodies(st.one_of(leaf, compound(inner, st.one_of(inner, looped)))),
        max_leaves=6,
    )


functions = _programs(simple).map(lambda body: f"def f(a, *, b=0):\n{block(body)}\n")
generators = _programs(st.one_of(simple, yields)).map(
    lambda body: f"def f(a, *, b=0):\n{block(body)}\n    yield\n"
)


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
