"""The boards that the golden screens show."""

from __future__ import annotations

from dataclasses import replace

from instruments.dash.board import Board, Given, Meter, Task
from instruments.dash.picture import sample

GIB = 1024.0**3

TRAINING = sample()
NOTHING = Board(title="main.py", elapsed=2.4)
START = Board(
    title="main.py",
    elapsed=3.0,
    tasks=(Task("train", done=0, total=2000, through=0.0),),
    host=(Meter("cpu", 0.07, 3.2 * GIB, 32 * GIB),),
)
MANY_KEYS = replace(
    TRAINING,
    given=tuple(Given(f"layer{i}.grad_norm", f"{i / 7:.4f}", 100 * i) for i in range(1, 41)),
)
EIGHT_GPUS = replace(
    TRAINING,
    gpus=tuple(
        Meter(f"gpu {i}", 0.98 - i / 20, (70 - i) * GIB, 80 * GIB, ("612 W", "71 °C", "H100"))
        for i in range(8)
    ),
)
TWO_TASKS = replace(
    TRAINING,
    tasks=(*TRAINING.tasks, Task("validation", 31, 40, 4.0, 0.775, 31)),
    given=(*TRAINING.given, Given("validation/accuracy", "0.9702", 31)),
)
BOARDS = {
    "training": TRAINING,
    "nothing": NOTHING,
    "start": START,
    "many-keys": MANY_KEYS,
    "eight-gpus": EIGHT_GPUS,
    "two-tasks": TWO_TASKS,
}
SIZES = {"80x24": (80, 24), "120x40": (120, 40), "50x20": (50, 20), "30x8": (30, 8)}
