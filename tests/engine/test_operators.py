"""giving's operators on the run's streams, and on probes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import giving
import pytest

from overseer import Overseer
from overseer.boundary import acting
from overseer.engine.bus import Bus
from overseer.engine.handle import LogStream
from overseer.engine.operators import Given, ProbeStream
from overseer.engine.probe import InvalidProbe
from overseer.errors import Problem, VoirError
from overseer.probes import ABSENT, PlacedProbe
from overseer.probes.selector import read
from tests.engine.test_bus import in_threads, locked, raising

Event = dict[str, Any]


class Run:
    """A stream of events with giving's operators on it, and what it reports."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.stream = Bus(self.problems.append)
        self.given = Given(self.stream)

    def give(self, **event: Any) -> None:
        self.stream.push(event)

    def give_all(self, key: str, *values: object) -> None:
        for value in values:
            self.give(**{key: value})

    @property
    def problem(self) -> Problem:
        (only,) = self.problems
        return only


@pytest.fixture
def run() -> Run:
    return Run()


# What operators do


def each(key: str, *values: object) -> list[Event]:
    return [{key: value} for value in values]


GOOD = [{"x": n, "kind": "good", **({"y": 1} if n == 4 else {})} for n in range(3, 6)]
PIPES = [
    (lambda given: given["?loss"], [*each("loss", 3, 2), {"other": 1}], [3, 2], []),
    (lambda given: given["?a", "?b"], [{"a": 1}, {"a": 1, "b": 2}], [(1, 2)], []),
    (lambda given: given.where("x", "!y", kind="good")["x"], [*each("x", 1), *GOOD], [3, 5], []),
    (lambda given: given["?x"].map(lambda x: -x).skip(1), each("x", 1, 2, 3), [-2, -3], []),
    (lambda given: given["?x"].min(), each("x", 3, 1, 2), [], [1]),
    (lambda given: given["?x"].average_and_variance(), each("x", 1, 2, 3), [], [(2.0, 1.0)]),
    (lambda given: given["?x"].average(scan=2), each("x", 1, 3, 5), [1, 2, 4], []),
    (lambda given: given["?a"] | given["?b"], [{"a": 1}, {"b": 2}], [1, 2], []),
]


@pytest.mark.parametrize(("pipe", "events", "at_once", "at_the_end"), PIPES)
def test_operators_produce_values_at_once_and_reductions_at_the_end(
    run: Run, pipe: Any, events: list[Event], at_once: list[object], at_the_end: list[object]
) -> None:
    stream = pipe(run.given)
    assert isinstance(run.given, giving.Given)
    assert isinstance(stream, giving.Given)
    values = stream.accum()
    for event in events:
        run.give(**event)
    assert values == at_once
    run.stream.complete()
    assert values == [*at_once, *at_the_end]
    assert run.problems == []


def test_what_operators_give_is_heard_by_others_but_not_by_the_script_s_own_given(run: Run) -> None:
    run.given["?x"].map(lambda x: (x, 2 * x)).give("a", "b")
    run.given["?x"].max().give("best", kind="made")
    seen = run.given.accum()
    with giving.given() as own:
        heard = own.accum()
        run.give(x=1)
        run.stream.complete()
    assert seen == [{"a": 1, "b": 2}, {"x": 1}, {"kind": "made", "best": 1}]
    assert heard == []


