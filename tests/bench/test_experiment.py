"""The order of processes, what ends a bench, and what is repeated."""

from __future__ import annotations

import pytest

from overseer.bench import judging
from overseer.bench.machine import State, disturbed
from overseer.bench.sides import CONTROL, Side, order, sides
from tests.bench.simulate import SIDES, Machine


def names(number: int) -> str:
    """The sides of a round, in order."""
    return " ".join(side.name for side in order(SIDES, number))


def test_rounds_are_turned_and_have_controls_in_both_orders() -> None:
    assert [names(number) for number in range(1, 6)] == [
        "A2 A B", "B A", "A B", "B A A2", "A2 A B",
    ]  # fmt: skip
    assert [side.name for side in order(SIDES[:1], 1)] == ["A"]


def test_sides_are_all_combinations_and_the_first_is_the_reference() -> None:
    refs = [("main", "a" * 40), (".", "b" * 40)]
    made = sides([["main.py"]], ["python"], refs, {"lr": ["1", "2"]}, {"OMP_NUM_THREADS": ["4"]})
    assert [side.name for side in made] == ["A", "B", "C", "D"]
    assert made[1].label == "main aaaaaaa, lr=2, OMP_NUM_THREADS=4"
    assert made[1].command == ("main.py", "--lr", "2")
    assert made[3].env == {"OMP_NUM_THREADS": "4"}
    (one,) = sides([["main.py", "--fast"]], ["python"], [("", "")], {}, {})
    assert one.label == "main.py --fast"


def test_a_bench_of_one_side_ends_when_its_interval_is_narrow() -> None:
    found = Machine(0, {}, between=0.001, within=0).bench(until=0.01, sides=SIDES[:1])
    assert len(found.values()) == 3
    (verdict,) = found.verdicts()
    assert (verdict.verdict, verdict.n) == ("measured", 3)
    assert verdict.mean == pytest.approx(1000, rel=0.02)


def test_a_comparison_ends_when_it_has_a_verdict_and_a_narrow_interval() -> None:
    assert Machine(0, {"B": 1.2}, between=0.001).bench(20, 0.01).verdicts()[0].n == 7
    assert Machine(0, {"B": 1.2}, between=0.05).bench(20, 0.01).verdicts()[0].n == 20


def test_a_script_that_fails_at_once_is_run_once() -> None:
    machine = Machine(0, {}, status={"A/000": 1})
    found = machine.bench()
    assert machine.ran == ["A/000"]
    (verdict,) = found.verdicts()
    assert (verdict.verdict, judging.status(verdict)) == (judging.UNMEASURED, 6)
    assert verdict.why == "A/000 ended with exit status 1"


def test_a_round_with_a_failure_is_repeated_at_the_end() -> None:
    machine = Machine(0, {"B": 1.2}, status={"B/003": 1})
    found = machine.bench()
    assert machine.ran[-2:] == ["A/011", "B/011"]
    assert found.processes[-1].repeats == 3
    assert found.verdicts()[0].n == 10


def test_a_side_that_fails_twice_ends_the_bench() -> None:
    machine = Machine(0, {}, status={"B/003": 1, "B/004": -9})
    found = machine.bench()
    assert machine.ran[-1].endswith("/004")
    assert found.verdicts()[0].why == "B/004 ended with exit status -9"


def test_a_metric_that_no_process_has_measures_nothing() -> None:
    found = Machine(0, {}).bench(2, key="eval.rate.steady")
    (verdict,) = found.verdicts()
    assert verdict.verdict == judging.UNMEASURED
    assert verdict.why == "the first process has no finite eval.rate.steady"
    assert len(found.processes) == 1
    assert "train.rate.steady" in found.known()


def test_sides_are_exchanged_in_the_middle() -> None:
    machine, at = Machine(0, {}), list[int]()
    experiment = machine.experiment(4, halfway=lambda: at.append(len(machine.ran)))
    for _ in experiment.run():
        pass
    assert at == [1 + 3 + 2]  # The warm-up, and two rounds, one with a control.


STILL = State(0, 0, 0, 0, 0)
DISTURBED = [
    (State(10, 10, 20, 20, 0), {}, []),
    (State(10, 10, 30, 20, 0), {}, ["other programs used 50 % of the processors"]),
    (State(10, 610, 20, 20, 0), {}, []),  # This machine has no clock that counts sleep.
    (State(10, 10, 20, 20, 4), {}, ["the host took 20 % of the processors"]),
    (State(10, 10, 20, 20, 0, free=0.01), {}, ["1 % of the memory was free"]),
    (
        State(10, 10, 20, 20, 0),
        {"devices": [{"throttled": {"power": 0.5}}]},
        ["its GPU was throttled (power)"],
    ),
]


@pytest.mark.parametrize(("after", "facts", "expected"), DISTURBED)
def test_what_disturbs_a_process_is_named(
    after: State, facts: dict[str, object], expected: list[str]
) -> None:
    assert disturbed(STILL, after, facts, cores=2) == expected


def test_a_machine_that_slept_disturbs() -> None:
    before = STILL._replace(elapsed=100)
    assert disturbed(before, State(10, 710, 0, 0, 0), {}, 2) == ["the machine slept for 600 s"]


def test_disturbed_rounds_are_repeated_and_kept() -> None:
    machine = Machine(0, {"B": 1.2}, disturbs=range(5, 8))  # Rounds 2 and 3.
    found = machine.bench()
    assert {each.repeats for each in found.processes} == {0, 2, 3}
    assert found.verdicts()[0].n == 10
    assert sum(bool(each.disturbed) for each in found.processes) == 3


def test_a_control_is_the_reference_once_more() -> None:
    one = Side("A", "old", ("main.py",), "python")
    control = order([one, one._replace(name="B")], 1)[0]
    assert control == one._replace(name=CONTROL)
    assert control.control
    assert not one.control
