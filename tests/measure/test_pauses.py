"""What is neither loading nor compute is a pause, measured where it shows, never invented."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from overseer.measure.hearing import ENDED
from overseer.measure.typical import FLOOR_NS, Typical

from .program import FORMS, Program, Tensor


def pauses(program: Program) -> Any:
    section = program.section()["pause"]
    return section["seconds"], section["count"]


@pytest.mark.parametrize("form", FORMS)
def test_a_loader_that_stalls_every_eighth_batch_is_slow_and_does_not_pause(form: str) -> None:
    program = Program(form)
    for call in range(200):
        for batch in program.batches(1, 0.3 if call % 8 == 7 else 0.001):
            with program.body(0, batch):
                program.work(0.01)
    program.finish()
    if "loader" not in form:  # Each watched batch above is an epoch of its own.
        assert pauses(program)[0] == 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("every", [10, 11, 12, 13, 17, 25])
def test_a_checkpoint_of_every_tenth_step_is_a_pause_each_time(form: str, every: int) -> None:
    program = Program(form)
    for number, batch in enumerate(program.batches(150, 0.002), 1):
        with program.body(0, batch):
            program.work(0.01)
            if number % every == 0:
                program.work(0.2)
    program.finish()
    assert pauses(program) == (pytest.approx(150 // every * 0.2, rel=0.01), 150 // every)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("every", range(2, 9))
def test_what_happens_to_every_eighth_step_is_usual(form: str, every: int) -> None:
    program = Program(form)
    program.epoch(150, compute=lambda step: 0.2 if step % every == 0 else 0.01)
    program.finish()
    assert pauses(program) == (0, 0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("every", [10, 12, 15, 40])
@pytest.mark.parametrize("first", [0.01, 0.1, 0.3, 3])
def test_what_is_more_seldom_is_a_pause_however_long_the_first_step_was(
    form: str, every: int, first: float
) -> None:
    program = Program(form)
    lengths = {0: first} | dict.fromkeys(range(every - 1, 125, every), 0.2)
    program.epoch(125, compute=lambda step: lengths.get(step, 0.01))
    program.finish()
    many = 125 // every
    assert pauses(program) == (pytest.approx(many * 0.19, rel=0.05), many)


@pytest.mark.parametrize("form", FORMS)
def test_a_declared_pause_behind_the_last_step_is_one(form: str) -> None:
    program = Program(form)
    for ident in range(3):
        program.epoch(6)
        program.wrap("pause", "begin", ident)
        program.clock.advance(0.5)
        program.wrap("pause", "end", ident)
    program.finish()
    assert pauses(program) == (pytest.approx(3 * 0.5, rel=0.01), 3)
    at_least = 18 * 0.010 + 3 * 0.5
    wall = program.items / program.section()["rate"]["wall"]
    assert at_least < wall < 1.06 * (at_least + 18 * 0.004)  # Of ends alone, the first is missing.


@pytest.mark.parametrize("form", FORMS)
def test_a_script_that_gets_slower_for_good_does_not_pause(form: str) -> None:
    program = Program(form)
    program.epoch(200, compute=lambda step: 0.01 if step < 80 else 0.2)
    program.finish()
    assert pauses(program) == (0, 0)


def test_a_checkpoint_behind_an_evaluation_is_a_pause_too() -> None:
    program = Program("step")
    for call, batch in enumerate(program.batches(60, 0.004)):
        if call in (20, 40):
            program.task = "eval"
            for _ in range(3):
                program.clock.advance(0.05)
                program.give(step=True, batch=batch)
            program.task = None
            program.clock.advance(2.0)
        with program.body(0, batch):
            program.work(0.010)
    program.finish()
    seconds, count = pauses(program)
    assert count == 2
    assert seconds == pytest.approx(2 * 2.15, rel=0.01)
    assert program.section()["rate"]["steady"] == pytest.approx(32 / 0.014, rel=0.01)


@pytest.mark.parametrize("seen", ["step", "pair"])
@pytest.mark.parametrize("form", FORMS)
def test_a_checkpoint_between_an_evaluation_and_the_next_epoch_is_a_pause(
    form: str, seen: str
) -> None:
    program = Program(form)
    for epoch in range(4):
        program.epoch(40, load=0.010, compute=0.020)
        program.task = "eval"
        for ident in range(10):
            if seen == "pair":
                program.clock.advance(0.005)
                program.wrap("compute_start", "begin", ident)
            program.clock.advance(0.010)
            if seen == "pair":
                program.wrap("compute_start", "end", ident, batch_size=16)
            else:
                program.give(step=True, batch_size=16)
        program.task = None
        if epoch < 3:
            program.clock.advance(0.3)
    program.finish()
    section, evaluation = program.section(), 0.15 if seen == "pair" else 0.1
    assert pauses(program)[0] == pytest.approx(3 * (evaluation + 0.3), rel=0.01)
    assert section["rate"]["steady"] == pytest.approx(32 / 0.030, rel=0.01)


@pytest.mark.parametrize("warmup", [10, 20, 50])
@pytest.mark.parametrize("form", FORMS)
def test_the_first_checkpoint_after_a_slow_warm_up_is_a_pause(form: str, warmup: int) -> None:
    program = Program(form)
    for number, batch in enumerate(program.batches(200, 0.001)):
        with program.body(0, batch):
            program.work(0.060 if number < warmup else 0.015)
            if number % 30 == 29:
                program.work(0.25)
    program.finish()
    assert pauses(program) == (pytest.approx(6 * 0.25, rel=0.01), 6)


@pytest.mark.parametrize("form", FORMS)
def test_the_work_on_a_large_batch_is_no_pause(form: str) -> None:
    program = Program(form)
    for _ in range(6):
        for size in [16] * 19 + [160]:
            for batch in program.batches(1, 0.001, size):
                with program.body(0, batch):
                    program.work(0.001 * size)
    program.finish()
    if "loader" not in form:  # Each watched batch above is an epoch of its own.
        assert pauses(program) == (0, 0)


def test_a_slow_beginning_is_warm_up_and_no_pause() -> None:
    program = Program("step")
    program.epoch(100, compute=lambda step: 5.0 if step < 4 else 0.01)
    program.finish()
    assert pauses(program) == (0, 0)
    assert program.section()["steady"]["from_step"] == 4


@pytest.mark.parametrize("form", [form for form in FORMS if "loader" in form])
def test_a_stall_of_a_watched_loader_is_loading_however_long(form: str) -> None:
    program = Program(form)
    for batch in (batch for stall in ([0.001] * 50, [9.0], [0.001] * 50) for batch in stall):
        program.model.loading_begins("train")
        program.clock.advance(batch)
        program.model.loading_ends("train")
        with program.body(0, Tensor(32)):
            program.work(0.01)
    program.finish()
    assert pauses(program) == (0, 0)
    assert sum(step.loading_ns or 0 for step in program.steps) == pytest.approx(9.1e9, rel=1e-6)


@pytest.mark.parametrize("form", [form for form in FORMS if "loader" in form])
@pytest.mark.parametrize(("steps", "seconds"), [(6, 0.4), (1, 0)])
def test_a_loader_that_begins_anew_was_left(form: str, steps: int, seconds: float) -> None:
    program = Program(form)
    for _ in range(3):
        program.model.loader_begins("train")
        for _ in range(steps):
            program.model.loading_begins("train")
            program.clock.advance(0.001)
            program.model.loading_ends("train")
            with program.body(0, Tensor(32)):
                program.work(0.01)
        program.clock.advance(0.2)
    program.finish()
    assert pauses(program)[0] == pytest.approx(seconds, rel=0.01)


@pytest.mark.parametrize("form", [form for form in FORMS if "loader" in form])
def test_a_wait_that_an_exception_ended_is_no_later_step_s(form: str) -> None:
    program = Program(form)
    for _ in range(3):
        program.model.loader_begins("train")
        for step in range(6):
            program.model.loading_begins("train")
            program.clock.advance(0.001)
            program.model.loading_ends("train")
            if step == 5:
                break
            with program.body(0, Tensor(32)):
                program.work(0.01)
        program.clock.advance(0.2)
    program.finish()
    assert pauses(program)[0] == pytest.approx(2 * 0.201, rel=0.01)


@pytest.mark.parametrize("form", ["pair", "pair, step"])
def test_another_call_of_the_function_is_a_pause_however_short(form: str) -> None:
    """Fifty epochs of ten steps, five milliseconds apart: no size tells that."""
    program = Program(form)
    for _ in range(50):
        program.epoch(10, load=0.001, compute=0.001)
        program.pause(0.005)
    program.finish()
    assert pauses(program) == (pytest.approx(49 * 0.005, rel=0.01), 49)
    assert program.section()["loading"]["share"] == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize("form", FORMS)
def test_an_evaluation_that_gives_its_own_steps_is_measured_and_not_mixed(form: str) -> None:
    program = Program(form)
    for _ in range(4):
        program.task = None
        program.epoch(20)
        program.task = "eval"
        program.epoch(5, load=0.001, compute=0.002)
    program.finish()
    train, evaluation = program.section("train"), program.section("eval")
    assert (train["steps"], evaluation["steps"]) == (80, 20)
    assert evaluation["rate"]["median"] == pytest.approx(32 / 0.003, rel=0.01)
    assert train["rate"]["median"] == pytest.approx(32 / 0.014, rel=0.01)
    assert train["pause"]["seconds"] == pytest.approx(3 * 5 * 0.003, rel=0.01)
    assert train["pause"]["count"] == 3


def test_tasks_that_take_turns_are_no_pause_to_each_other_when_only_ends_are_seen() -> None:
    program = Program()
    for _ in range(30):
        for task in ("generator", "discriminator"):
            program.clock.advance(0.01)
            program.give(task=task, step=True, batch=Tensor(8))
    program.finish()
    for task in ("generator", "discriminator"):
        assert program.section(task)["pause"] == {"seconds": 0, "count": 0}


def test_steps_of_an_epoch_hold_the_steps_of_its_batches() -> None:
    program = Program("step")
    for _ in range(6):
        program.epoch(10)
        program.give(task="epoch", step=True, batch_size=320)
    program.finish()
    section = program.section("epoch")
    assert section["rate"]["median"] == pytest.approx(320 / 0.14)
    assert section["pause"]["seconds"] == 0


@pytest.mark.parametrize("within", [True, False])
def test_an_evaluation_with_a_watched_loader_and_no_steps_is_a_pause(within: bool) -> None:
    """Within the body of the training loop, or between its steps."""
    program = Program("loader, pair")
    for turn in range(60):
        program.model.loading_begins("train")
        program.clock.advance(0.004)
        program.model.loading_ends("train")
        with program.body(0, Tensor(32)):
            program.work(0.01)
            if within and turn % 7 == 3:
                evaluate(program)
        if not within and turn % 7 == 3:
            evaluate(program)
    program.finish()
    section = program.section()
    assert section["pause"] == {"seconds": pytest.approx(9 * 0.03), "count": 9}
    assert section["loading"]["share"] == pytest.approx(4 / 14)
    assert section["rate"]["q1"] == pytest.approx(32 / 0.014)


@pytest.mark.parametrize("form", [form for form in FORMS if "loader" in form])
@pytest.mark.parametrize("declared", [False, True])
def test_a_test_after_the_training_is_no_pause_of_it_unless_it_is_declared(
    form: str, declared: bool
) -> None:
    program = Program(form)
    for turn in range(3):
        program.epoch(20)
        if turn < 2:
            evaluate(program)
    if declared:
        program.model.pause_begins()
    evaluate(program)
    evaluate(program)
    if declared:
        program.model.pause_ends()
    program.finish()
    section, n = program.section(), 4 if declared else 2
    assert section["pause"] == {"seconds": pytest.approx(n * 0.03), "count": 3 if declared else 2}
    assert 60 * 32 / section["rate"]["wall"] == pytest.approx(60 * 0.014 + n * 0.03, rel=0.01)


@pytest.mark.parametrize("form", FORMS)
def test_an_evaluation_of_a_task_of_its_own_within_a_step_is_a_pause(form: str) -> None:
    """Its first batch is its own, and the training's is not."""
    program = Program(form)
    for turn in range(60):
        program.task = None
        watched(program, "train", 0.004)
        with program.body(0, Tensor(32)):
            program.work(0.01)
            for _ in range(3 if turn % 7 == 3 else 0):
                program.task = "eval"
                watched(program, "validation", 0.002)
                with program.body(1, Tensor(16)):
                    program.work(0.006)
                program.task = None
    program.finish()
    train, evaluation = program.section(), program.section("eval")
    assert (train["steps"], evaluation["steps"]) == (60, 27)
    assert train["rate"]["steady"] == pytest.approx(32 / 0.014, rel=0.01)
    if "loader" in form:
        assert train["pause"] == {"seconds": pytest.approx(9 * 0.024), "count": 9}
        assert train["loading"]["share"] == pytest.approx(4 / 14)
        assert evaluation["loading"]["share"] == pytest.approx(2 / 8)


