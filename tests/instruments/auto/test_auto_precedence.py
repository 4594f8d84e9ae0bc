"""What a voirfile or a script tells itself wins over what is seen; nothing is counted twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from instruments.early_stop import instrument_stop
from overseer import Overseer

from .conftest import SCRIPTS, Watched, explained, watched

STEP = "//train(inp as batch) > #endloop_inp as step"
LOSS = "//train > loss"
PAIR = "//train(inp as batch, !#loop_inp as compute_start, !!#endloop_inp as compute_end)"
STEPS, ITEMS = 21, 150


def giving(*selectors: str) -> Callable[[Overseer], Iterator[Any]]:
    """An instrument that gives what these probes see."""

    def instrument_probes(ov: Overseer) -> Iterator[Any]:
        yield ov.phases.load_script
        for selector in selectors:
            ov.probe(selector).give()

    return instrument_probes


class Count:
    """Counts given events by key."""

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}

    def __call__(self, ov: Overseer) -> None:
        ov.listen(self.take)

    def take(self, event: dict[str, Any]) -> None:
        for key in event:
            self.keys[key] = self.keys.get(key, 0) + 1


def run(*selectors: str, options: tuple[str, ...] = ()) -> tuple[Watched, dict[str, int]]:
    count = Count()
    instruments = (giving(*selectors), count)
    return watched("function_loop.py", *options, instruments=instruments), count.keys


@pytest.mark.parametrize(
    ("selectors", "losses", "steps"),
    [
        ((), STEPS, STEPS),
        ((STEP,), STEPS, STEPS),
        ((LOSS,), STEPS, STEPS),
        ((STEP, LOSS), STEPS, STEPS),
        ((PAIR,), STEPS, 0),
        ((PAIR, STEP, LOSS), STEPS, STEPS),
        (("//train(inp as batch) > loss",), STEPS, STEPS),
    ],
    ids=["none", "step", "loss", "step and loss", "pair", "all", "loss with batch"],
)
def test_each_step_and_loss_is_given_once(
    selectors: tuple[str, ...], losses: int, steps: int
) -> None:
    seen, keys = run(*selectors)
    train = seen.tasks["train"]
    assert (train["steps"], train["items"]) == (STEPS, ITEMS)
    assert (keys.get("loss"), keys.get("step", 0)) == (losses, steps)
    truth = seen.truth["losses"]
    assert train["loss"]["first"] == pytest.approx(truth[0])
    assert train["loss"]["last"] == pytest.approx(truth[-1])


def test_a_voirfile_of_before_finds_its_key_in_each_of_its_events() -> None:
    found: dict[str, Any] = {}

    def instrument_losses(ov: Overseer) -> Iterator[Any]:
        yield ov.phases.load_script
        ov.probe(LOSS).give()
        ov.given["loss"].count().subscribe(lambda n: found.update(n=n))
        ov.given["loss"].last().subscribe(lambda loss: found.update(last=float(loss)))

    seen = watched("function_loop.py", instruments=(instrument_losses,))
    assert seen.problems == []
    assert found == {"n": STEPS, "last": pytest.approx(seen.truth["losses"][-1])}


def test_who_begins_later_is_given_way_to_from_then_on() -> None:
    def instrument_late(ov: Overseer) -> Iterator[Any]:
        yield ov.phases.load_script
        seen = []

        def tell(event: dict[str, Any]) -> None:
            seen.append(event)
            if len(seen) > 10:
                ov.give(**event)

        ov.probe(STEP).subscribe(tell)

    seen = watched("function_loop.py", instruments=(instrument_late,))
    assert seen.tasks["train"]["steps"] in (STEPS, STEPS + 1)  # One iteration may show both.


def test_steps_of_another_task_take_nothing_away() -> None:
    def instrument_eval(ov: Overseer) -> Iterator[Any]:
        yield ov.phases.load_script
        own = ov.probe("//main > epoch")
        own.subscribe(lambda event: None)
        ov.probe("/telling/Truth/step > self").subscribe(
            lambda event: ov.give(task="eval", step=True, batch_size=3)
        )

    seen = watched("function_loop.py", instruments=(instrument_eval,))
    assert seen.tasks["train"]["steps"] == STEPS
    assert seen.tasks["eval"]["items"] == 3 * STEPS


def test_an_evaluation_that_is_told_of_is_counted_once() -> None:
    def instrument_eval(ov: Overseer) -> Iterator[Any]:
        yield ov.phases.load_script
        probe = ov.probe("/telling/Truth/other > items")
        probe.subscribe(lambda event: ov.give(task="eval", step=True, batch_size=event["items"]))

    seen = watched("trainer_class.py", instruments=(instrument_eval,))
    steps, _ = seen.truth["others"]["eval"]
    # The first two passes may be over before anybody tells of them.
    assert steps <= seen.tasks["eval"]["steps"] <= steps + 2
    assert seen.tasks["train"]["steps"] == seen.truth["steps"]


def test_passes_that_a_voirfile_counts_as_steps_are_counted_once() -> None:
    seen = watched("inference.py", instruments=(giving("//(x as batch) > #endloop_x as step"),))
    assert {name: task["steps"] for name, task in seen.tasks.items()} == {"train": 7}


def test_what_the_script_gives_itself_counts(tmp_path: Path) -> None:
    text = (SCRIPTS / "function_loop.py").read_text()
    text = text.replace("import torch\n", "import torch\nfrom voir import give\n", 1)
    text = text.replace(
        "truth.step(len(inp), loss)",
        "truth.step(len(inp), loss)\n        give(step=True, batch_size=2 * len(inp), loss=loss)",
    )
    for name in ("telling.py",):
        (tmp_path / name).write_text((SCRIPTS / name).read_text())
    (tmp_path / "main.py").write_text(text)
    seen = watched(tmp_path / "main.py")
    assert (seen.tasks["train"]["steps"], seen.tasks["train"]["items"]) == (STEPS, 2 * ITEMS)


@pytest.mark.parametrize("selectors", [(), (STEP,), (LOSS,)], ids=["none", "step", "loss"])
def test_stop_ends_the_script_after_so_many_steps(selectors: tuple[str, ...]) -> None:
    count = Count()
    seen = watched(
        "function_loop.py", "--stop", "5",
        instruments=(instrument_stop, giving(*selectors), count),
    )  # fmt: skip
    assert seen.overseer.stopped_early
    assert seen.error is None
    assert seen.tasks["train"]["steps"] == 5


def test_no_auto_turns_it_off() -> None:
    seen, keys = run(options=("--no-auto",))
    assert seen.tasks == {}
    assert keys == {}


MANY = """
import json
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
loader = DataLoader(TensorDataset(torch.ones(400, 4)), batch_size=4)
steps = 0
try:
    for epoch in range(3):
        for (x,) in loader:
            loss = model(x).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
