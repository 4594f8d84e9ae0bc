"""giving's operators on the run's streams, and on probes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import giving
import pytest

from overseer import Overseer
from overseer.boundary import acting
from overseer.engine.bus import Bus
from overseer.engine.operators import Given, LogStream, ProbeStream
from overseer.engine.probe import Nowhere
from overseer.errors import Problem, VoirError
from tests.engine.test_bus import in_a_thread, unlocked

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


class TestOperators:
    def test_the_values_under_a_key(self, run: Run) -> None:
        values = run.given["?loss"].accum()
        run.give(loss=3)
        run.give(other=1)
        run.give(loss=2)
        assert values == [3, 2]

    def test_the_values_under_several_keys(self, run: Run) -> None:
        values = run.given["?a", "?b"].accum()
        run.give(a=1)
        run.give(a=1, b=2)
        assert values == [(1, 2)]

    def test_the_minimum_is_printed_when_the_run_ends(
        self, run: Run, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run.given["?loss"].min().print("Minimum loss: {}")
        run.give_all("loss", 3, 1, 2)
        assert capsys.readouterr().out == ""
        run.stream.complete()
        assert capsys.readouterr().out == "Minimum loss: 1\n"

    def test_where_map_and_the_rest_can_be_chained(self, run: Run) -> None:
        values = run.given.where("x", "!y", kind="good")["x"].map(lambda x: -x).skip(1).accum()
        run.give(x=1, kind="good")
        run.give(x=2, kind="good")
        run.give(x=3, kind="bad")
        run.give(x=4, y=1, kind="good")
        run.give(x=5, kind="good")
        assert values == [-2, -5]

    def test_average_and_variance(self, run: Run) -> None:
        results = run.given["?x"].average_and_variance().accum()
        run.give_all("x", 1, 2, 3)
        run.stream.complete()
        assert results == [(2.0, 1.0)]

    def test_running_averages_do_not_wait_for_the_end(self, run: Run) -> None:
        values = run.given["?x"].average(scan=2).accum()
        run.give_all("x", 1, 3, 5)
        assert values == [1, 2, 4]

    def test_what_a_reduction_gives_is_heard_by_others(self, run: Run) -> None:
        run.given["?x"].max().give("best")
        heard = run.given["?best"].accum()
        run.give_all("x", 1, 3)
        run.stream.complete()
        assert heard == [3]

    def test_two_streams_can_be_merged(self, run: Run) -> None:
        values = (run.given["?a"] | run.given["?b"]).accum()
        run.give(a=1)
        run.give(b=2)
        assert values == [1, 2]

    def test_the_root_serves_a_plain_callable_without_operators_between(self, run: Run) -> None:
        seen: list[Event] = []
        subscription = run.given.subscribe(seen.append)
        run.give(x=1)
        subscription.dispose()
        run.give(x=2)
        assert seen == [{"x": 1}]

    def test_it_shifts_into_a_list(self, run: Run) -> None:
        seen: list[Event] = []
        run.given >> seen
        run.give(x=1)
        assert seen == [{"x": 1}]

    def test_the_values_of_a_while(self, run: Run) -> None:
        with run.given["?x"].values() as values:
            run.give(x=1)
        assert values == [1]

    def test_a_disposed_chain_hears_nothing_more(self, run: Run) -> None:
        seen: list[int] = []
        subscription = run.given["?x"].subscribe(seen.append)
        run.give(x=1)
        subscription.dispose()
        run.give(x=2)
        assert seen == [1]
        assert run.stream.subscriptions == []

    def test_display_prints_each_event(self, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        run.given.display(colors=False)
        run.give(x=1, y=2)
        assert capsys.readouterr().out == "x: 1; y: 2\n"

    def test_it_is_one_of_giving_s_own_streams(self, run: Run) -> None:
        assert isinstance(run.given, giving.Given)
        assert isinstance(run.given["?x"], giving.Given)


def pair(step: str, number: int, **keys: Any) -> Event:
    return {"$wrap": {"name": "step", "step": step, "id": number}, **keys}


class TestWrappers:
    def test_wrap_runs_around_a_block(self, run: Run) -> None:
        said: list[str] = []

        @run.given.wrap("step")  # type: ignore[untyped-decorator]
        def _() -> Any:
            said.append("<")
            yield
            said.append(">")

        run.stream.push(pair("begin", 1))
        run.give(x=1)
        run.stream.push(pair("end", 1))
        assert said == ["<", ">"]

    def test_kwrap_passes_the_keys_on(self, run: Run) -> None:
        said: list[int] = []

        @run.given.kwrap("step")  # type: ignore[untyped-decorator]
        def _(x: int) -> Any:
            said.append(x)
            yield
            said.append(-x)

        run.stream.push(pair("begin", 1, x=1))
        run.stream.push(pair("begin", 2, x=2))
        run.stream.push(pair("end", 2))
        run.stream.push(pair("end", 1))
        assert said == [1, 2, -2, -1]

    def test_group_wrap_makes_a_stream_of_each_block(self, run: Run) -> None:
        sums: list[int] = []
        run.given.group_wrap("step").subscribe(lambda inner: inner["?x"].sum() >> sums)
        for number in range(2):
            run.stream.push(pair("begin", number))
            run.give_all("x", 1, 2)
            run.stream.push(pair("end", number))
            run.give(x=100)
        assert sums == [3, 3]


class TestFailures:
    def subscribe(self, run: Run) -> int:
        """Set up a chain that fails at 2; the line that does."""
        with acting("instrument_x"):
            run.given["?x"].map(lambda x: 1 / (x - 2)).accum()
        return TestFailures.subscribe.__code__.co_firstlineno + 3

    def test_an_operator_that_fails_is_reported_once_and_others_go_on(self, run: Run) -> None:
        line = self.subscribe(run)
        values = run.given["?x"].accum()
        run.give_all("x", 1, 2, 2, 3)
        assert values == [1, 2, 2, 3]
        assert run.problem.who == "instrument_x"
        assert run.problem.what == "a subscriber failed: ZeroDivisionError: division by zero"
        assert run.problem.where == f"{__file__}:{line}"

    def test_a_key_that_is_missing_is_named_with_what_to_write(self, run: Run) -> None:
        with acting("instrument_x"):
            run.given["loss"].accum()
        run.give(step=1, batch=2)
        assert run.problem.slug == "missing-key"
        assert "'loss'" in run.problem.what
        assert "only step, batch" in run.problem.what
        assert "['?loss']" in (run.problem.remedy or "")
        assert run.problem.where is not None
        assert run.problem.where.startswith(__file__)

    def test_of_what_is_there_voir_s_own_keys_are_not_named(self, run: Run) -> None:
        run.given["loss"].accum()
        run.given["best"].accum()
        run.stream.push(pair("begin", 1, batch=2))
        run.stream.push({"$queued": 1.5, "best": 1})
        assert [p.what.partition(", ")[2] for p in run.problems] == [
            "and one came that has only batch",
            "and one came that has only batch",
        ]

    def test_an_event_with_none_but_voir_s_own_keys_has_no_key(self, run: Run) -> None:
        run.given["loss"].accum()
        run.stream.push(pair("begin", 1))
        assert "one came that has no key" in run.problem.what

    @pytest.mark.parametrize("reduction", ["min", "max", "sum", "average", "average_and_variance"])
    def test_a_reduction_of_nothing_is_reported_in_words(self, run: Run, reduction: str) -> None:
        with acting("instrument_x"):
            getattr(run.given["?loss"], reduction)().print()
        run.give(step=1)
        run.stream.complete()
        assert (run.problem.slug, run.problem.who) == ("nothing-given", "instrument_x")
        assert "never given" in run.problem.what
        assert ".allow_empty()" in (run.problem.remedy or "")
        assert run.problem.where is not None
        assert run.problem.where.startswith(__file__)

    def test_a_reduction_of_nothing_may_be_allowed(self, run: Run) -> None:
        run.given["?loss"].min().allow_empty().print()
        run.stream.complete()
        assert run.problems == []

    def test_a_division_by_zero_of_the_user_s_own_is_not_mistaken_for_one(self, run: Run) -> None:
        run.given["?x"].count().subscribe(lambda count: 1 // count)
        run.stream.complete()
        assert "ZeroDivisionError" in run.problem.what


class TestEventsOfVoirsOwn:
    """Those that its instruments give; in voir 0.2 there were none that nobody had asked for."""

    @pytest.fixture
    def ov(self) -> Iterator[Overseer]:
        self.told: list[Problem] = []
        ov = Overseer(environ={}, tell=self.told.append)
        yield ov
        ov.finalize()

    def sample(self, ov: Overseer, **keys: object) -> None:
        """Have an instrument of voir's give ``keys``, each with its time."""
        for key, value in keys.items():
            ov.publish(**{"task": "main", "time": 0.0, key: value})

    def test_without_the_key_they_are_passed_over(self, ov: Overseer) -> None:
        losses = ov.given["loss"].accum()
        pairs = ov.given["loss", "batch"].accum()
        found = ov.given.where("!rate")["loss"].accum()
        self.sample(ov, gpudata=1)
        ov.give(loss=3, batch=2)
        self.sample(ov, gpudata=2)
        assert (losses, pairs, found, self.told) == ([3], [(3, 2)], [3], [])

    def test_with_the_key_they_are_taken(self, ov: Overseer) -> None:
        values = ov.given["load"].accum()
        self.sample(ov, load=1, gpudata=2)
        assert values == [1]

    def test_after_one_a_user_s_own_is_none(self, ov: Overseer) -> None:
        ov.given["loss"].accum()
        self.sample(ov, gpudata=1)
        ov.give(epoch=1)
        (problem,) = self.told
        assert "one came that has only epoch" in problem.what

    @pytest.mark.parametrize(
        "gives",
        [
            lambda ov: ov.listen(lambda event: ov.give(half=event["load"] / 2), "load"),
            lambda ov: ov.given["?load"].map(lambda load: load / 2).give("half"),
            lambda ov: ov.given["?load"].give("half", task="x"),
        ],
    )
    def test_what_a_user_makes_of_one_is_none(self, ov: Overseer, gives: Any) -> None:
        gives(ov)
        ov.given["loss"].accum()
        self.sample(ov, load=1)
        (problem,) = self.told
        assert "half" in problem.what

    @pytest.mark.parametrize("key", ["load", "first"])
    def test_what_stands_in_one_is_none(self, ov: Overseer, key: str) -> None:
        ov.given["?gpudata"]["0"].accum()
        self.sample(ov, gpudata={key: 1})
        (problem,) = self.told
        assert f"one came that has only {key}" in problem.what