def watched(program: Program, source: str, seconds: float) -> None:
    """A batch that the script waits for, of a loader that is watched in some forms."""
    if "loader" in program.form:
        program.model.loading_begins(source)
    program.clock.advance(seconds)
    if "loader" in program.form:
        program.model.loading_ends(source)


def evaluate(program: Program) -> None:
    for _ in range(3):
        program.model.loading_begins("validation")
        program.clock.advance(0.004)
        program.model.loading_ends("validation")
        program.clock.advance(0.006)
    program.model.loading_begins("validation")
    program.model.loading_ends("validation", exhausted=True)


@pytest.mark.parametrize("form", FORMS)
def test_a_declared_pause_is_measured_wherever_it_is(form: str) -> None:
    program = Program(form)

    def save(step: int) -> float:
        if step % 2:
            program.wrap("pause", "begin", 0)
            program.clock.advance(0.002)
            program.wrap("pause", "end", 0)
        return 0.0

    program.epoch(60, checkpoint=save)
    program.finish()
    assert pauses(program) == (pytest.approx(30 * 0.002), 30)
    assert program.section()["rate"]["q1"] == pytest.approx(32 / 0.014)


def test_pauses_within_pauses_count_once() -> None:
    program = Program("step")
    program.epoch(5)
    model = program.model
    model.loop_begins()
    model.pause_begins()
    program.clock.advance(1.0)
    evaluate(program)
    model.pause_begins()
    program.clock.advance(1.0)
    model.pause_ends()
    model.pause_ends()
    model.loop_ends()
    program.epoch(5)
    program.finish()
    assert pauses(program)[0] == pytest.approx(2.03)


