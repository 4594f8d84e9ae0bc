"""A task that shows its steps by pairs and by events, in whatever order these come."""

from __future__ import annotations

import pytest

from .program import Program, Tensor


def pair(program: Program, seconds: float, ident: int = 1, size: int | None = 8) -> None:
    """A pair around work."""
    batch = {} if size is None else {"batch": Tensor(size)}
    program.wrap("compute_start", "begin", ident)
    program.clock.advance(seconds)
    program.wrap("compute_start", "end", ident, **batch)


def event(program: Program, after: float) -> None:
    """The end of a turn."""
    program.clock.advance(after)
    program.give(step=True, batch=Tensor(8))


def counted(program: Program) -> tuple[int, int]:
    program.finish()
    section = program.section()
    return section["steps"], section["items"]


@pytest.mark.parametrize("size", [None, 8])
@pytest.mark.parametrize("tail", [0.000_1, 0.006, 2.0])
@pytest.mark.parametrize("often", [False, True])
def test_a_pair_and_the_event_behind_it_are_one_step_however_long_the_rest_of_a_turn_is(
    size: int | None, tail: float, often: bool
) -> None:
    program = Program()
    for _ in range(100):
        program.clock.advance(0.002)
        pair(program, 0.001, size=size)
        event(program, tail)
        if often:
            program.model.drain()
    assert counted(program) == (100, 800)


def test_so_they_are_where_only_the_rest_of_the_first_turn_is_long() -> None:
    program = Program()
    for turn in range(100):
        program.clock.advance(0.003)
        pair(program, 0.004)
        event(program, 0 if turn else 0.1)
    assert counted(program) == (100, 800)


def test_so_they_are_behind_pairs_that_had_no_event() -> None:
    """The model is called to see what it makes of its input; then the training begins."""
    program = Program()
    for turn in range(-2, 100):
        program.clock.advance(0.002)
        pair(program, 0.001)
        if turn >= 0:
            event(program, 0.006)
    program.finish()
    # The first event is a step of its own: it may be another loop's.
    assert program.section()["steps"] == 2 + 100 + 1


@pytest.mark.parametrize("often", [False, True])
def test_events_that_come_by_themselves_are_steps_beside_the_pairs(often: bool) -> None:
    program = Program()
    for _ in range(4):
        for _ in range(20):
            program.clock.advance(0.002)
            pair(program, 0.001)
        for _ in range(10):
            event(program, 0.009)
            if often:
                program.model.drain()
    assert counted(program) == (4 * 30, 4 * 240)


def begin(program: Program, ident: int) -> None:
    program.wrap("compute_start", "begin", ident)


def end(program: Program, ident: int, size: int | None = 8) -> None:
    program.wrap("compute_start", "end", ident, **({} if size is None else {"batch": Tensor(size)}))


def turn(program: Program, ident: int, size: int | None = 8, inner: int | None = 8) -> None:
    """A turn of the loop, which has a pair, and in it a call of a function that has one."""
    program.clock.advance(0.003)
    begin(program, ident)
    program.clock.advance(0.001)
    pair(program, 0.004, next(program.ids) + 1000, inner)
    program.clock.advance(0.002)
    end(program, ident, size)


