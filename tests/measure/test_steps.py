"""Steps come out right whichever way a loop shows itself; nothing is lost or counted twice."""

from __future__ import annotations

from threading import get_ident
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overseer.clock import FakeClock
from overseer.measure.notes import BATCH
from overseer.measure.step import Step
from overseer.measure.steps import StepModel
from overseer.measure.threads import THREADS

from .program import FORMS, Program, Tensor

#: Forms in which loading can be told from compute.
SPLIT = [form for form in FORMS if form != "step"]


def warm_up(step: int) -> float:
    return 1.0 if step == 0 else 0.010


def checkpoint(step: int) -> float:
    return 0.5 if step % 50 == 24 else 0.0


def three_epochs(form: str, device: bool = False) -> Program:
    """Three epochs of a hundred steps with a slow first one, checkpoints and evaluations."""
    program = Program(form, device=device)
    for epoch in range(3):
        program.epoch(100, load=0.004, compute=warm_up, checkpoint=checkpoint)
        if epoch < 2:
            program.pause(2.0)
    program.finish()
    return program


@pytest.mark.parametrize("form", FORMS)
def test_every_form_counts_each_step_and_item_once(form: str) -> None:
    section = three_epochs(form).section()
    assert (section["steps"], section["items"]) == (300, 9600)


@pytest.mark.parametrize("form", FORMS)
def test_rates_are_true_within_one_percent(form: str) -> None:
    program = three_epochs(form)
    rate = program.section()["rate"]
    assert rate["steady"] == pytest.approx(32 / 0.014, rel=0.01)
    assert rate["median"] == pytest.approx(32 / 0.014, rel=0.01)
    seconds = program.loading + program.compute + program.paused
    seen = "loader" in form  # Else how long the first batch was waited for is not known.
    items, hidden = (9600, 0) if seen else (9600 - 32, 1.004)
    assert rate["wall"] == pytest.approx(items / (seconds - hidden), rel=0.001)


@pytest.mark.parametrize("form", SPLIT)
def test_shares_are_true_within_one_percent(form: str) -> None:
    section = three_epochs(form).section()
    assert section["loading"]["share"] == pytest.approx(4 / 14, rel=0.01)
    assert section["compute"]["share"] == pytest.approx(10 / 14, rel=0.01)
    assert section["loading"]["seconds"] == pytest.approx(299 * 0.004, rel=0.01)


@pytest.mark.parametrize("form", FORMS)
def test_pauses_are_true_within_one_percent(form: str) -> None:
    pause = three_epochs(form).section()["pause"]
    assert pause["seconds"] == pytest.approx(6 * 0.5 + 2 * 2.0, rel=0.01)
    assert pause["count"] == 8


@pytest.mark.parametrize("form", FORMS)
def test_the_slow_first_step_is_told_apart(form: str) -> None:
    section = three_epochs(form).section()
    first = {"step": None, "pair": 1.0, "pair, step": 1.0, "wrap": 1.0}.get(form, 1.004)
    assert section.get("first_step_seconds") == (first and pytest.approx(first))
    assert section["steady"] == {"verdict": "steady", "from_step": 1}


def test_a_step_event_alone_leaves_loading_and_compute_unknown() -> None:
    section = three_epochs("step").section()
    assert "loading" not in section
    assert "compute" not in section


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_run_of_a_few_steps_loses_none(form: str, n: int) -> None:
    program = Program(form)
    program.epoch(n)
    program.finish()
    assert [step.number for step in program.steps] == list(range(n))
    section = program.section()
    assert (section["steps"], section["items"]) == (n, 32 * n)
    assert section["steady"] == {"verdict": "too few steps"}
    assert ("wall" in section["rate"]) is ("loader" in form or n > 1)


def test_upstream_counted_a_checkpoint_as_a_slow_step() -> None:
    """voir 0.2 made one rate sample of 29 items/s of a one-second checkpoint."""
    program = Program("step")
    program.epoch(60, checkpoint=lambda step: 1.0 if step == 40 else 0.0)
    program.finish()
    rate = program.section()["rate"]
    assert rate["q1"] == rate["median"] == rate["q3"] == pytest.approx(32 / 0.014)
    told = {"seconds": pytest.approx(1.0), "count": 1, "unexplained": 1}
    assert program.section()["pause"] == told