finally:
    print(json.dumps({"steps": steps, "loss": loss.item()}))
"""


def many(tmp_path: Path, *options: str, **more: Any) -> Watched:
    """Three hundred short steps, of which most are only counted."""
    script = tmp_path / "main.py"
    script.write_text(MANY)
    return watched(script, *options, **more)


def listening(*keys: str, free: bool = False) -> Callable[[Overseer], None]:
    """An instrument that listens to these keys by a callable that is free of locks, or not."""

    class Listener:
        def __call__(self, event: dict[str, Any]) -> None:
            """Hear an event."""

    listener = Listener()
    listener.free = free  # type: ignore[attr-defined]
    return lambda ov: ov.listen(listener, *keys)


def subscribing(ov: Overseer) -> None:
    """An instrument that has giving's stream."""
    ov.given["loss"].subscribe(lambda loss: None)


LISTENERS: dict[str, tuple[Any, ...]] = {
    "nobody": (),
    "all": (listening(),),
    "step": (listening("step"),),
    "loss": (listening("loss"),),
    "sizes": (listening("step", "batch_size"),),
    "free": (listening("step", free=True),),
    "both": (listening("loss"), listening("step", free=True)),
    "giving": (subscribing,),
    "giving and a listener": (subscribing, listening("step")),
}


@pytest.mark.parametrize("instruments", LISTENERS.values(), ids=LISTENERS)
def test_who_else_listens_changes_nothing(tmp_path: Path, instruments: tuple[Any, ...]) -> None:
    seen = many(tmp_path, instruments=instruments)
    train = seen.tasks["train"]
    assert (seen.truth["steps"], train["steps"], train["items"]) == (300, 300, 1200)
    assert train["loss"]["last"] == pytest.approx(seen.truth["loss"])
    assert "pause" not in train or explained(train["pause"]) in (0, 2)