@pytest.mark.parametrize("form", FORMS)
def test_loops_that_say_when_they_begin_and_end_need_no_guess(form: str) -> None:
    program = Program(form)
    for _ in range(5):
        program.clock.advance(0.003)
        program.model.loop_begins()
        program.epoch(6)
        program.model.loop_ends()
    program.finish()
    assert pauses(program) == (pytest.approx(4 * 0.003), 4)
    assert not any(step.estimated for step in program.steps)
    assert program.section()["first_step_seconds"] == pytest.approx(0.014)


@pytest.mark.parametrize("form", ["step", "pair", "wrap"])
def test_progress_at_zero_begins_a_loop(form: str) -> None:
    """What voir.iterate gives before its first batch."""
    program = Program(form)
    for _ in range(5):
        program.clock.advance(0.5)
        program.give(task="train", progress=(0, 6))
        program.task = "train"
        program.epoch(6)
    program.finish()
    assert pauses(program) == (pytest.approx(4 * 0.5), 4)
    assert not any(step.estimated for step in program.steps)


def test_a_pause_in_the_last_step_is_told_too() -> None:
    program = Program("step")
    program.epoch(50, checkpoint=lambda step: 2.0 if step == 49 else 0.0)
    program.finish()
    assert pauses(program) == (pytest.approx(2.0), 1)


def test_a_checkpoint_and_an_evaluation_right_after_it_are_both_pauses() -> None:
    program = Program("step")
    program.epoch(50, checkpoint=lambda step: 2.0 if step == 49 else 0.0)
    program.pause(3.0)
    program.epoch(50)
    program.finish()
    assert pauses(program) == (pytest.approx(5.0), 2)


def test_short_outliers_are_the_machines_and_no_pauses() -> None:
    program = Program("step")
    program.epoch(100, load=0, compute=lambda step: 0.009 if step == 50 else 0.0001)
    program.finish()
    assert pauses(program) == (0, 0)


def test_nothing_is_far_from_usual_before_anything_is_usual() -> None:
    usual = Typical()
    assert [usual(ns) for ns in (1, 10**12, 1, 10**12)] == [False] * 4


def test_what_happens_to_one_step_in_eight_is_usual() -> None:
    usual = Typical()
    for i in range(100):
        usual(10**9 if i % 8 == 0 else 10**6)
    assert not usual(10**9)


def test_the_limit_is_never_below_the_floor() -> None:
    usual = Typical()
    for _ in range(100):
        usual(1000)
    assert [usual(FLOOR_NS), usual(FLOOR_NS + 1)] == [False, True]


def test_a_loop_without_steps_within_the_body_is_a_pause_however_short() -> None:
    program = Program("pair")

    def look(step: int) -> float:
        if step % 2:
            program.model.loop_begins()
            program.clock.advance(0.002)
            program.model.loop_ends()
        return 0.0

    program.epoch(60, checkpoint=look)
    program.finish()
    assert pauses(program) == (pytest.approx(30 * 0.002), 30)


def test_a_hitch_of_the_loader_shorter_than_two_steps_is_loading() -> None:
    program = Program("pair")
    for turn in range(100):
        for batch in program.batches(1, 0.015 if turn == 50 else 0.0001):
            with program.body(0, batch):
                program.work(0.01)
    program.finish()
    assert pauses(program) == (0, 0)


def test_an_evaluation_that_breaks_off_is_a_pause_up_to_its_last_batch() -> None:
    """Its loader says nothing more, but it never fed a step."""
    program = Program("loader, step")
    for turn in range(60):
        load(program, "train")
        program.work(0.01)
        if turn % 7 == 3:
            for _ in range(3):
                load(program, "validation")
        program.give(step=True, batch=Tensor(32))
    program.finish()
    assert pauses(program) == (pytest.approx(9 * 0.012), 9)
    assert program.section()["loading"]["share"] == pytest.approx(4 / 14)


def load(program: Program, source: str) -> None:
    program.wrap("loading", "begin", 0, source=source)
    program.clock.advance(0.004)
    program.wrap("loading", "end", 0, source=source)


def test_two_loaders_that_feed_every_step_are_both_loading() -> None:
    program = Program("loader, step")
    for _ in range(60):
        load(program, "labelled")
        load(program, "unlabelled")
        program.work(0.01)
        program.give(step=True, batch=Tensor(32))
    program.finish()
    assert pauses(program) == (0, 0)
    assert program.section()["loading"]["share"] == pytest.approx(8 / 18)


def test_a_loader_that_joins_another_is_no_pause_of_every_step() -> None:
    program = Program("loader, step")
    for step in range(90):
        load(program, "labelled")
        if 30 <= step < 60:
            load(program, "unlabelled")
        program.work(0.01)
        program.give(step=True, batch=Tensor(32))
    program.finish()
    assert pauses(program) == (pytest.approx(0.004), 1)


def test_a_loader_within_a_loader_is_waited_for_once() -> None:
    program = Program("loader, step")
    for _ in range(60):
        program.model.loading_begins("chain")
        load(program, "inner")
        program.model.loading_ends("chain")
        program.work(0.01)
        program.give(step=True, batch=Tensor(32))
        program.model.loading_begins("inner")  # An exception ends this one.
    program.finish()
    assert program.section()["loading"]["share"] == pytest.approx(4 / 14)


def test_a_loader_that_says_so_by_an_event_is_used_up() -> None:
    program = Program("loader, step")
    for _ in range(3):
        for _ in range(5):
            load(program, "train")
            program.work(0.01)
            program.give(step=True, batch=Tensor(32))
        program.wrap("loading", "begin", 0, source="train")
        program.wrap("loading", "end", 0, source="train", exhausted=True)
        program.clock.advance(0.005)
    program.finish()
    assert pauses(program) == (pytest.approx(2 * 0.005), 2)


