"""Whatever the function: it does the same with probes, and the events are what tracing shows."""

from __future__ import annotations

import ast
import gc
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overseer.probes import Engine

from .programs import (
    BY_HAND,
    FILENAME,
    NAMES,
    PRELUDE,
    bindings,
    by_hand,
    functions,
    generators,
    line_events,
    run,
)


@pytest.fixture(scope="module", autouse=True)
def few_objects() -> Iterator[None]:
    """Of all that other tests have left, the engine need not look at anything each time it ends."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


MARKERS = ["#enter", "#exit", "#value", "#error"]
LOOPS = [f"{kind}_{name}" for name in NAMES for kind in ("#loop", "#endloop")]
PAIRS = ["(!#loop_c, !!#endloop_c)", "(!#enter, !!#exit)"]
AROUND = [*(f" > {name}" for name in LOOPS), *PAIRS]
ALONE = [f" > {name}" for name in (*NAMES, *MARKERS)]
#: With these, a tracer may see that a captured variable has no value yet.
TOGETHER = ["(b) > a", "(a, c) > #endloop_b", "(!a, !!b)", "(d) > #value"]


def some(selectors: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(selectors), min_size=1, max_size=8, unique=True)


#: The same examples each time, unless as many as one has time for are asked for.
EXAMPLES = os.environ.get("VOIR_EXAMPLES")

thoroughly = settings(
    max_examples=int(EXAMPLES or (100 if sys.version_info[:2] == (3, 11) else 40)),
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def compiled(source: str, engine: Engine | None = None, prelude: str = PRELUDE) -> dict[str, Any]:
    """The namespace of the program, plain or with an engine's probes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(prelude + source, FILENAME)
        code = compile(tree, FILENAME, "exec", dont_inherit=True)
        if engine is not None:
            tree = engine.instrument(tree, "__main__", FILENAME)
            code = compile(tree, FILENAME, "exec", dont_inherit=True)
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    return namespace


def valid(source: str) -> bool:
    """Whether python takes it: the generator is not that careful about loops."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(PRELUDE + source, FILENAME, "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


class Probed:
    """An engine with probes on ``f``, open for a block."""

    def __init__(self, *selectors: str) -> None:
        self.problems: list[object] = []
        self.engine = Engine(self.problems.append)
        self.events: dict[str, list[Any]] = {}
        for selector in selectors:
            self.events[selector] = []
            self.engine.probe(f"//f{selector}").listen(self.events[selector].append)

    def __enter__(self) -> Probed:
        return self

    def __exit__(self, *exc: object) -> None:
        self.engine.close()
        assert self.problems == []


programs = st.one_of(functions, generators).filter(valid)


@thoroughly
@given(programs, some([*ALONE, *AROUND, *TOGETHER]))
def test_a_probed_function_does_the_same(source: str, selectors: list[str]) -> None:
    without = run(compiled(source))
    with Probed(*selectors) as probed:
        namespace = compiled(source, probed.engine)
        assert run(namespace) == without


never_returning = programs.filter(lambda source: "return" not in source)
#: Python 3.10 gives no line, or another one, to what it does at the end of such blocks.
sure_of_lines = never_returning.filter(lambda source: " as " not in source)
OLD = sys.version_info < (3, 11)
straight = sure_of_lines if OLD else programs
looping = sure_of_lines if OLD else never_returning


@thoroughly
@given(straight, some(ALONE))
def test_a_tracer_sees_the_same_lines(source: str, selectors: list[str]) -> None:
    without = line_events(compiled(source))
    with Probed(*selectors) as probed:
        namespace = compiled(source, probed.engine)
        assert line_events(namespace) == without


@thoroughly
@given(looping, some([*ALONE, *AROUND]))
def test_a_tracer_sees_the_same_lines_of_loops(source: str, selectors: list[str]) -> None:
    without = line_events(compiled(source))
    with Probed(*selectors) as probed:
        namespace = compiled(source, probed.engine)
        assert line_events(namespace) == without


@thoroughly
@given(programs)
def test_events_are_the_bindings_that_tracing_shows(source: str) -> None:
    expected = {name: bindings(compiled(source), name) for name in NAMES}
    with Probed(*(f" > {name}" for name in NAMES)) as probed:
        run(compiled(source, probed.engine))
    for name in NAMES:
        found = [event[name] for event in probed.events[f" > {name}"]]
        assert list(map(repr, found)) == list(map(repr, expected[name]))


@thoroughly
@given(programs)
def test_markers_are_passed_as_often_as_they_should(source: str) -> None:
    with Probed(*(f" > {marker}" for marker in MARKERS), " > #loop_a", " > #endloop_a") as probed:
        run(compiled(source, probed.engine))
    counts = {name.split()[1]: len(events) for name, events in probed.events.items()}
    assert counts["#enter"] == counts["#exit"] == 1
    assert counts["#value"] + counts["#error"] >= 1
    assert counts["#loop_a"] == counts["#endloop_a"]


@thoroughly
@given(programs)
def test_pairs_never_end_without_having_begun(source: str) -> None:
    with Probed("(!a, !!b)", "(!#loop_c, !!#endloop_c)") as probed:
        run(compiled(source, probed.engine))
    for events in probed.events.values():
        begun: set[int] = set()
        for event in events:
            wrap = event["$wrap"]
            if wrap["step"] == "begin":
                begun.add(wrap["id"])
            else:
                begun.remove(wrap["id"])


def told(namespace: dict[str, Any]) -> list[str]:
    """What the loop over batches has noted, and how it has ended."""
    log: list[str] = namespace["log"]
    try:
        namespace["f"](namespace["source"]())
    except Exception as error:
        log.append(repr(error))
    return log


def told_with_marks(source: str, name: str) -> list[str]:
    """The same, and where the iterations begin and end that ``name`` names."""
    log: list[str] = []
    with Probed() as probed:
        for selector, said in ((f"#loop_{name}", "begin"), (f"#endloop_{name}", "end")):
            probe = probed.engine.probe(f"//f > {selector}")
            probe.listen(lambda event, said=said: log.append(said))  # type: ignore[misc]
        namespace = compiled(source, probed.engine, BY_HAND)
        namespace["log"] = log
        return told(namespace)


@thoroughly
@given(by_hand.filter(valid), st.sampled_from(["batch", "batch", "n"]))
def test_all_work_with_a_batch_is_in_the_one_iteration_of_its_turn(source: str, name: str) -> None:
    log = told_with_marks(source, name)
    plain = [entry for entry in log if entry not in ("begin", "end")]
    assert plain == told(compiled(source, prelude=BY_HAND))
    ends = [at for at, entry in enumerate(log) if entry == "end"]
    begins = [at for at, entry in enumerate(log) if entry == "begin"]
    marks = [entry for entry in log if entry in ("begin", "end")]
    assert marks == ["begin", "end"] * len(ends)
    turns = [log[:end].count("turn") for end in ends]
    assert len(set(turns)) == len(turns)
    if name == "batch":
        spans = list(zip(begins, ends, turns, strict=True))
        works = [at for at, entry in enumerate(log) if entry == "work"]
        for at in works:
            around = [turn for begin, end, turn in spans if begin < at < end]
            assert around == [log[:at].count("turn")]
        # Such a loop may go on and on with one batch.
        assert len(spans) <= log.count("fetch") + 1 or log[-1] == "OverflowError()"