def test_upstream_lost_the_last_window() -> None:
    """voir 0.2 gave no rate for the last, incomplete interval."""
    program = Program("pair")
    program.epoch(40)
    assert len(program.steps) < 40
    program.finish()
    assert len(program.steps) == 40


class Busy:
    """A lock that somebody holds, whatever one's patience."""

    def __init__(self) -> None:
        self.patience = 0.0

    def acquire(self, timeout: float) -> bool:
        self.patience = timeout
        return False


@pytest.mark.parametrize(("worker", "patience"), [(get_ident(), 1.0), (-1, 60.0)])
def test_work_of_another_thread_is_waited_for_but_not_what_a_signal_interrupts(
    worker: int, patience: float
) -> None:
    model, busy = StepModel(FakeClock()), Busy()
    model._working, model._worker = busy, worker  # type: ignore[assignment]
    model.finish()
    assert busy.patience == patience


def test_finishing_twice_changes_nothing() -> None:
    program = three_epochs("pair")
    before = program.section()
    program.model.finish()
    assert program.section() == before


def test_sizes_are_read_when_the_event_comes_and_batches_are_let_go() -> None:
    model = StepModel(FakeClock())
    got: list[Step] = []
    model.sinks.append(got.extend)
    sizes = [32, 32, 7]
    for size in sizes:
        batch = Tensor(size)
        model({"step": True, "batch": batch})
        batch.shape = (1000,)
    model.finish()
    assert [step.items for step in got] == sizes


@pytest.mark.parametrize(
    "event",
    [
        {"step": True, "batch": Tensor(40, 3)},
        {"step": True, "batch_size": 40},
        {"step": 17, "batch": (Tensor(40, 3), Tensor(40))},
        {"task": "train", "batch_size": 40},
        {"task": "train", "batch": [Tensor(40, 3), Tensor(40)]},
    ],
)
def test_all_step_events_of_the_contract_are_understood(event: dict[str, Any]) -> None:
    assert [step.items for step in steps_of([event, event])] == [40, 40]


def steps_of(events: list[dict[str, Any]], **options: Any) -> list[Any]:
    clock = FakeClock()
    got: list[Step] = []
    model = StepModel(clock, **options)
    model.sinks.append(got.extend)
    for event in events:
        clock.advance(0.01)
        model(event)
    model.finish()
    return got


def test_listeners_and_the_model_itself_hear_the_same() -> None:
    events: list[dict[str, Any]] = [
        {"step": True, "batch": Tensor(8)},
        {"task": "a", "batch": Tensor(8)},
        {"task": "a", "batch": Tensor(8), "batch_size": 8},
        {"task": "a", "step": 1, "batch": Tensor(8)},
        {"task": "a", "progress": (0, 10)},
        {"$wrap": {"name": "step", "step": "begin", "id": 1}, "task": "a", "batch": None},
        {"$wrap": {"name": "step", "step": "end", "id": 1}, "task": "a", "batch": Tensor(8)},
        {"loss": 1.0},
    ]
    heard = StepModel(FakeClock())
    for event in events:
        for listener, keys in heard.listeners():
            if event.keys() >= set(keys):
                listener(event)
    called = StepModel(FakeClock())
    for event in events:
        called(event)
    assert heard.notes == called.notes == 7


def test_a_multiplier_counts_accumulation_and_device_iterations() -> None:
    event = {"step": True, "batch": Tensor(40, 3)}
    assert steps_of([event], multiplier=10 * 10)[0].items == 4000


def test_a_fixed_number_of_items_needs_no_batch() -> None:
    assert steps_of([{"step": True}], batch_size=4000)[0].items == 4000


def test_a_function_of_the_script_sizes_its_batches() -> None:
    class Batch:
        rows = 5

    events = [{"step": True, "batch": Batch()}]
    assert steps_of(events, batch_size=lambda batch: batch.rows)[0].items == 5


def test_a_batch_that_states_its_tokens_is_counted_in_tokens() -> None:
    batch = {"input_ids": Tensor(4, 16), "ntokens": 50}
    (step,) = steps_of([{"step": True, "batch": batch}])
    assert (step.items, step.units) == (50, "tokens")


