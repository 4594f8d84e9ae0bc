"""Steps from the very first to the very last, whichever way a script shows them."""

from __future__ import annotations

import signal

import pytest
from scripts import TRAINING, Timed, logged, truth, voirfile

from tests.running import Place

STEP = "//train(inp as batch) > #endloop_inp as step"
PAIR = "//train(inp as batch, !#loop_inp as compute_start, !!#endloop_inp as compute_end)"
LOOP = """
    import sys, time

    def train(batches):
        for inp in batches:
            time.sleep(0.001)

    {main}
    """
#: The ways to show steps, and how many of all steps have a known beginning.
WAYS = {"step": (STEP,), "pair": (PAIR,), "both": (STEP, PAIR)}


def tasks(place: Place, *selectors: str, main: str, arguments: tuple[str, ...] = ()) -> dict:
    """Run ``main`` with these probes; what the record says of its tasks."""
    place.write("main.py", LOOP.format(main=main))
    voirfile(place, *selectors)
    ran = place.voir(*arguments, "main.py")
    assert ran.status == 0, ran.stderr
    found: dict = place.record()["tasks"]
    return found


def passed(timed: Timed, *selectors: str, main: str) -> dict:
    """Run ``main`` with these probes by the clock that passes; what is said of its training."""
    loop = LOOP.replace("import sys, time", "import passing as time")
    timed.write("main.py", loop.format(main=main))
    voirfile(timed, *selectors)
    ran = timed.voir("main.py")
    assert ran.status == 0, ran.stderr
    found: dict = timed.record()["tasks"]["train"]
    return found


@pytest.mark.parametrize("way", WAYS)
def test_a_run_of_three_steps_has_three(place: Place, way: str) -> None:
    found = tasks(place, *WAYS[way], main="train([[1] * 8, [1] * 8, [1] * 5])")["train"]
    assert (found["steps"], found["items"]) == (3, 21)
    assert found["steady"]["verdict"] == "too few steps"


@pytest.mark.parametrize("way", WAYS)
def test_a_run_of_one_step_has_one(place: Place, way: str) -> None:
    found = tasks(place, *WAYS[way], main="train([[1] * 8])")["train"]
    assert (found["steps"], found["items"]) == (1, 8)


@pytest.mark.parametrize("name", ["train", "Trainer/train"])
def test_the_first_step_is_timed_where_only_its_end_is_probed(timed: Timed, name: str) -> None:
    timed.write(
        "main.py",
        """
        import passing as time

        class Trainer:
            def train(self, n):
                for inp in [[1] * 8] * n:
                    time.sleep(0.5 if n == 1 else 0.01)

        def train(n):
            for inp in [[1] * 8] * n:
                time.sleep(0.5 if n == 1 else 0.01)

        def main():
            made = Trainer()
            for n in (1, 20):
                train(n) if WHICH else made.train(n)

        main()
        """.replace("WHICH", str("Trainer" not in name)),
    )
    voirfile(timed, f"//{name}(inp as batch) > #endloop_inp as step")
    assert timed.voir("main.py").status == 0
    found = timed.record()["tasks"]["train"]
    assert found["first_step_seconds"] == pytest.approx(0.5, abs=1e-6)
    assert (found["steps"], found["rate"]["n"]) == (21, 20)
    assert found["rate"]["wall"] == pytest.approx(20 * 8 / 0.2)  # How long its batch took is not.
    assert [probe["fired"] for probe in timed.record()["probes"]] == [21]