@pytest.mark.parametrize("form", ["step", "pair"])
@pytest.mark.parametrize("first", ["eval", "train"])
def test_the_first_step_of_a_task_begins_behind_another_s_in_the_same_loop(
    form: str, first: str
) -> None:
    program = Program(form)
    program.model.loop_begins()
    for task in (first, "train" if first == "eval" else "eval"):
        program.task = task
        program.epoch(20, load=0.004, compute=0.010)
    program.finish()
    firsts = [step for step in program.steps if step.number == 0]
    assert [step.busy_ns for step in firsts] == [pytest.approx(0.014e9, rel=0.01)] * 2


def test_an_evaluation_s_first_step_does_not_hold_the_rest_of_the_training_step_before_it() -> None:
    program = Program("step")
    for _ in range(4):
        for _ in range(20):
            program.clock.advance(0.010)
            program.give(step=True, batch=Tensor(32))
            program.clock.advance(0.020)  # The body goes on behind the end of the step.
        program.task = "eval"
        for _ in range(5):
            program.clock.advance(0.016)
            program.give(step=True, batch=Tensor(32))
        program.task = None
    program.finish()
    steps = [step for step in program.steps if step.task == "eval" and step.busy_ns is not None]
    assert [step.busy_ns for step in steps] == [pytest.approx(0.016e9, rel=0.01)] * 19


def test_what_the_body_does_before_an_evaluation_is_the_step_s() -> None:
    program = Program("loader")
    for number, batch in enumerate(program.batches(60, 0.010)):
        program.work(0.020)
        program.give(step=True, batch=batch)
        program.work(0.010)
        if number % 20 == 15:
            program.task = "eval"
            for _ in range(5):
                program.model.loading_begins("test")
                program.clock.advance(0.002)
                program.model.loading_ends("test")
                program.clock.advance(0.005)
                program.give(step=True, batch=Tensor(32))
            program.task = None
    program.finish()
    assert pauses(program) == (pytest.approx(3 * 5 * 0.007, rel=0.01), 3)
    steps = [step for step in program.steps if step.task == "train"]
    assert [step.busy_ns for step in steps] == [pytest.approx(0.04e9, rel=0.01)] * 60


@pytest.mark.parametrize("saves", [0, 0.02, 0.1, 0.3])
def test_what_the_body_does_behind_the_last_step_of_an_epoch_counts_once(saves: float) -> None:
    """Then comes a checkpoint, or the workers of the evaluation's loader start."""
    program = Program("loader")
    for _ in range(6):
        for batch in program.batches(10, 0.004):
            program.work(0.008)
            program.give(step=True, batch=batch)
            program.work(0.03)
        program.clock.advance(saves)
        for _ in range(3):
            program.model.loading_begins("test")
            program.clock.advance(0.005)
            program.model.loading_ends("test")
            program.give(task="eval", step=True, batch=Tensor(32))
            program.clock.advance(0.005)
        program.model.loading_begins("test")
        program.model.loading_ends("test", exhausted=True)
    program.finish()
    steps = [step for step in program.steps if step.task == "train"]
    assert [step.busy_ns for step in steps] == [pytest.approx(0.042e9, rel=0.01)] * 60
    between = sum(step.pause_ns for step in steps[:-1])
    assert between == pytest.approx(5e9 * (saves + 0.03), rel=0.01)


def test_an_evaluation_within_a_pair_lasts_until_its_loader_has_no_more() -> None:
    """What its body does behind the last forward pass is no work of the training's."""
    program = Program("loader")
    for number, batch in enumerate(program.batches(40, 0.04)):
        program.wrap("compute_start", "begin", number)
        program.work(0.03)
        if number % 10 == 9:
            for _ in range(5):
                program.model.loading_begins("test")
                program.clock.advance(0.01)
                program.model.loading_ends("test")
                program.give(task="eval", step=True, batch=Tensor(32))
                program.clock.advance(0.02)
            program.model.loading_begins("test")
            program.model.loading_ends("test", exhausted=True)
        program.wrap("compute_start", "end", number, batch=batch)
    program.finish()
    section = program.section()
    assert section["loading"]["seconds"] == pytest.approx(40 * 0.04)
    assert section["compute"]["seconds"] == pytest.approx(40 * 0.03)


def taken_singly(program: Program, source: str, seconds: float) -> None:
    """``next(iter(loader))``: the iterator is gone as soon as it has given a batch."""
    program.model.loader_begins(source)
    program.model.loading_begins(source)
    program.clock.advance(seconds)
    program.model.loading_ends(source)
    program.model.loader_left(source)


def test_batches_that_are_taken_by_an_iterator_each_are_waited_for() -> None:
    program = Program("loader")
    for number in range(60):
        taken_singly(program, "train", 0.02)
        program.work(0.02)
        program.give(step=True, batch=Tensor(32))
        if number % 20 == 10:
            program.clock.advance(0.3)
    program.finish()
    section = program.section()
    assert section["steps"] == 60
    assert section["loading"]["seconds"] == pytest.approx(60 * 0.02)
    assert section["compute"]["seconds"] == pytest.approx(60 * 0.02)
    assert pauses(program) == (pytest.approx(0.9), 3)


def test_so_are_those_of_a_second_loader_in_each_turn() -> None:
    program = Program("loader")
    for _ in range(3):
        program.model.loader_begins("train")
        for batch in program.batches(25, 0.01):
            taken_singly(program, "target", 0.01)
            program.work(0.02)
            program.give(step=True, batch=batch)
    program.finish()
    section = program.section()
    assert section["loading"]["seconds"] == pytest.approx(75 * 0.02)
    assert section["compute"]["seconds"] == pytest.approx(75 * 0.02)
    assert pauses(program)[0] == pytest.approx(0)


def test_a_batch_that_is_only_looked_at_within_the_loop_is_a_pause() -> None:
    program = Program("loader")
    program.model.loader_begins("train")
    for number, batch in enumerate(program.batches(60, 0.02)):
        program.work(0.02)
        program.give(step=True, batch=batch)
        if number % 10 == 5:
            taken_singly(program, "train", 0.02)
            program.clock.advance(0.1)
    program.finish()
    section = program.section()
    assert section["loading"]["seconds"] == pytest.approx(60 * 0.02)
    assert section["compute"]["seconds"] == pytest.approx(60 * 0.02)
    assert pauses(program) == (pytest.approx(6 * 0.12), 6)


@pytest.mark.parametrize("checkpoint", [0, 0.1])
@pytest.mark.parametrize("share", [0, 0.2, 0.7, 1])
def test_a_step_around_an_evaluation_is_as_long_as_its_parts(
    share: float, checkpoint: float
) -> None:
    """So much of its work comes before, the rest behind; in none is it known when one begins."""
    program = Program("step")
    for number in range(200):
        evaluates = number % 15 == 10
        program.clock.advance(0.004)
        program.work(0.02 * (share if evaluates else 1))
        if evaluates:
            program.clock.advance(checkpoint)
            program.task = "eval"
            for _ in range(6):
                program.clock.advance(0.012)
                program.give(step=True, batch=Tensor(32))
            program.task = None
            program.work(0.02 * (1 - share))
        program.give(step=True, batch=Tensor(32))
    program.finish()
    # Of the first evaluation it is not known when its first step began.
    steps = [step for step in program.steps if step.task == "train" and step.number > 20]
    for step in steps:
        cut = 0.2 if checkpoint and step.pause_ns and share < 0.3 else 0.01
        assert step.busy_ns == pytest.approx(0.024e9, rel=cut), step
    paused = [step.pause_ns for step in steps if step.pause_ns]
    assert len(paused) == 12
    for pause in paused:
        assert pause == pytest.approx((6 * 0.012 + checkpoint) * 1e9, rel=0.06)