def test_a_batch_of_sequences_is_counted_in_sequences_unless_asked_otherwise() -> None:
    events = [{"step": True, "batch": {"input_ids": Tensor(4, 16)}}]
    assert [(s.items, s.units) for s in steps_of(events)] == [(4, "items")]
    assert [(s.items, s.units) for s in steps_of(events, units="tokens")] == [(64, "tokens")]


def test_step_events_within_a_pair_without_a_batch_add_up() -> None:
    """Gradient accumulation: four batches to a step of the optimizer."""
    program = Program("pair")
    for ident in range(5):
        program.wrap("compute_start", "begin", ident)
        for _ in range(4):
            program.clock.advance(0.01)
            program.give(step=True, batch=Tensor(8))
        program.wrap("compute_start", "end", ident)
    program.finish()
    assert [step.items for step in program.steps] == [32] * 5


def test_a_pair_within_a_step_is_its_compute() -> None:
    """voir.iterate around the loop, and a pair of the voirfile within its body."""
    program = Program()
    for ident in range(6):
        program.wrap("step", "begin", ident, batch=None)
        program.clock.advance(0.003)
        program.wrap("compute_start", "begin", 99)
        program.clock.advance(0.007)
        program.wrap("compute_start", "end", 99, batch=Tensor(32))
        program.wrap("step", "end", ident, batch=Tensor(32))
    program.finish()
    assert [(s.items, s.loading_ns, s.compute_ns) for s in program.steps] == [
        (32, 3_000_000, 7_000_000)
    ] * 6


def test_the_last_turn_of_an_iterator_is_no_step() -> None:
    """voir.iterate opens a pair before it knows that there is no batch left."""
    program = Program()
    program.task = "train"
    for _ in range(2):
        for ident in range(20):
            program.wrap("step", "begin", ident, batch=None)
            program.clock.advance(0.01)
            program.wrap("step", "end", ident, batch=Tensor(4))
        program.wrap("step", "begin", 20, batch=None)
        program.wrap("step", "end", 20, batch=None)
        program.clock.advance(1.0)
    program.finish()
    section = program.section()
    assert section["steps"] == 40
    assert section["pause"] == {"seconds": pytest.approx(1.0), "count": 1}


def test_loops_side_by_side_each_have_their_own_waits() -> None:
    """Two tasks of voir.iterate that are zipped: each step ends where its next one begins."""
    program = Program()
    loads = {"first": 0.005, "second": 0.002}
    for ident in range(41):
        for task, load in loads.items():
            program.task = task
            if ident:
                program.wrap("step", "end", ident - 1, batch=Tensor(8))
            program.wrap("step", "begin", ident, batch=None)
            program.model.loading_begins(task)
            program.clock.advance(load)
            program.model.loading_ends(task)
        program.clock.advance(0.01)
    program.finish()
    for task, load in loads.items():
        waited = {step.loading_ns for step in program.steps if step.task == task}
        assert waited == {round(load * 1e9)}, task


def _iterated(program: Program, task: str, n: int, load: float, work: float) -> None:
    """voir.iterate with a generator: each step is opened before its batch is asked for."""
    program.task = task
    for ident in range(n + 1):
        program.wrap("step", "begin", ident, batch=None)
        program.model.loading_begins(task)
        program.clock.advance(load if ident < n else 0)
        program.model.loading_ends(task, exhausted=ident == n)
        program.clock.advance(work if ident < n else 0)
        batch = Tensor(16) if ident < n else None
        program.wrap("step", "end", ident, batch=batch)


def test_steps_that_wait_for_their_batch_within_are_told_from_what_lies_between_epochs() -> None:
    program = Program()
    for _ in range(3):
        _iterated(program, "train", 50, load=0.004, work=0.006)
        _iterated(program, "eval", 10, load=0.001, work=0.003)
        program.clock.advance(0.25)
    program.finish()
    train, evaluation = program.section("train"), program.section("eval")
    assert train["loading"] == {"seconds": pytest.approx(150 * 0.004), "share": pytest.approx(0.4)}
    assert train["rate"]["steady"] == pytest.approx(16 / 0.01)
    assert train["pause"] == {"seconds": pytest.approx(2 * 0.29), "count": 2}
    assert evaluation["loading"]["share"] == pytest.approx(0.25)
    assert evaluation["pause"]["seconds"] == pytest.approx(2 * 0.75)


