"""What a stream holds of tensors keeps no graph alive, and nothing waits for a device."""

from __future__ import annotations

import gc
import sys
import weakref
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import giving
import pytest

from overseer.holding import MANY, detached
from tests.test_given import Probed, Run

torch = pytest.importorskip("torch", reason="torch comes with the extra [examples]")
Tensor: Any = torch.Tensor

#: Each is set up on the stream of losses.
HOLDERS: dict[str, Callable[[Any], object]] = {
    "accum": lambda s: s.accum(),
    "average": lambda s: s.average(),
    "average of the last": lambda s: s.average(scan=10),
    "average so far": lambda s: s.average(scan=True),
    "average and variance": lambda s: s.average_and_variance(),
    "buffer": lambda s: s.buffer_with_count(50),
    "combine_latest": lambda s: s.combine_latest(s),
    "count": lambda s: s.count(scan=10),
    "delay": lambda s: s.skip_last(10),
    "distinct": lambda s: s.distinct(),
    "kmerge": lambda s: s.as_("loss").kmerge(),
    "kscan": lambda s: s.as_("loss").kscan(),
    "last": lambda s: s.last(),
    "last_or_default": lambda s: s.last_or_default(None),
    "list": lambda s: s.to_list(),
    "max": lambda s: s.max(),
    "max by key": lambda s: s.max(key=float),
    "max so far": lambda s: s.max(scan=True),
    "merged": lambda s: (s | s).average(),
    "min": lambda s: s.min(),
    "min by key": lambda s: s.min(key=float),
    "min so far": lambda s: s.min(scan=True),
    "norepeat": lambda s: s.norepeat(),
    "pairwise": lambda s: s.pairwise(),
    "reduce": lambda s: s.reduce(lambda a, b: a + b),
    "replay": lambda s: s.replay(10)._obs.connect(),
    "roll": lambda s: s.roll(10),
    "roll of pairs": lambda s: s.map(lambda loss: (loss, loss)).roll(10),
    "scan": lambda s: s.scan(lambda a, b: a + b),
    "sort": lambda s: s.sort(key=float),
    "sum": lambda s: s.sum(),
    "sum so far": lambda s: s.sum(scan=True),
    "take_last": lambda s: s.take_last(10),
    "top": lambda s: s.top(3),
    "variance": lambda s: s.variance(),
    "zip": lambda s: s.zip(s.skip(5)),
    "a value between": lambda s: s.map(lambda loss: loss * 2).average(),
}


class Losses:
    """Gives losses that hang on graphs, and knows which of the graphs are alive."""

    def __init__(self, take: Callable[..., object]) -> None:
        self.take = take
        self.graphs: list[weakref.ref[Any]] = []
        self.weight = torch.ones(4, requires_grad=True)

    def give(self, count: int = 30) -> Losses:
        for number in range(count):
            hidden = (self.weight * number).relu()
            self.graphs.append(weakref.ref(hidden))
            self.take(loss=(hidden * hidden).mean())
            del hidden
        return self

    @property
    def alive(self) -> int:
        gc.collect()
        return sum(graph() is not None for graph in self.graphs)


@pytest.fixture
def run() -> Iterator[Run]:
    run = Run()
    yield run
    assert run.problems == []


@pytest.fixture
def probed() -> Iterator[Probed]:
    probed = Probed()
    yield probed
    assert probed.problems == []


class TestNoGraphIsKept:
    @pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
    def test_by_an_operator_that_holds_values(self, run: Run, hold: Callable[[Any], Any]) -> None:
        held = hold(run.given["?loss"])
        subscription = held.subscribe(lambda value: None) if hasattr(held, "pipe") else held
        assert Losses(run.give).give().alive == 0
        del subscription

    @pytest.mark.parametrize("hold", ["last", "to_list", "replay"])
    def test_of_whole_events(self, run: Run, hold: str) -> None:
        held = getattr(run.given, hold)()
        held.subscribe(lambda value: None)
        assert Losses(run.give).give().alive == 0

    def test_of_tuples_under_several_keys(self, run: Run) -> None:
        run.given["?loss", "?loss"].roll(10).subscribe(lambda value: None)
        assert Losses(run.give).give().alive == 0

    def test_by_a_probe_s_own_stream(self, probed: Probed) -> None:
        averages = probed.probe["loss"].average().accum()
        events = probed.probe.accum()
        assert Losses(probed.placed.fire).give(3).alive == 0
        probed.probe._exit()
        assert averages == [pytest.approx((0 + 1 + 4) / 3)]
        assert [float(event["loss"]) for event in events] == [0, 1, 4]

    def test_by_a_list_or_a_set_that_it_shifts_into(self, run: Run) -> None:
        values: list[Any] = []
        distinct: set[Any] = set()
        run.given["?loss"] >> values
        run.given["?loss"] >> distinct
        with run.given["?loss"].values() as collected:
            assert Losses(run.give).give(3).alive == 0
        assert (len(values), len(distinct), len(collected)) == (3, 3, 3)

    def test_by_a_stream_of_a_block(self, run: Run) -> None:
        averages: list[Any] = []
        block = run.given.group_wrap("epoch")
        block.subscribe(lambda inner: inner["?loss"].average() >> averages)
        run.stream.push({"$wrap": {"name": "epoch", "step": "begin", "id": 1}})
        assert Losses(run.give).give(3).alive == 0
        run.stream.push({"$wrap": {"name": "epoch", "step": "end", "id": 1}})
        assert [float(average) for average in averages] == [pytest.approx(5 / 3)]

    def test_by_affixed_reductions(self, run: Run) -> None:
        seen: list[float] = []
        lowest = run.given.where("loss").affix(
            low=lambda events: events["loss"].min(scan=True),
            high=run.given["?loss"].max(scan=True),
        )
        lowest.subscribe(lambda event: seen.extend((float(event["low"]), float(event["high"]))))
        assert Losses(run.give).give(3).alive == 0
        assert seen == [0, 0, 0, 1, 0, 4]