def test_a_step_around_an_evaluation_that_is_told_of_when_it_is_over_is_as_long_as_usual() -> None:
    program = Program("step")
    for number in range(100):
        program.work(0.024)
        if number % 15 == 10:
            program.clock.advance(0.1)
            program.give(task="eval", step=True, batch=Tensor(256))
        program.give(step=True, batch=Tensor(32))
    program.finish()
    steps = [step for step in program.steps if step.task == "train"][1:]
    assert [step.busy_ns for step in steps] == [pytest.approx(0.024e9)] * 99
    assert pauses(program) == (pytest.approx(6 * 0.1), 6)


@pytest.mark.parametrize("form", ["loader, step", "step"])
def test_a_checkpoint_behind_an_evaluation_in_the_same_iteration_is_a_pause_too(form: str) -> None:
    program = Program(form)
    for number, batch in enumerate(program.batches(200, 0.004), 1):
        with program.body(0, batch):
            program.work(0.02)
            if number % 20 == 0:
                program.task = "eval"
                for _ in range(6):
                    watched(program, "validation", 0.002)
                    with program.body(1, Tensor(16)):
                        program.work(0.006)
                program.task = None
                program.work(0.15)
    program.finish()
    train = program.section()
    assert train["rate"]["steady"] == pytest.approx(32 / 0.024, rel=0.01)
    assert train["pause"]["count"] == 10
    # Where the beginning of the first evaluation is not seen, its first step is not told from ours.
    assert train["pause"]["seconds"] == pytest.approx(10 * (0.15 + 0.048), rel=0.02)


@pytest.mark.parametrize("saves", [0.1, 0])
def test_a_checkpoint_in_the_very_last_iteration_is_a_pause(saves: float) -> None:
    program = Program("loader")
    for _ in range(3):
        for number, batch in enumerate(program.batches(60, 0.004), 1):
            program.work(0.01)
            program.give(step=True, batch=batch)
            program.work(0.001)
            if number % 20 == 0:
                program.clock.advance(saves)
    program.finish()
    assert pauses(program) == (pytest.approx(9 * saves, rel=0.01), 9 if saves else 0)
    wall = 180 * 32 / program.section()["rate"]["wall"]
    assert wall == pytest.approx(180 * 0.015 + 9 * saves, rel=0.01)


@pytest.mark.parametrize("rest", [0.0, 0.002])
@pytest.mark.parametrize("each", [False, True])
def test_a_checkpoint_behind_the_very_first_step_is_a_pause(each: bool, rest: float) -> None:
    """One that is in none of those behind it: else it is a part of each."""
    program = Program("loader")
    for number, batch in enumerate(program.batches(120, 0.004)):
        program.work(0.5 if number == 0 else 0.01)  # It compiles.
        program.give(step=True, batch=batch)
        program.work(rest)
        if each or number % 50 == 0:
            program.clock.advance(0.3)
    program.finish()
    first, second = program.steps[:2]
    assert (len(program.steps), first.number, second.number) == (120, 0, 1)
    if each:
        assert first.busy_ns == pytest.approx((0.504 + 0.3 + rest) * 1e9, rel=0.001)
        assert pauses(program) == (0, 0)
    else:
        assert first.busy_ns == pytest.approx((0.504 + rest) * 1e9, rel=0.001)
        assert second.busy_ns == pytest.approx((0.014 + rest) * 1e9, rel=0.001)
        assert pauses(program) == (pytest.approx(0.9, rel=0.01), 3)