def test_what_follows_the_last_step_in_a_loop_is_no_pause() -> None:
    """A step ends with the optimizer; then the script logs, also after the last of an epoch."""
    program = Program("loader, step")
    for _ in range(4):
        for batch in program.batches(25, 0.003):
            program.clock.advance(0.004)
            program.give(step=True, batch=batch)
            program.clock.advance(0.002)
        program.clock.advance(0.5)
    program.finish()
    section = program.section()
    assert section["pause"] == {"seconds": pytest.approx(3 * 0.5), "count": 3}
    assert section["loading"]["share"] == pytest.approx(1 / 3)
    assert section["rate"]["steady"] == pytest.approx(32 / 0.009)
    ends = [step.end_ns for step in program.steps]
    assert all(step.start_ns >= end for step, end in zip(program.steps[1:], ends, strict=False))


def test_a_size_that_cannot_be_is_told_and_the_step_counts() -> None:
    program = Program()
    for number in range(20):
        program.clock.advance(0.01)
        program.give(step=number, batch_size=10**30 if number % 2 else 3)
    program.finish()
    assert (program.section()["steps"], program.section()["items"]) == (20, 30)
    assert [problem.slug for problem in program.problems] == ["batch-size"]


def test_a_step_event_after_its_pair_extends_the_step() -> None:
    """The pair surrounds forward and backward, the step ends after the optimizer."""
    program = Program()
    for ident in range(20):
        program.clock.advance(0.002)
        program.wrap("compute_start", "begin", ident)
        program.clock.advance(0.006)
        program.wrap("compute_start", "end", ident)
        program.clock.advance(0.004)
        program.give(step=True, batch=Tensor(8))
    program.finish()
    assert len(program.steps) == 20
    last = program.steps[-1]
    assert (last.items, last.loading_ns, last.compute_ns) == (8, 2_000_000, 6_000_000)
    assert last.busy_ns == 12_000_000


def test_a_hitch_between_a_pair_and_its_step_event_makes_no_step_more() -> None:
    program = Program()
    for ident in range(20):
        program.clock.advance(0.0001)
        program.wrap("compute_start", "begin", 1)
        program.clock.advance(0.0002)
        program.wrap("compute_start", "end", 1, batch=Tensor(8))
        program.clock.advance(0.003 if ident == 9 else 0.000_002)  # The garbage collector.
        program.give(step=True, batch=Tensor(8))
    program.finish()
    assert program.section()["steps"] == 20
    assert program.section()["items"] == 160


def test_a_step_event_long_after_a_pair_is_a_step_of_another_loop() -> None:
    program = Program("pair")
    program.epoch(10)
    program.form = "step"
    program.pause(1.0)
    program.epoch(10)
    program.finish()
    assert program.section()["steps"] == 20


def test_a_pair_left_open_does_not_swallow_the_steps_after_it() -> None:
    program = Program()
    program.wrap("compute_start", "begin", 1)  # An exception: it never ends.
    program.wrap("compute_start", "begin", 2)
    program.clock.advance(0.01)
    program.wrap("compute_start", "end", 2, batch=Tensor(8))
    for ident in range(10):
        program.clock.advance(0.01)
        program.wrap("step", "begin", ident)
        program.clock.advance(0.01)
        program.wrap("step", "end", ident, batch=Tensor(8))
    program.finish()
    assert program.section()["steps"] == 11


def test_pairs_that_an_exception_left_open_are_no_steps_and_hide_none() -> None:
    program = Program()
    for ident in range(100):
        program.wrap("compute_start", "begin", ident)
        program.clock.advance(0.01)
        if ident % 3:
            program.wrap("compute_start", "end", ident, batch=Tensor(8))
    program.finish()
    assert program.section()["steps"] == 66


def test_a_script_that_is_stopped_at_its_step_event_has_that_step() -> None:
    """The stop is raised by the step event's own listener: the pair around it never ends."""
    program = Program("pair, step")
    program.epoch(4)
    program.clock.advance(0.004)
    program.wrap("compute_start", "begin", 77)
    program.clock.advance(0.010)
    program.give(step=True, batch=Tensor(32))
    program.finish()
    section = program.section()
    assert (section["steps"], section["items"]) == (5, 160)
    assert program.steps[-1].compute_ns == 10_000_000


