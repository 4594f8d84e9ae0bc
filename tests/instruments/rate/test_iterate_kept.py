"""Batches that a script takes from ``voir.iterate`` by hand: the last step is one as well."""

from __future__ import annotations

from textwrap import dedent

import pytest
from scripts import Timed

SCRIPT = """
import asyncio
import sys
import threading
import voir
import passing as time

def take(batches):
    for _ in range(5):
        next(batches)
        time.sleep(0.004)

def go_on(batches):
    take(batches)
    for i, _ in enumerate(batches):
        time.sleep(0.004)
        if i == 2:
            break

async def asynchronously(batches):
    take(batches)

def on_a_thread(batches):
    thread = threading.Thread(target=take, args=(batches,))
    thread.start()
    thread.join()

kept = voir.iterate("train", [[1, 2]] * 20, report_batch=True)
"""


@pytest.mark.parametrize(
    ("ways", "n"),
    [
        ("take(kept)", 5),
        ("kept = iter(kept); take(kept)", 5),
        ("take(kept); sys.exit()", 5),
        ("asyncio.run(asynchronously(kept))", 5),
        ("go_on(kept)", 8),
        ("go_on(kept); take(kept)", 13),
        ("list(kept)", 20),
        ("take(kept); kept.close()", 5),
        ("take(kept); 1 / 0", 4),  # Nobody knows how much of the fifth has come to pass.
    ],
)
def test_the_last_turn_ends_with_the_script(timed: Timed, ways: str, n: int) -> None:
    timed.write("main.py", SCRIPT + ways)
    timed.voir("--no-monitor", "main.py")
    assert timed.record()["tasks"]["train"]["steps"] == n
    assert timed.record()["tasks"]["train"]["items"] == 2 * n


def test_what_the_script_does_behind_the_last_one_is_a_pause(timed: Timed) -> None:
    timed.write("main.py", SCRIPT + "take(kept); take(kept); time.sleep(0.5)")
    timed.voir("--no-monitor", "main.py")
    facts = timed.record()["tasks"]["train"]
    assert facts["steps"] == 10
    assert facts["rate"]["median"] == pytest.approx(500, rel=0.02)


def test_a_stop_at_the_last_turn_is_one(timed: Timed) -> None:
    timed.write("main.py", SCRIPT + "take(kept)")
    assert timed.voir("--no-monitor", "--stop", "5", "main.py").status == 0
    record = timed.record()
    assert (record["stopped_early"], record["tasks"]["train"]["steps"]) == ("after 5 steps", 5)


@pytest.mark.parametrize("without_loading", [False, True])
def test_a_size_that_cannot_be_computed_leaves_the_script_and_its_steps(
    timed: Timed, without_loading: bool
) -> None:
    """Under plain python the function is not even called."""
    script = f"""
    import voir

    def size(batch):
        return {{0: 3, 1: 5}}[batch % 3]

    batches = voir.iterate("train", range(30), True, {without_loading}, batch_size=size)
    print(sum(1 for batch in batches))
    """
    timed.write("main.py", dedent(script))
    told = timed.voir("--no-monitor", "main.py")
    assert told.stdout.split() == ["30"]
    assert told.stderr.count("size raised KeyError: 2 [batch-size]") == 1
    assert timed.record()["tasks"]["train"]["steps"] == 30
    assert timed.record()["tasks"]["train"]["items"] == 80
