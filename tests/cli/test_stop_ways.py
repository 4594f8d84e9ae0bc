"""``--stop N`` counts what is recorded: with several tasks, shown in several ways; on threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running import Place

SCRIPT = """
def learn(b):
    work = 1
    inside = 2
    done = 3

def look(b):
    looking = 1
    looked = 2

def evaluate(n):
    for b in [[1, 2, 3]] * n:
        look(b)
        score = 1

def main():
    FIRST
    for epoch in range(6):
        for turn, b in enumerate([[1, 2]] * 5):
            learn(b)
            loss = turn
            MIDST
        LAST

main()
"""
PLACES = {
    "after": {"LAST": "evaluate(3)"},
    "first": {"FIRST": "evaluate(3)", "LAST": "evaluate(3)"},
    "midst": {"MIDST": "evaluate(2) if turn % 3 == 0 else None"},
}
PAIR = "//learn(b as batch, !work as compute_start, !!done as compute_end)"
STEP, WITHIN = "//main > loss as step", "//learn(b as batch) > inside as step"
LOOKS = "//look(b as batch, !looking as compute_start, !!looked as compute_end)"
SCORE = "//evaluate(b as batch) > score as step"


@pytest.mark.parametrize(
    ("where", "evaluated"), [("first", [SCORE]), ("midst", [LOOKS]), ("after", [LOOKS, SCORE])]
)
@pytest.mark.parametrize("trained", [[PAIR], [STEP], [PAIR, STEP], [PAIR, WITHIN]])
def test_so_many_steps_are_recorded_of_all_tasks_together(
    tmp_path: Path, trained: list[str], evaluated: list[str], where: str
) -> None:
    place, script = Place(tmp_path), SCRIPT
    for at in ("FIRST", "MIDST", "LAST"):
        script = script.replace(at, PLACES[where].get(at, "pass"))
    place.write("main.py", script)
    place.probes(trained, evaluated)
    assert place.voir("--no-monitor", "--stop", "7", "main.py").seen == (0, "")
    record = place.record()
    assert record["stopped_early"] == "after 7 steps"
    assert sum(task["steps"] for task in record["tasks"].values()) == 7


LOADER = "//train > loader"


@pytest.mark.parametrize("selectors", [[PAIR], [WITHIN], [PAIR, WITHIN], [LOADER]])
def test_what_other_threads_are_in_the_midst_of_is_no_step(
    tmp_path: Path, selectors: list[str]
) -> None:
    place = Place(tmp_path)
    place.write(
        "main.py",
        """
        import threading
        import time

        def learn(b):
            time.sleep(0.002)
            work = 1
            inside = 2
            time.sleep(0.001)
            done = 3

        class Loader:
            def __iter__(self):
                for _ in range(60):
                    yield [1, 2]
                print("all")

        def train():
            loader = Loader()
            for b in loader:
                learn(b)

        threads = [threading.Thread(target=train) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        """,
    )
    place.probes(selectors)
    assert place.voir("--no-monitor", "--stop", "17", "main.py").seen == (0, "")
    record = place.record()
    assert record["stopped_early"] == "after 17 steps"
    assert record["tasks"]["train"]["steps"] == 17