def test_an_end_without_a_beginning_is_no_step() -> None:
    program = Program()
    program.wrap("compute_start", "end", 1, batch=Tensor(8))
    program.finish()
    assert program.steps == []


def test_pairs_that_overlap_share_the_time() -> None:
    """Two coroutines on one thread."""
    program = Program()
    for turn in range(0, 20, 2):
        program.wrap("step", "begin", turn)
        program.wrap("step", "begin", turn + 1)
        program.clock.advance(0.01)
        program.wrap("step", "end", turn, batch=Tensor(8))
        program.clock.advance(0.01)
        program.wrap("step", "end", turn + 1, batch=Tensor(8))
    program.finish()
    assert sum(step.compute_ns or 0 for step in program.steps) == 200_000_000


def test_two_threads_at_once_add_their_rates() -> None:
    program = Program("step")
    for _ in range(50):
        for thread in (1, 2):
            program.thread = thread
            program.clock.advance(0.005)
            program.give(step=True, batch=Tensor(8))
    program.finish()
    section = program.section()
    assert (section["steps"], section["items"]) == (100, 800)
    assert section["rate"]["median"] == pytest.approx(8 / 0.005, rel=0.02)
    assert section["rate"]["steady"] == pytest.approx(8 / 0.005, rel=0.02)


def test_threads_one_after_the_other_do_not_add() -> None:
    program = Program("step")
    for thread in (1, 2):
        program.thread = thread
        for _ in range(50):
            program.clock.advance(0.005)
            program.give(step=True, batch=Tensor(8))
    program.finish()
    assert program.section()["rate"]["median"] == pytest.approx(8 / 0.005, rel=0.01)


def test_a_hundred_threads_that_are_in_a_step_at_once_lose_none() -> None:
    program = Program("pair")
    for turn in range(3):
        for end in (False, True):
            for thread in range(100):
                program.thread = thread
                program.clock.advance(0.0005)
                pair = {"name": "compute", "step": "end" if end else "begin", "id": thread}
                program.give(**{"$wrap": pair}, **({"batch_size": 8 + turn} if end else {}))
    program.finish()
    section = program.section()
    assert (section["steps"], section["items"]) == (300, 100 * (8 + 9 + 10))


def test_threads_that_were_in_no_step_make_room_before_others() -> None:
    program = Program("pair")
    program.thread = 10**6
    program.give(**{"$wrap": {"name": "compute", "step": "begin", "id": 1}})
    for thread in range(2 * THREADS):
        program.thread = thread
        program.clock.advance(0.005)
        program.give(step=True, batch_size=8)
    program.thread = 10**6
    program.give(**{"$wrap": {"name": "compute", "step": "end", "id": 1}}, batch_size=5)
    program.finish()
    section = program.section()
    assert (section["steps"], section["items"]) == (2 * THREADS + 1, 16 * THREADS + 5)


def test_a_thousand_threads_lose_no_step() -> None:
    program = Program("step")
    for thread in range(1000):
        program.thread = thread
        program.clock.advance(0.005)
        program.give(step=True, batch_size=8)
    assert len(program.model._threads._threads) <= THREADS
    program.finish()
    assert program.section()["items"] == 8000


def test_a_thousand_tasks_lose_no_step_of_the_first() -> None:
    program = Program("step")
    for number in range(1000):
        program.clock.advance(0.005)
        program.give(step=True, batch_size=8)
        program.give(step=True, batch_size=8, task=f"task {number}")
    program.finish()
    assert program.section()["steps"] == 1000


def test_tasks_keep_apart() -> None:
    program = Program("step")
    for _ in range(10):
        for task, size in (("train", 32), ("eval", 64)):
            program.clock.advance(0.01)
            program.give(step=True, batch_size=size, task=task)
    program.finish()
    assert program.section("train")["items"] == 320
    assert program.section("eval")["items"] == 640


def test_a_clock_that_jumps_back_makes_no_step_of_negative_length() -> None:
    clock = FakeClock(now_ns=10**12)
    got: list[Step] = []
    model = StepModel(clock)
    model.sinks.append(got.extend)
    for jump in [0.01] * 20 + [-500.0] + [0.01] * 20:
        clock.advance(jump)
        model({"step": True, "batch_size": 8})
    model.finish()
    assert len(got) == 41
    assert all((step.busy_ns or 0) >= 0 for step in got)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("back", [1.0, 3600.0])
