"""The step model, rule by rule: a few events each, and what they come to; and what is unknown."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from .events import folded

STEP = "learn M 8; back 1; opt O"
LOADED = "next A 8; learn M 8; back 1; opt O"


@dataclass
class Case:
    """Events as text, and the steps that the fold makes of them.

    Attributes:
        train: Steps and items of the training; None: items are unknown.
        eval: Passes and items of evaluations; ``inference``: where nothing has been learned.
        losses: Of the steps, if they are compared.
    """

    text: str
    train: tuple[int, float | None] = (0, 0)
    eval: tuple[int, float | None] = (0, 0)
    inference: tuple[int, float | None] = (0, 0)
    losses: list[float] | None = None


CASES = {
    "1 optimizers": Case(f"3 {{ {STEP} }}", (3, 24)),
    "1 backwards, if no optimizer was ever made": Case("3 { learn M 8; back 1 }", (3, 24)),
    "1 no backwards once an optimizer was made": Case("made O; 3 { learn M 8; back 1 }"),
    "21 marks": Case(f"3 {{ {STEP}; mark 16 }}; {STEP}", (3, 48)),
    "25 marks of another task": Case(f"{STEP}; mark eval 5; {STEP}; mark eval 5", (2, 16), (2, 10)),
    "21 pairs": Case("3 { learn M 8; back 1; opt O; pair 8 }", (3, 24)),
    "21 a mark is a step, its pair splits it": Case("3 { pair:5 8; mark 8 }", (3, 24)),
    "1 an optimizer within an optimizer": Case("2 { learn M 8; back 1; opt O { opt P } }", (2, 16)),
    "1 an optimizer that fails steps nowhere": Case(
        "learn M 8; back 1; failed-opt O; learn M 8; back 1; opt O", (1, 16)),
    "2 a step within a backward": Case("2 { learn M 8; back 1 { opt O; opt P } }", (2, 16)),
    "2 a step within the scaler": Case("2 { learn M 8; scale 1; back 9; scaler { opt O } }",
        (2, 16)),
    "2 a scaler that skips": Case(
        "next A 8; learn M 8; scale 7; back 9; scaler;"
        "next A 8; learn M 8; scale 2; back 9; scaler { opt O }",
        (1, 16), losses=[2]),
    "3 without a batch, learning after looking is a cut": Case(
        f"{STEP}; look M 5; look M 5; {STEP}", (2, 16), (2, 10)),
    "4 an attack in an evaluation is none of the step's": Case(
        f"{LOADED}; next B 5; frozen M 5; back 7; zeroed-back 8; frozen M 5; end B; {LOADED}",
        (2, 16), (1, 5), losses=[1, 1]),
    "4 what was always in eval() may learn": Case(
        "2 { next A 8; frozen M 8; back 1; next A 8; frozen M 8; back 2; opt O }", (2, 32)),
    "4 batches of the training are none, where it stays in eval()": Case(
        f"{LOADED}; 2 {{ next A 8; frozen M 8; back 1; next A 8; frozen M 8; back 2; opt O }}",
        (3, 40), losses=[1, 3, 3]),
    "4 attacks where no optimizer was made": Case("3 { next A 8; frozen M 8; back 1; frozen M 8 }",
        inference=(3, 24)),
    "5 evaluation over a loader": Case(
        f"{LOADED}; next B 5; look M 5; next B 3; look M 3; end B; {LOADED}", (2, 16), (2, 8)),
    "5 who takes gradients by hand may learn: unknown": Case(
        "3 { next A 8; learn M 8; grads }; end A; 3 { next A 8; learn M 8; grads }; end A"),
    "5 inference where nothing learns": Case("next B 5; look M 5; next B 3; look M 3", (0, 0),
        (0, 0), (2, 8)),
    "5 evaluation before anything has learned": Case(f"made O; next B 5; look M 5; end B; {LOADED}",
        (1, 8), (1, 5)),
    "5 without a loader, of several models the least": Case(
        "learn M 8; learn N 24; back 1; opt O; 2 { look M 5; look N 15 }; learn M 8; back 1; opt O",
        (2, 16), (2, 10)),
    "5 not of another model": Case(f"{STEP}; look T 5; {STEP}", (2, 16)),
    "5 a look at one state is an agent's": Case(f"4 {{ look M 1; {STEP} }}", (4, 32)),
    "5 batches that are skipped in an evaluation": Case(
        f"{LOADED}; next B 5; look M 5; next B 5; end B; {LOADED}", (2, 16), (1, 5)),
    "6 a forgotten no_grad is evaluation": Case(
        f"iter A; {LOADED}; end A; iter B; 2 {{ next B 5; learn M 5 }}; end B; iter A; {LOADED}",
        (2, 16), (2, 10)),
    "6 what learned without a backward is the next step's": Case(
        "next A 8; learn M 8; next A 8; learn M 8; back 1; opt O", (1, 16)),
    "6 a loader that begins anew, and nothing ever learns": Case(
        "3 { iter A; 2 { next A 8; learn M 8 }; end A }", inference=(6, 48)),
    "7 batches that are taken ahead": Case(
        "next A 8; next A 8; learn M 8; back 1; learn M 8; back 1; opt O", (1, 16)),
    "8 one look within a step's turn is evaluation": Case(
        f"{LOADED}; next A 8; look M 5; learn M 8; back 1; opt O; {LOADED}; {LOADED}", (4, 32),
        (1, 5)),
    "8 looks in each step are the step's": Case(
        "4 { next A 8; look M 8; learn M 8; back 1; opt O }", (4, 32)),
    "8 a teacher has not learned": Case("4 { next A 8; look T 8; learn M 8; back 1; opt O }",
        (4, 32)),
    "9 two optimizers until a new batch comes": Case(
        "3 { next A 8; learn D 8; back 1; opt O; 2 { learn G 8; back 2; opt P } }", (3, 24)),
    "9 two optimizers until one is made": Case(
        "made O; learn D 8; back 1; opt O; made P; learn G 8; back 2; opt P", (2, 16),
        losses=[1, 2]),
    "9 two optimizers and one backward": Case("2 { learn M 8; back 1; opt O; opt P }", (2, 16)),
    "9 layers that learn one after the other": Case(
        "4 { learn M 8; back 1; opt O }; 4 { learn N 8; back 2; opt P }", (8, 64),
        losses=[1, 1, 1, 1, 2, 2, 2, 2]),
    "10 the first optimizer is gone": Case(
        "3 { learn M 8; back 1; opt O }; 12 { learn N 8; back 2; opt P }", (15, 120)),
    "11 as many batches as calls": Case(
        "2 { next A 8; next A 8; learn M 8; learn M 8; back 1; opt O }", (2, 32)),
    "11 reading ahead, a smaller last batch": Case(
        "next A 8; next A 8; learn M 8; back 1; opt O; next A 3; learn M 8; back 1; opt O; end A;"
        "learn M 3; back 1; opt O",
        (3, 19)),
    "11 all batches if no model was called": Case("2 { next A 8; next A 8; back 1; opt O }",
        (2, 32)),
    "11 a loader that begins anew drops what waits": Case(
        f"iter A; next A 8; iter A; 2 {{ {LOADED} }}", (2, 16)),
    "11 one batch, several calls": Case("2 { next A 8; 4 { learn M 2; back 1 }; opt O }", (2, 16)),
    "12 the largest of several loaders": Case(
        "2 { next A 4; next B 12; learn M 16; back 1; opt O }", (2, 24)),
    "12 of two loaders, the one that was learned from": Case(
        "2 { next A 4; next B 12; learn M 4; back 1; opt O; learn M 12; back 1; opt O }", (4, 32)),
    "13 rows of the model, added up": Case("2 { 3 { learn M 8; back 1 }; opt O }", (2, 48)),
    "13 the least of several models": Case("2 { learn D 16; learn G 8; back 1; opt O }", (2, 16)),
    "13 the first optimizer's part": Case(
        "2 { learn D 8; back 1; opt O; learn G 64; back 2; opt P }", (2, 16)),
    "15 the sum of the losses, before scaling": Case(
        "learn M 8; scale 1; back 64; learn M 8; scale 2; back 128; scaler { opt O }", (1, 16),
        losses=[3]),
    "15 a loss that comes later": Case(
        f"learn M 8; late-back nan; opt O; {STEP}; arrives 5; {STEP}", (3, 24), losses=[5, 1, 1]),
    "15 losses that the script gives": Case(f"{STEP}; loss 4; {STEP}; loss 3", (2, 16)),
    "16 thrown away: the first counts": Case(
        "2 { learn M 8; back 1; learn M 8; zeroed-back 9; opt O }", (2, 16), losses=[1, 1]),
    "16 closures": Case("2 { opt O { learn M 8; zeroed-back 1; 3 { learn M 8; zeroed-back 9 } } }",
        (2, 16), losses=[1, 1]),
    "21 a mark within its pair": Case("3 { pair:5 8 { mark 8 } }", (3, 24)),
    "21 a mark outranks pairs that came before it": Case("2 { pair:5 8 }; mark 8; mark 4", (2, 12)),
    "21 the script's marks outrank a voirfile's": Case("3 { mark file 16; mark 8 }", (3, 24)),
    "21 a voirfile's marks add sizes to the script's": Case("3 { mark file 16; mark }", (3, 48)),
    "21 a voirfile's mark that comes is no second step beside hooks": Case(
        f"3 {{ {LOADED}; mark file }}", (3, 24)),
    "21 hooks tell some of the steps, marks all": Case(
        f"2 {{ {LOADED}; mark file 8 }}; 2 {{ mark file 8 }}", (4, 32)),
    "24 a turn that an exception leaves": Case("2 { mark 8 }; left-turn 8; mark 8", (3, 24)),
    "24 a pair that an exception leaves": Case("2 { pair 8 }; left-pair 8; pair 8", (3, 24)),
    "25 steps of two tasks, in turns": Case("3 { mark 8; 2 { mark eval 5 } }", (3, 24), (6, 30)),
    "26 the mark's size, not its pairs'": Case("3 { 2 { pair 8 }; mark 10 }", (3, 30)),
    "26 the sum of its pairs": Case("3 { 2 { pair 8 }; mark }", (3, 48)),
    "26 a batch that is given alone": Case("3 { batch 8; mark }", (3, 24)),
    "26 what hooks saw": Case("3 { next A 8; learn M 8; back 1; mark }", (3, 24)),
    "16 a batch that is skipped leaves nothing": Case(
        "2 { next A 8; learn M 8; zeroed-back 5; next A 8; learn M 8; zeroed-back 2; opt O }",
        (2, 32), losses=[2, 2]),
}  # fmt: skip

#: Programs with unknown items or losses.
UNKNOWN = {
    "a model called twice before a backward": Case("2 { learn M 8; learn M 8; back 1; opt O }",
        (2, None)),
    "one vector": Case("2 { learn M nan; back 1; opt O }", (2, None)),
    "no model": Case("2 { back 1; opt O }", (2, None)),
    "time before the batch": Case(f"time-first; {STEP}; look M 5; {STEP}", (2, None), (1, None)),
    "a batch of unknown size": Case(f"{LOADED}; next A nan; learn M 8; back 1; opt O", (2, None)),
    "which batches of several sizes were left out": Case(
        f"iter A; next A 8; next A 8; next A 3; learn M 3; back 1; opt O; end A; iter A; {LOADED}",
        (2, None)),
    "the same at the end": Case("iter A; next A 8; next A 3; learn M 3; back 1; opt O", (1, None)),
    "batches of one size that were left out are no matter": Case(
        f"iter A; next A 8; next A 8; learn M 8; back 1; opt O; iter A; {LOADED}", (2, 16)),
    "a batch in pieces, a step each": Case("next A 32; 4 { learn M 8; back 1; opt O }", (4, None)),
    "which of several thrown away losses counts": Case(
        f"{STEP}; 3 {{ learn M 8; back 1 }}; learn M 8; zeroed-back 9; opt O", (2, 32),
        losses=[1, float("nan")]),
    "nothing learns and no loader gave it": Case("3 { pass M 8 }"),
    "a model that only ever fails": Case("3 { failed-learn M 8 }"),
    "a batch whose backward failed and is learned from again": Case(
        "learn M 8; failed-back 1; learn M 8; back 1; opt O", (1, None)),
}  # fmt: skip


@pytest.mark.parametrize("case", [*CASES.values(), *UNKNOWN.values()], ids=[*CASES, *UNKNOWN])
def test_rule(case: Case) -> None:
    found = folded(case.text)
    assert [found.told(task) for task in ("train", "eval", "inference")] == [
        case.train, case.eval, case.inference,
    ]  # fmt: skip
    if case.losses is not None:
        assert found.losses == pytest.approx(case.losses, nan_ok=True)


# Time: loading, forward, backward, optimizer, communication, other.

ASKS = "4 { asks; wait 5; came %s; learn M 8; back 1; opt O }"
#: Events, the number of a step, and its parts.
PARTS = {
    "17 spans' own times, and the rest is other": (
        "next:3 A 8; learn:2 M 8; wait 6; back:4 1; wait-for-others:0; opt:5 O { wait 1 }",
        1, [3, 2, 4, 6, 0, 6]),
    "17 what lies within a span is its own": (
        "next:1 A 8; opt:2 O { learn:3 M 8; back:4 1 }", 1, [1, 3, 4, 2, 0, 0]),
    "17 communication outside of a backward": (
        "next A 8; learn M 8; back 1; wait-for-others:7; opt O", 1, [1, 1, 1, 1, 7, 0]),
    "17 communication within other parts": (
        "next A 8; learn:2 M 8 { wait-for-others:7 }; back:3 1 { wait-for-others:5 };"
        "opt:4 O { wait-for-others:6 }", 1, [1, 2, 3, 4, 18, 0]),
    "17 a wait within a collective counts once": (
        "next A 8; learn M 8; back 1 { wait-for-others:2 { wait-for-others:5 } }; opt O",
        1, [1, 1, 1, 1, 7, 0]),
    "17 communication in a gradient of a gradient": (
        "next A 8; learn M 8; grads:2 { wait-for-others:7 }; back 1; opt:5 O",
        1, [1, 1, 1, 5, 7, 2]),
    "17 communication while a model is compiled": (
        "next A 8; learn M 8 { compile:2 { wait-for-others:7 } }; back 1; opt O",
        1, [1, 3, 1, 1, 7, 0]),
    "17 communication while a loop waits for a batch": (
        "4 { asks; wait 2; wait-for-others:7; came 8; learn M 8; back 1; opt O }",
        3, [2, 1, 1, 1, 7, 0]),
    "18 communication before the first step is in none": (
        "wait-for-others:7; wait 1; next A 8; learn M 8; back 1; opt O", 1, [1, 1, 1, 1, 0, 0]),
    "18 the first step begins with a batch": (
        "made O; wait 500; next:2 A 8; learn M 8; back 1; opt O", 1, [2, 1, 1, 1, 0, 0]),
    "18 the first step begins with a call": (
        "made O; wait 500; learn:2 M 8; wait 1; back 1; opt O", 1, [0, 2, 1, 1, 0, 1]),
    "18 the first step begins with a backward": (
        "made O; wait 500; back 1; opt O", 1, [0, 0, 1, 1, 0, 0]),
    "18 a step lasts from the end of the last one": (
        f"{LOADED}; wait 5; {LOADED}", 2, [1, 1, 1, 1, 0, 5]),
    "20 what a loop waits for is loading": (ASKS % 8, 3, [5, 1, 1, 1, 0, 0]),
    "20 only if a tensor comes": (ASKS % "nan", 3, [0, 1, 1, 1, 0, 5]),
    "22 the first step begins where its loop is entered": (
        "loss 1; wait 500; enters; wait 5; mark 8; wait 3; mark 8", 1, [0, 0, 0, 0, 0, 5]),
    "22 or with its pair": ("wait 500; pair:3 8; pair:3 8", 1, [0, 0, 0, 0, 0, 3]),
    "23 what lies between pairs is loading": (
        "4 { wait 5; pair:3 8 }", 3, [5, 0, 0, 0, 0, 3]),
    "23 also with marks": ("4 { wait 5; pair:3 8; mark 8 }", 3, [5, 0, 0, 0, 0, 3]),
    "23 from where the loop of pairs is entered": (
        "wait 500; waits; 4 { wait 5; pair:3 8 }", 1, [5, 0, 0, 0, 0, 3]),
    "23 unless a loader tells": (
        "4 { next:2 A 8; wait 5; pair:3 8 }", 3, [2, 0, 0, 0, 0, 8]),
    "23 or a pair around loading": (
        "4 { wait 5; loading:2; pair:3 8 }", 3, [2, 0, 0, 0, 0, 8]),
    "24 what an exception left is part of the next step": (
        "2 { pair:3 8 }; left-pair:4 8; pair:3 8", 3, [0, 0, 0, 0, 0, 7]),
}  # fmt: skip


def test_23_time_between_pairs_is_loading_of_their_task_only() -> None:
    found = folded("3 { wait 5; pair:3 8; mark 8 }; 3 { wait 7; mark eval 4 }; wait 5; pair:3 8")
    evaluated = [step for step in found.steps if step.task == "eval"]
    assert [ns / 1e6 for ns in evaluated[1].parts] == [0, 0, 0, 0, 0, 7]
    assert not any(step.loaded for step in evaluated)


@pytest.mark.parametrize(("text", "number", "parts"), PARTS.values(), ids=PARTS)
def test_parts(text: str, number: int, parts: list[float]) -> None:
    assert folded(text).parts(number) == parts


def test_20_what_learns_while_a_loop_waits_is_no_loader() -> None:
    found = folded("4 { asks; wait 5; learn M 8; back 1; opt O; wait 2; came 8 }")
    assert found.parts(3)[0] < 5


PAUSES = {
    "declared": (f"{LOADED}; pause:50; {LOADED}", (1, 50)),
    "evaluation": (f"{LOADED}; next:10 B 5; look:20 M 5; end:10 B; {LOADED}", (1, 40)),
    "checkpoint": (f"{LOADED}; save:50; {LOADED}", (1, 50)),
    "between epochs": (f"iter A; {LOADED}; end A; wait 50; iter A; {LOADED}", (1, 50)),
    "unexplained": (f"20 {{ {LOADED}; wait 1 }}; wait 300; {LOADED}", (1, 300)),
    "unexplained ": ("20 { wait 2; pair:3 8 }; wait 300; pair:3 8", (1, 298)),
    "declared ": ("3 { pair:3 8 }; pause:50; 2 { pair:3 8 }", (1, 50)),
}


@pytest.mark.parametrize("kind", PAUSES)
def test_19_pauses_are_in_no_step(kind: str) -> None:
    text, pause = PAUSES[kind]
    found = folded(text)
    assert found.pauses == {kind.strip(): pause}
    trained = [sum(found.parts(step.number)) for step in found.steps if step.task == "train"]
    assert 0 < max(trained) <= 7


@pytest.mark.parametrize(
    "text",
    [
        f"20 {{ {LOADED} }}; next:500 A 8; learn M 8; back 1; opt O",  # Loading never is a pause.
        f"20 {{ {LOADED}; wait 20 }}; wait 50; {LOADED}",  # It is not much more than usual.
        f"4 {{ {LOADED} }}; wait 500; {LOADED}",  # What is usual is not known by then.
        f"20 {{ {LOADED} }}; wait 5; {LOADED}",  # It is short.
    ],
)
def test_19_is_no_pause(text: str) -> None:
    assert folded(text).pauses == {}


def test_19_steps_with_compilations_are_marked() -> None:
    found = folded(f"{LOADED}; next A 8; learn:40 M 8 {{ compile:30 }}; back 1; opt O; {LOADED}")
    assert [step.compiled > 0 for step in found.steps] == [False, True, False]


# Bad input.


def test_lost_events_make_the_rest_unknown() -> None:
    assert folded(f"3 {{ {STEP} }}", lost=1).fold.lost
    assert not folded(f"3 {{ {STEP} }}").fold.lost


#: Malformed events, and the result.
BAD = {
    "a pair that never ends": ("3 { pair 8 }; pair-begins 8; wait 5", (3, 24)),
    "a pair that begins twice": ("3 { pair-begins; pair 8 }", (3, 24)),
    "a pair that never began": ("made O; 3 { wait 2; pair:0 8 }", (3, 24)),
    "a mark at one time with the last": ("mark 8; mark 8", (2, 16)),
    "a negative size": ("2 { mark -8 }", (2, None)),
    "an infinite size": ("2 { mark inf }", (2, None)),
    "a huge size": ("2 { mark 1e15 }", (2, 2e15)),
    "a size that no batch has": ("mark 8; mark 1e300", (2, None)),
    "some without a size": ("mark 8; mark; mark 8", (3, None)),
    "a clock that goes back": ("wait 1000; 3 { pair 8 }; wait -500; 3 { wait 2; pair 8 }", (6, 48)),
    "a clock that jumps within a pair": ("3 { pair:3 8 }; pair 8 { wait 1e12 }", (4, 32)),
    "pairs of two threads": (
        "3 { thread 1; pair-begins; thread 2; pair-begins; thread 1; pair 8; thread 2; pair 8 }",
        (6, 48)),
}  # fmt: skip


@pytest.mark.parametrize(("text", "train"), BAD.values(), ids=BAD)
def test_bad_input(text: str, train: tuple[int, float | None]) -> None:
    found = folded(text)
    assert found.told() == train
    assert all(part >= 0 for step in found.steps for part in step.parts)


def test_each_thread_has_steps_of_its_own() -> None:
    one, two = "thread 1; learn M 8; back 1", "thread 2; learn N 4; back 2"
    found = folded(f"3 {{ {one}; {two}; thread 1; opt O; thread 2; opt P }}")
    assert found.told() == (6, 36)
    assert [step.loss for step in found.steps if step.thread == 2] == [2, 2, 2]


def test_a_thread_that_takes_the_number_of_one_that_ended_begins_anew() -> None:
    found = folded("learn M 8; back 1; thread-begins; learn N 4; back 2; opt P")
    assert found.told() == (1, 4)
    assert found.fold.unused == 1


def test_losses_that_are_no_numbers_are_counted_and_are_the_last() -> None:
    found = folded(f"{STEP}; 2 {{ learn M 8; back nan; opt O }}; learn M 8; back inf; opt O")
    losses = found.fold.tasks["train"].losses
    assert (losses.first, losses.least, losses.not_finite) == (1, 1, 3)


def test_held_events_are_counted_at_once() -> None:
    found = folded(f"2 {{ {LOADED} }}")
    assert found.fold.steps() == 2
    assert found.fold.told_by == "optimizers"


def test_state_is_bounded() -> None:
    found = folded(
        "5000 { next A 8 }; 3000 { iter A; next A 8; next A 8; learn M 8; back 1; opt O }"
    )
    (lane,) = found.fold.lanes.values()
    assert sum(len(sizes) for sizes in lane._left.values()) < 2000
    assert len(lane._held) <= 16
