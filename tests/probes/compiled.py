"""Probes in code that ``torch.compile`` compiles: it compiles as before, and values are seen.

The tests are here, and run by ``test_compiled.py`` in a process of their own: torch is half a
million objects, which other tests would walk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import Make
from .scripts import Script

torch: Any = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

SOURCE = """
import torch

def compiled(function):
    return torch.compile(function, backend="eager", fullgraph=True)

def inner(x):
    doubled = x * 2
    return doubled

def step(x, w):
    h = x @ w
    loss = inner(h).mean()
    return loss

def loop(xs):
    total = 0
    for x in xs:
        total = total + x.sum()
    return total

def broken(x):
    before = x + 1
    print("a graph break")
    after = before * 2
    return after

def mixed(batch, pair, model):
    if pair[1] > 2:
        extra = pair[1]
    out = model(batch["x"]) + pair[0]
    return out

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
    def forward(self, inp):
        hidden = self.linear(inp)
        out = torch.relu(hidden)
        return out
"""


@pytest.fixture
def counters() -> Iterator[Any]:
    """What Dynamo counts, from zero."""
    import torch._dynamo as dynamo

    dynamo.reset()
    dynamo.utils.counters.clear()
    yield dynamo.utils.counters
    dynamo.reset()


def ready(script: Make) -> Script:
    made = script(SOURCE).load()
    made.main.__dict__.update(x=torch.ones(2, 3), w=torch.ones(3, 3))
    return made


def graphs(counters: Any) -> tuple[int, dict[str, int]]:
    """How many graphs were made, and why any was broken."""
    return counters["stats"]["unique_graphs"], dict(counters["graph_break"])


def test_values_are_seen_once_a_call_and_the_graph_is_whole(script: Make, counters: Any) -> None:
    made, left = ready(script), []
    loss, h = made.probe("//step > loss"), made.probe("//step(x as batch) > h")
    result, doubled = made.probe("//step > #value"), made.probe("//inner > doubled")
    leaving = made.placed("//step > loss").listen(left.append)
    run = made.call("compiled(step)")
    for _ in range(3):
        assert float(run(made.main.x, made.main.w)) == 6.0
        leaving.dispose()
    assert [float(event["loss"]) for event in loss] == [6.0] * 3
    assert [float(event["#value"]) for event in result] == [6.0] * 3
    assert [event["h"].shape for event in h] == [(2, 3)] * 3
    assert [event["batch"] is made.main.x for event in h] == [True] * 3
    assert (len(doubled), len(left)) == (3, 1)
    assert graphs(counters) == (1, {})
    assert made.verdict(0)["state"] == "fired"


#: A function, a selector, and how often it is seen in five calls.
CALLS = [
    ("step", "//step > loss", 5), ("broken", "//broken > before", 5),
    ("broken", "//broken(before) > after", 5), ("broken", "//broken > x", 5),
    ("broken", "//broken > #value", 5), ("broken", "//broken > #enter", 0),
]  # fmt: skip


@pytest.mark.parametrize(("function", "selector", "n"), CALLS)
def test_as_many_graphs_are_made_as_without_probes_and_listeners_are_not_compiled(
    script: Make, counters: Any, function: str, selector: str, n: int
) -> None:
    made, heard, found = ready(script), [], []

    def listen(event: dict[str, Any]) -> None:
        heard.append(sum((value + 1).sum() for value in event.values()))

    for probed in (False, True):
        torch._dynamo.reset()
        counters.clear()
        if probed:
            made.placed(selector).listen(listen)
        run = torch.compile(getattr(made.main, function), backend="eager")
        for rows in (2, 2, 5, 5, 7):
            run(torch.ones(rows, 3), *[made.main.w] * (function == "step"))
        found.append(graphs(counters))
    assert found[0] == found[1]
    assert len(heard) == n


def test_values_of_a_compiled_model_and_each_turn_of_an_unrolled_loop_are_seen(
    script: Make, counters: Any
) -> None:
    made = ready(script)
    hidden, out = made.probe("//Model/forward > hidden"), made.probe("//Model/forward > out")
    model = made.call("Model()")
    model.compile(backend="eager", fullgraph=True)
    shown = [model(made.main.x) for _ in range(2)]
    assert len(hidden) == 2
    assert all(torch.equal(event["out"], one) for event, one in zip(out, shown, strict=True))
    assert graphs(counters) == (1, {})
    totals = made.probe("//loop > total")
    made.call("compiled(loop)([x, x])")
    assert [float(event["total"]) for event in totals] == [0.0, 6.0, 12.0]


def test_markers_pairs_and_setters_are_not_seen_inside_a_graph_and_the_verdict_says_so(
    script: Make, counters: Any
) -> None:
    made = ready(script)
    events = [made.probe(s) for s in ("//loop > #exit", "//loop(!#loop_x, !!#endloop_x)")]
    made.placed("//step > h", overridable=True).intercept(lambda event: event["h"] * 0)
    assert float(made.call("compiled(loop)([x, x])")) == 12.0
    assert float(made.call("compiled(step)(x, w)")) == 6.0
    assert (events, graphs(counters)) == ([[], []], (2, {}))
    for verdict in made.engine.verdicts():
        assert verdict["state"] == "compiled away"
        assert verdict["hint"].startswith("inside torch.compile: not seen; markers and pairs have")
    assert float(made.call("step(x, w)")) == 0.0


def test_a_listener_that_fails_leaves_compiled_code_alone(script: Make, counters: Any) -> None:
    made = ready(script)
    made.placed("//step > loss").listen(lambda event: 1 / 0)
    run = made.call("compiled(step)")
    assert [float(run(made.main.x, made.main.w)) for _ in range(2)] == [6.0, 6.0]
    assert [problem.slug for problem in made.problems] == ["subscriber"]


def test_a_probe_is_seen_from_when_it_is_set_until_the_run_ends(
    script: Make, counters: Any
) -> None:
    made = ready(script)
    run = made.call("compiled(step)")
    run(made.main.x, made.main.w)
    loss = made.probe("//step > loss")
    run(made.main.x, made.main.w)
    made.engine.close()
    assert float(run(made.main.x, made.main.w)) == 6.0
    assert float(run(torch.ones(5, 3), made.main.w)) == 6.0  # Compiled once more, and whole.
    assert [float(event["loss"]) for event in loss] == [6.0]
    assert graphs(counters)[1] == {}


@pytest.mark.parametrize(
    ("selector", "others"),
    [
        ("//mixed(batch, pair, model) > out", {"batch", "pair", "model"}),
        ("//mixed(batch) > #value as out", {"batch"}),
        ("//mixed(extra) > out", set()),  # It may have no value, and that is not known in a graph.
        ("//mixed(extra) > #value as out", set()),
    ],
)
def test_any_argument_leaves_the_graph_whole(
    script: Make, counters: Any, selector: str, others: set[str]
) -> None:
    made = ready(script)
    model = made.call("Model()")
    batch, pair = {"x": made.main.x}, (made.main.x, 3)
    events = made.probe(selector)
    run = made.call("compiled(mixed)")
    for _ in range(2):
        shown = run(batch, pair, model)
    assert graphs(counters) == (1, {})
    assert [event.keys() - {"out"} for event in events] == [others] * 2
    assert torch.equal(events[1]["out"], shown)
    if others == {"batch", "pair", "model"}:
        assert events[0]["model"] is model
        assert torch.equal(events[0]["batch"]["x"], made.main.x)
        assert events[0]["pair"][1] == 3
    made.call("mixed")(batch, pair, model)
    assert "extra" in events[2] or "extra" not in selector