def test_a_clock_that_jumps_back_spoils_one_step_and_no_rate(form: str, back: float) -> None:
    program = Program(form)

    def jump(turn: int) -> float:
        if turn == 100:
            program.clock.advance(-back)
        return 0.01

    program.epoch(200, compute=jump)
    program.finish()
    section = program.section()
    assert (section["steps"], section["items"]) == (200, 6400)
    assert section["rate"]["median"] == pytest.approx(32 / 0.014, rel=0.01)
    assert section["rate"]["steady"] == pytest.approx(32 / 0.014, rel=0.02)


@pytest.mark.parametrize(
    "batch", [object(), "text", Tensor(), [], iter([1]), 5], ids=lambda b: type(b).__name__
)
def test_a_batch_of_unknown_size_is_a_step_and_reported_once(batch: object) -> None:
    program = Program()
    for _ in range(20):
        program.clock.advance(0.01)
        program.give(step=True, batch=batch)
    program.finish()
    section = program.section()
    assert (section["steps"], section["units"]) == (20, "steps")
    assert "items" not in section
    assert section["rate"]["median"] == pytest.approx(100)
    assert [problem.slug for problem in program.problems] == ["batch-size"]


def test_items_and_seconds_come_from_the_same_steps() -> None:
    """Every other batch has no known size: its time does not count either."""
    program = Program()
    for i in range(40):
        program.clock.advance(0.01 if i % 2 else 0.03)
        program.give(step=True, batch=Tensor(8) if i % 2 else "text")
    program.finish()
    assert program.section()["rate"]["median"] == pytest.approx(800)


@pytest.mark.parametrize("size", [-1, 2.5, "many", float("nan"), object()])
def test_a_batch_size_that_is_none_is_reported(size: object) -> None:
    program = Program()
    program.give(step=True, batch_size=size)
    program.finish()
    assert [step.items for step in program.steps] == [None]
    assert len(program.problems) == 1


def test_a_task_that_never_ends_has_a_summary_all_the_same() -> None:
    program = Program("pair")
    program.epoch(40)
    program.model.drain()
    program.wrap("compute_start", "begin", 1000)
    assert program.section()["steps"] == 39


def test_events_from_two_threads_that_drain_at_once_are_worked_off_once() -> None:
    program = Program("step")
    program.model.sinks.append(lambda steps: program.model.drain())
    program.epoch(3 * BATCH)
    program.finish()
    assert [step.number for step in program.steps] == list(range(3 * BATCH))


def test_what_the_scripts_own_thread_works_off_is_charged() -> None:
    clock = FakeClock()
    charged: list[int] = []
    model = StepModel(clock, charge=charged.append)
    model.sinks.append(lambda steps: clock.advance(0.001))
    for _ in range(2 * BATCH + 2):
        model({"step": True, "batch_size": 8})
    assert charged == [1_000_000] * 2
    model.drain()
    assert len(charged) == 2  # A timer is charged for all that its thread does.


BOUNDARIES = [
    "step", "begin", "end", "load", "loaded", "exhausted", "enter", "leave", "restart", "pause",
    "resume",
]  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(BOUNDARIES), st.integers(0, 3), st.sampled_from([0.0, 0.001, 0.02, 3.0])
        ),
        max_size=80,
    )
)
def test_whatever_boundaries_come_no_time_is_counted_twice(
    boundaries: list[tuple[str, int, float]],
) -> None:
    program = Program()
    for kind, ident, seconds in boundaries:
        program.clock.advance(seconds)
        boundary(program, kind, ident)
    program.finish()
    total = sum((step.busy_ns or 0) + step.pause_ns for step in program.steps)
    assert total <= program.clock.now_ns() - 5_000_000_000
    for step in program.steps:
        parts = [step.busy_ns, step.loading_ns, step.compute_ns, step.pause_ns]
        assert all(part is None or part >= 0 for part in parts)
        if None not in parts:
            assert (step.loading_ns or 0) + (step.compute_ns or 0) <= (step.busy_ns or 0)