class TestValues:
    def test_a_plain_subscriber_gets_the_object_itself(self, run: Run) -> None:
        seen: list[Any] = []
        for stream in (run.given, run.given.where("loss")):
            stream.subscribe(lambda event: seen.append(event["loss"]))
        run.given["?loss"].first().subscribe(seen.append)
        loss = torch.ones(1, requires_grad=True).sum()
        run.give(loss=loss)
        assert [value is loss for value in seen] == [True, True, True]

    def test_what_hangs_on_no_graph_is_held_itself(self, run: Run) -> None:
        held = run.given.accum()
        event = {"loss": torch.tensor(1.0), "number": 1}
        run.stream.push(event)
        assert held[0] is event

    def test_the_event_itself_is_not_changed(self, run: Run) -> None:
        held = run.given.accum()
        loss = torch.ones(1, requires_grad=True).sum()
        event = {"number": 1, "loss": loss}
        run.stream.push(event)
        assert event["loss"] is loss
        assert list(held[0]) == ["number", "loss"]
        assert held[0]["loss"].grad_fn is None

    def test_results_are_those_of_the_numbers(self, run: Run) -> None:
        numbers = [3.0, 1.0, 2.0, 1.0]
        of: dict[str, list[Any]] = {}
        for key in ("x", "loss"):
            stream = run.given[f"?{key}"]
            of[key] = [
                getattr(stream, name)(scan=scan).accum()
                for name in ("sum", "average", "min", "max")
                for scan in (False, True)
            ]
        for number in numbers:
            run.give(x=number, loss=torch.tensor(number, requires_grad=True) * 1)
        run.stream.complete()
        assert [[float(v) for v in values] for values in of["loss"]] == of["x"]
        assert all(type(value) is float for values in of["x"] for value in values)
        assert all(isinstance(value, torch.Tensor) for values in of["loss"] for value in values)

    def test_it_is_printed_as_before(self, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        run.given["?loss"].min().print("Minimum loss: {}")
        run.give_all("loss", *(torch.tensor(x, requires_grad=True) * 1 for x in (2.0, 0.5, 1.0)))
        run.stream.complete()
        assert capsys.readouterr().out == "Minimum loss: 0.5\n"


class Counting(Tensor):  # type: ignore[misc]
    """A tensor that counts how often somebody waited for its value."""

    waits = 0

    def __bool__(self) -> bool:
        Counting.waits += 1
        return bool(super().__bool__())


def counting(*values: float) -> list[Any]:
    Counting.waits = 0
    return [torch.tensor(value).as_subclass(Counting) for value in values]


NAN = float("nan")


class TestExtremes:
    @pytest.mark.parametrize("scan", [False, True])
    @pytest.mark.parametrize("name", ["min", "max"])
    def test_of_tensors_wait_for_no_device(self, run: Run, name: str, scan: bool) -> None:
        found: list[Any] = []
        getattr(run.given["?loss"], name)(scan=scan).subscribe(found.append)
        run.give_all("loss", *counting(3, 1, 2))
        run.stream.complete()
        assert Counting.waits == 0
        assert float(found[-1]) == {"min": 1, "max": 3}[name]

    def test_of_tensors_of_one_element_too(self, run: Run) -> None:
        found = run.given["?loss"].min().accum()
        run.give_all("loss", *(loss.reshape(1) for loss in counting(3, 1, 2)))
        run.stream.complete()
        assert (Counting.waits, found[0].shape, float(found[0])) == (0, (1,), 1)

    @pytest.mark.parametrize("values", [(NAN, 1.0, 2.0), (1.0, NAN, 2.0), (2.0, 1.0, NAN)])
    @pytest.mark.parametrize("name", ["min", "max"])
    def test_of_tensors_take_no_number_as_those_of_numbers_do(
        self, run: Run, name: str, values: tuple[float, ...]
    ) -> None:
        found = [getattr(run.given[key], name)().accum() for key in ("?x", "?loss")]
        for value in values:
            run.give(x=value, loss=torch.tensor(value))
        run.stream.complete()
        (of_numbers,), (of_tensors,) = found
        assert float(of_tensors) == pytest.approx(of_numbers, nan_ok=True)

    def test_of_large_whole_numbers_are_exact(self, run: Run) -> None:
        found = run.given["?x"].max().accum()
        run.give_all("x", torch.tensor(2**60), torch.tensor(2**60 + 1), torch.tensor(0.5))
        run.stream.complete()
        assert int(found[0]) == 2**60 + 1

    def test_of_tensors_and_numbers_together(self, run: Run) -> None:
        found = [run.given["?x"].min().accum(), run.given["?x"].max(seed=0.1).accum()]
        run.give_all("x", 0.1, torch.tensor(0.5), 0.05)
        run.stream.complete()
        assert found == [[0.05], [0.5]]

    def test_by_key_and_by_comparer_are_giving_s(self, run: Run) -> None:
        found = [
            run.given.min(key="x").accum(),
            run.given["?x"].max(comparer=lambda a, b: b - a).accum(),
            run.given["?x"].min(lambda x: -x).accum(),
        ]
        run.give_all("x", 3, 1, 2)
        run.stream.complete()
        assert found == [[{"x": 1}], [1], [3]]

    def test_of_things_that_only_compare(self, run: Run) -> None:
        found = [run.given["?x"].min().accum(), run.given["?x"].max().accum()]
        run.give_all("x", "b", "a", "c")
        run.stream.complete()
        assert found == [["a"], ["c"]]


def test_extremes_of_tensors_of_several_elements_are_reported_as_before() -> None:
    run = Run()
    run.given["?x"].min().accum()
    run.give_all("x", torch.ones(2), torch.zeros(2))
    assert "ambiguous" in run.problem.what


class Odd(Tensor):  # type: ignore[misc]
    """A tensor that cannot be detached."""

    def detach(self) -> Any:
        raise NotImplementedError


Pair = namedtuple("Pair", "loss number")


def hanging() -> Any:
    return torch.ones(1, requires_grad=True).sum()


class TestDetached:
    @pytest.mark.parametrize(
        "value", [1, "text", None, object(), torch.tensor(1.0), [1, 2], {"x": (1, [2])}, Pair(1, 2)]
    )
    def test_what_hangs_on_no_graph_is_the_object_itself(self, value: object) -> None:
        assert detached(value) is value

    def test_a_tensor_keeps_its_value_and_memory(self) -> None:
        loss = hanging()
        held = detached(loss)
        assert not held.requires_grad
        assert held.data_ptr() == loss.data_ptr()

    def test_containers_are_copied_in_their_kind(self) -> None:
        loss = hanging()
        held = detached({"a": [loss, 1], "b": (loss,), "c": Pair(loss, 2)})
        assert [type(each) for each in held.values()] == [list, tuple, Pair]
        leaves = (held["a"][0], held["b"][0], held["c"].loss)
        assert [leaf.requires_grad for leaf in leaves] == [False] * 3

    def test_a_tensor_that_fails_stays_as_it_is_and_others_do_not(self) -> None:
        odd, loss = hanging().as_subclass(Odd), hanging()
        held = detached({"odd": odd, "loss": loss})
        assert held["odd"] is odd
        assert not held["loss"].requires_grad

    def test_a_list_within_itself(self) -> None:
        loop: list[Any] = [1]
        loop.append(loop)
        assert detached(loop) is loop

    def test_a_long_list_of_the_script_s_is_not_gone_through(self) -> None:
        losses = [hanging()] * (MANY + 1)
        assert detached(losses) is losses


def test_without_torch_everything_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    loss = hanging()
    monkeypatch.setitem(sys.modules, "torch", None)
    assert detached(loss) is loss


def test_a_block_s_stream_is_one_of_giving_s() -> None:
    run = Run()
    seen: list[Any] = []
    run.given.group_wrap("step").subscribe(seen.append)
    run.stream.push({"$wrap": {"name": "step", "step": "begin", "id": 1}})
    assert isinstance(seen[0], giving.Given)
