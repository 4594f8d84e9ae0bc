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
    made = ready(script)
    loss, h = made.probe("//step > loss"), made.probe("//step(x as batch) > h")
    result, doubled = made.probe("//step > #value"), made.probe("//inner > doubled")
    run = made.call("compiled(step)")
    for _ in range(3):
        assert float(run(made.main.x, made.main.w)) == 6.0
    assert [float(event["loss"]) for event in loss] == [6.0] * 3
    assert [float(event["#value"]) for event in result] == [6.0] * 3
    assert [event["h"].shape for event in h] == [(2, 3)] * 3
    assert [event["batch"] is made.main.x for event in h] == [True] * 3
    assert len(doubled) == 3
    assert graphs(counters) == (1, {})
    assert made.verdict()["state"] == "fired"


def test_as_many_graphs_are_made_as_without_probes(script: Make, counters: Any) -> None:
    made = ready(script)
    run = made.call("compiled(step)")
    for rows in (2, 2, 5, 5, 7):
        run(torch.ones(rows, 3), made.main.w)
    without = graphs(counters)
    torch._dynamo.reset()
    counters.clear()
    loss = made.probe("//step > loss")
    run = made.call("compiled(step)")
    for rows in (2, 2, 5, 5, 7):
        run(torch.ones(rows, 3), made.main.w)
    assert graphs(counters) == without
    assert len(loss) == 5


def test_values_of_a_compiled_model_are_seen(script: Make, counters: Any) -> None:
    made = ready(script)
    hidden, out = made.probe("//Model/forward > hidden"), made.probe("//Model/forward > out")
    model = made.call("Model()")
    model.compile(backend="eager", fullgraph=True)
    shown = [model(made.main.x) for _ in range(2)]
    assert len(hidden) == 2
    assert all(torch.equal(event["out"], one) for event, one in zip(out, shown, strict=True))
    assert graphs(counters) == (1, {})


def test_every_turn_of_an_unrolled_loop_is_seen(script: Make, counters: Any) -> None:
    made = ready(script)
    totals = made.probe("//loop > total")
    made.call("compiled(loop)([x, x])")
    assert [float(event["total"]) for event in totals] == [0.0, 6.0, 12.0]


@pytest.mark.parametrize(
    "selector",
    ["//loop > #enter", "//loop > #exit", "//loop > #endloop_x", "//loop(!#loop_x, !!#endloop_x)"],
)
def test_what_happens_inside_a_graph_has_no_time_and_the_verdict_says_so(
    script: Make, counters: Any, selector: str
) -> None:
    made = ready(script)
    events = made.probe(selector)
    assert float(made.call("compiled(loop)([x, x])")) == 12.0
    assert events == []
    assert graphs(counters) == (1, {})
    verdict = made.verdict()
    assert verdict["state"] == "compiled away"
    assert verdict["hint"].startswith("inside torch.compile: not seen; markers and pairs have no")


def test_nothing_is_overridden_inside_a_graph_and_the_verdict_says_so(
    script: Make, counters: Any
) -> None:
    made = ready(script)
    probe = made.placed("//step > h", overridable=True)
    probe.intercept(lambda event: event["h"] * 0)
    assert float(made.call("compiled(step)(x, w)")) == 6.0
    assert float(made.call("step(x, w)")) == 0.0
    assert made.verdict()["hint"].startswith("inside torch.compile: not seen")


def test_a_probe_set_when_the_code_is_compiled_already_is_seen(script: Make, counters: Any) -> None:
    made = ready(script)
    run = made.call("compiled(step)")
    run(made.main.x, made.main.w)
    loss = made.probe("//step > loss")
    run(made.main.x, made.main.w)
    assert [float(event["loss"]) for event in loss] == [6.0]


def test_a_listener_that_is_taken_out_hears_nothing_more(script: Make, counters: Any) -> None:
    made = ready(script)
    events: list[Any] = []
    listening = made.placed("//step > loss").listen(events.append)
    run = made.call("compiled(step)")
    run(made.main.x, made.main.w)
    listening.dispose()
    run(made.main.x, made.main.w)
    assert len(events) == 1


def test_a_listener_that_fails_leaves_compiled_code_alone(script: Make, counters: Any) -> None:
    made = ready(script)
    made.placed("//step > loss").listen(lambda event: 1 / 0)
    run = made.call("compiled(step)")
    assert [float(run(made.main.x, made.main.w)) for _ in range(2)] == [6.0, 6.0]
    assert [problem.slug for problem in made.problems] == ["subscriber"]


def test_compiled_code_goes_on_when_the_run_has_ended(script: Make, counters: Any) -> None:
    made = ready(script)
    events = made.probe("//step > loss")
    run = made.call("compiled(step)")
    run(made.main.x, made.main.w)
    made.engine.close()
    assert float(run(made.main.x, made.main.w)) == 6.0
    assert float(run(torch.ones(5, 3), made.main.w)) == 6.0  # Compiled once more, and whole.
    assert len(events) == 1
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


def test_a_listener_is_called_without_being_compiled(script: Make, counters: Any) -> None:
    made = ready(script)
    torch.compile(made.main.broken, backend="eager")(made.main.x)
    without = graphs(counters)
    torch._dynamo.reset()
    counters.clear()
    made.placed("//broken > after").listen(lambda event: (event["after"] + 1).sum())
    torch.compile(made.main.broken, backend="eager")(made.main.x)
    assert graphs(counters) == without


@pytest.mark.parametrize("selector", ["before", "(before) > after", "x", "#value", "#enter"])
def test_code_that_runs_between_graphs_is_left_alone(
    script: Make, counters: Any, selector: str
) -> None:
    made = ready(script)
    listened = torch.compile(made.main.broken, backend="eager")
    listened(made.main.x)
    without = graphs(counters)
    torch._dynamo.reset()
    counters.clear()
    events = made.probe("//broken" + (selector if "(" in selector else f" > {selector}"))
    compiled = torch.compile(made.main.broken, backend="eager")
    for _ in range(3):
        compiled(made.main.x)
    assert graphs(counters) == without
    assert len(events) == (0 if selector == "#enter" else 3)