def boundary(program: Program, kind: str, ident: int) -> None:
    model = program.model
    if kind in ("begin", "end"):
        program.wrap(("step", "compute_start")[ident % 2], kind, ident, batch=Tensor(2))
    elif kind == "step":
        program.give(step=True, batch=Tensor(2))
    elif kind == "restart":
        program.give(task="train", progress=(0, 10))
    elif kind in ("load", "loaded", "exhausted"):
        if kind == "load":
            model.loading_begins(ident)
        else:
            model.loading_ends(ident, exhausted=kind == "exhausted")
    elif kind in ("pause", "resume"):
        (model.pause_begins if kind == "pause" else model.pause_ends)()
    else:
        (model.loop_begins if kind == "enter" else model.loop_ends)()


def test_an_evaluation_before_the_training_is_no_part_of_its_first_step() -> None:
    program = Program("step")
    for task in ("eval", "train"):
        program.model.body_begins(program.clock.now_ns(), own=True)
        for _ in range(3):
            program.clock.advance(0.4)
            program.give(task=task, step=True, batch=Tensor(8))
        program.clock.advance(1.0)
    program.finish()
    for task in ("eval", "train"):
        section = program.section(task)
        assert section["first_step_seconds"] == pytest.approx(0.4)
        assert section["pause"]["seconds"] == 0


@pytest.mark.parametrize("own", [True, False])
def test_an_evaluation_in_the_first_step_is_a_pause_of_it(own: bool) -> None:
    program = Program("step")
    program.model.body_begins(program.clock.now_ns(), own)
    program.clock.advance(0.1)
    if own:
        program.model.body_begins(program.clock.now_ns(), own)
    for _ in range(4):
        program.clock.advance(0.3)
        program.give(task="eval", step=True, batch=Tensor(8))
    for _ in range(3):
        program.clock.advance(0.4)
        program.give(step=True, batch=Tensor(8))
    program.finish()
    train, evaluation = program.section("train"), program.section("eval")
    if own:
        assert train["first_step_seconds"] == pytest.approx(0.5)
        assert evaluation["first_step_seconds"] == pytest.approx(0.3)
        assert train["pause"]["seconds"] == pytest.approx(1.2)
    else:  # Whose beginning was seen is not known.
        assert "first_step_seconds" not in train
        assert "first_step_seconds" not in evaluation


def test_where_a_pair_began_first_is_no_other_tasks_beginning() -> None:
    program = Program("pair")
    program.model.body_begins(program.clock.now_ns())
    program.epoch(5)
    program.give(task="epoch", step=True, batch_size=160)
    program.finish()
    assert "first_step_seconds" not in program.section("epoch")


def test_a_step_that_is_told_late_has_ended_when_it_did() -> None:
    program = Program("step")
    ended = []
    for _ in range(3):
        program.clock.advance(0.4)
        ended.append(program.clock.now_ns())
        program.clock.advance(0.2)
        program.give(**{"$ended": ended[-1]}, step=True, batch=Tensor(8))
    program.model.finish()
    assert [step.end_ns for step in program.steps] == ended


@pytest.mark.parametrize("options", [{}, {"multiplier": 10}, {"batch_size": 7}])
@pytest.mark.parametrize("size", [8, 0, -1, True, 2.0, "many", None, Tensor(4)])
def test_who_knows_the_keys_of_events_beforehand_hears_the_same(
    size: object, options: dict[str, Any]
) -> None:
    """Events of one kind are handed to a listener made for their keys."""
    told = []
    for prepared in (False, True):
        program = Program(**options)
        hear = program.model.listeners()[0][0]
        if prepared:
            hear = hear.for_keys(("step", "batch_size", "loss"))  # type: ignore[attr-defined]
        for number in range(3):
            program.clock.advance(0.5)
            hear({"step": number, "batch_size": size, "loss": 0.1})
        program.finish()
        told.append((program.steps, [problem.slug for problem in program.problems]))
    assert told[0] == told[1]


def test_a_thread_that_waits_while_another_makes_steps_does_not_pause() -> None:
    program = Program("step")
    for _ in range(40):
        for program.thread in (1, 2):  # They have the interpreter in turns.
            for _ in range(10):
                program.clock.advance(0.001)
                program.give(step=True, batch=Tensor(8))
    program.model.finish()
    assert len(program.steps) == 800
    assert sum(step.pause_ns for step in program.steps) == 0