@pytest.mark.parametrize("first", [True, False])
def test_an_evaluation_first_of_all_is_no_part_of_the_first_step(timed: Timed, first: bool) -> None:
    """Before the training, or in its first turn; both are shown by the ends of their steps."""
    timed.write(
        "main.py",
        """
        import passing as time

        def evaluate():
            for x in [[1] * 8] * 10:
                time.sleep(0.05)

        def train(first):
            for inp in [[1] * 8] * 20:
                time.sleep(0.01)
                if not first and inp is not None:
                    evaluate()
                    first = True

        def main():
            if FIRST:
                evaluate()
                time.sleep(1.0)
            train(FIRST)

        main()
        """.replace("FIRST", str(first)),
    )
    timed.write(
        "voirfile.py",
        """
        def instrument_probes(ov):
            yield ov.phases.load_script
            ov.probe("//train(inp as batch) > #endloop_inp as step").give()
            shown = ov.probe("//evaluate(x as batch) > #endloop_x as step")
            shown.augment(task=lambda: "eval").give()
        """,
    )
    assert timed.voir("main.py").status == 0
    tasks = timed.record()["tasks"]
    assert tasks["train"]["first_step_seconds"] == pytest.approx(0.01, abs=1e-6)
    assert tasks["eval"]["first_step_seconds"] == pytest.approx(0.05, abs=1e-6)
    paused = tasks["train"]["pause"]
    assert (paused["count"], paused["seconds"]) == (not first, pytest.approx(0.5 * (not first)))
    wall = (20 - 1) * 8 / (0.19 + 0.5 * (not first))
    assert tasks["train"]["rate"]["wall"] == pytest.approx(wall)


@pytest.mark.parametrize("way", WAYS)
def test_threads_that_begin_together_lose_no_step(place: Place, way: str) -> None:
    main = """import threading
    threads = [threading.Thread(target=train, args=([[1] * 4] * 20,)) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]"""
    found = tasks(place, *WAYS[way], main=main)["train"]
    assert (found["steps"], found["items"]) == (160, 640)


@pytest.mark.parametrize("way", WAYS)
def test_every_epoch_counts_the_first_and_the_last_too(timed: Timed, way: str) -> None:
    main = "[train([[1] * 8] * 12 + [[1] * 4]) or time.sleep(0.1) for epoch in range(3)]"
    found = passed(timed, *WAYS[way], main=main)
    assert (found["steps"], found["items"]) == (39, 300)
    assert (found["pause"]["count"], found["pause"]["seconds"]) == (2, pytest.approx(0.2))


@pytest.mark.parametrize("way", WAYS)
def test_the_windows_hold_every_step(place: Place, way: str) -> None:
    arguments = ("--train-rate", "--interval", "4")
    tasks(place, *WAYS[way], main="train([[1] * 8] * 10)", arguments=arguments)
    assert len(logged(place, "train_rate")) == 3


def test_the_first_step_is_told_apart(place: Place) -> None:
    main = """
    class Slow(list):
        pass

    def train(batches):
        for inp in batches:
            time.sleep(0.2 if inp[0] else 0.002)

    train([[1, 1]] + [[0, 0]] * 30)
    """
    found = tasks(place, PAIR, main=main)["train"]
    assert found["first_step_seconds"] >= 0.2
    assert found["rate"]["median"] > 2 / 0.2


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_is_stopped_has_the_steps_up_to_there(place: Place, way: str) -> None:
    place.write("main.py", LOOP.format(main="train([[1] * 8] * 1000)"))
    voirfile(place, *WAYS[way])
    stop = ("--stop", "5") if way != "pair" else ()
    if not stop:
        with open(place.path / "voirfile.py", "a") as file:
            file.write("from voir.instruments import early_stop\n")
            file.write("instrument_stop_here = early_stop('compute_end', 5)\n")
    assert place.voir(*stop, "main.py").status == 0
    run = place.record()
    assert (run["tasks"]["train"]["steps"], run["tasks"]["train"]["items"]) == (5, 40)
    assert "stopped_early" in run


def test_a_run_that_fails_has_the_steps_up_to_there(place: Place) -> None:
    place.write("main.py", LOOP.format(main="train([[1] * 8] * 6); sys.exit(3)"))
    voirfile(place, STEP)
    assert place.voir("main.py").status == 3
    assert place.record()["tasks"]["train"]["steps"] == 6


