"""Random programs of known truth: their figures are right, however events are fed."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from .events import MS, Folded, Writer

#: Kinds of loader: none, one, or one that is read a batch ahead.
LOADERS = ("none", "loader", "ahead")
#: Events that may follow a step, with their milliseconds.
PAUSES = {"": 0, "save": 40, "pause": 60}


@dataclass(frozen=True)
class Program:
    """How a program trains.

    Attributes:
        loader: Where its batches come from.
        accumulates: Of how many batches a step is.
        optimizers: How many there are, each with a model and a backward of its own.
        scaled: Whether a scaler steps.
        epochs: The number of steps of each.
        last: The size of the last batch of an epoch; all others have 8.
        evaluates: After how many steps it is evaluated, 0: never; ``over``: a loader, or tensors.
        passes: Of how many passes an evaluation is.
        pauses: What happens behind a step, one after the other.
    """

    loader: str
    accumulates: int
    optimizers: int
    scaled: bool
    epochs: list[int]
    last: int
    evaluates: int
    over: str
    passes: int
    pauses: list[str]


@dataclass
class Truth:
    """Counts of what a program has done."""

    items: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    evaluated: list[int] = field(default_factory=list)
    paused: dict[str, float] = field(default_factory=dict)


PROGRAMS = st.builds(
    Program,
    loader=st.sampled_from(LOADERS),
    accumulates=st.integers(1, 3),
    optimizers=st.integers(1, 3),
    scaled=st.booleans(),
    epochs=st.lists(st.integers(2, 6), min_size=1, max_size=3),
    last=st.integers(1, 8),
    evaluates=st.sampled_from([0, 2, 3]),
    over=st.sampled_from(["loader", "tensors"]),
    passes=st.integers(1, 3),
    pauses=st.lists(st.sampled_from(sorted(PAUSES)), min_size=1, max_size=4),
)


def written(program: Program) -> tuple[Writer, Truth]:
    """The events of a program, and its truth."""
    writer, truth = Writer(), Truth()
    for optimizer in range(program.optimizers):
        writer.write(f"made O{optimizer}")
    for steps in program.epochs:
        sizes = [8] * (steps * program.accumulates)
        sizes[-1] = program.last
        asked = 0
        if program.loader != "none":
            writer.write("iter A")
        for number in range(steps):
            chosen = sizes[number * program.accumulates : (number + 1) * program.accumulates]
            for place, size in enumerate(chosen):
                while asked < len(sizes) and program.loader != "none":
                    have = number * program.accumulates + place + 1
                    if asked >= have + (program.loader == "ahead"):
                        break
                    writer.write(f"next:2 A {sizes[asked]}")
                    asked += 1
                learn(writer, program, size)
            if program.accumulates > 1:  # All optimizers step behind the last batch.
                for optimizer in range(program.optimizers):
                    step(writer, program, optimizer)
            truth.items.append(sum(chosen))
            truth.losses.append(float(len(chosen)))
            behind(writer, program, len(truth.items), truth)
        if program.loader != "none":
            writer.write("end A")
    return writer, truth


def learn(writer: Writer, program: Program, size: int) -> None:
    """All models learn from a batch."""
    for number in range(program.optimizers):
        scale = f"scale {number + 1};" if program.scaled else ""
        writer.write(f"learn:3 M{number} {size}; wait 1; {scale} back:4 {number + 1}")
        if program.accumulates == 1:
            step(writer, program, number)


def step(writer: Writer, program: Program, number: int) -> None:
    writer.write(f"scaler {{ opt O{number} }}" if program.scaled else f"opt:2 O{number}")


def behind(writer: Writer, program: Program, number: int, truth: Truth) -> None:
    """Events after a step."""
    pause = program.pauses[number % len(program.pauses)]
    if pause:
        writer.write(f"{pause}:{PAUSES[pause]}")
        kind = {"save": "checkpoint", "pause": "declared"}[pause]
        truth.paused[kind] = truth.paused.get(kind, 0) + PAUSES[pause]
    if program.evaluates and number % program.evaluates == 0:
        if program.over == "loader":
            writer.write(f"iter B; {program.passes} {{ next B 5; look M0 5 }}; end B")
        else:
            writer.write(f"{program.passes} {{ look M0 5 }}")
        truth.evaluated += [5] * program.passes


def total(program: Program) -> float:
    """The sum of the losses of a step: all that was learned from before the first stepped."""
    every = program.optimizers * (program.optimizers + 1) / 2
    return every * program.accumulates if program.accumulates > 1 else 1.0


@given(PROGRAMS, st.integers(1, 40))
def test_figures_are_the_true_ones_and_no_time_is_lost(program: Program, piece: int) -> None:
    writer, truth = written(program)
    found = Folded(writer.data)
    steps = [step for step in found.steps if step.task == "train"]
    assert found.told() == (len(truth.items), sum(truth.items))
    assert [step.items for step in steps] == truth.items
    assert found.losses == [total(program)] * len(truth.items)
    assert found.told("eval") == (len(truth.evaluated), sum(truth.evaluated))
    kinds = found.pauses
    assert {kind: kinds[kind][1] for kind in truth.paused if kind in kinds} == truth.paused
    assert all(part >= 0 for step in steps for part in step.parts)
    spent = sum(step.ns for step in steps) / MS + sum(ns for _, ns in kinds.values())
    assert spent <= (writer.now - steps[0].start) / MS
    inside = (steps[-1].end - steps[0].start) / MS
    assert spent >= inside - 0.001, "time between the first step and the last is in none"

    def shown(found: Folded) -> list[object]:
        return [(s.task, s.number, s.items, s.parts, s.pause, s.loss) for s in found.steps]

    assert shown(Folded(writer.data, piece)) == shown(found), "fed in pieces"


@given(PROGRAMS, st.data())
def test_a_run_that_ends_or_loses_events_anywhere_reports_no_more_than_there_was(
    program: Program, data: st.DataObject
) -> None:
    writer, truth = written(program)
    n = data.draw(st.integers(0, len(writer.events)))
    found = Folded(b"".join(writer.events[:n]))
    steps, _ = found.told()
    assert steps <= len(truth.items) + program.optimizers
    assert found.told("eval")[0] <= len(truth.evaluated)
    assert not found.fold.lost
    found.fold.feed(b"".join(writer.events[n + 1 :]), lost=1)
    found.fold.finish()
    assert found.fold.lost