def test_an_evaluation_of_one_step_takes_no_time_of_the_training_between() -> None:
    program = Program("step")
    for _ in range(6):
        for _ in range(10):
            program.clock.advance(0.010)
            program.give(step=True, batch=Tensor(8))
        program.clock.advance(0.002)
        program.give(task="eval", step=True, batch=Tensor(8))
    program.model.finish()
    evaluated = [step for step in program.steps if step.task == "eval"]
    assert {step.busy_ns for step in evaluated[1:]} == {2_000_000}


@pytest.mark.parametrize("device", [False, True])
@pytest.mark.parametrize(("steps", "epochs"), [(1, 1), (3, 1), (3, 2), (40, 3)])
def test_what_the_body_does_behind_the_end_of_a_step_is_that_step_s(
    steps: int, epochs: int, device: bool
) -> None:
    program = Program("loader", device)
    for _ in range(epochs):
        for batch in program.batches(steps, 0.1):
            program.work(0.05)
            program.give(step=True, batch=batch)
            program.work(0.15)  # It logs, keeps an average of the weights.
            program.synchronize()
        program.clock.advance(1.0)
    program.finish()
    assert len(program.steps) == steps * epochs
    for step in program.steps:
        assert step.loading_ns == pytest.approx(0.1e9, rel=0.01)
        assert step.compute_ns == pytest.approx(0.2e9, rel=0.01)
        assert step.busy_ns == pytest.approx(0.3e9, rel=0.01)
    assert program.steps[-1].end_ns - program.steps[0].start_ns == pytest.approx(
        (0.3 * steps * epochs + 1.0 * (epochs - 1)) * 1e9, rel=0.01
    )


@pytest.mark.parametrize("behind", [False, True])
def test_a_checkpoint_in_the_body_is_a_pause_on_either_side_of_the_end_of_a_step(
    behind: bool,
) -> None:
    program = Program("loader")
    for number, batch in enumerate(program.batches(120, 0.010)):
        program.work(0.02 + (0.5 if number % 40 == 30 and not behind else 0))
        program.give(step=True, batch=batch)
        program.work(0.01 + (0.5 if number % 40 == 30 and behind else 0))
    program.finish()
    assert sum(step.pause_ns for step in program.steps) == pytest.approx(1.5e9, rel=0.01)
    for step in program.steps:
        assert step.busy_ns == pytest.approx(0.04e9, rel=0.01)


@pytest.mark.parametrize("same", [False, True])
def test_a_step_that_an_exception_left_behind_its_end_is_not_lost(same: bool) -> None:
    program = Program("pair, step")
    program.epoch(6)
    for ident, more in ((100, 1), (100 if same else 101, 20)):
        for number, batch in enumerate(program.batches(more, 0.004)):
            program.wrap("compute_start", "begin", ident)
            program.work(0.010)
            program.give(step=True, batch=batch)
            if more > 1 or number:  # Of the first it ends the loop: a stop.
                program.wrap("compute_start", "end", ident)
    program.finish()
    assert [step.number for step in program.steps] == list(range(27))
    assert sum(step.items or 0 for step in program.steps) == 27 * 32


@pytest.mark.parametrize("saved", [False, True])
def test_a_checkpoint_behind_the_last_step_of_an_epoch_is_a_pause(saved: bool) -> None:
    program = Program("loader")
    for epoch in range(4):
        for number, batch in enumerate(program.batches(12, 0.010)):
            program.work(0.020)
            program.give(step=True, batch=batch)
            program.work(0.010)
            if number == 11:
                program.wrap("pause", "begin", epoch) if saved else None
                program.work(0.5)
                program.wrap("pause", "end", epoch) if saved else None
    program.finish()
    for step in program.steps:
        assert step.busy_ns == pytest.approx(0.04e9, rel=0.01)
    seconds = sum(step.pause_ns for step in program.steps) / 1e9
    assert seconds == pytest.approx(4 * 0.5, rel=0.01)


def test_the_compute_of_a_pair_is_what_it_surrounds_also_in_an_epoch_s_last_step() -> None:
    program = Program("loader")
    for epoch in range(4):
        for batch in program.batches(12, 0.010):
            program.wrap("compute_start", "begin", epoch)
            program.work(0.020)
            program.wrap("compute_start", "end", epoch, batch=batch)
            program.work(0.010)
    program.finish()
    assert [step.compute_ns for step in program.steps] == [pytest.approx(0.02e9, rel=0.01)] * 48