class TestFail:
    def test_fail_raises_in_the_script(self, run: Run) -> None:
        run.given["?x"].filter(lambda x: x > 1).fail("x is {}")
        run.give(x=1)
        with pytest.raises(giving.Failure, match="x is 2"):
            run.give(x=2)
        assert run.problems == []

    def test_fail_raises_what_it_is_told_to(self, run: Run) -> None:
        run.given.fail(exc_type=LookupError)
        with pytest.raises(LookupError):
            run.give(x=1)

    def test_others_have_the_event_before_it_raises(self, run: Run) -> None:
        run.given["?x"].fail()
        seen = run.given["?x"].accum()
        with pytest.raises(giving.Failure):
            run.give(x=1)
        assert seen == [1]

    def test_fail_if_false_raises_in_the_script(self, run: Run) -> None:
        run.given["?ok"].fail_if_false("not ok")
        run.give(ok=True)
        with pytest.raises(giving.Failure, match="not ok"):
            run.give(ok=False)

    def test_fail_if_empty_raises_at_the_end(self, run: Run) -> None:
        run.given["?x"].fail_if_empty(exc_type=LookupError)
        run.given["?y"].fail_if_empty("no y")
        run.give(x=1)
        with pytest.raises(giving.Failure, match="no y"):
            run.stream.complete()