def test_ways_to_subscribe_and_to_leave(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    plain: list[Event] = []
    chain: list[int] = []
    shifted: list[Event] = []
    run.given.display(colors=False)
    run.given["?x"].print("x is {}")
    kept = len(run.stream.subscriptions)
    subscriptions = [
        run.given.subscribe(plain.append),
        run.given["?x"].subscribe(chain.append),
        run.given >> shifted,
    ]
    with run.given["?x"].values() as values:
        run.give(x=1, y=2)
    for subscription in subscriptions:
        subscription.dispose()
        subscription.dispose()
    run.give(z=2)
    assert plain == shifted == [{"x": 1, "y": 2}]
    assert chain == values == [1]
    assert len(run.stream.subscriptions) == kept + 1  # That of ``values`` stays, as giving has it.
    assert capsys.readouterr().out == "x: 1; y: 2\nx is 1\nz: 2\n"


def pair(step: str, number: int, **keys: Any) -> Event:
    return {"$wrap": {"name": "step", "step": step, "id": number}, **keys}


def test_wrappers_run_around_blocks_and_groups_are_of_one_block(run: Run) -> None:
    said: list[object] = []
    sums: list[int] = []

    @run.given.wrap("step")  # type: ignore[untyped-decorator]
    def _() -> Any:
        said.append("<")
        yield
        said.append(">")

    @run.given.kwrap("step")  # type: ignore[untyped-decorator]
    def _(x: int) -> Any:
        said.append(x)
        yield
        said.append(-x)

    run.given.group_wrap("step").subscribe(lambda inner: inner["?y"].sum() >> sums)
    events = [pair("begin", 1, x=1), pair("begin", 2, x=2), *each("y", 1, 2), pair("end", 2)]
    for event in [*events, {"y": 4}, pair("end", 1), {"y": 100}]:
        run.stream.push(event)
    assert said == ["<", 1, "<", 2, ">", -2, ">", -1]
    assert sums == [3, 7]


# What is said of failures


def test_an_operator_that_fails_is_reported_once_and_others_go_on(run: Run) -> None:
    def fails(x: int) -> float:
        return 1 / (x - 2)

    with acting("instrument_x"):
        run.given["?x"].map(fails).accum()
    values = run.given["?x"].accum()
    run.give_all("x", 1, 2, 2, 3)
    assert values == [1, 2, 2, 3]
    assert run.problem.who == "instrument_x"
    assert run.problem.what == "a subscriber failed: ZeroDivisionError: division by zero"
    assert run.problem.where == f"{__file__}:{fails.__code__.co_firstlineno + 1}"


@pytest.mark.parametrize(
    ("event", "has"),
    [
        ({"step": 1, "batch": 2}, "has only step, batch"),
        (pair("begin", 1, batch=2), "has only batch"),
        ({"$queued": 1.5, "best": 1}, "has only best"),
        (pair("begin", 1), "has no key"),
    ],
)
def test_a_key_that_is_missing_is_named_with_what_to_write(
    run: Run, event: Event, has: str
) -> None:
    with acting("instrument_x"):
        run.given["loss", "batch"].accum()
        run.given["loss"].accum()
    run.stream.push(event)
    what = f"it takes 'loss' from every event, but an event {has}"
    remedies = ["'?loss', '?batch'", "'?loss'"]
    assert [(p.slug, p.what, p.remedy) for p in run.problems] == [
        ("missing-key", what, f"Write [{r}] to skip events without it. It is switched off.")
        for r in remedies
    ]
    assert all(str(p.where).startswith(f"{__file__}:") for p in run.problems)


@pytest.mark.parametrize("source", ["given", "probe"])
@pytest.mark.parametrize("reduction", ["min", "max", "sum", "average", "average_and_variance"])
def test_a_reduction_of_nothing_is_reported_in_words_unless_that_is_allowed(
    source: str, reduction: str
) -> None:
    probed = Probed()
    stream = getattr(probed, source)["?loss"]
    with acting("instrument_x"):
        getattr(stream, reduction)().print()
        getattr(stream, reduction)().allow_empty().print()
    probed.give(step=1)
    probed.stream.complete()
    probed.probe._exit()
    problem = probed.problem
    assert (problem.slug, problem.who) == ("nothing-given", "instrument_x")
    assert "no matching event was given" in problem.what
    assert ".allow_empty()" in str(problem.remedy)
    assert str(problem.where).startswith(f"{__file__}:")


def test_a_division_by_zero_of_the_user_s_own_is_not_mistaken_for_one(run: Run) -> None:
    run.given["?x"].count().subscribe(lambda count: 1 // count)
    run.stream.complete()
    assert "ZeroDivisionError" in run.problem.what


# Events that voir's instruments give; in voir 0.2 there were none that nobody had asked for


@pytest.fixture
def ov() -> Iterator[Overseer]:
    ov = Overseer(environ={}, tell=lambda problem: None)
    yield ov
    ov.finalize()


def sample(ov: Overseer, **keys: object) -> None:
    """Have an instrument of voir's give ``keys``."""
    ov.publish(task="main", time=0.0, **keys)


def test_events_of_voir_s_own_are_passed_over_where_they_lack_the_key(ov: Overseer) -> None:
    strict = [ov.given["loss"], ov.given["loss", "batch"], ov.given.where("!rate")["loss"]]
    found = [stream.accum() for stream in strict]
    loads = ov.given["load"].accum()
    sample(ov, gpudata=1)
    ov.give(loss=3, batch=2, load=0)
    sample(ov, load=1, gpudata=2)
    assert (found, loads, ov.problems) == ([[3], [(3, 2)], [3]], [0, 1], [])
    ov.give(epoch=1)
    assert ["an event has only epoch" in problem.what for problem in ov.problems] == [True] * 3


@pytest.mark.parametrize(
    "gives",
    [
        lambda ov: ov.listen(lambda event: ov.give(half=event["load"] / 2), "load"),
        lambda ov: ov.given["?load"].map(lambda load: load / 2).give("half"),
        lambda ov: ov.given["?load"].give("half", task="x"),
    ],
)
def test_what_a_user_makes_of_one_is_none(ov: Overseer, gives: Any) -> None:
    gives(ov)
    ov.given["loss"].accum()
    sample(ov, load=1)
    (problem,) = ov.problems
    assert "half" in problem.what


@pytest.mark.parametrize("key", ["load", "first"])
def test_what_stands_in_one_is_none(ov: Overseer, key: str) -> None:
    ov.given["?gpudata"]["0"].accum()
    sample(ov, gpudata={key: 1})
    (problem,) = ov.problems
    assert f"an event has only {key}" in problem.what


# Operators that raise, and that give


@pytest.mark.parametrize(
    ("fails", "passes", "fatal", "kind", "said"),
    [
        (lambda x: x.filter(lambda x: x > 1).fail("x is {}"), 1, 2, giving.Failure, "x is 2"),
        (lambda x: x.filter(lambda x: x > 1).fail(), 1, 2, giving.Failure, "2"),
        (lambda x: x.fail_if_false("no x"), True, False, giving.Failure, "no x"),
        (lambda x: x.fail_if_false(exc_type=LookupError), 1, 0, LookupError, "Value is false"),
    ],
)
def test_fail_raises_in_the_script_when_others_have_the_event(
    run: Run, fails: Any, passes: Any, fatal: Any, kind: type[Exception], said: str
) -> None:
    fails(run.given["?x"])
    seen = run.given["?x"].accum()
    run.give(x=passes)
    with pytest.raises(kind, match=said):
        run.give(x=fatal)
    assert (seen, run.problems) == ([passes, fatal], [])


def test_the_log_can_be_called_and_has_the_operators_and_gives_to_the_run(run: Run) -> None:
    log: Any = LogStream(run.stream)
    shifted: list[Event] = []
    seen = [log["?x"].accum(), log.where("x").accum(), (log | log["?x"]).accum(), shifted]
    log >> shifted
    log["?x"].give("y")
    with giving.given() as own:
        heard = own.accum()
        log({"x": 1})
    assert seen == [[1], [{"x": 1}], [{"x": 1}, 1], [{"x": 1}]]
    assert heard == [{"y": 1}]
    assert not hasattr(log, "on_next")


# Probes


class Probed(Run):
    """A run with one probe, which fires when the test says so."""

    def __init__(self, overridable: bool = False) -> None:
        super().__init__()
        self.placed = PlacedProbe(read("//f > x"), self.problems.append, overridable=overridable)
        self.probe = ProbeStream(self.placed, self.stream.give, self.problems.append, ABSENT)

    def fire(self, **event: Any) -> object:
        self.placed.hand(event)
        return self.placed.replaced(event, ABSENT)


@pytest.fixture
def probed() -> Probed:
    return Probed()


@pytest.fixture
def overridable() -> Probed:
    return Probed(overridable=True)


def test_a_probe_has_the_operators(probed: Probed, capsys: pytest.CaptureFixture[str]) -> None:
    with probed.probe as probe:
        probe["x"].map(lambda x: x * 2).print("twice: {}")
        probe.display(colors=False)
        values, greatest = probe["x"].accum(), probe["x"].max().accum()
    probed.fire(x=3)
    probed.fire(x=1)
    assert capsys.readouterr().out == "twice: 6\nx: 3\ntwice: 2\nx: 1\n"
    assert (values, greatest) == ([3, 1], [])
    probe._exit()
    probe._exit()
    assert greatest == [3]


@pytest.mark.parametrize(
    ("gives", "given"),
    [
        (lambda probe: probe.give(), {"x": 1}),
        (lambda probe: probe["x"].give("loss", task="train"), {"task": "train", "loss": 1}),
        (lambda probe: probe.give(task="train"), {"task": "train", "x": 1}),
    ],
)
def test_a_probe_gives_its_events_to_the_run(probed: Probed, gives: Any, given: Event) -> None:
    gives(probed.probe)
    seen = probed.given.accum()
    probed.fire(x=1)
    assert seen == [given]


def test_a_subscriber_of_a_probe_that_fails_is_reported_once_and_others_go_on(
    probed: Probed,
) -> None:
    probed.probe["x"].subscribe(lambda x: 1 / 0)
    values = probed.probe["x"].accum()
    probed.fire(x=1)
    probed.fire(x=2)
    assert values == [1, 2]
    assert probed.problem.who == "probe //f > x"


def test_fail_raises_in_the_script_and_at_the_end_once_others_have_ended(probed: Probed) -> None:
    probed.probe["x"].fail(exc_type=LookupError)
    probed.probe["x"].fail_if_empty(exc_type=KeyError)
    probed.probe["?y"].fail_if_empty("no y")
    counts = probed.probe["x"].count().accum()
    with pytest.raises(LookupError):
        probed.fire(x=1)
    with pytest.raises(giving.Failure, match="no y"):
        probed.probe._exit()
    assert counts == [1]


@pytest.mark.parametrize("overridable", [False, True])
def test_a_disposed_subscriber_leaves_nothing_behind(overridable: bool) -> None:
    probed = Probed(overridable)
    chain = probed.probe["x"].subscribe(raising(AssertionError()))
    plain = probed.probe.subscribe(raising(AssertionError()))
    for subscription in (chain, plain, plain):
        assert subscription is plain or not any(site.silent for site in probed.placed.sites)
        subscription.dispose()
    assert all(site.silent for site in probed.placed.sites)
    probed.fire(x=1)
    assert probed.problems == []


def test_operators_see_one_event_at_a_time_over_all_threads(probed: Probed) -> None:
    free: list[bool] = []
    total = probed.probe["x"].sum().accum()
    probed.probe["x"].filter(lambda x: x == 0).subscribe(locked(free))
    probed.fire(x=0)
    in_threads(*[lambda: [probed.fire(x=1) for _ in range(200)]] * 4)
    probed.probe._exit()
    assert (total, free) == ([800], [False])


def test_a_selector_that_cannot_be_read_makes_a_probe_that_never_fires(run: Run) -> None:
    probe = ProbeStream(InvalidProbe("//f >"), run.stream.push, run.problems.append)
    probe.give()
    values = probe["x"].count().accum()
    probe._exit()
    assert values == [0]


OVERRIDES = [
    (lambda probe: probe["x"].override(lambda x: x + 1), 2),
    (lambda probe: probe.override(7), 7),
    (lambda probe: probe["x"].map(lambda x: -x).override(), -1),
    (lambda probe: probe.koverride(lambda x, y: x + y), 11),
    (lambda probe: probe["x"].filter(lambda x: x > 1).override(0), ABSENT),
    (lambda probe: probe.override(7).dispose(), ABSENT),
    (lambda probe: [probe["x"].override(lambda x, by=by: x + by) for by in (1, 10)], 11),
]


@pytest.mark.parametrize(("override", "expected"), OVERRIDES)
def test_the_last_to_override_wins_and_all_see_the_old_value(
    overridable: Probed, override: Callable[[Any], object], expected: object
) -> None:
    seen = overridable.probe["x"].accum()
    override(overridable.probe)
    also = overridable.probe["x"].accum()
    assert overridable.fire(x=1, y=10) == expected
    assert seen == also == [1]
    assert overridable.problems == []


def test_a_setter_that_fails_leaves_the_value_alone_and_is_reported(overridable: Probed) -> None:
    overridable.probe["x"].override(lambda x: 1 / 0)
    assert overridable.fire(x=1) is ABSENT
    assert "ZeroDivisionError" in overridable.problem.what


def test_a_subscriber_that_runs_the_probed_code_does_not_disturb(overridable: Probed) -> None:
    overridable.probe["x"].override(lambda x: x + 1)
    inner: list[object] = []

    def again(event: Event) -> None:
        if event["x"] < 10:
            inner.append(overridable.fire(x=10))

    overridable.probe.subscribe(again)
    assert overridable.fire(x=1) == 2
    assert inner == [11]


@pytest.mark.parametrize("how", ["override", "koverride"])
def test_a_probe_that_was_not_made_for_overriding_says_how_to_make_it(
    probed: Probed, how: str
) -> None:
    with pytest.raises(VoirError, match=r"ov\.probe\('//f > x', overridable=True\)"):
        getattr(probed.probe["x"], how)(lambda x: x)
