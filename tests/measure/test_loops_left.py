"""Loops that are left by one loader while another is asked: what is between epochs counts once."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from .program import Program, Tensor


def epoch(program: Program, n: int, first: bool) -> None:
    """A loader that takes its batches from another, which says so when it has no more."""
    model, clock = program.model, program.clock
    if not first:
        model.loader_begins("outer")
    for number in range(n):
        if not first or number:
            model.loading_begins("outer")
        model.loading_begins("inner")
        clock.advance(0.001)
        model.loading_ends("inner")
        if first and number == 0:
            model.loading_begins("outer")  # That it takes from the other is not known before.
        clock.advance(0.002)
        model.loading_ends("outer")
        clock.advance(0.001)
        program.give(step=True, batch=Tensor(8))
        clock.advance(0.003)
    model.loading_begins("outer")
    model.loading_begins("inner")
    clock.advance(0.000_2)
    model.loading_ends("inner", exhausted=True)
    clock.advance(0.000_1)
    model.loader_left("inner")
    clock.advance(0.000_1)
    model.loading_ends("outer", exhausted=True)


def test_a_loader_that_another_uses_up_is_left_when_that_one_is() -> None:
    program = Program()
    for number in range(3):
        epoch(program, 20, first=number == 0)
    program.finish()
    assert {step.pause_ns for step in program.steps} == {0, 400_000}
    section = program.section()
    assert section["pause"] == {"seconds": pytest.approx(2 * 0.000_4), "count": 2}
    assert section["rate"]["steady"] == pytest.approx(8 / 0.007)


KINDS = [
    "step", "load", "loaded", "exhausted", "left", "begun", "learned", "enter", "leave", "shuts",
    "shut",
]  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(KINDS), st.integers(0, 1), st.sampled_from([0.0, 0.001, 0.02, 3.0])
        ),
        max_size=80,
    )
)
@example([("loaded", 0, 0.0), ("load", 0, 0.0), ("step", 0, 0.001), ("exhausted", 0, 0.0)])
def test_however_loops_are_left_no_pause_is_negative(kinds: list[tuple[str, int, float]]) -> None:
    program = Program()
    for kind, loader, seconds in kinds:
        program.clock.advance(seconds)
        happen(program, kind, loader)
    program.finish()
    total = sum((step.busy_ns or 0) + step.pause_ns for step in program.steps)
    assert total <= program.clock.now_ns() - 5_000_000_000
    for step in program.steps:
        assert step.pause_ns >= 0
        assert step.busy_ns is None or step.busy_ns >= 0


def happen(program: Program, kind: str, loader: int) -> None:
    model = program.model
    if kind == "step":
        program.give(step=True, batch=Tensor(2))
    elif kind in ("loaded", "exhausted"):
        model.loading_ends(loader, exhausted=kind == "exhausted")
    elif kind in ("shuts", "shut"):
        model.loader_shuts(loader, over=kind == "shut")
    elif kind in ("load", "left", "begun"):
        named = {"load": model.loading_begins, "left": model.loader_left}
        named.get(kind, model.loader_begins)(loader)
    else:
        others = {"learned": model.learned, "enter": model.loop_begins, "leave": model.loop_ends}
        others[kind]()


@pytest.mark.parametrize("workers", [False, True])
def test_a_loader_that_begins_anew_for_each_step_is_waited_for_from_then_on(workers: bool) -> None:
    program = Program()
    model, clock = program.model, program.clock
    for _ in range(20):
        model.loader_begins("loader")
        clock.advance(0.002)
        model.loading_begins("loader")
        clock.advance(0.001)
        model.loading_ends("loader")
        if workers:
            model.loader_shuts("loader", over=False)
            clock.advance(0.004)
            model.loader_shuts("loader", over=True)
        clock.advance(0.005)
        program.give(step=True, batch=Tensor(8))
    program.finish()
    section, loading = program.section(), 19 * (0.007 if workers else 0.003)
    assert section["loading"]["seconds"] == pytest.approx(loading)
    assert section["compute"]["seconds"] == pytest.approx(19 * 0.005)
    assert section["pause"]["count"] == 0


def test_workers_that_are_shut_down_at_the_end_of_an_epoch_are_no_wait() -> None:
    program = Program()
    model, clock = program.model, program.clock
    for _ in range(3):
        model.loader_begins("loader")
        clock.advance(0.002)
        for _ in range(10):
            model.loading_begins("loader")
            clock.advance(0.001)
            model.loading_ends("loader")
            clock.advance(0.005)
            program.give(step=True, batch=Tensor(8))
        model.loader_shuts("loader", over=False)
        clock.advance(0.004)
        model.loader_shuts("loader", over=True)
        model.loader_left("loader")
    program.finish()
    section = program.section()
    assert section["loading"]["seconds"] == pytest.approx(30 * 0.001)
    assert section["pause"] == {"seconds": pytest.approx(2 * 0.006), "count": 2}