class TestGive:
    def test_each_element_under_a_key(self, run: Run) -> None:
        run.given["?x"].map(lambda x: x * 2).give("double", kind="made")
        seen = run.given.where("double").accum()
        run.give(x=1)
        assert seen == [{"kind": "made", "double": 2}]

    def test_each_element_under_several_keys(self, run: Run) -> None:
        run.given["?x"].map(lambda x: (x, -x)).give("plus", "minus")
        seen = run.given["?plus", "?minus"].accum()
        run.give(x=1)
        assert seen == [(1, -1)]

    def test_the_script_s_own_given_does_not_hear_it(self, run: Run) -> None:
        run.given["?x"].give("y")
        with giving.given() as own:
            heard = own.accum()
            run.give(x=1)
        assert heard == []

    def test_the_log_stream_can_be_called_and_listened_to(self, run: Run) -> None:
        log = LogStream(run.stream)
        seen = log["?x"].accum()
        log({"x": 1})
        assert seen == [1]


class Placed:
    """A probe that fires when the test says so."""

    selector = "//f > x"
    overridable = False

    def __init__(self) -> None:
        self.listeners: list[Callable[[Event], object]] = []
        self.interceptor: Callable[[Event], object] | None = None

    def listen(self, fn: Callable[[Event], object]) -> Any:
        self.listeners.append(fn)
        return SimpleNamespace(dispose=lambda: self.listeners.remove(fn))

    def intercept(self, fn: Callable[[Event], object]) -> None:
        assert self.interceptor is None
        self.interceptor = fn

    def fire(self, **event: Any) -> object:
        for listener in list(self.listeners):
            listener(event)
        return self.interceptor(event) if self.interceptor is not None else ABSENT


