"""A pair given in two events of their own is a pair, and harms nothing where it is none."""

from __future__ import annotations

import pytest
from scripts import Timed, voirfile

#: Sixty batches of eight, each waited for and worked on; what else happens is told by MARKS.
SCRIPT = """
    import passing as time
    from voir import give

    def load():
        time.sleep(0.004)
        return [0.0] * 8

    def work(b):
        time.sleep(0.006)

    def main():
        for i in range(60):
            b = load()
            {marks}

    main()
    """
MARKS = {
    "batch at the end": """
            give(compute_start=True)
            work(b)
            give(compute_end=True, batch=b)""",
    "batch at the beginning": """
            give(compute_start=True, batch=b)
            work(b)
            give(compute_end=True)""",
    "batch in both": """
            give(compute_start=True, batch=b)
            work(b)
            give(compute_end=True, batch=b)""",
    "task and batch in both": """
            give(compute_start=True, task="train", batch=b)
            work(b)
            give(compute_end=True, task="train", batch=b)""",
    "the size of the batch": """
            give(compute_start=i, batch_size=100)
            work(b)
            give(compute_end=i, batch_size=8)""",
    "a step behind it": """
            give(compute_start=True)
            work(b)
            give(compute_end=True)
            give(step=i, batch_size=8)""",
    "ends that no start belongs to": """
            give(compute_end=True, batch=b)
            give(compute_start=True)
            work(b)
            give(compute_end=True, batch=b)
            give(compute_end=True, batch=b)""",
    "starts that no end belongs to": """
            give(compute_start=True) if i % 3 else None
            give(compute_start=True)
            work(b)
            give(compute_end=True, batch=b)""",
    "values that say no": """
            give(compute_start=True)
            give(compute_start=False)
            give(compute_end=None)
            work(b)
            give(compute_end=False)
            give(compute_end=True, batch=b)""",
}


def ran(place: Timed, marks: str, *arguments: str) -> dict:
    """What the record says of a run of these events."""
    place.write("main.py", SCRIPT.replace("{marks}", marks))
    done = place.voir(*arguments, "main.py")
    assert done.status == 0, done.stderr
    record: dict = place.record()
    return record


def check(task: dict, n: int = 60) -> None:
    """All steps and items, and what they were spent on."""
    assert (task["steps"], task["items"]) == (n, 8 * n)
    assert task["loading"]["share"] == pytest.approx(0.4, abs=0.01)
    assert task["compute"]["share"] == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize("way", MARKS)
def test_a_pair_in_two_events_is_a_pair(timed: Timed, way: str) -> None:
    record = ran(timed, MARKS[way], "--loading-rate")
    check(record["tasks"]["train"])
    assert record["tasks"].keys() == {"train"}
    assert record["problems"] == []


def test_a_step_within_it_is_its_step(timed: Timed) -> None:
    marks = """
            give(compute_start=True)
            work(b)
            give(step=i, batch=b)
            give(compute_end=True)"""
    check(ran(timed, marks)["tasks"]["train"])


def test_a_step_in_the_event_that_ends_it_is_its_step(timed: Timed) -> None:
    marks = """
            give(compute_start=True)
            work(b)
            give(step=i, compute_end=True, batch=b)"""
    check(ran(timed, marks)["tasks"]["train"])


def test_two_probes_give_a_pair(timed: Timed) -> None:
    voirfile(timed, "//work > #enter as compute_start", "//work(b as batch) > #exit as compute_end")
    check(ran(timed, "work(b)", "--loading-rate", "--compute-rate")["tasks"]["train"])


def test_a_voirfile_gives_a_pair_from_subscribers(timed: Timed) -> None:
    timed.write(
        "voirfile.py",
        """
        def instrument_probes(ov):
            yield ov.phases.load_script
            began = ov.probe("//work > #enter as began")
            began.subscribe(lambda event: ov.give(compute_start=True))
            ended = ov.probe("//work(b) > #exit as ended")
            ended.subscribe(lambda event: ov.give(compute_end=True, batch=event["b"]))
        """,
    )
    check(ran(timed, "work(b)")["tasks"]["train"])


def test_tasks_have_pairs_of_their_own(timed: Timed) -> None:
    marks = """
            task = "eval" if i % 6 == 5 else "train"
            give(task=task, compute_start=True)
            work(b)
            give(task=task, compute_end=True, batch=b)"""
    tasks = ran(timed, marks)["tasks"]
    assert {name: (task["steps"], task["items"]) for name, task in tasks.items()} == {
        "train": (50, 400),
        "eval": (10, 80),
    }


