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
def fetch():
    if flip():
        return tick()
    raise Boom(tick())
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


#: Python 3.10 does not agree with itself about the lines of targets, and of several managers.
SPREAD = (
    "({}, *{}) = (\n    ticks(3)\n)"
    if sys.version_info < (3, 11)
    else "({},\n *{}) = (\n    ticks(3)\n)"
)


def lines(*parts: str) -> str:
    return "\n".join(parts)


def two_managers(first: str, second: str, body: str) -> str:
    """``body`` under two context managers: of one statement, but for Python 3.10."""
    if sys.version_info < (3, 11):
        inner = lines(f"with manager() as {second}:", body)
        return lines(f"with manager() as {first}:", block(inner))
    return lines(f"with manager() as {first}, manager() as {second}:", body)


def fetching(name: str, body: str, leave: str) -> str:
    """A loop that fetches what it works on in its body."""
    tried = lines("try:", f"    {name} = fetch()", "except Boom:", f"    {leave}")
    return lines("while more():", block(lines(tried, body)))


def working(name: str, body: str, leave: str, rest: str) -> str:
    """A loop that works with it where it fetches it, and behind that."""
    tried = lines("try:", block(lines(f"{name} = fetch()", f"use({name})", body)))
    handler = lines("except Boom:", f"    {leave}")
    return lines("while more():", block(lines(tried, handler, rest)))


def block(text: str) -> str:
    return indent(text, "    ")


names = st.sampled_from(NAMES)
pairs = st.lists(names, min_size=2, max_size=2, unique=True)

simple = st.one_of(
    names.map(lambda n: f"{n} = tick()"),
    pairs.map(lambda p: f"{p[0]} = {p[1]} = tick()"),
    pairs.map(lambda p: f"{p[0]}, {p[1]} = ticks(2)"),
    pairs.map(lambda p: SPREAD.format(*p)),
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
        st.tuples(names, looped, leaves).map(lambda t: fetching(*t)),
        st.tuples(names, looped, leaves, looped).map(lambda t: working(*t)),
        st.tuples(names, looped).map(
            lambda t: lines(f"while ({t[0]} := tick()) and more():", block(t[1]))
        ),
        one.map(lambda t: lines(f"with manager() as {t[0]}:", block(t[1]))),
        st.tuples(pairs, body).map(lambda t: two_managers(*t[0], block(t[1]))),
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


#: A loop that takes batches by hand, and notes what becomes of each.
BY_HAND = """
log = []
class Boom(Exception):
    pass
class quiet:
    def __enter__(self):
        return self
    def __exit__(self, *error):
        return False
def source():
    for number in range(1, 8):
        log.append("fetch")
        yield number
def turn():
    log.append("turn")
    if log.count("turn") > 30:
        raise OverflowError
def work(batch):
    log.append("work")
    return batch
def note(*values):
    log.append("note")
"""

_working = ["work(batch)", "loss = work(batch)"]
_doing = [*_working, "n += 1", "note()", "other = 1", "if n < 0:\n    done = True"]
_leaving = [
    "if batch % 3 == 0:\n    continue",
    "if batch == 5:\n    break",
    "if batch == 5:\n    return",
    "if batch == 5:\n    return note()",
    "if batch % 3 == 1:\n    raise Boom",
    "for one in (1, 2):\n    if batch % 2:\n        break\n    work(batch)",
    "for one in (1, 2):\n    if batch == 4:\n        return\nelse:\n    continue",
    "try:\n    if batch % 3 == 0:\n        continue\nfinally:\n    note()",
    "with quiet():\n    if batch % 3 == 0:\n        continue",
    "try:\n    if batch % 3 == 0:\n        raise Boom\nexcept Boom:\n    continue",
]
_work, _leave = st.sampled_from(_working), st.sampled_from(_leaving)
_optional = st.one_of(
    st.tuples(_work, _leave).map("\n".join),
    st.lists(st.sampled_from(_doing), min_size=1, max_size=2).map("\n".join),
    st.tuples(_leave, _work, st.sampled_from(_doing)).map("\n".join),
    _leave,
    st.just(""),
)
_ends = st.sampled_from(["break", "return", "done = True", "note()\nbreak"])
_asks = st.sampled_from(["batch is None", "not batch", "batch is None or n > 90"])
_failing = st.sampled_from(["", "pass", "note()", "continue", "break", "n += 1\ncontinue"])
_finally = st.sampled_from(["", "pass", "n += 1", "note()"])


def _clause(head: str, body: str) -> str:
    return lines(head, block(body)) + "\n" if body else ""


def _tries(end: str, failing: str, parts: list[str], last: str) -> str:
    within, otherwise, rest = parts
    tried = lines("try:", block(lines("batch = next(it)", within)), "except StopIteration:")
    clauses = _clause("except Boom:", failing) + _clause("else:", otherwise)
    clauses += _clause("finally:", last)
    told = "if done:\n    break\n" if end == "done = True" and not failing else ""
    return f"{tried}\n{block(end)}\n{clauses}{told}{rest}"


def _asked(ask: str, end: str, before: str, parts: list[str]) -> str:
    return lines("batch = next(it, None)", before, _clause(f"if {ask}:", end), *parts)


def _chosen(end: str, parts: list[str]) -> str:
    held = _clause("if batch is None:", end) + _clause("else:", parts[0] or "pass")
    return lines("batch = next(it, None)", held, parts[1] if end != "done = True" else "n += 1")


def _looped(body: str) -> str:
    body = block(lines("turn()", body))
    return f"def f(it):\n    n, done = 0, False\n    while not done:\n{block(body)}\n"


def _managed(body: str, rest: str) -> str:
    return lines("with quiet():", block(body), rest)


def _carried(body: str, rest: str) -> str:
    body = lines("turn()", body, "batch = next(it, None)", rest)
    head = "def f(it):\n    n, done = 0, False\n    batch = next(it, None)\n"
    return f"{head}    while batch is not None:\n{block(block(body))}\n"


_three = st.lists(_optional, min_size=3, max_size=3)
_leavers = st.sampled_from(["break", "return", "note()\nbreak"])
_asking = st.builds(_asked, _asks, _leavers, st.sampled_from(["", "n += 1", "note()"]), _three)
by_hand = st.one_of(
    st.builds(_tries, _ends, _failing, _three, _finally).map(_looped),
    st.builds(_tries, _leavers, _failing, _three, _finally).map(_looped),
    _asking.map(_looped),
    st.builds(_chosen, _ends, _three).map(_looped),
    st.builds(_managed, _asking, _optional).map(_looped),
    st.builds(_carried, _optional, st.sampled_from(["", "n += 1", "note()"])),
)


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


def line_events(namespace: dict[str, Any]) -> list[tuple[str, int | None]]:
    """What a tracer sees of ``f``: calls, lines, returns and exceptions."""
    events: list[tuple[str, int | None]] = []

    def local(frame: FrameType, event: str, argument: object) -> Any:
        # When an exception leaves a function that has its end probed, no line is to blame.
        events.append((event, None if event == "return" and argument is None else frame.f_lineno))
        return local

    _traced(namespace, lambda frame: local if frame.f_code.co_name == "f" else None, events)
    return events


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
