"""Steps like the one before are counted together, with the figures of counting each by itself."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from overseer.model.alike import Alike, each, read
from overseer.model.fold import Fold
from overseer.model.rates import Rates
from overseer.model.spans import Extent
from overseer.model.steps import Step
from overseer.model.summary import Summary
from overseer.recorder import sites as k
from overseer.recorder.log import EVENT
from tests.model.events import SITES, Writer
from tests.model.test_logs import PATHS, name
from tests.programs import record
from tests.programs.record import SIZE

pytestmark = pytest.mark.skipif(read is None, reason="built without a compiler")

SEEDS = 20
WINDOW = Extent(seconds=0.05)
#: A turn of each kind of loop, with its events in several orders.
TURNS = {
    "loader": "next A 8; learn M 8; back 0.5; opt O",
    "no loader": "learn M 8; back 0.5; opt O",
    "backward": "learn M 8; back 0.5",
    "nested": "next A 8; learn M 8 { wait 1; back 0.5 }; opt O",
    "accumulating": "next A 8; learn M 8; back 0.25; next A 8; learn M 8; back 0.125; opt O",
    "zeroed": "next A 8; learn M 8; zeroed-back 0.5; opt O",
    "waits": "asks; wait 2; came 8; learn M 8; back 0.5; opt O",
    "asks for no tensor": "asks; wait 2; came; learn M 8; back 0.5; opt O",
    "two models": "next A 8; learn M 8; learn N 8; back 0.5; opt O",
    "looks": "next A 8; look T 8; learn M 8; back 0.5; opt O",
    "two optimizers": "next A 8; learn M 8; back 0.5; opt O; learn N 8; back 0.5; opt P",
    "saved": "next A 8; learn M 8; back 0.5; opt O; save",
    "mark": "next A 8; learn M 8; back 0.5; opt O; wait 1; mark 8",
    "mark alone": "wait 3; mark",
    "mark with a size": "wait 3; mark 8",
    "pair": "wait 1; pair 8 { learn M 8; back 0.5; opt O }",
    "pair without size": "next A 8; pair { learn M 8; back 0.5; opt O }",
    "loss": "next A 8; learn M 8; loss 0.5; back 0.5; opt O; mark 8",
    "mark behind pair": "next A 8; pair 8 { learn M 8; back 0.5; opt O }; mark 8",
    "mark in pair": "next A 8; pair 8 { learn M 8; back 0.5; opt O; mark }",
    "communication": "next A 8; wait-for-others; learn M 8 { wait-for-others { wait-for-others } };"
    "back 0.5 { wait 1; wait-for-others }; opt O { wait-for-others }; wait-for-others",
    "mark of another task": "next A 8; learn M 8; back 0.5; opt O; mark; mark eval 8",
}
#: Events between stretches of like turns.
BETWEEN = (
    "wait 30", "end A; iter A", "next B 4; look M 4; end B", "save", "loss nan", "wait 1000",
    "next A nan; learn M nan; back nan; opt O", "next A 3; learn M 3; back 0.75; opt O",
    "thread 2; next C 8; learn M 8; back 1; opt Q; thread 1", "made P", "mark eval 3",
    "pair 3 { wait 1 }", "pause { wait 5 }", "", "zeroed-back 1", "time-first", "failed-opt O",
)  # fmt: skip


def shown(step: Step) -> list[Any]:
    return [
        step.task, step.number, step.thread, step.start, step.end, step.parts, step.items,
        step.loss, step.backwards, step.pause, step.between, step.loaded, step.waited, step.why,
    ]  # fmt: skip


class Counted:
    """Results of fold, summary and windows, with steps counted together or each alone."""

    def __init__(
        self,
        sites: Any,
        pieces: list[bytes],
        together: bool,
        interval: Extent = WINDOW,
        first: int = 0,
        **how: Any,
    ) -> None:
        self.new: list[Step] = []
        self.windows: list[Any] = []
        self.steps: list[list[Any]] = []
        self.together, take = 0, self.new.append
        self.fold = Fold(sites, take, first=first, together=take if together else None)
        self.summary = Summary(self.fold, **how)
        self.rates = Rates(self._window, interval, **how)
        for piece in pieces:
            self.fold.feed(piece)
            self._take()
        self.fold.finish()
        self._take()
        self.rates.finish()

    def _window(self, window: Any) -> None:
        self.windows.append(
            [window.task, window.first, window.opened, window.steps, window.items, window.rate,
             window.loading_rate, window.compute_rate, window.loading_share]
        )  # fmt: skip

    def _take(self) -> None:
        self.together += sum(step.n for step in self.new if isinstance(step, Alike))
        self.summary.add(self.new)
        self.rates.add(self.new)
        self.steps.append([shown(step) for step in each(self.new)])  # As they come, piece by piece.
        self.new.clear()

    @property
    def figures(self) -> str:
        """All results as text, in which NaN equals NaN."""
        totals = {
            task: (
                one.steps, one.items, one.ns, one.start, one.end, one.pauses.kinds, one.given,
                one.losses.n, one.losses.first, one.losses.last, one.losses.least, one.why,
                one.losses.not_finite, one.loaded, one.first_ns, one.compiled,
            )
            for task, one in self.fold.tasks.items()
        }  # fmt: skip
        held = self.fold.steps(), self.fold.unused, self.fold.told_by
        return repr((totals, held, self.steps, self.windows, self.summary.section(final=True)))


def pieces(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """Events in pieces of random size, many of some steps."""
    at = 0
    while at < len(data):
        size = chance.choice((1, 7, 40, 100, 1024)) * SIZE
        yield data[at : at + size]
        at += size


def compare(sites: Any, data: bytes, chance: random.Random, **how: Any) -> int:
    """Hold figures against each other; returns how many steps were counted together."""
    cut = list(pieces(data, chance))
    alone, together = (Counted(sites, cut, kind, **how) for kind in (False, True))
    assert together.figures == alone.figures
    return together.together


def written(text: str) -> tuple[list[dict[str, Any]], bytes]:
    data = Writer().write(text).data
    used = {int.from_bytes(data[at + 20 : at + 22], "little") for at in range(0, len(data), SIZE)}
    return [row if at in used else {"kind": 63} for at, row in enumerate(SITES)], data


def varied(data: bytes, chance: random.Random) -> bytes:
    """The same with other losses and times between, and now and then another size."""
    made, shift = bytearray(data), 0
    for at in range(0, len(made), SIZE):
        start, value, object_, site, thread, rest = EVENT.unpack_from(data, at)
        rare = chance.random() > 0.99
        if not rest >> 48 & 0xFF:  # Outside of all spans.
            shift += chance.randrange(20_000_000 if rare else 1000)
        if value == value and site in (k.BACKWARD, k.LOSS, k.SCALE):
            value = chance.uniform(0, 3)
        elif value == value and site != k.ITERATE and rare:
            value = chance.choice((1.0, 2.5, math.nan))
        EVENT.pack_into(made, at, start + shift, value, object_, site, thread, rest)
    return bytes(made)


@pytest.mark.parametrize("path", PATHS, ids=name)
def test_programs_have_the_same_figures_together_and_one_by_one(path: Path) -> None:
    head, data = record.read(path)
    for seed in range(3):
        compare(head["sites"], data, random.Random(seed))


@pytest.mark.parametrize("turn", TURNS)
def test_loops_have_the_same_figures_with_any_events_between_their_turns(turn: str) -> None:
    for seed in range(SEEDS):
        chance = random.Random(f"{turn} {seed}")
        text = "made O;"
        for _ in range(chance.randrange(2, 9)):
            text += f"{chance.randrange(1, 40)} {{ {TURNS[turn]} }}; {chance.choice(BETWEEN)};"
        sites, data = written(text)
        skip = chance.choice((None, Extent(steps=9), Extent(seconds=0.1)))
        interval = chance.choice((WINDOW, Extent(steps=1), Extent(steps=50)))
        how = {"skip": skip, "multiplier": chance.choice((1, 3)), "interval": interval}
        compare(sites, varied(data, chance), chance, **how)


#: Loops in which the fold finds no step like the one before.
ALONE = {"looks", "two optimizers", "saved", "mark of another task"}


@pytest.mark.parametrize("turn", TURNS)
def test_most_steps_of_a_steady_loop_are_counted_together(turn: str) -> None:
    made = "" if "opt" not in TURNS[turn] else "made O;"
    sites, data = written(f"{made} 1000 {{ {TURNS[turn]} }}")
    together = Counted(sites, [data], True).together
    assert together == 0 if turn in ALONE else together > 900
