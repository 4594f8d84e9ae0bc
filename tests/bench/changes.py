"""Small slow scripts with a fix for each, and changes that are faster as they do less."""

from __future__ import annotations

from typing import NamedTuple

#: Trains a linear model on the processor, and evaluates it every ten steps.
SCRIPT = """
import json, random, re, time
from copy import deepcopy
from pathlib import Path
from voir import give, log

SIZE, EPOCHS = 8, 4
random.seed(1)
rows = [[random.random() for _ in range(SIZE)] for _ in range(160)]
goals = [sum(row) / SIZE for row in rows]
weights = [0.0] * SIZE
seen = []

def predict(row):
    return sum(a * b for a, b in zip(weights, row))

def train(batch):
    total = 0.0
    for at in batch:
        error = predict(rows[at]) - goals[at]
        total += error * error
        for i in range(SIZE):
            weights[i] -= 0.02 * error * rows[at][i]
    return total / len(batch)

def evaluate():
    time.sleep(0.01)
    for number, at in enumerate(range(0, 160, 32)):
        error = sum(abs(predict(rows[i]) - goals[i]) for i in range(at, at + 32))
        give(task="eval", step=number, batch_size=32)
    log(accuracy=1 - error / 32)

for epoch in range(EPOCHS):
    for step in range(10):
        batch = [(step * 16 + i) % 160 for i in range(16)]
        # slow
        time.sleep(0.001)
        loss = train(batch)
        give(step=epoch * 10 + step, batch_size=len(batch), loss=loss)
    evaluate()
"""


class Change(NamedTuple):
    """The script before and after a change."""

    name: str
    before: str
    after: str


def _fix(name: str, slow: str, fast: str) -> Change:
    return Change(name, SCRIPT.replace("# slow", slow), SCRIPT.replace("# slow", fast))


def _cheat(name: str, old: str, new: str) -> Change:
    assert old in SCRIPT
    return Change(name, SCRIPT, SCRIPT.replace(old, new))


#: The second text does the same as the first.
FIXES = [
    _fix("a sleep", "time.sleep(0.01)", ""),
    _fix("data is copied", "for _ in range(6): deepcopy(rows)", ""),
    _fix("a list is searched", "[at for at in range(300) if at in list(range(300))]",
        "known = set(range(300)); [at for at in range(300) if at in known]"),
    _fix("a pattern is compiled", "[(re.purge(), re.compile(f'(a|b)*{i}')) for i in range(30)]",
        "[re.compile(f'(a|b)*{i}') for i in range(30)]"),
    _fix("a file is read each time", "[Path(__file__).read_text() for _ in range(100)]",
        "text = Path(__file__).read_text()"),
    _fix("data is parsed each time", "[json.loads(json.dumps(rows)) for _ in range(8)]",
        "parsed = rows"),
    _fix("text is built for nothing", "[repr(rows) for _ in range(16)]", "'%s'"),
    _fix("sorts again", "[sorted(rows * 8) for _ in range(8)]", "rows.copy().sort()"),
    _fix("waits for a lock", "time.sleep(0.004); time.sleep(0.004)", "time.sleep(0.0005)"),
    _fix("keeps and sums a history", "seen.append(step); [sum(range(4000)) for _ in range(60)]",
        "seen.append(step)"),
]  # fmt: skip
#: Each is faster.
CHEATS = [
    _cheat("fewer items", "batch = [(step * 16 + i) % 160 for i in range(16)]",
        "batch = [(step * 16 + i) % 160 for i in range(4)]"),
    _cheat("fewer steps", "EPOCHS = 8, 4", "EPOCHS = 8, 2"),
    _cheat("no evaluation", "    evaluate()\n", "\n"),
    _cheat("every other evaluation", "    evaluate()\n", "    if epoch % 2: evaluate()\n"),
    _cheat("a smaller evaluation", "range(0, 160, 32)", "range(0, 64, 32)"),
    _cheat("a smaller model", "SIZE, EPOCHS = 8", "SIZE, EPOCHS = 4"),
    _cheat("another seed", "random.seed(1)", "random.seed(7)"),
    _cheat("no loss", "loss = train(batch)", "loss = None"),
    _cheat("every other batch is not trained on", "loss = train(batch)",
        "loss = train(batch) if step % 2 == 0 else loss"),
    _cheat("training ends early", "loss = train(batch)",
        "loss = train(batch) if epoch < 2 else loss"),
]  # fmt: skip
#: Not faster.
SAME = _fix("a comment", "# slow", "# not slow")