ABSENT = object()


class Probed(Run):
    """A run with one probe."""

    def __init__(self, overridable: bool = False) -> None:
        super().__init__()
        self.placed = Placed()
        self.placed.overridable = overridable
        self.probe = ProbeStream(
            self.placed,
            self.stream.give,
            self.problems.append,
            ABSENT,
        )


@pytest.fixture
def probed() -> Probed:
    return Probed()


@pytest.fixture
def overridable() -> Probed:
    return Probed(overridable=True)


class TestProbe:
    def test_a_plain_callable_gets_the_events(self, probed: Probed) -> None:
        seen: list[Event] = []
        probed.probe.subscribe(seen.append)
        probed.placed.fire(x=1)
        assert seen == [{"x": 1}]

    def test_operators_work_on_it(self, probed: Probed, capsys: pytest.CaptureFixture[str]) -> None:
        probed.probe["x"].map(lambda x: x * 2).print("twice: {}")
        probed.probe.display(colors=False)
        values = probed.probe["x"].accum()
        probed.placed.fire(x=1)
        assert capsys.readouterr().out == "twice: 2\nx: 1\n"
        assert values == [1]

    def test_give_hands_its_events_to_the_run(self, probed: Probed) -> None:
        probed.probe.give()
        seen = probed.given.accum()
        probed.placed.fire(x=1)
        assert seen == [{"x": 1}]

    def test_give_with_keys_renames(self, probed: Probed) -> None:
        probed.probe["x"].give("loss", task="train")
        seen = probed.given.accum()
        probed.placed.fire(x=1)
        assert seen == [{"task": "train", "loss": 1}]

    def test_give_with_more_keys_adds_them(self, probed: Probed) -> None:
        probed.probe.give(task="train")
        seen = probed.given.accum()
        probed.placed.fire(x=1)
        assert seen == [{"task": "train", "x": 1}]

    def test_reductions_emit_when_it_ends(self, probed: Probed) -> None:
        values = probed.probe["x"].max().accum()
        probed.placed.fire(x=1)
        probed.placed.fire(x=3)
        assert values == []
        probed.probe._exit()
        probed.probe._exit()
        assert values == [3]

    def test_a_reduction_of_nothing_is_reported_in_words(self, probed: Probed) -> None:
        with acting("instrument_x"):
            probed.probe["x"].min().print()
        probed.probe._exit()
        assert (probed.problem.slug, probed.problem.who) == ("nothing-given", "instrument_x")

    def test_a_subscriber_that_fails_is_reported_once_and_others_go_on(
        self, probed: Probed
    ) -> None:
        probed.probe["x"].subscribe(lambda x: 1 / 0)
        values = probed.probe["x"].accum()
        probed.placed.fire(x=1)
        probed.placed.fire(x=2)
        assert values == [1, 2]
        assert probed.problem.who == "probe //f > x"

    def test_fail_raises_in_the_script(self, probed: Probed) -> None:
        probed.probe["x"].fail(exc_type=LookupError)
        with pytest.raises(LookupError):
            probed.placed.fire(x=1)

    def test_fail_if_empty_raises_when_it_ends_once_others_have_ended(self, probed: Probed) -> None:
        probed.probe["x"].fail_if_empty("never fired")
        counts = probed.probe["x"].count().accum()
        with pytest.raises(giving.Failure, match="never fired"):
            probed.probe._exit()
        assert counts == [0]

    def test_a_disposed_subscriber_leaves_nothing_behind(self, probed: Probed) -> None:
        values: list[int] = []
        for subscription in (
            probed.probe["x"].subscribe(values.append),
            probed.probe.subscribe(lambda event: values.append(event["x"])),
        ):
            subscription.dispose()
            subscription.dispose()
        probed.placed.fire(x=1)
        assert values == []
        assert (probed.placed.listeners, probed.probe._ends) == ([], [])

    def test_while_operators_run_no_other_thread_can_deliver(self, probed: Probed) -> None:
        free: list[bool] = []
        probed.probe["x"].subscribe(lambda x: in_a_thread(lambda: free.append(unlocked())))
        probed.placed.fire(x=1)
        assert free == [False]

    def test_operators_see_one_event_at_a_time_over_all_threads(self, probed: Probed) -> None:
        total = probed.probe["x"].sum().accum()

        def fire() -> None:
            for _ in range(200):
                probed.placed.fire(x=1)

        threads = [threading.Thread(target=fire) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        probed.probe._exit()
        assert total == [800]

    def test_entering_it_changes_nothing(self, probed: Probed) -> None:
        with probed.probe as probe:
            values = probe["x"].accum()
        probed.placed.fire(x=1)
        assert values == [1]

    def test_a_selector_that_cannot_be_read_makes_a_probe_that_never_fires(self, run: Run) -> None:
        probe = ProbeStream(Nowhere("//f >"), run.stream.push, run.problems.append)
        probe.give()
        values = probe["x"].count().accum()
        probe._exit()
        assert values == [0]


class TestOverride:
    """What ptera does with OverridableProbe, on voir's."""

    def test_a_function_of_the_value(self, overridable: Probed) -> None:
        overridable.probe["x"].override(lambda x: x + 1)
        assert overridable.placed.fire(x=1) == 2

    def test_a_constant(self, overridable: Probed) -> None:
        overridable.probe.override(7)
        assert overridable.placed.fire(x=1) == 7

    def test_without_a_setter_the_value_of_the_pipe_is_used(self, overridable: Probed) -> None:
        overridable.probe["x"].map(lambda x: -x).override()
        assert overridable.placed.fire(x=1) == -1

    def test_a_function_of_the_event(self, overridable: Probed) -> None:
        overridable.probe.koverride(lambda x, y: x + y)
        assert overridable.placed.fire(x=1, y=10) == 11

    def test_what_the_pipe_filters_out_is_left_alone(self, overridable: Probed) -> None:
        overridable.probe["x"].filter(lambda x: x > 1).override(0)
        assert [overridable.placed.fire(x=x) for x in (1, 2, 1)] == [ABSENT, 0, ABSENT]

    def test_of_two_the_last_wins_and_both_see_the_old_value(self, overridable: Probed) -> None:
        seen = overridable.probe["x"].accum()
        overridable.probe["x"].override(lambda x: x + 1)
        overridable.probe["x"].override(lambda x: x * 10)
        also = overridable.probe["x"].accum()
        assert overridable.placed.fire(x=1) == 10
        assert seen == also == [1]

    def test_a_setter_that_fails_leaves_the_value_alone_and_is_reported(
        self, overridable: Probed
    ) -> None:
        overridable.probe["x"].override(lambda x: 1 / 0)
        assert overridable.placed.fire(x=1) is ABSENT
        assert len(overridable.problems) == 1

    def test_a_subscriber_that_runs_the_probed_code_does_not_disturb(
        self, overridable: Probed
    ) -> None:
        overridable.probe["x"].override(lambda x: x + 1)
        inner: list[object] = []

        def again(event: Event) -> None:
            if event["x"] < 10:
                inner.append(overridable.placed.fire(x=10))

        overridable.probe.subscribe(again)
        assert overridable.placed.fire(x=1) == 2
        assert inner == [11]

    def test_a_disposed_override_leaves_the_value_alone(self, overridable: Probed) -> None:
        overridable.probe.override(7).dispose()
        assert overridable.placed.fire(x=1) is ABSENT

    @pytest.mark.parametrize("how", ["override", "koverride"])
    def test_a_probe_that_was_not_made_for_it_says_how_to_make_it(
        self, probed: Probed, how: str
    ) -> None:
        with pytest.raises(VoirError, match=r"ov\.probe\('//f > x', overridable=True\)"):
            getattr(probed.probe["x"], how)(lambda x: x)