@pytest.mark.parametrize("between", [0, 0.5])
@pytest.mark.parametrize("batches", [10, 11, 12])
def test_a_group_of_batches_that_goes_on_in_the_next_epoch_is_one_step(
    batches: int, between: float
) -> None:
    """Gradients of four batches are added up, wherever an epoch ends."""
    program, number = Program("loader"), 0
    for _ in range(12):
        program.model.loader_begins("train")
        for batch in program.batches(batches, 0.002):
            program.work(0.004)
            number += 1
            if number % 4 == 0:
                program.give(step=True, batch=batch)
        program.clock.advance(between)
    program.finish()
    steps = program.steps
    assert [step.busy_ns for step in steps] == [pytest.approx(0.024e9)] * (12 * batches // 4)
    assert sum(step.pause_ns for step in steps) / 1e9 == pytest.approx(11 * between)


def test_a_checkpoint_in_the_very_last_iteration_is_a_pause_also_before_an_evaluation() -> None:
    program = Program("loader")
    for batch in program.batches(60, 0.004):
        program.work(0.01)
        program.give(step=True, batch=batch)
    program.clock.advance(0.1)
    program.task = "eval"
    for _ in range(5):
        program.work(0.01)
        program.give(step=True, batch=Tensor(32))
    program.finish()
    assert pauses(program) == (0, 0)  # It is behind the loop.
    program = Program("loader")
    for number, batch in enumerate(program.batches(60, 0.004)):
        program.work(0.01)
        program.give(step=True, batch=batch)
        program.work(0.1 if number == 59 else 0)
    program.task = "eval"
    for _ in range(5):
        program.work(0.01)
        program.give(step=True, batch=Tensor(32))
    program.finish()
    assert pauses(program) == (pytest.approx(0.1), 1)


@pytest.mark.parametrize("own", [False, True])
def test_an_evaluation_takes_nothing_of_the_training_s_wait(own: bool) -> None:
    """Its batches come from a list; or from the loader of the training, when that begins anew."""
    program = Program("loader, step")
    for _ in range(3):
        program.task = None
        program.model.loader_begins("train")
        for number, batch in enumerate(program.batches(60, 0.005), 1):
            with program.body(0, batch):
                program.work(0.01)
                if number % 15 == 0 and not own:
                    program.task = "eval"
                    for _ in range(6):
                        program.clock.advance(0.01)
                        program.give(step=True, batch=Tensor(4))
                    program.task = None
        program.task = "eval"
        program.model.loader_begins("train")
        for batch in program.batches(10 if own else 0, 0.005):
            with program.body(0, batch):
                program.work(0.002)
    program.finish()
    train, evaluation = program.section(), program.section("eval")
    assert train["rate"]["steady"] == pytest.approx(32 / 0.015, rel=0.01)
    assert train["loading"]["share"] == pytest.approx(1 / 3, rel=0.01)
    if own:
        assert (evaluation["steps"], evaluation["loading"]["seconds"]) == (30, pytest.approx(0.15))
    else:
        assert evaluation["steps"] == 72
        assert evaluation.get("loading", {}).get("seconds", 0) == 0


@pytest.mark.parametrize(("batches", "group"), [(10, 16), (4, 9), (3, 3), (3, 2)])
def test_a_group_of_more_batches_than_an_epoch_has_is_one_step_where_they_are_learned_from(
    batches: int, group: int
) -> None:
    program, number = Program("loader"), 0
    for _ in range(4 * group):
        for _ in program.batches(batches, 0.004):
            program.work(0.01)
            number += 1
            if number % group == 0:
                program.give(step=True, batch_size=group * 32)
            elif number % batches == 0:
                program.model.learned()
    program.finish()
    section, steps = program.section(), 4 * batches
    assert (section["steps"], section["items"]) == (steps, steps * group * 32)
    assert section["first_step_seconds"] == pytest.approx(group * 0.014)
    assert section["loading"]["seconds"] == pytest.approx(steps * group * 0.004)
    assert section["compute"]["seconds"] == pytest.approx(steps * group * 0.01)
    assert section["pause"]["seconds"] == 0


def look(program: Program, source: str) -> None:
    """One batch is taken from a loader that has more."""
    program.model.loader_begins(source)
    program.model.loading_begins(source)
    program.clock.advance(0.004)
    program.model.loading_ends(source)


@pytest.mark.parametrize("source", ["train", "valid"])
@pytest.mark.parametrize("evaluated", [False, True])
def test_a_batch_that_is_looked_at_before_the_training_is_not_the_first_step_s(
    source: str, evaluated: bool
) -> None:
    program = Program("loader, step")
    if evaluated:
        look(program, source)
        program.give(task="eval", step=True, batch=Tensor(8))
    look(program, source)
    program.clock.advance(0.4)
    for _ in range(3):
        program.model.loader_begins("train")
        program.epoch(20)
    program.finish()
    section = program.section()
    assert section["first_step_seconds"] == pytest.approx(0.014)
    assert section["loading"]["seconds"] == pytest.approx(60 * 0.004)
    assert 60 * 32 / section["rate"]["wall"] == pytest.approx(60 * 0.014)
    assert section["pause"]["seconds"] == 0


def test_what_follows_an_evaluation_of_one_batch_in_the_same_turn_is_a_pause() -> None:
    program = Program("loader")
    for number, batch in enumerate(program.batches(60, 0.004), 1):
        program.work(0.01)
        program.give(step=True, batch=batch)
        if number % 15 == 0:
            look(program, "valid")
            program.give(task="eval", step=True, batch=Tensor(8))
            program.clock.advance(0.4)
    program.finish()
    assert pauses(program) == (pytest.approx(4 * 0.404), 4)


@pytest.mark.parametrize("every", [10, 12, 15, 16, 18])
def test_checkpoints_from_the_very_first_step_on_are_pauses_each_time(every: int) -> None:
    program = Program("loader")
    for number, batch in enumerate(program.batches(60, 0.004)):
        program.work(0.01)
        program.give(step=True, batch=batch)
        if number % every == 0:
            program.clock.advance(0.3)
    program.finish()
    times = len(range(0, 60, every))
    assert pauses(program) == (pytest.approx(times * 0.3, rel=0.02), times)


@pytest.mark.parametrize("form", FORMS)
def test_a_declared_pause_in_the_very_first_step_is_one(form: str) -> None:
    program = Program(form)
    if form == "step":
        program.model.loop_begins()

    def saves(step: int) -> float:
        if step == 0:
            program.model.pause_begins()
            program.clock.advance(0.15)
            program.model.pause_ends()
        return 0

    program.epoch(60, checkpoint=saves)
    program.finish()
    assert pauses(program) == (pytest.approx(0.15), 1)
    section = program.section()
    assert section["first_step_seconds"] == pytest.approx(0.014, abs=0.0041)
    seen = 60 if form == "step" or "loader" in form else 59
    wall = seen * 32 / section["rate"]["wall"]
    assert wall == pytest.approx(seen * 0.014 + 0.15, abs=0.0041)


@pytest.mark.parametrize("saves", [0.0, 0.15])
def test_an_evaluation_in_the_very_last_turn_is_a_pause_and_in_overall(saves: float) -> None:
    program = Program("loader")
    for number, batch in enumerate(program.batches(60, 0.004), 1):
        program.work(0.01)
        program.give(step=True, batch=batch)
        program.clock.advance(0.001)
        if number == 60:
            program.clock.advance(saves)
            for _ in range(4):
                program.model.loading_begins("valid")
                program.clock.advance(0.02)
                program.model.loading_ends("valid")
                program.give(task="eval", step=True, batch=Tensor(8))
    program.finish()
    assert pauses(program) == (pytest.approx(0.08 + saves, rel=0.02), 1)
    wall = 60 * 32 / program.section()["rate"]["wall"]
    assert wall == pytest.approx(60 * 0.015 + 0.08 + saves, rel=0.001)


def test_a_second_loader_that_begins_anew_in_a_step_is_no_pause() -> None:
    program = Program("loader")
    for unlabelled, batch in enumerate(program.batches(60, 0.004)):
        program.model.loading_begins("more")
        if unlabelled % 7 == 0:
            if unlabelled:
                program.model.loading_ends("more", exhausted=True)
            program.model.loader_begins("more")
            program.model.loading_begins("more")
        program.clock.advance(0.002)
        program.model.loading_ends("more")
        program.work(0.01)
        program.give(step=True, batch=batch)
        program.clock.advance(0.001)
    program.finish()
    section = program.section()
    assert section["pause"]["seconds"] == 0
    assert section["loading"]["seconds"] == pytest.approx(60 * 0.006)
    assert section["compute"]["seconds"] == pytest.approx(60 * 0.011, abs=0.0011)


def test_a_test_over_the_training_s_own_loader_when_that_is_over_is_no_pause() -> None:
    program = Program("loader, step")
    for _ in range(3):
        program.model.loader_begins("train")
        program.epoch(20)
    program.clock.advance(0.1)
    program.model.loader_begins("train")
    for batch in program.batches(20, 0.004):
        program.clock.advance(0.005)
        program.give(task="eval", step=True, batch=batch)
    program.finish()
    assert pauses(program) == (0, 0)
    assert 60 * 32 / program.section()["rate"]["wall"] == pytest.approx(60 * 0.014)


@pytest.mark.parametrize("ahead", [False, True], ids=["", "read ahead"])
@pytest.mark.parametrize("same", [True, False], ids=["one loader", "a new one each"])
@pytest.mark.parametrize("seen", [True, False])
def test_a_last_step_behind_the_loop_does_not_hide_the_pause_after_it(
    seen: bool, same: bool, ahead: bool
) -> None:
    """Groups of four batches, and a step of what is left behind each epoch's loop."""
    program = Program("step")
    model, clock = program.model, program.clock
    for epoch in range(4):
        source = "train" if same else f"train {epoch}"
        if seen or epoch:
            model.loader_begins(source)
        for number in range(1, 11):
            model.loading_begins(source)
            clock.advance(0.004)
            model.loading_ends(source)
            if number == 10 and ahead:  # That there are no more is known before it is used.
                model.loading_begins(source)
                model.loading_ends(source, exhausted=True)
            clock.advance(0.01)
            model.learned()
            if number % 4 == 0:
                program.give(step=True, batch_size=32)
        if not ahead:
            model.loading_begins(source)
            model.loading_ends(source, exhausted=True)
        clock.advance(0.002)
        program.give(step=True, batch_size=16)
        clock.advance(0.3)
    program.finish()
    section = program.section()
    assert section["steps"] == 12
    assert pauses(program) == (pytest.approx(3 * 0.3), 3)
    assert section["loading"]["seconds"] == pytest.approx(40 * 0.004)
    assert 4 * 80 / section["rate"]["wall"] == pytest.approx(40 * 0.014 + 4 * 0.002 + 0.9)


@pytest.mark.parametrize("longer", [0.0, 0.001, 0.004])
@pytest.mark.parametrize("first", [20, 25, 30])
def test_a_checkpoint_behind_a_step_is_in_neither_of_its_neighbours(
    first: int, longer: float
) -> None:
    """The step behind it may take a little longer than is usual."""
    program = Program("loader")
    for number, batch in enumerate(program.batches(100, 0.004), 1):
        program.work(0.006 + (longer if number % first == 1 else 0))
        program.give(step=True, batch=batch)
        program.clock.advance(0.001)
        if number % first == 0:
            program.clock.advance(1.0)
    program.finish()
    times = len(range(first, 101, first))
    assert pauses(program) == (pytest.approx(times * 1.0, abs=0.02), times)
    assert all(0.005e9 <= step.busy_ns <= 0.02e9 for step in program.steps if step.busy_ns)


def test_what_was_seen_once_is_all_that_is_usual() -> None:
    usual = Typical()
    usual.drop()
    usual(10)
    usual.drop()
    assert (usual(10), usual.median) == (False, 10)


def test_an_evaluation_that_is_over_does_not_end_the_loop_when_another_loader_begins() -> None:
    """Else nobody would know, when it is left, that a checkpoint was in its last turn."""
    program = Program("loader")
    program.model.loader_begins("train")
    for number, batch in enumerate(program.batches(90, 0.004), 1):
        program.work(0.006)
        program.give(step=True, batch=batch)
        if number == 15:
            look(program, "valid")
            program.give(task="eval", step=True, batch=Tensor(8))
            program.model.loading_begins("valid")
            program.model.loading_ends("valid", exhausted=True)
        if number == 60:
            look(program, "valid")
            program.clock.advance(0.3)
            program.model.loader_left("train")
            break
    program.finish()
    assert pauses(program) == (pytest.approx(0.308, abs=0.002), 2)


def _evaluates(program: Program, forwards: int, shown: bool) -> None:
    """An evaluation without a loader, of which only ends are told, and when it begins."""
    program.clock.advance(0.001)
    if shown:
        program.model.evaluation_begins(program.clock.now_ns())
    for _ in range(forwards):
        program.clock.advance(0.012)
        program.give(task="eval", step=True, batch=Tensor(64))


@pytest.mark.parametrize("every", [1, 2, 7])
@pytest.mark.parametrize("forwards", [1, 4])
def test_an_evaluation_lasts_until_it_is_known_to_be_over(forwards: int, every: int) -> None:
    """Metrics are computed behind its last forward pass."""
    program = Program("step")
    for number, batch in enumerate(program.batches(60, 0.004)):
        program.work(0.020)
        program.give(step=True, batch=batch)
        if number % every == 0:
            _evaluates(program, forwards, shown=True)
            program.clock.advance(0.005)
            program.model.evaluation_ends(program.clock.now_ns())
    program.finish()
    steps = [step for step in program.steps if step.task == "train"][1:]
    assert [step.busy_ns for step in steps] == [pytest.approx(0.024e9, rel=0.06)] * 59
    times = len(range(0, 59, every))
    paused = sum(step.pause_ns for step in steps)
    assert paused == pytest.approx(times * (0.005 + forwards * 0.012) * 1e9, rel=0.09)


def test_a_training_does_not_end_with_an_evaluation() -> None:
    program = Program("step")
    for batch in program.batches(60, 0.004):
        program.work(0.020)
        program.give(step=True, batch=batch)
        program.clock.advance(0.002)
        program.model.evaluation_ends(program.clock.now_ns())
    program.finish()
    assert [step.busy_ns for step in program.steps][1:] == [pytest.approx(0.026e9)] * 59


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("forwards", [1, 4])
@pytest.mark.parametrize("form", ["step", "loader, step"])
def test_an_evaluation_after_each_step_is_a_pause_each_time(
    form: str, forwards: int, every: int
) -> None:
    program = Program(form)
    for number, batch in enumerate(program.batches(60, 0.004)):
        program.work(0.020)
        program.give(step=True, batch=batch)
        if number % every == 0:
            _evaluates(program, forwards, shown=True)
    program.finish()
    steps = [step for step in program.steps if step.task == "train"][1:]
    assert [step.busy_ns for step in steps] == [pytest.approx(0.024e9, rel=0.06)] * 59
    times = len(range(0, 60 if form == "loader, step" else 59, every))  # One is in the last turn.
    paused = sum(step.pause_ns for step in steps)
    assert paused == pytest.approx(times * forwards * 0.012e9, rel=0.09)
    steps = [step for step in program.steps if step.task == "eval"]
    assert [step.busy_ns for step in steps] == [pytest.approx(0.012e9)] * len(steps)


def test_an_evaluation_within_each_step_is_a_pause_where_its_first_step_is_known() -> None:
    program = Program("step")
    for _ in range(40):
        program.work(0.020)
        _evaluates(program, 6, shown=False)
        program.work(0.004)
        program.give(step=True, batch=Tensor(32))
    program.finish()
    steps = [step for step in program.steps if step.task == "train"][2:]
    assert [step.busy_ns for step in steps] == [pytest.approx(0.025e9)] * len(steps)


def test_an_evaluation_within_each_step_of_which_one_end_is_told_is_the_step_s() -> None:
    """It may have begun with the step, or right before its end."""
    program = Program("step")
    for _ in range(40):
        program.work(0.020)
        _evaluates(program, 1, shown=False)
        program.give(step=True, batch=Tensor(32))
    program.finish()
    steps = [step for step in program.steps if step.task == "train"][1:]
    assert [step.busy_ns for step in steps] == [pytest.approx(0.033e9)] * 39


@pytest.mark.parametrize("form", ["loader, step", "loader, pair", "loader, step, pair"])
def test_a_declared_pause_within_the_wait_for_a_batch_is_no_loading(form: str) -> None:
    """A generator of batches saves a checkpoint between two passes over its data."""
    program = Program(form)

    def batches() -> Iterator[Tensor]:
        for number in range(60):
            program.model.loading_begins("train")
            program.clock.advance(0.004)
            program.loading += 0.004
            if number % 10 == 5:
                program.model.pause_begins()
                program.pause(0.1)
                program.model.pause_ends()
            program.model.loading_ends("train")
            yield Tensor(32)

    for batch in batches():
        with program.body(0, batch):
            program.work(0.006)
            program.compute += 0.006
    program.finish()
    steps = program.steps[1:]
    assert [step.loading_ns for step in steps] == [pytest.approx(0.004e9)] * 59
    assert [step.compute_ns for step in steps] == [pytest.approx(0.006e9)] * 59
    assert pauses(program) == (pytest.approx(0.6), 6)


@pytest.mark.parametrize("form", ["step, pair", "loader, step, pair"])
@pytest.mark.parametrize("kind", ["declared", "checkpoint", "eval", "all"])
def test_what_comes_between_a_pair_and_the_end_of_its_step_may_be_a_pause(
    form: str, kind: str
) -> None:
    """The pair is around the work, and the step ends with the turn of the loop."""
    program = Program(form)
    for number, batch in enumerate(program.batches(120, 0.004)):
        program.wrap("compute_start", "begin", 0)
        program.work(0.009)
        program.wrap("compute_start", "end", 0)
        program.work(0.001)
        if number % 30 == 20:
            if kind in ("declared", "all"):
                program.model.pause_begins()
                program.pause(0.2)
                program.model.pause_ends()
            if kind in ("eval", "all"):
                _evaluates(program, 5, shown=True)
            if kind in ("checkpoint", "all"):
                program.pause(0.3)
        program.give(step=True, batch=batch)
    program.finish()
    each = {"declared": 0.2, "checkpoint": 0.3, "eval": 0.06, "all": 0.56}[kind]
    steps = [step for step in program.steps if step.task == "train"][1:]
    assert [step.busy_ns for step in steps] == [pytest.approx(0.014e9, rel=0.08)] * 119
    assert pauses(program) == (pytest.approx(4 * each, rel=0.02), 4)


def test_what_is_usual_is_known_of_steps_that_are_not_judged_too() -> None:
    """A checkpoint in every tenth step, where some of those between have an evaluation."""
    typical = Typical()
    for number in range(1, 61):
        if number % 10 in (3, 7):
            typical.others += 1
            continue
        assert typical(1_000_000_000 if number % 10 == 0 else 40_000_000) is (
            number % 10 == 0 and number > 10
        )


@pytest.mark.parametrize("form", ["step", "loader, step"])
@pytest.mark.parametrize("first", [True, False])
def test_a_declared_pause_beside_an_evaluation_in_every_step_is_one_too(
    form: str, first: bool
) -> None:
    program = Program(form)

    def save() -> None:
        program.model.pause_begins()
        program.pause(0.03)
        program.model.pause_ends()

    for batch in program.batches(40, 0.004):
        program.work(0.020)
        program.give(step=True, batch=batch)
        if first:
            save()
        _evaluates(program, 2, shown=True)
        if not first:
            save()
    program.finish()
    steps = [step for step in program.steps if step.task == "train"][1:-1]
    assert [step.busy_ns for step in steps] == [pytest.approx(0.024e9, rel=0.06)] * 38
    assert [step.pause_ns for step in steps] == [pytest.approx(0.054e9, rel=0.06)] * 38


@pytest.mark.parametrize(("forward", "rest"), [(0.002, 0.02), (0.01, 0.002), (0.012, 0.0)])
@pytest.mark.parametrize("form", ["step", "loader, step"])
def test_turns_of_an_evaluation_without_a_loader_are_as_long_as_the_next_one_shows(
    form: str, forward: float, rest: float
) -> None:
    """Of the first, and behind the last, nothing shows what is done beside the forward pass."""
    program = Program(form)
    for _ in range(4):
        for batch in program.batches(30, 0.004):
            program.work(0.006)
            program.give(step=True, batch=batch)
        program.model.evaluation_begins(program.clock.now_ns())
        for _ in range(6):
            program.clock.advance(forward)
            program.give(task="eval", step=True, batch=Tensor(64))
            program.clock.advance(rest)
    program.finish()
    evaluated = [step for step in program.steps if step.task == "eval"]
    assert [step.items for step in evaluated] == [64] * 24
    whole = [step.busy_ns for step in evaluated if step.busy_ns is not None]
    assert whole == [pytest.approx((forward + rest) * 1e9)] * (20 if rest else 24)
    trained = [step for step in program.steps if step.task == "train"][1:]
    assert [step.busy_ns for step in trained] == [pytest.approx(0.01e9)] * 119
    assert pauses(program)[0] == pytest.approx(3 * 6 * (forward + rest), rel=0.01)


def test_what_is_done_in_every_fifth_turn_is_work_in_a_loops_last_turn_too() -> None:
    """Figures are logged behind the optimizer's step, and the loop is left then and there."""
    program = Program("loader, step")
    for _ in range(4):
        for number, batch in enumerate(program.batches(15, 0.004)):
            program.work(0.006)
            program.give(step=True, batch=batch)
            program.clock.advance(0.010 if number % 5 == 4 else 0.0001)
        program.clock.advance(0.002)
    program.finish()
    busy = sum(step.busy_ns or 0 for step in program.steps[20:])
    assert busy == pytest.approx((40 * 0.0101 + 8 * 0.0099) * 1e9, rel=0.005)
    assert pauses(program)[0] == pytest.approx(3 * 0.002, abs=0.001)


@pytest.mark.parametrize("batches", [2, 3, 8])
def test_an_evaluations_first_step_may_be_told_of_when_its_second_batch_has_come(
    batches: int,
) -> None:
    """That it is one shows when the model is given the next."""
    program = Program("loader, step")
    for _ in range(4):
        for batch in program.batches(20, 0.004):
            program.work(0.006)
            program.give(step=True, batch=batch)
        program.clock.advance(0.001)
        ended = 0
        for number in range(batches):
            program.model.loading_begins("held")
            program.clock.advance(0.012)
            program.model.loading_ends("held")
            if number == 1:
                told = {ENDED: ended, "batch": Tensor(64)}
                program.give(task="eval", step=True, **told)
            program.clock.advance(0.003)
            ended = program.clock.now_ns()
            if number:
                program.give(task="eval", step=True, batch=Tensor(64))
        program.model.loading_begins("held")
        program.model.loading_ends("held", exhausted=True)
    program.finish()
    evaluated = [step for step in program.steps if step.task == "eval"]
    assert [step.busy_ns for step in evaluated] == [pytest.approx(0.015e9)] * 4 * batches
    assert [step.loading_ns for step in evaluated] == [pytest.approx(0.012e9)] * 4 * batches
    trained = [step for step in program.steps if step.task == "train"][1:]
    assert [step.busy_ns for step in trained] == [pytest.approx(0.010e9)] * 79
