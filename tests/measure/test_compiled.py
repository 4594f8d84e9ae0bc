"""A step in which something was compiled is told apart, whenever that happens."""

from __future__ import annotations

from typing import Any

import pytest

from .program import FORMS, Program


def program_of(form: str, compiling: dict[int, float], n: int = 60) -> Program:
    """A program of ``n`` steps, in some of which compilers take so many seconds."""
    program = Program(form)
    for call, batch in enumerate(program.batches(n, 0.004)):
        with program.body(0, batch):
            if call in compiling:
                program.clock.advance(compiling[call])
                program.model.compiled()
            program.work(0.010)
    program.finish()
    return program


def section_of(form: str, compiling: dict[int, float]) -> dict[str, Any]:
    return program_of(form, compiling).section()


@pytest.mark.parametrize("form", FORMS)
def test_a_late_compilation_is_neither_a_pause_nor_a_part_of_the_rate(form: str) -> None:
    section = section_of(form, {30: 5.0})
    assert section["pause"] == {"seconds": 0.0, "count": 0}
    assert section["compiled"]["steps"] == 1
    assert section["compiled"]["seconds"] == pytest.approx(5.014, rel=0.01)
    assert section["rate"]["steady"] == pytest.approx(32 / 0.014, rel=0.01)


def test_steps_that_compile_again_and_again_are_not_the_script_getting_slower() -> None:
    section = section_of("pair", dict.fromkeys((20, 21, 22, 23, 40), 3.0))
    assert section["compiled"]["steps"] == 5
    assert section["steady"]["from_step"] == 1
    assert section["rate"]["skipped"] == 5


def test_the_first_step_keeps_its_time() -> None:
    section = section_of("loader, pair", {0: 7.0})
    assert section["first_step_seconds"] == pytest.approx(7.014)
    assert section["steady"]["from_step"] == 1


def test_what_is_usual_is_not_learned_from_a_step_that_compiled() -> None:
    program = Program("step")
    for call, batch in enumerate(program.batches(60, 0.004)):
        with program.body(0, batch):
            if call == 3:
                program.clock.advance(20.0)
                program.model.compiled()
            program.work(0.010)
            if call == 30:
                program.pause(4.0)
    program.finish()
    assert program.section()["pause"]["count"] == 1


def test_a_compilation_within_a_pause_leaves_the_steps_alone() -> None:
    program = Program("pair")
    for call, batch in enumerate(program.batches(60, 0.004)):
        if call == 30:
            program.model.pause_begins()
            program.clock.advance(6.0)
            program.model.compiled()
            program.model.pause_ends()
        with program.body(0, batch):
            program.work(0.010)
    program.finish()
    assert "compiled" not in program.section()
    assert program.section()["pause"]["seconds"] == pytest.approx(6.0)
