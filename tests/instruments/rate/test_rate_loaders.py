"""``--loading-rate`` and ``loader``: waiting for batches, seen without touching the loader."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from scripts import (
    ANSWERS,
    HOLDS,
    LOADER,
    PAIR,
    STEP,
    TRAINING,
    Timed,
    fake_torch,
    logged,
    truth,
    voirfile,
)

from instruments.loader import Loaders
from overseer import Overseer
from tests.running import Place, Ran

ROOT = Path(__file__).parents[3]
SLOW = """
    from training import *

    class Items:
        def __len__(self):
            return 40

        def __getitem__(self, i):
            if i % 4 == 0:
                wait()
            return i
    """
WITH_TORCH = (
    SLOW
    + """
    from torch.utils.data import DataLoader

    def train(loader):
        for inp in loader:
            work()

    for _ in range(2):
        loader = DataLoader(Items(), batch_size=4)
        spend("train", train, loader)
    truth()
    """
)
#: One window of all steps, so that what is logged is of all of them too.
WHOLE = ("--compute-rate", "--interval", "1000")


def agrees(place: Place, ran: Ran) -> None:
    """The run's record says what the script measured itself."""
    told, task = truth(ran), place.record()["tasks"]["train"]
    (window,) = logged(place, "compute_rate")
    compute = task["items"] / window["compute_rate"]
    assert task["steps"] == told["steps"]
    assert compute == pytest.approx(told["compute"], rel=0.001)
    loading = compute / window["share"] - compute
    assert loading == pytest.approx(told["loading"], rel=0.001)


@pytest.fixture
def training(timed: Timed) -> Place:
    timed.write("training.py", TRAINING)
    return timed


BREAKS = """
    for epoch in range(3):
        train(loader)
        time.sleep(1)
    """
LEFT = (
    """
    class Loader:
        def __iter__(self):
            return self

        def __next__(self):
            time.sleep(0.001)
            return [0] * 4

    """,
    """
    class Loader:
        def __iter__(self):
            while True:
                time.sleep(0.001)
                yield [0] * 4

    """,
)


@pytest.mark.parametrize("loader", LEFT)
@pytest.mark.parametrize("selector", [STEP, PAIR])
def test_a_loop_that_is_left_by_break_is_followed_by_a_pause(
    training: Place, loader: str, selector: str
) -> None:
    train = """
    def train(loader):
        for done, inp in enumerate(loader):
            work()
            if done == 4:
                break

    loader = Loader()
    """
    training.write("main.py", f"""\n    from training import *\n{loader}{train}{BREAKS}""")
    voirfile(
        training,
        selector.replace("#loop_inp", "#loop_done").replace("#endloop_inp", "#endloop_done"),
        LOADER,
    )
    assert training.voir("main.py").status == 0
    found = training.record()["tasks"]["train"]["pause"]
    assert (found["count"], found["seconds"]) == (2, pytest.approx(2, rel=0.01))


@pytest.mark.parametrize("iterator", ["_BaseDataLoaderIter", "_DataLoaderIter"])
def test_the_flag_sees_a_dataloader_of_any_version(training: Place, iterator: str) -> None:
    fake_torch(training, iterator)
    training.write("main.py", WITH_TORCH)
    voirfile(training, STEP)
    ran = training.voir("--loading-rate", *WHOLE, "main.py")
    agrees(training, ran)
    assert "no-rate" not in ran.stderr


def test_a_given_loader_is_seen_without_the_flag(training: Place) -> None:
    fake_torch(training)
    training.write("main.py", WITH_TORCH)
    voirfile(training, STEP, LOADER)
    agrees(training, training.voir(*WHOLE, "main.py"))


LATE = """
    from torch.utils.data.dataloader import Recorded

    Recorded.leaves = staticmethod(wait)
"""


def test_a_dataloader_is_waited_for_until_its_next_has_returned(training: Place) -> None:
    fake_torch(training, answers=HOLDS)
    training.write("main.py", WITH_TORCH.replace("\n    def train", f"{LATE}\n    def train"))
    voirfile(training, STEP)
    ran = training.voir("--loading-rate", *WHOLE, "main.py")
    agrees(training, ran)
    assert truth(ran)["loading"] == pytest.approx(0.4)


