"""Which optimizer's step ends an iteration, told of sequences of them: small letters do not."""

from __future__ import annotations

from typing import Any

import pytest

from instruments.auto.turns import ROUNDS, Turns

#: What happens beside steps: a loader gives a batch, an optimizer is made.
GIVES, MADE = ".", "+"


def ends(steps: str, batches: str) -> str:
    """The steps as told: an iteration ends with those in capitals.

    Args:
        steps: A letter is an optimizer that has learned and steps.
        batches: For each letter the batch; a ``*``: one of its own, a ``?``: nobody knows it again.
    """
    turns, told, fed, made = Turns(), "", False, False
    batch = iter(batches)
    for at, step in enumerate(steps):
        if step == GIVES:
            turns.loaded, fed = False, True
        elif step == MADE:
            made = True
        else:
            of: Any = next(batch)
            of = None if of == "?" else at if of == "*" else of
            end = turns(step, fed, made, True, of)
            told += step.upper() if end else step
            fed = made = False
    return told


CASES = {
    "one optimizer": ("aaaa", "****", "AAAA"),
    "epochs on one batch": ("aaaaaa", "xxxyyy", "AAAAAA"),
    "a GAN": ("dgdgdg", "******", "DgDgDg"),
    "the critic more often": ("dddgdddgdddg", "************", "DDDgDDDgDDDg"),
    "the critic more often, on batches of a loader": (
        ".d.d.dg.d.d.dg", "********", "DDDgDDDg",
    ),
    "the actor seldom": ("qqaqqaqqa", "*********", "QQaQQaQQa"),
    "the actor more often, seldom": (
        "qqalalqqalalqqalal", "**x?x?**y?y?**z?z?", "QQalalQQalalQQalal",
    ),
    "the actor more often, with another optimizer of its own": (
        "qlalaqlalaqlala", "*xxxx*yyyy*zzzz", "QlalaQlalaQlala",
    ),
    "the generator more often, on its noise": ("dggdggdgg", "*xx*yy*zz", "DggDggDgg"),
    "the generator more often, on noise of its own": (
        ".dgg.dgg.dgg", "*********", "DggDggDgg",
    ),
    "the same without a loader, which looks as a critic that learns more often": (
        "dggdggdgg", "*********", "DgGdGGdGG",
    ),
    "first one, then another": ("aaaabbbb", "********", "AAAAbBBB"),
    "first one, then another, on all there is": ("aaaabbbb", "xxxxxxxx", "AAAAbBBB"),
    "first one, then another on all there is, which had batches": (
        12 * "a" + "bbbb", 12 * "*" + "xxxx", 12 * "A" + "bBBB",
    ),
    "first one from a loader that has more, then another": (
        12 * ".a" + "bbbb", 16 * "*", 12 * "A" + "bBBB",
    ),
    "first one, then another that is made then": ("aaaa+bbbb", "xxxxxxxx", "AAAABBBB"),
    "first one from a loader, then another on all there is": (
        12 * ".a" + "bbbb", 12 * "*" + "xxxx", 12 * "A" + "bBBB",
    ),
    "turn by turn, several steps each": ("ppvvppvvppvv", "xxxxyyyyzzzz", "PPvVpPvVpPvV"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_it_is_told_which_step_ends_an_iteration(case: str) -> None:
    steps, batches, told = CASES[case]
    assert ends(steps, batches) == told


def test_one_that_goes_on_and_on_ends_iterations_in_the_end() -> None:
    n = ROUNDS + 4
    assert ends("a" + "b" * n, "*" + "x" * n) == "A" + "b" * (ROUNDS + 1) + "B" * (n - ROUNDS - 1)
    assert ends(".a" + "b" * n, "*" * (n + 1)) == "A" + "b" * (ROUNDS + 1) + "B" * (n - ROUNDS - 1)


def test_where_a_loader_has_no_more_another_takes_its_place_soon() -> None:
    turns = Turns()
    assert turns("a", True, False, True, None)
    turns.loaded = False  # It has been asked, and had none.
    assert [turns("b", False, False, True, None) for _ in range(3)] == [False, True, True]
