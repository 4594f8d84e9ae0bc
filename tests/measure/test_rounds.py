"""Steps worked off many at once are the very steps that are worked off one by one."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overseer.clock import FakeClock
from overseer.measure import notes, rounds, steps
from overseer.measure.rounds import take_rounds
from overseer.measure.step import Step
from overseer.measure.steps import StepModel

FORMS = (
    "step", "pair", "pair step", "pair around step",
    "load step", "load pair", "load pair step", "load pair around step",
)  # fmt: skip
ODD = ("evaluation", "checkpoint", "exhausted", "other task", "pause", "restart", "no batch size")


class Loop:
    """A loop whose boundaries a step model is shown."""

    def __init__(self, form: str) -> None:
        self.clock = FakeClock()
        self.model = StepModel(self.clock)
        self.form = form.split()
        self.found: list[Step] = []
        self.model.sinks.append(self.found.extend)
        self.number = 0

    def turn(self, load: float, work: float, rest: float, odd: str | None, repeats: bool) -> None:
        """One turn; durations in milliseconds."""
        model, self.number = self.model, self.number + 1
        if odd is not None:
            self.happen(odd)
        if "load" in self.form:
            model.loading_begins("loader")
        self.pass_(load)
        if "load" in self.form:
            model.loading_ends("loader")
        ident = 1 if repeats else self.number
        size = {} if odd == "no batch size" else {"batch_size": 8}
        if "pair" in self.form:
            self.wrap("begin", ident)
        self.pass_(work)
        if "around" in self.form:
            model.on_step({"step": True, **size})
        if "pair" in self.form:
            self.wrap("end", ident, **size)
        self.pass_(rest)
        if "step" in self.form and "around" not in self.form:
            model.on_step({"step": True, **size})
        self.pass_(rest / 2)

    def pass_(self, milliseconds: float) -> None:
        self.clock.advance(milliseconds / 1e3)

    def wrap(self, step: str, ident: int, **more: Any) -> None:
        wrap = {"name": "compute_start", "step": step, "id": ident}
        self.model.on_wrap({"$wrap": wrap, "compute_start": True, **more})

    def happen(self, odd: str) -> None:
        """Something that does not happen every turn."""
        if odd == "evaluation":
            self.model.loading_begins("other")
            self.pass_(3)
            self.model.loading_ends("other")
            self.pass_(400)
        elif odd == "checkpoint":
            self.pass_(900)
        elif odd == "exhausted":
            self.model.loading_begins("loader")
            self.model.loading_ends("loader", True)
            self.pass_(50)
        elif odd == "other task":
            self.model.on_step({"step": True, "batch_size": 2, "task": "test"})
        elif odd == "pause":
            self.model.pause_begins()
            self.pass_(70)
            self.model.pause_ends()
        elif odd == "restart":
            self.model.on_progress({"task": "train", "progress": (0, 100)})


turn = st.tuples(
    st.sampled_from([0.0, 1.0, 1.0, 1.1]),
    st.sampled_from([5.0, 5.0, 5.0, 5.5, 80.0]),
    st.sampled_from([0.0, 0.1, 0.1, 30.0]),
    st.none() | st.none() | st.none() | st.sampled_from(ODD),
)
stretches = st.lists(
    st.lists(turn, min_size=1, max_size=4)
    | st.builds(
        lambda work, n: [(1.0, work, 0.1, None)] * n,
        st.sampled_from([5.0, 5.0, 30.0]),
        st.integers(5, 150),
    ),
    min_size=1,
    max_size=5,
)


def run(form: str, turns: list[Any], repeats: bool, drains: int) -> list[Step]:
    loop = Loop(form)
    for number, (load, work, rest, odd) in enumerate(turns):
        loop.turn(load, work, rest, odd, repeats)
        if number % drains == 0:
            loop.model.drain()
    loop.model.finish()
    return loop.found


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(st.sampled_from(FORMS), stretches, st.booleans(), st.integers(1, 300))
def test_they_are_the_same(form: str, parts: Any, repeats: bool, drains: int) -> None:
    turns = [one for part in parts for one in part]
    with patch.object(steps, "take_rounds", lambda *rest: 0):
        one_by_one = run(form, turns, repeats, drains)
    assert run(form, turns, repeats, drains) == one_by_one
    with patch.object(notes, "FEW", 8), patch.object(rounds, "FEW", 8):  # Stretches that grow.
        assert run(form, turns, repeats, drains) == one_by_one


@pytest.mark.parametrize("odd", [None, "checkpoint", "pause"])
@pytest.mark.parametrize("form", FORMS)
def test_nearly_all_of_a_regular_loop_is_worked_off_at_once(form: str, odd: str | None) -> None:
    taken: list[int] = []

    def counting(*arguments: Any) -> int:
        taken.append(take_rounds(*arguments))
        return taken[-1]

    regular = [(1.0, 5.0, 0.1, None)] * 500
    with patch.object(steps, "take_rounds", counting):
        found = run(form, [*regular, (1.0, 5.0, 0.1, odd), *regular], False, 10_000)
    assert len(found) == 1001
    boundaries = 1000 * sum(
        {"load": 2, "pair": 2, "step": 1, "around": 0}[part] for part in form.split()
    )
    assert sum(taken) > 0.9 * boundaries
