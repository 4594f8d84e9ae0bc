"""Programs put together at random, of known truth: whatever shows steps, they are the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from random import Random

import pytest

from .program import Program, Tensor

SEEDS = 400
#: Programs that are tried in one test.
BATCH = 50
#: What a turn takes, in seconds: the wait for its batch, the work on it.
WAIT, WORK = 0.005, 0.01
#: And a turn of an evaluation.
OTHER_WAIT, OTHER_WORK, OTHER_SIZE = 0.002, 0.003, 16
#: Where an evaluation may be: between epochs, and before, within and behind the work of a turn.
PLACES = ("between", "before", "within", "behind", "end")


@dataclass
class Form:
    """How a program shows what it does.

    Attributes:
        watched: Its loader is.
        pair: What the pair is around: ``turn``, ``part`` of it, a ``call`` in it, or nothing.
        event: Where the step's event is: at the ``end`` of a turn, ``within`` or ``behind`` a pair,
            or nowhere.
        place: Where evaluations are; nowhere if it is empty.
        shows: What shows their steps.
        evaluated: Their loader is watched.
        iterates: Training goes over ``voir.iterate``.
        every: An evaluation comes in one of so many turns.
        tail: How long a turn goes on behind its work.
        pauses: One turn in seven ends with a pause that is declared.
    """

    random: Random
    watched: bool = field(init=False)
    pair: str = field(init=False)
    event: str = field(init=False)
    place: str = field(init=False)
    shows: str = field(init=False)
    evaluated: bool = field(init=False)
    iterates: bool = field(init=False)
    every: int = field(init=False)
    tail: float = field(init=False)
    pauses: bool = field(init=False)

    def __post_init__(self) -> None:
        choose = self.random.choice
        self.iterates = choose([False, False, False, True])
        self.watched = not self.iterates and choose([False, True])
        self.pair = "" if self.iterates else choose(["", "turn", "part", "call"])
        self.event = "" if self.iterates else choose(["", "end", "within", "behind"])
        self.place = choose(["", *PLACES])
        if not self.pair:
            self.event = "" if self.iterates else "end"
            self.place = "end" if self.place in ("within", "behind") else self.place
        self.shows, self.evaluated = (
            choose(["step", "pair", "both", "iterate"]),
            choose([True, False]),
        )
        self.every, self.tail = choose([3, 10, 25]), choose([0, 0.0005, 0.004])
        self.pauses = choose([False, False, True])


class Written:
    """One program; what it has done."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.form = Form(self.random)
        self.program = Program()
        self.ids = count(1)
        self.items: list[int] = []
        self.evaluated = self.done = 0

    def run(self) -> None:
        form, model = self.form, self.program.model
        n, drains = self.random.choice([3, 8, 30, 60]), self.random.choice([0, 0.1, 1])
        for _ in range(self.random.randint(1, 4)):
            if form.watched:
                model.loader_begins("train")
                self.program.clock.advance(0.001)
            if form.iterates:
                model.loop_begins()
            call = next(self.ids)
            for _ in range(n):
                self.turn(call if form.pair != "call" else next(self.ids))
                if self.random.random() < drains:
                    model.drain()
            if form.watched:
                model.loading_begins("train")
                model.loading_ends("train", exhausted=True)
            if form.iterates:
                self.wait_in_iterate("train", over=True)
                model.loop_ends()
            if form.place == "between":
                self.evaluate()
        self.program.finish()

    def turn(self, call: int) -> None:
        form, program, clock = self.form, self.program, self.program.clock
        size, iterated = self.random.choice([32, 32, 32, 16]), next(self.ids)
        if form.iterates:
            self.wait_in_iterate("train")
            program.wrap("step", "begin", iterated)
        else:
            self.wait("train", form.watched, WAIT)
        self.items.append(size)
        given = {} if form.event else {"batch": Tensor(size)}
        step = {"step": True, "batch": Tensor(size)}
        if form.pair == "turn":
            program.wrap("compute_start", "begin", call)
        self.maybe("before")
        if form.pair in ("part", "call"):
            program.wrap("compute_start", "begin", call)
        clock.advance(WORK)
        self.maybe("within")
        if form.event == "within":
            program.give(**step)
        if form.pair in ("part", "call"):
            program.wrap("compute_start", "end", call, **given)
            if form.event == "behind":
                program.give(**step)
        self.maybe("behind")
        clock.advance(form.tail)
        self.maybe("end")
        if form.pair == "turn":
            program.wrap("compute_start", "end", call, **given)
            if form.event == "behind":
                program.give(**step)
        if form.event == "end":
            program.give(**step)
        if form.iterates:
            program.wrap("step", "end", iterated, batch=Tensor(size))
        if form.pauses and len(self.items) % 7 == 0:
            program.model.pause_begins()
            clock.advance(0.3)
            program.model.pause_ends()

    def wait(self, name: str, watched: bool, seconds: float) -> None:
        if watched:
            self.program.model.loading_begins(name)
        self.program.clock.advance(seconds)
        if watched:
            self.program.model.loading_ends(name)

    def wait_in_iterate(self, task: str, over: bool = False) -> None:
        ident, program = next(self.ids), self.program
        program.wrap("loading", "begin", ident, source=task)
        if not over:
            program.clock.advance(WAIT if task == "train" else OTHER_WAIT)
        program.wrap("loading", "end", ident, source=task, **({"exhausted": True} if over else {}))

    def maybe(self, place: str) -> None:
        if self.form.place == place and len(self.items) % self.form.every == 0:
            self.evaluate()

    def evaluate(self) -> None:
        form, program, n = self.form, self.program, self.random.randint(1, 6)
        self.evaluated += n
        program.task = "eval"
        call, iterates = next(self.ids), form.shows == "iterate"
        if iterates:
            program.model.loop_begins()
        elif form.evaluated:
            program.model.loader_begins("held out")
        for _ in range(n):
            batch = {"batch": Tensor(OTHER_SIZE)}
            if iterates:
                call = next(self.ids)
                self.wait_in_iterate("eval")
                program.wrap("step", "begin", call)
            else:
                self.wait("held out", form.evaluated, OTHER_WAIT)
            if form.shows in ("pair", "both"):
                program.wrap("compute_start", "begin", call)
            program.clock.advance(OTHER_WORK)
            if form.shows in ("pair", "both"):
                program.wrap("compute_start", "end", call, **batch)
            if form.shows in ("step", "both"):
                program.give(step=True, **batch)
            if iterates:
                program.wrap("step", "end", call, **batch)
        if iterates:
            self.wait_in_iterate("eval", over=True)
            program.model.loop_ends()
        elif form.evaluated:
            program.model.loading_begins("held out")
            program.model.loading_ends("held out", exhausted=True)
        program.task = None


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_steps_items_and_rates_are_the_same_however_they_are_shown(first: int) -> None:
    for seed in range(first, first + BATCH):
        written = Written(seed)
        written.run()
        form, items = written.form, written.items
        section = written.program.section()
        assert (section["steps"], section["items"]) == (len(items), sum(items)), (seed, form)
        if written.evaluated:
            other = written.program.section("eval")
            told = (other["steps"], other["items"])
            assert told == (written.evaluated, OTHER_SIZE * written.evaluated), (seed, form)
        if len(items) < 30:
            continue
        turn = WAIT + WORK + form.tail
        assert section["rate"]["median"] == pytest.approx(32 / turn, rel=0.01), (seed, form)
        if form.tail == 0:
            rates = [sum(items[k:]) / len(items[k:]) / turn for k in (0, 1)]
            found = section["rate"]["steady"]
            assert any(found == pytest.approx(rate, rel=0.01) for rate in rates), (seed, form)
        if form.watched:
            work = turn if form.pair in ("", "turn") else WAIT + WORK
            assert section["loading"]["share"] == pytest.approx(WAIT / work, abs=0.01), (seed, form)