def test_threads_have_pairs_of_their_own(timed: Timed) -> None:
    timed.write(
        "main.py",
        """
        from threading import Barrier, Thread
        from voir import give

        together = Barrier(4)

        def train():
            for i in range(10):
                together.wait()
                give(compute_start=True)
                together.wait()
                give(compute_end=True, batch=[0] * 8)

        threads = [Thread(target=train) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        """,
    )
    assert timed.voir("main.py").status == 0
    task = timed.record()["tasks"]["train"]
    assert (task["steps"], task["items"]) == (40, 320)


@pytest.mark.parametrize("around", ["the whole training", "each epoch"])
def test_a_pair_around_many_steps_is_none_of_theirs(timed: Timed, around: str) -> None:
    epochs = 1 if around == "the whole training" else 3
    timed.write(
        "main.py",
        f"""
        import passing as time
        from voir import give

        for epoch in range({epochs}):
            give(compute_start=True)
            for i in range(20):
                time.sleep(0.01)
                give(step=i, batch=[0] * 8)
            give(compute_end=True)
        """,
    )
    assert timed.voir("main.py").status == 0
    task = timed.record()["tasks"]["train"]
    assert (task["steps"], task["items"]) == (20 * epochs, 160 * epochs)


@pytest.mark.parametrize("edge", ["compute_start", "compute_end"])
@pytest.mark.parametrize("form", ["step", "none"])
def test_half_a_pair_is_none(timed: Timed, edge: str, form: str) -> None:
    step = "give(step=i, batch=b)" if form == "step" else "None"
    tasks = ran(timed, f"work(b); give({edge}=True, batch=b); {step}")["tasks"]
    found = {name: (task["steps"], task["items"]) for name, task in tasks.items()}
    assert found == ({"train": (60, 480)} if form == "step" else {})


def test_the_end_alone_with_task_and_batch_is_a_step_as_in_voir_0_2(timed: Timed) -> None:
    marks = 'work(b); give(task="train", compute_end=True, batch=b)'
    task = ran(timed, marks)["tasks"]["train"]
    assert (task["steps"], task["items"]) == (60, 480)


def test_a_pair_within_that_of_iterate_is_its_work(timed: Timed) -> None:
    timed.write(
        "main.py",
        """
        import passing as time
        from voir import give, iterate

        def batches():
            for _ in range(20):
                time.sleep(0.004)
                yield [0] * 8

        for batch in iterate("train", batches(), report_batch=True):
            give(compute_start=True)
            time.sleep(0.006)
            give(compute_end=True, batch=batch)
        """,
    )
    assert timed.voir("main.py").status == 0
    check(timed.record()["tasks"]["train"], 20)


def test_a_loader_that_is_given_beside_it_makes_no_more_steps(timed: Timed) -> None:
    timed.write(
        "main.py",
        """
        import passing as time
        from voir import give

        class Loader:
            def __iter__(self):
                for _ in range(20):
                    time.sleep(0.004)
                    yield [0] * 8

        loader = Loader()
        give(loader=loader)
        for batch in loader:
            give(compute_start=True)
            time.sleep(0.006)
            give(compute_end=True, batch=batch)
        """,
    )
    assert timed.voir("main.py").status == 0
    check(timed.record()["tasks"]["train"], 20)


def test_a_pair_that_an_exception_leaves_open_costs_no_step(timed: Timed) -> None:
    marks = """
            give(compute_start=True)
            if i % 20 == 9:
                continue
            work(b)
            give(compute_end=True, batch=b)"""
    task = ran(timed, marks)["tasks"]["train"]
    assert (task["steps"], task["items"]) == (57, 456)


def test_the_script_is_stopped_after_so_many_pairs(timed: Timed) -> None:
    record = ran(timed, MARKS["batch at the end"], "--stop", "20")
    check(record["tasks"]["train"], 20)
    assert record["stopped_early"] == "after 20 steps"


def test_a_pair_of_one_probe_keeps_its_quick_way(timed: Timed) -> None:
    """Who waits for plain events leaves at the first that is none."""
    selector = "//main(b as batch, !#loop_i as compute_start, !!#endloop_i as compute_end)"
    timed.write(
        "voirfile.py",
        f"""
        def instrument_probes(ov):
            yield ov.phases.load_script
            ov.probe({selector!r}).give()
            yield ov.phases.run_script
            keys = ("compute_start", "batch", "$wrap")
            heard = [s for s in ov._given_stream.listeners if set(s.keys) <= set(keys) and s.keys]
            ov.app(heard=len(heard))
        """,
    )
    record = ran(timed, "work(b)")
    assert record["tasks"]["train"]["steps"] == 60
    assert record["app"] == {"heard": 1}