OWN = {
    "a generator": """
        class Loader:
            def __iter__(self):
                for i in range(6):
                    wait()
                    yield [i, i]
        """,
    "an iterator": """
        class Loader:
            def __init__(self):
                self.left = 6

            def __iter__(self):
                return self

            def __next__(self):
                if not self.left:
                    raise StopIteration
                self.left -= 1
                wait()
                return [self.left] * 2
        """,
    "what has iterators of its own": """
        class Batches:
            def __init__(me):
                me.left = 6

            def __next__(me):
                if not me.left:
                    raise StopIteration
                me.left -= 1
                wait()
                return [me.left] * 2

        class Loader:
            def __iter__(this):
                return Batches()
        """,
}


@pytest.mark.parametrize("kind", OWN)
def test_a_loader_of_the_scripts_own_is_seen(training: Place, kind: str) -> None:
    training.write("loading.py", "from training import wait\n" + dedent(OWN[kind]))
    training.write(
        "main.py",
        """
        from loading import Loader
        from training import *

        def train(loader):
            for inp in loader:
                work()

        for _ in range(3):
            loader = Loader()
            spend("train", train, loader)
        truth()
        """,
    )
    voirfile(training, STEP, LOADER)
    agrees(training, training.voir("--loading-rate", *WHOLE, "main.py"))


HANDED_OUT = """
    from training import wait

    class Loader:
        def __iter__(self):
            return GIVES

        def batches(self):
            for i in range(6):
                wait()
                yield [i, i]
    """
#: What is given, and what its ``__iter__`` returns.
GIVEN = {
    "a generator that another method makes": ("Loader()", "self.batches()"),
    "a generator that was made": ("Loader().batches()", "self"),
    "a generator that __iter__ made": ("iter(Loader())", "self.batches()"),
}


@pytest.mark.parametrize("selectors", [(LOADER,), (STEP, LOADER)], ids=["alone", "with steps"])
@pytest.mark.parametrize("kind", GIVEN)
def test_a_given_loader_that_is_or_hands_out_a_generator_is_seen_without_the_flag(
    training: Place, kind: str, selectors: tuple[str, ...]
) -> None:
    made, gives = GIVEN[kind]
    training.write(
        "main.py",
        dedent(HANDED_OUT).replace("GIVES", gives)
        + dedent(
            f"""
            from training import *

            def train(loader):
                for inp in loader:
                    work()

            for _ in range(3):
                loader = {made}
                spend("train", train, loader)
            truth()
            """
        ),
    )
    voirfile(training, *selectors)
    ran = training.voir("main.py")
    told, task = truth(ran), training.record()["tasks"]["train"]
    assert (task["steps"], task["items"]) == (18, 36)
    assert task["loading"]["seconds"] == pytest.approx(told["loading"], rel=0.001)
    assert training.record()["problems"] == []


@pytest.mark.parametrize("selectors", [(LOADER,), (STEP, LOADER)], ids=["alone", "with steps"])
def test_a_given_loader_that_hands_out_a_generator_expression_is_named(
    training: Place, selectors: tuple[str, ...]
) -> None:
    training.write(
        "main.py",
        """
        from training import *

        class Loader:
            def __iter__(self):
                return ([i, i] for i in range(6))

        def train(loader):
            for inp in loader:
                work()

        loader = Loader()
        spend("train", train, loader)
        """,
    )
    voirfile(training, *selectors)
    ran = training.voir("main.py")
    assert "the loader that was given is a generator, which cannot be watched" in ran.stderr
    assert [p["slug"] for p in training.record()["problems"]] == ["unwatched-loader"]


#: How the loop over an object with a ``__next__`` is left: used up, by ``break``, by an exception.
LEAVES = {
    "used up": "pass",
    "by break": "if loader.left == 2: break",
    "by an exception": "if loader.left == 2: raise KeyError",
}


@pytest.mark.parametrize(
    ("selectors", "leaves"),
    [
        *(((), "used up"), ((LOADER,), "used up")),
        *((shown, leaves) for shown in ((STEP,), (STEP, LOADER)) for leaves in LEAVES),
    ],
)
def test_the_flag_sees_an_object_that_gives_batches(
    training: Place, selectors: tuple[str, ...], leaves: str
) -> None:
    training.write(
        "main.py",
        "from training import *\n"
        + dedent(OWN["an iterator"])
        + dedent(
            f"""
            def train(loader):
                try:
                    for inp in loader:
                        work()
                        {LEAVES[leaves]}
                except KeyError:
                    pass

            loader = Loader()
            for _ in range(3):
                spend("train", train, loader)
            truth()
            """
        ),
    )
    voirfile(training, *selectors)
    ran = training.voir("--loading-rate", *WHOLE, "main.py")
    told, task = truth(ran), training.record()["tasks"]["train"]
    assert task["steps"] == told["steps"]
    assert task["loading"]["seconds"] == pytest.approx(told["loading"], rel=0.001)
    assert training.record()["problems"] == []


