"""Whatever the function: with probes it does the same, and its events are what tracing shows."""

from __future__ import annotations

import ast
import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overseer.probes import Engine

from .programs import FILENAME, NAMES, PRELUDE, bindings, functions, generators, run, traced_lines

MOMENTS = ["#enter", "#exit", "#value", "#error"]
LOOPS = [f"{kind}_{name}" for name in NAMES for kind in ("#loop", "#endloop")]
#: What reads a variable that may have no value where branches come together: a tracer may see the
#: line of another branch then.
UNSURE = ["(a, c) > #endloop_b", "(d) > #value", "(a) > #exit", "(a, d) > #error"]
PAIRS = ["(!a, !!b)", "(!#loop_c, !!#endloop_c)", "(!#enter, !!#exit)"]
ALL = [*(f" > {name}" for name in (*NAMES, *MOMENTS, *LOOPS)), "(b) > a", *UNSURE, *PAIRS]

LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)

#: The same examples each time, unless as many as one has time for are asked for.
EXAMPLES = os.environ.get("VOIR_EXAMPLES")
thoroughly = settings(
    max_examples=int(EXAMPLES or 150),
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.fixture(scope="module", autouse=True)
def few_objects() -> Iterator[None]:
    """Leave out of the engine's view what other tests have made: it looks at all objects."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def compiled(source: str, engine: Engine | None = None) -> dict[str, Any]:
    """The namespace of the program, plain or with an engine's probes."""
    tree = ast.parse(PRELUDE + source, FILENAME)
    if engine is not None:
        tree = engine.instrument(tree, "__main__", FILENAME)
    namespace: dict[str, Any] = {}
    exec(compile(tree, FILENAME, "exec", dont_inherit=True), namespace)
    return namespace


def valid(source: str) -> bool:
    """Whether python takes it, and all of it can be reached: the compiler moves lines otherwise."""
    try:
        tree = ast.parse(source)
        compile(PRELUDE + source, FILENAME, "exec", dont_inherit=True)
    except SyntaxError:
        return False
    parts = ("body", "orelse", "finalbody")
    bodies = (getattr(node, part, []) for node in ast.walk(tree) for part in parts)
    return not any(isinstance(one, LEAVES) for body in bodies for one in body[:-1])


def check_events(events: dict[str, list[dict[str, Any]]], plain: dict[str, Any]) -> None:
    """Values are those that tracing shows; what begins, ends once; pairs match."""
    for name in NAMES:
        for selector in (f" > {name}", f"(b) > {name}"):
            if selector in events:
                found = [repr(event[name]) for event in events[selector]]
                assert found == list(map(repr, bindings(plain, name)))
        starts, ends = (events.get(f" > #{kind}_{name}") for kind in ("loop", "endloop"))
        if starts is not None and ends is not None:
            assert len(starts) == len(ends)
    for once in (" > #enter", " > #exit", "(a) > #exit"):
        assert len(events.get(once, [0])) == 1
    for pair in PAIRS:
        begun: set[int] = set()
        for event in events.get(pair, ()):
            change = begun.add if event["$wrap"]["step"] == "begin" else begun.remove
            change(event["$wrap"]["id"])


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@thoroughly
@given(
    st.one_of(functions(), generators()).filter(valid),
    st.lists(st.sampled_from(ALL), min_size=1, max_size=8, unique=True),
)
def test_a_probed_function_does_the_same_and_its_events_are_what_tracing_shows(
    source: str, selectors: list[str]
) -> None:
    plain = compiled(source)
    problems: list[object] = []
    engine = Engine(problems.append)
    events: dict[str, list[dict[str, Any]]] = {selector: [] for selector in selectors}
    for selector, found in events.items():
        engine.probe(f"//f{selector}").listen(found.append)
    try:
        namespace = compiled(source, engine)
        assert run(namespace) == run(plain)
        seen = {selector: len(found) for selector, found in events.items()}
        if set(selectors).isdisjoint(UNSURE):
            assert traced_lines(namespace) == traced_lines(plain)
    finally:
        engine.close()
    for selector, n in seen.items():
        del events[selector][n:]  # Those of the second run.
    check_events(events, plain)
    assert problems == []
