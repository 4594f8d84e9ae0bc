"""A process's part of a pipeline is known by its messages; other messages make none."""

from __future__ import annotations

import pytest

from overseer.model.events import RECORD
from overseer.model.messages import FIRST_STAGE, LAST_STAGE, MIDDLE_STAGE, Messages, part_of_step
from overseer.recorder import sites as k

#: Steps of three stages and four micro-batches: sends, receipts, forward and backward passes.
GPIPE = "FS" * 4 + "RB" * 4, "RFS" * 4 + "RBS" * 4, "RF" * 4 + "BS" * 4
ONE_EACH = (
    "FSFSFSRBFSRBRBRB", "RFSRFSRBSRFSRBSRFSRBSRBS", "RFBSRFBSRFBSRFBS",
)  # fmt: skip


@pytest.mark.parametrize(("steps", "first"), [(GPIPE, True), (ONE_EACH, False)])
def test_the_place_of_a_stage_is_known_by_a_step(steps: tuple[str, ...], first: bool) -> None:
    found = [part_of_step(step) for step in steps]
    assert found == [
        (FIRST_STAGE, 4, 4, first),
        (MIDDLE_STAGE, 4, 8, first),
        (LAST_STAGE, 4, 4, first),
    ]
    # Two tensors between stages.
    twice = [part_of_step(step.replace("S", "SS").replace("R", "RR")) for step in steps]
    assert [one and one.messages for one in twice] == [8, 16, 8]


@pytest.mark.parametrize("step", [
    "", "FB", "FBSR", "FBRS", "SRFB", "RSFB", "FSB", "RFB", "RFSB", "SR", "FSRBS", "RFBRS",
])  # fmt: skip
def test_gradients_that_are_exchanged_by_hand_make_no_pipeline(step: str) -> None:
    assert part_of_step(step) is None


SITES = [
    {"kind": 0}, {"kind": k.COMMUNICATION, "label": "ProcessGroup.send"},
    {"kind": k.COMMUNICATION, "label": "ProcessGroup.recv"}, {"kind": k.FORWARD},
    {"kind": k.BACKWARD}, {"kind": k.OPTIMIZER},
]  # fmt: skip


def section(*steps: str) -> object:
    messages, flags = Messages(SITES), k.TRAINING | k.GRAD
    for step in steps:
        for letter in f"{step}O":
            site = 1 + "SRFBO".index(letter)
            messages.read(RECORD.pack(0, 0.0, 0, site, 1, 5, 0, 0, flags))
    return messages.section()


def test_some_steps_like_each_other_tell() -> None:
    step = ONE_EACH[2]
    assert section(step, step) is None
    told = {"by": "messages", "place": LAST_STAGE, "micro_batches": 4, "messages": 4}
    assert section(*[step] * 8, "FB") == {**told, "forward_first": False}
    assert section(*[step] * 3, *["FB"] * 3) is None