def test_a_run_that_is_killed_has_the_steps_up_to_there(place: Place) -> None:
    main = """
    import os, signal
    train([[1] * 8] * 70)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
    """
    place.write("main.py", LOOP.format(main=main))
    voirfile(place, STEP, "//train > inp as loss")
    assert place.voir("main.py").status == -signal.SIGTERM
    run = place.record()
    assert (run["tasks"]["train"]["steps"], run["tasks"]["train"]["items"]) == (70, 560)


def test_a_run_killed_in_the_middle_of_a_step_has_those_before(place: Place) -> None:
    main = """
    import os, signal
    def batches():
        for i in range(9):
            yield [1] * 8
        os.kill(os.getpid(), signal.SIGTERM)
        yield [1] * 8
    train(batches())
    """
    place.write("main.py", LOOP.format(main=main))
    voirfile(place, STEP, PAIR)
    assert place.voir("main.py").status == -signal.SIGTERM
    assert place.record()["tasks"]["train"]["steps"] == 9


# Tasks, and voir.iterate


ITERATING = """
    import json
    import passing as time
    from voir import give, iterate

    spent = {"train": [0, 0], "eval": [0, 0]}

    def spend(task, which, seconds):
        since = time.perf_counter()
        time.sleep(seconds)
        spent[task][which] += time.perf_counter() - since

    class Slow:
        def __init__(self, task, sizes):
            self.task, self.sizes = task, sizes

        def __len__(self):
            return len(self.sizes)

        def __iter__(self):
            for size in self.sizes:
                spend(self.task, 0, 0.006)
                yield [0] * size

    def loop(task, sizes, delay):
        for inp in iterate(task, Slow(task, sizes), report_batch=True, ignore_loading=True):
            spend(task, 1, delay)

    for epoch in range(3):
        loop("train", [16] * 9 + [5], 0.004)
        if epoch < 2:
            loop("eval", [50] * 4, 0.002)
    print(json.dumps({task: work / (wait + work) for task, (wait, work) in spent.items()}))
    """


def test_two_tasks_are_told_apart_and_iterate_measures_both(timed: Timed) -> None:
    timed.write("main.py", ITERATING)
    ran = timed.voir("--compute-rate", "--interval", "1000", "main.py")
    assert ran.status == 0, ran.stderr
    found = timed.record()["tasks"]
    assert {name: (task["steps"], task["items"]) for name, task in found.items()} == {
        "train": (30, 3 * 149),
        "eval": (8, 400),
    }
    assert found["train"]["pause"]["count"] == 2
    windows = {event["task"]: event for event in logged(timed, "compute_rate")}
    assert windows.keys() == {"train", "eval"}
    shares = {task: window["share"] for task, window in windows.items()}
    assert shares == pytest.approx(truth(ran), rel=0.001)


def test_iterate_times_the_steps_as_the_script_does(timed: Timed) -> None:
    timed.write("training.py", TRAINING)
    timed.write(
        "main.py",
        """
        from training import *
        from voir import iterate

        def train():
            for inp in iterate("train", [[0] * 16] * 30, report_batch=True):
                work()

        list(iterate("warm-up", [[0]], report_batch=True))  # What voir does once, it does here.
        spend("train", train)
        truth()
        """,
    )
    ran = timed.voir("--train-rate", "--interval", "1000", "main.py")
    window = logged(timed, "train_rate")[-1]
    assert 30 * 16 / window["train_rate"] == pytest.approx(truth(ran)["compute"])


def test_another_call_of_a_short_loop_is_known_by_no_length(timed: Timed) -> None:
    main = "[train([[1] * 8] * 3) or time.sleep(0.05) for epoch in range(3)]"
    found = passed(timed, PAIR, main=main)
    assert (found["pause"]["count"], found["pause"].get("unexplained")) == (2, None)