@pytest.mark.parametrize(("size", "inner"), [(8, 8), (8, None), (None, 8)])
@pytest.mark.parametrize("calls", [False, True])
def test_of_pairs_of_one_name_within_one_another_the_outer_is_the_step(
    size: int | None, inner: int | None, calls: bool
) -> None:
    program = Program()
    for number in range(80):
        turn(program, number if calls else number // 40, size, inner)
    assert counted(program) == (80, 640)
    for step in program.steps[1:]:
        busy = [step.loading_ns, step.compute_ns, step.busy_ns]
        assert busy == [3_000_000, 7_000_000, 10_000_000]
    first = program.steps[0]
    assert (first.loading_ns, first.compute_ns, first.busy_ns) == (None, 7_000_000, None)


def test_a_function_that_calls_itself_makes_one_step() -> None:
    program = Program()
    for number in range(50):
        program.clock.advance(0.004)
        for depth in range(3):
            begin(program, 3 * number + depth)
        for depth in reversed(range(3)):
            program.clock.advance(0.002)
            end(program, 3 * number + depth)
    assert counted(program) == (50, 400)
    assert {step.compute_ns for step in program.steps} == {6_000_000}


def test_a_pair_around_several_of_its_name_is_around_an_epoch_and_none() -> None:
    program = Program()
    for epoch in range(3):
        begin(program, 5000 + epoch)
        for _ in range(20):
            program.clock.advance(0.002)
            pair(program, 0.004, epoch)
        program.clock.advance(0.5)
        end(program, 5000 + epoch, None)
    assert counted(program) == (60, 480)


@pytest.mark.parametrize("sizes", [(1, 20, 1, 1, 20), (20, 1, 20), (2, 1, 2), (1,), (1, 1, 1)])
def test_it_is_none_too_where_there_are_pairs_in_those(sizes: tuple[int, ...]) -> None:
    program = Program()
    for epoch, turns in enumerate(sizes):
        begin(program, 5000 + epoch)
        for _ in range(turns):
            turn(program, epoch)
        end(program, 5000 + epoch, None)
    assert counted(program) == (sum(sizes), 8 * sum(sizes))


@pytest.mark.parametrize("known", [0, 5])
@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("ident", [2, 3])
def test_pairs_that_an_exception_left_open_hide_none_of_those_within_one_another(
    known: int, inner: bool, ident: int
) -> None:
    program = Program()
    for _ in range(known):
        turn(program, 2)
    program.clock.advance(0.003)
    begin(program, 2)
    if inner:
        begin(program, 999)
    program.clock.advance(0.003)
    for _ in range(20):
        turn(program, ident)
    assert counted(program)[0] == known + 20


def test_an_event_behind_a_pair_around_another_is_the_end_of_its_turn() -> None:
    program = Program()
    for _ in range(40):
        turn(program, 1)
        event(program, 0.05)
    assert counted(program) == (40, 320)


def test_a_turn_that_is_stopped_within_its_outer_pair_counts() -> None:
    """A stop after so many steps is raised where the inner pair of the last ends."""
    program = Program()
    for _ in range(9):
        turn(program, 1)
    program.clock.advance(0.003)
    begin(program, 1)
    pair(program, 0.004, 999)
    assert counted(program) == (10, 80)


def test_pairs_that_overlap_are_steps_also_where_one_lies_within_another() -> None:
    """Coroutines on one thread, of which some take longer."""
    program = Program()
    for number in range(0, 60, 3):
        for ident in range(3):
            program.clock.advance(0.001)
            begin(program, number + ident)
        for ident in (0, 2, 1) if number % 2 == 0 else (2, 1, 0):
            program.clock.advance(0.002)
            end(program, number + ident)
    assert counted(program) == (60, 480)


@pytest.mark.parametrize("batches", [1, 6])
@pytest.mark.parametrize("size", [None, 8])
def test_an_evaluation_between_a_pair_and_the_event_behind_it_makes_no_step_more(
    size: int | None, batches: int
) -> None:
    program = Program()
    model, clock = program.model, program.clock
    for turn in range(160):
        model.loading_begins("train")
        clock.advance(0.005)
        model.loading_ends("train")
        pair(program, 0.01, size=size)
        if turn % 25 == 24:
            for _ in range(batches):
                model.loading_begins("held out")
                clock.advance(0.006)
                model.loading_ends("held out")
                clock.advance(0.008)
                program.give(task="eval", step=True, batch=Tensor(8))
            model.loading_begins("held out")
            model.loading_ends("held out", exhausted=True)
        event(program, 0)
    assert counted(program) == (160, 1280)
    section = program.section()
    assert section["rate"]["steady"] == pytest.approx(8 / 0.015)
    assert section["loading"]["share"] == pytest.approx(1 / 3)
    assert section["pause"] == {"seconds": pytest.approx(6 * batches * 0.014), "count": 6}


@pytest.mark.parametrize("inner", [False, True])
def test_a_step_that_is_shown_twice_is_one_to_a_loader_that_begins_anew_for_each(
    inner: bool,
) -> None:
    program = Program()
    model, clock = program.model, program.clock
    for _ in range(40):
        model.loader_begins("train")
        clock.advance(0.002)
        model.loading_begins("train")
        clock.advance(0.004)
        model.loading_ends("train")
        if inner:
            program.wrap("compute_start", "begin", 2)
        pair(program, 0.01)
        if inner:
            program.wrap("compute_start", "end", 2, batch=Tensor(8))
        else:
            event(program, 0)
    assert counted(program) == (40, 320)
    section = program.section()
    assert section["rate"]["steady"] == pytest.approx(8 / 0.016)
    assert section["pause"]["count"] == 0