@pytest.mark.parametrize("n", [20, 33, 34, 35, 100, 250])
def test_a_stop_is_exact_however_many_steps_were_only_counted(tmp_path: Path, n: int) -> None:
    seen = many(tmp_path, "--stop", str(n), instruments=(instrument_stop,))
    assert seen.overseer.summary["tasks"]["train"]["steps"] == n
    assert seen.truth["steps"] == n - 1  # It ends in the optimizer's step.


SEVERAL = """
import torch
from torch.utils.data import DataLoader, TensorDataset

def train(data):
    for (inp,) in data:
        {body}

model, other = torch.nn.Linear(4, 1), torch.nn.Linear(1, 4)
optimizer, its = (torch.optim.SGD(m.parameters(), lr=0.01) for m in (model, other))
data = torch.randn(60, 4)
train({data})
"""
#: An adversary, and as many steps for each batch as some learn from it again.
ADVERSARY = """
        loss = model(inp).mean() - model(other(torch.randn(6, 1)).detach()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = -model(other(torch.randn(6, 1))).mean()
        its.zero_grad()
        loss.backward()
        its.step()
"""
AGAIN = """
        for again in range(3):
            loss = model(inp).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize("body", [ADVERSARY, AGAIN])
@pytest.mark.parametrize("data", ["DataLoader(TensorDataset(data), 6)", "data.split(6)"])
def test_steps_of_several_optimizers_or_several_to_a_batch_are_given_once(
    tmp_path: Path, body: str, data: str
) -> None:
    script = tmp_path / "main.py"
    data = data if "Loader" in data else f"[(part,) for part in {data}]"
    script.write_text(SEVERAL.format(body=body.strip(), data=data))
    count = Count()
    seen = watched(script, instruments=(giving(STEP, LOSS), count))
    assert seen.error is None
    train = seen.tasks["train"]
    assert (train["steps"], train["items"]) == (10, 60)
    assert count.keys["step"] == 10
    assert count.keys["loss"] == (20 if body is ADVERSARY else 30)


@pytest.mark.parametrize("data", ["DataLoader(TensorDataset(data), 6)", "data.split(6)"])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_stop_comes_when_all_optimizers_of_a_step_have_stepped(
    tmp_path: Path, data: str, n: int
) -> None:
    script = tmp_path / "main.py"
    data = data if "Loader" in data else f"[(part,) for part in {data}]"
    body = ADVERSARY.strip().replace("its.step()", "its.step(); print('done')")
    script.write_text(SEVERAL.format(body=body, data=data))
    seen = watched(script, "--stop", str(n), instruments=(instrument_stop,))
    assert seen.output == "done\n" * n
    assert (seen.tasks["train"]["steps"], seen.tasks["train"]["items"]) == (n, 6 * n)


EVALUATED = """
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def evaluate(data):
    model.eval()
    with torch.no_grad():
        for (part,) in data:
            model(part)
    model.train()

def train(data, held_out):
    for number, (inp,) in enumerate(data):
        loss = model(inp).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % 4 == {when}:
            evaluate(held_out)

train({data}, {held_out})
"""
PASSES = "//evaluate(part as batch) > #endloop_part as step"


@pytest.mark.parametrize("probes", [(STEP,), (STEP, LOSS), (STEP, PASSES), (PASSES,), ()])
@pytest.mark.parametrize("when", [0, 3])
@pytest.mark.parametrize(
    "data", [("DataLoader(TensorDataset({}), {})"), "[(t,) for t in {}.split({})]"]
)
def test_evaluations_within_iterations_are_counted_once_whoever_tells_of_them(
    tmp_path: Path, probes: tuple[str, ...], when: int, data: str
) -> None:
    script = tmp_path / "main.py"
    loaders = {
        "data": data.format("torch.randn(72, 4)", 6),
        "held_out": data.format("torch.randn(15, 4)", 5),
    }
    script.write_text(EVALUATED.format(when=when, **loaders))

    def instrument_probes(ov: Overseer) -> Iterator[Any]:
        yield ov.phases.load_script
        for selector in probes:
            probe = ov.probe(selector)
            (probe.map(lambda e: {**e, "task": "eval"}) if selector == PASSES else probe).give()

    seen = watched(script, instruments=(instrument_probes,))
    assert seen.error is None
    tasks = {name: [task["steps"], task["items"]] for name, task in seen.tasks.items()}
    assert tasks == {"train": [12, 72], "eval": [9, 45]}