BY_HAND = """
    import passing as time

    def batches(n):
        for _ in range(n):
            time.sleep(0.004)
            yield [1] * 8

    def train(loader):
        it = iter(loader)
        while True:
            try:
                inp = next(it)
            except StopIteration:
                break
            time.sleep(0.006)

    for epoch in range(3):
        train(batches(30))
    """


@pytest.mark.parametrize("flags", [(), ("--loading-rate",)], ids=["", "--loading-rate"])
@pytest.mark.parametrize("way", WAYS)
def test_a_loop_that_fetches_by_hand_has_a_step_for_each_batch(
    timed: Timed, way: str, flags: tuple[str, ...]
) -> None:
    timed.write("main.py", BY_HAND)
    voirfile(timed, *WAYS[way])
    assert timed.voir(*flags, "main.py").status == 0
    found = timed.record()["tasks"]["train"]
    assert (found["steps"], found["items"]) == (90, 720)
    if way != "step" or flags:
        assert found["compute"]["seconds"] == pytest.approx(0.54, abs=0.01)
        assert found["loading"]["seconds"] == pytest.approx(0.36, abs=0.01)


FETCHING = """\
            try:
                inp = next(it)
            except StopIteration:
                break
            time.sleep(0.006)
"""
#: Where the ``try`` of such a loop works, and is left otherwise than by its end.
WORKING = """\
            try:
                inp = next(it)
                time.sleep(0.006)
                n = len(seen) + 1
                seen.append(n)
                LEAVE
            except StopIteration:
                break
            except ValueError:
                continue
            print(n)
"""
LEAVING = ["if n % 10: continue", "if n % 3 == 0: raise ValueError", "for x in inp: break"]


def in_steps(timed: Timed, source: str) -> None:
    """The loop has a step for each batch, and waits for each of them."""
    timed.write("main.py", source)
    voirfile(timed, PAIR)
    assert timed.voir("main.py").status == 0
    found = timed.record()["tasks"]["train"]
    assert (found["steps"], found["items"]) == (90, 720)
    assert found["compute"]["seconds"] == pytest.approx(0.54, abs=0.01)
    assert found["loading"]["seconds"] == pytest.approx(0.36, abs=0.01)


@pytest.mark.parametrize("leave", LEAVING)
def test_a_loop_that_works_where_it_fetches_has_a_step_for_each_batch(
    timed: Timed, leave: str
) -> None:
    working = WORKING.replace("LEAVE", leave)
    in_steps(timed, BY_HAND.replace(FETCHING, working).replace("it = iter", "seen, it = [], iter"))


def test_a_loop_that_fetches_the_next_batch_last_has_a_step_for_each(timed: Timed) -> None:
    ahead = """\
            time.sleep(0.006)
            inp = next(it, None)
"""
    source = BY_HAND.replace(FETCHING, ahead).replace("while True", "while inp is not None")
    in_steps(timed, source.replace("iter(loader)", "iter(loader)\n        inp = next(it, None)"))


def test_the_items_of_a_step_are_those_of_its_own_batch(place: Place) -> None:
    place.write(
        "main.py",
        """
        def train(batches):
            it = iter(batches)
            inp = next(it, None)
            while inp is not None:
                sum(inp)
                inp = next(it, None)

        train([[1] * 8, [1] * 8, [1] * 2])
        """,
    )
    voirfile(place, STEP)
    assert place.voir("main.py").status == 0
    found = place.record()["tasks"]["train"]
    assert (found["steps"], found["items"]) == (3, 18)


@pytest.mark.parametrize("way", WAYS)
def test_a_stop_counts_the_batches_that_a_loop_fetches_by_hand(timed: Timed, way: str) -> None:
    timed.write("main.py", BY_HAND)
    voirfile(timed, *WAYS[way])
    assert timed.voir("--stop", "47", "main.py").status == 0
    found = timed.record()["tasks"]["train"]
    assert (found["steps"], found["items"]) == (47, 376)