#: Loaders whose batches are made when they are asked for, by code that cannot be watched.
LAZY = {
    "map": "map(list, [[1, 2]] * 5)",
    "Indexed": "Indexed()",
    "list": "[[1, 2]] * 5",
}
INDEXED = """
    class Indexed:
        def __getitem__(self, i):
            if i > 4:
                raise IndexError
            return [1, 2]

    """


@pytest.mark.parametrize("kind", LAZY)
@pytest.mark.parametrize("flags", [(), ("--loading-rate",)])
def test_a_loader_that_shows_nothing_is_told_once(
    training: Place, kind: str, flags: tuple[str, ...]
) -> None:
    training.write(
        "main.py",
        "from training import *\n"
        + dedent(INDEXED)
        + f"def train(loader):\n    for inp in loader:\n        work()\n\ntrain({LAZY[kind]})\n",
    )
    voirfile(training, LOADER.replace("// ", "//train "))
    ran = training.voir(*flags, "main.py")
    assert [p["slug"] for p in training.record()["problems"]] == ["unwatched-loader"]
    assert f"the loader that was given is a {kind}, which" in ran.stderr


@pytest.mark.parametrize("kind", ["map", "Indexed"])
def test_so_it_is_where_steps_are_shown(training: Place, kind: str) -> None:
    training.write(
        "main.py",
        "from training import *\n"
        + dedent(INDEXED)
        + f"def train(loader):\n    for inp in loader:\n        work()\n\ntrain({LAZY[kind]})\n",
    )
    voirfile(training, STEP, LOADER.replace("// ", "//train "))
    training.voir("main.py")
    assert training.record()["tasks"]["train"]["steps"] == 5
    assert [p["slug"] for p in training.record()["problems"]] == ["unwatched-loader"]


@pytest.mark.parametrize("loader", ["([i] for i in range(9))", "map(list, [[1]] * 9)", "[[1]] * 9"])
def test_a_loader_that_cannot_be_watched_is_named_with_what_to_do(
    place: Place, loader: str
) -> None:
    place.write(
        "main.py",
        f"""
        def train(loader):
            for inp in loader:
                pass

        train({loader})
        """,
    )
    voirfile(place, STEP, LOADER.replace("// ", "//train "))
    ran = place.voir("--train-rate", "--loading-rate", "main.py")
    assert "--loading-rate: the loader that was given is a " in ran.stderr
    assert "[unwatched-loader]" in ran.stderr
    assert "compute_start" in ran.stderr
    assert "no-rate" not in ran.stderr


def test_a_loader_with_a_loader_inside_is_waited_for_once(training: Place) -> None:
    fake_torch(training)
    training.write(
        "main.py",
        SLOW
        + """
    from torch.utils.data import DataLoader

    class Prefetching:
        def __init__(self, loader):
            self.loader = loader

        def __iter__(self):
            for batch in self.loader:
                wait(0.001)
                yield batch

    def train(loader):
        for inp in loader:
            work()

    loader = Prefetching(DataLoader(Items(), batch_size=4))
    spend("train", train, loader)
    truth()
    """,
    )
    voirfile(training, STEP, LOADER)
    agrees(training, training.voir("--loading-rate", *WHOLE, "main.py"))


UNCHANGED = """
    import pickle, traceback
    from torch.utils.data import DataLoader
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    class Broken(list):
        def __getitem__(self, i):
            if i > 5:
                raise ValueError("no such item")
            return i

    def train(loader):
        for inp in loader:
            print(inp)

    loader = DataLoader(range(6), 2)
    iterator = iter(loader)
    print(len(loader), type(iterator), isinstance(iterator, _BaseDataLoaderIter), vars(loader))
    print(next(iterator), sorted(vars(iterator)), sorted(vars(type(iterator))))
    print(_BaseDataLoaderIter.__next__.__qualname__, _BaseDataLoaderIter.__next__.__code__.co_name)
    print(list(pickle.loads(pickle.dumps(loader))))
    train(loader)
    try:
        train(DataLoader(Broken(range(8)), 4))
    except ValueError:
        traceback.print_exc()
    train(DataLoader(Broken(range(8)), 8))
    """


@pytest.mark.parametrize("answers", [ANSWERS, HOLDS])
def test_the_script_finds_its_loader_unchanged(place: Place, answers: str) -> None:
    fake_torch(place, answers=answers)
    place.write("main.py", UNCHANGED)
    voirfile(place, STEP, LOADER)
    under, plain = place.voir("--quiet", "--loading-rate", "main.py"), place.python("main.py")
    assert under.seen == plain.seen
    assert under.stderr == plain.stderr
    assert "no such item" in plain.stderr


DRIVER = """
    import json, sys
    from instruments.rate import instrument_rates
    from overseer import Overseer

    said = {}

    def instrument_loader(ov):
        yield ov.phases.load_script
        answer = sys.modules["watched_loader"].Loader.__next__
        plain = answer.__code__
        ov.give(loader=sys.modules["watched_loader"].Loader())
        said["watched"] = answer.__code__ is not plain
        yield ov.phases.finalize
        said["plain"] = lambda: answer.__code__ is plain

    overseer = Overseer([instrument_rates, instrument_loader])
    overseer(["--no-record", "main.py"])
    said["plain"] = said["plain"]()
    said["probes"] = overseer.run["probes"]
    print(json.dumps(said))
    """


def test_nothing_of_a_watched_loader_is_left_when_the_run_is_over(place: Place) -> None:
    place.write("watched_loader.py", dedent(OWN["an iterator"]).replace("wait()", "pass"))
    place.write("main.py", "import watched_loader\nfor inp in watched_loader.Loader():\n    pass\n")
    place.write("driver.py", DRIVER)
    ran = place.python("driver.py", env={"PYTHONPATH": str(ROOT)})
    assert truth(ran) == {"watched": True, "plain": True, "probes": []}


def test_a_loader_without_code_to_watch_is_named(training: Place) -> None:
    training.write(
        "main.py",
        """
        from training import *

        names = {}
        exec("class Loader:\\n    def __iter__(self):\\n        yield [1, 2]", names)

        def train(loader):
            for inp in loader:
                work()

        loader = names["Loader"]()
        spend("train", train, loader)
        """,
    )
    voirfile(training, STEP, LOADER)
    ran = training.voir("main.py")
    assert ran.status == 0
    assert "[unwatched-loader]" in ran.stderr
    assert [p["slug"] for p in training.record()["problems"]] == ["unwatched-loader"]


def test_a_list_is_a_loader_that_keeps_nobody_waiting(training: Place) -> None:
    training.write(
        "main.py",
        """
        from training import *

        def train(loader):
            for inp in loader:
                work()

        train([[1, 2]] * 5)
        """,
    )
    voirfile(training, STEP, LOADER)
    ran = training.voir("--train-rate", "main.py")
    assert "train-rate" not in ran.stderr
    assert training.record()["problems"] == []


def test_a_script_without_torch_does_not_get_it(training: Place) -> None:
    training.write(
        "main.py",
        """
        import sys

        def train(loader):
            for inp in loader:
                pass

        train([[1]] * 3)
        print("torch" in sys.modules)
        """,
    )
    voirfile(training, STEP)
    ran = training.voir("--loading-rate", "main.py")
    assert (ran.status, ran.stdout) == (0, "False\n")
    assert "--loading-rate: the run showed nothing" in ran.stderr


def test_a_loader_in_the_place_of_another_is_not_taken_for_it(place: Place) -> None:
    """Those made anew in each epoch have the names of others; what they read tells which it is."""
    torch = pytest.importorskip("torch", reason="torch comes with the extra [examples]")
    data, sampler = torch.utils.data, [[0, 1]]
    training, held_out = (data.TensorDataset(torch.zeros(8, 1)) for _ in range(2))
    told: list[object] = []

    def instrument_begin(ov: Overseer) -> Generator[Any, Any, None]:
        yield ov.phases.load_script
        loaders = Loaders(ov)
        loaders.listen_to_waits(lambda _: None, lambda *_: None, told.append)
        for each in (training, training, held_out, held_out, [1, 2], training):
            loaders._begun({"self": data.DataLoader(each, batch_sampler=sampler)})
            told.append("begun")

    Overseer([instrument_begin])(["--no-record", str(place.write("main.py", "pass"))])
    name = id(sampler)
    assert told == ["begun"] * 2 + [name, "begun", "begun"] + [name, "begun"] * 2
