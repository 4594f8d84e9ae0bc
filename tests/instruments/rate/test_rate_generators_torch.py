"""Plain generators in PyTorch scripts without a voirfile."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest
from scripts import TRAINING, Timed, truth, voirfile

from tests.running import Place

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

COMMON = """
    from training import *
    import torch

    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def make():
        wait()
        return torch.randn(8, 4), torch.randint(3, (8,))

    def batches(n):
        for i in range(n):
            yield make()

    def learn(x, y):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        work()

    """
#: Loops, each with a loading of 0.01 s and compute of 0.005 s a step, and what else they do.
LOOPS = {
    "at the top level": """
        for x, y in batches(40):
            learn(x, y)
        """,
    "with an evaluation": """
        def evaluate():
            model.eval()
            with torch.no_grad():
                for x, y in batches(9):
                    model(x)
            seconds["loading"] -= 0.09
            model.train()

        for epoch in range(2):
            for x, y in batches(20):
                learn(x, y)
            evaluate()
        """,
    "over objects": """
        class Batches:
            def __init__(self, n):
                self.n = n

            def __iter__(self):
                yield from batches(self.n)

        class Halves(Batches):
            def __iter__(self):
                for batch in batches(self.n):
                    yield batch

        def train(loader):
            for x, y in loader:
                learn(x, y)

        train(Batches(20))
        train(Halves(20))
        """,
    "by turns": """
        def main():
            data = batches(100)
            for step in range(40):
                x, y = next(data)
                learn(x, y)

        main()
        """,
    "over an object with a next": """
        class Batches:
            def __init__(self, n):
                self.n = n

            def __iter__(self):
                self.made = batches(self.n)
                return self

            def __next__(self):
                return next(self.made)

        def train(loader):
            for x, y in loader:
                learn(x, y)

        loader = Batches(20)
        train(loader)
        train(loader)
        """,
    "with accumulation": """
        def train(loader):
            for i, (x, y) in enumerate(loader):
                torch.nn.functional.cross_entropy(model(x), y).backward()
                time.sleep(0.005)
                if i % 4 == 3:
                    optimizer.step()
                    optimizer.zero_grad()
                    steps.append(0)

        train(batches(160))
        """,
}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_generator_in_the_training_loop_is_watched(timed: Timed, loop: str) -> None:
    timed.write("training.py", TRAINING)
    timed.write("main.py", dedent(COMMON) + dedent(LOOPS[loop]) + "\ntruth()\n")
    ran = timed.voir("--skip", "0", "main.py")
    told, task = truth(ran), timed.record()["tasks"]["train"]
    turns = 4 if loop == "with accumulation" else 1
    assert (task["steps"], task["items"]) == (40, 320 * turns) and told["steps"] == 40
    assert task["loading"]["seconds"] == pytest.approx(told["loading"], rel=0.001)
    compute = 40 * turns * 0.005
    last = 0.005  # The work that follows an optimizer's step is the next one's.
    assert task["compute"]["seconds"] == pytest.approx(compute, abs=last * 1.01)


#: How scripts begin that run already when they import PyTorch, and whether in a function.
BEGINNINGS = {
    "a statement": "since = time.perf_counter()\nimport torch\n",
    "a name for a function": "sleep = time.sleep\nif sleep:\n    import torch\n",
    "a module that imports it": "since = time.perf_counter()\nfrom net import *\n",
}


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_what_a_script_does_before_it_imports_torch_does_not_matter(
    timed: Timed, beginning: str
) -> None:
    timed.write("training.py", TRAINING)
    timed.write("net.py", "import torch\n")
    text = dedent(COMMON).replace("import torch\n", BEGINNINGS[beginning], 1)
    timed.write("main.py", text + dedent(LOOPS["by turns"]) + "\ntruth()\n")
    _all_is_told(timed)


def test_nor_whether_a_function_imports_it_that_makes_the_generator(timed: Timed) -> None:
    timed.write("training.py", TRAINING)
    beginning, rest = dedent(COMMON).split("import torch\n")
    body = indent(f"import torch\n{rest}{dedent(LOOPS['at the top level'])}", "    ")
    timed.write("main.py", f"{beginning}def main():\n{body}\nmain()\ntruth()\n")
    _all_is_told(timed)


def test_nor_whether_the_module_of_the_generator_does(timed: Timed) -> None:
    timed.write("training.py", TRAINING)
    timed.write("net.py", COMMON)
    loop = "for x, y in batches(40):\n    learn(x, y)\n"
    timed.write("main.py", f"import os\nos.getpid()\nfrom net import *\n{loop}truth()\n")
    _all_is_told(timed)


def _all_is_told(timed: Timed) -> None:
    ran = timed.voir("--skip", "0", "main.py")
    told, task = truth(ran), timed.record()["tasks"]["train"]
    assert (task["steps"], task["items"]) == (40, 320)
    assert task["loading"]["seconds"] == pytest.approx(told["loading"], rel=0.001)
    assert task["compute"]["seconds"] == pytest.approx(40 * 0.005, abs=0.0051)


def test_of_a_script_that_only_speaks_of_torch_nothing_is_told(place: Place) -> None:
    text = """
        import time
        since = time.time()

        def batches():
            yield from ([i] for i in range(3))

        class Loss:
            def backward(self):  # As torch has it.
                print("learned")

        for batch in batches():
            Loss().backward()
        """
    place.write("main.py", text)
    ran, plain = place.voir("main.py"), place.python("main.py")
    assert (ran.status, ran.stdout) == (0, plain.stdout)
    assert "train" not in ran.stderr and "unwatched" not in ran.stderr
    assert not place.runs  # There is nothing to record.


def test_what_is_foreseen_for_torch_is_not_missed_without_it(place: Place) -> None:
    text = """
        import sys
        fast = len(sys.argv) > 1
        if fast:
            import torch
            from theirs import batches
        else:
            from ours import batches

        def train():
            for batch in batches():
                loss = sum(batch)
                if fast:
                    loss.backward()

        train()
        """
    place.write("main.py", text)
    for module in ("ours.py", "theirs.py"):
        place.write(module, "def batches():\n    for i in range(9):\n        yield [i]\n")
    voirfile(place, "//train(batch) > #endloop_batch as step")
    assert place.voir("main.py").status == 0
    assert place.record()["tasks"]["train"]["steps"] == 9
    assert "unwatched-loader" not in {each["slug"] for each in place.record()["problems"]}


#: Generators that work on a DataLoader's batches: 4 ms for the loader, 6 ms for the work on it.
AUGMENTED = """
    from torch.utils.data import DataLoader, Dataset

    class Items(Dataset):
        def __len__(self):
            return 160

        def __getitem__(self, i):
            if i % 8 == 0:
                wait(0.004)
            return torch.randn(4), i % 3

    def lists(loader):
        for x, y in loader:
            yield x, y

    def augment(loader):
        for x, y in loader:
            wait(0.006)
            yield x * 2, y

    class Augmented:
        def __init__(self, loader):
            self.loader = loader

        def __iter__(self):
            it = iter(self.loader)
            while (batch := next(it, None)) is not None:
                wait(0.006)
                yield batch

    class Prefetched:
        def __init__(self, loader):
            self.it = iter(loader)

        def __iter__(self):
            return self

        def __next__(self):
            batch = next(self.it)
            wait(0.006)
            return batch

    def look(feed):
        model.eval()
        before = seconds["loading"]
        with torch.no_grad():
            for x, y in feed:
                model(x)
        seconds["loading"] = before
        model.train()

    def train(feed):
        for x, y in feed:
            learn(x, y)

    loader = DataLoader(Items(), batch_size=8)
    """
FEEDS = [
    "augment(loader)",
    "Augmented(loader)",
    "Prefetched(loader)",
    "augment(lists(loader))",
    "lists(augment(loader))",
]


@pytest.mark.parametrize("flags", [(), ("--train-rate", "--loading-rate")])
@pytest.mark.parametrize("feed", FEEDS)
def test_the_wait_for_a_loader_within_that_for_a_generator_counts_once(
    timed: Timed, feed: str, flags: tuple[str, ...]
) -> None:
    timed.write("training.py", TRAINING)
    epochs = f"for epoch in range(3):\n    train({feed})\n    look({feed})\ntruth()\n"
    timed.write("main.py", dedent(COMMON) + dedent(AUGMENTED) + epochs)
    ran = timed.voir("--skip", "0", *flags, "main.py")
    told, task = truth(ran), timed.record()["tasks"]["train"]
    assert (task["steps"], task["items"]) == (60, 480)
    assert task["loading"]["seconds"] == pytest.approx(told["loading"], rel=0.001)
    assert task["compute"]["seconds"] == pytest.approx(60 * 0.005, abs=0.0051)
    breakdown = task["breakdown"]
    assert breakdown["loading"] == pytest.approx(breakdown["steps"] * 0.01, rel=0.04)


def test_single_samples_are_no_batches_and_not_watched(timed: Timed) -> None:
    timed.write("training.py", TRAINING)
    loop = """
        def samples(n):
            for i in range(n):
                yield torch.randn(4), i % 3

        plain, waiting = samples.__code__, []
        for x, y in samples(320):
            waiting.append((x, y))
            if len(waiting) == 8:
                learn(torch.stack([x for x, _ in waiting]), torch.tensor([y for _, y in waiting]))
                waiting = []
        steps.extend([0] * (samples.__code__.co_code == plain.co_code))
        truth()
        """
    timed.write("main.py", dedent(COMMON) + dedent(loop))
    ran = timed.voir("main.py")
    task = timed.record()["tasks"]["train"]
    assert (task["steps"], task["items"]) == (40, 320)
    assert "loading" not in task
    assert truth(ran)["steps"] == 40  # While they are watched, the code is another.


def test_the_script_computes_the_same(place: Place) -> None:
    """To the last bit, with the same random numbers."""
    place.write("passing.py", "from time import *")
    place.write("training.py", TRAINING)
    said = "print([p.tolist() for p in model.parameters()], torch.rand(1).item())\n"
    text = dedent(COMMON).replace("model =", "torch.manual_seed(1)\nmodel =")
    place.write("main.py", text + "for x, y in batches(9):\n    learn(x, y)\n" + said)
    under, plain = place.voir("--quiet", "main.py"), place.python("main.py")
    assert under.seen == plain.seen
    assert under.stderr == plain.stderr == ""
    assert place.record()["tasks"]["train"]["loading"]["seconds"] > 0


def test_a_generator_that_only_hands_on_a_loader_s_batches_is_given_without_a_word(
    place: Place,
) -> None:
    place.write(
        "main.py",
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset

        def endless(loader):
            while True:
                yield from loader

        def main():
            model = torch.nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            batches = endless(DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=8))
            for number, (x,) in zip(range(20), batches):
                model(x).mean().backward()
                optimizer.step()

        main()
        """,
    )
    place.write(
        "voirfile.py",
        """
        def instrument_probes(ov):
            yield ov.phases.load_script
            ov.probe("//main > batches as loader").give()
        """,
    )
    ran = place.voir("main.py")
    assert ran.status == 0
    record = place.record()
    assert record["problems"] == []
    assert (record["tasks"]["train"]["steps"], record["tasks"]["train"]["items"]) == (20, 160)


#: A function that makes loaders, and a training that looks at a few of the one's batches now and
#: then: 4 ms for a batch of the training, 20 ms for one of the evaluation, in one function's
#: generators.
HELPED = """
    from torch.utils.data import DataLoader, Dataset

    class Items(Dataset):
        def __init__(self, delay):
            self.delay = delay

        def __len__(self):
            return 400

        def __getitem__(self, i):
            if i % 8 == 0:
                time.sleep(self.delay)
            return torch.randn(4), i % 3

    def get_loader(delay):
        return DataLoader(Items(delay), batch_size=8)

    class Wrapped:
        def __init__(self, loader):
            self.loader = loader

        def __iter__(self):
            return iter(self.loader)

    """
TURNS = """
    train_data, val_data = {train}, {val}
    for step in range(40):
        learn(*next(train_data))
        if step % 10 == 9:
            model.eval()
            with torch.no_grad():
                for _ in range(2):
                    x, y = next(val_data)
                    time.sleep(0.003)
                    model(x)
            model.train()
    """
#: Functions whose generators go over a loader that is given; how long each works on a batch.
CYCLES = {
    "hands on": (
        0,
        """
        def cycle(data):
            while True:
                for batch in data:
                    yield batch
        """,
    ),
    "hands on, by the way": (
        0,
        """
        def cycle(data):
            it = enumerate(data)
            for i, (x, y) in it:
                yield x, y
        """,
    ),
    "hands on, in a function": (
        0,
        """
        def cycle(data):
            def give():
                while True:
                    for batch in data:
                        yield batch
            return give()
        """,
    ),
    "works": (
        0.006,
        """
        def cycle(data):
            while True:
                for x, y in data:
                    time.sleep(0.006)
                    yield x * 2, y
        """,
    ),
    "asks": (
        0.006,
        """
        def cycle(data):
            it = iter(data)
            while True:
                batch = next(it)
                time.sleep(0.006)
                yield batch
        """,
    ),
}


def eval_and_train(timed: Timed, *parts: str, flags: tuple[str, ...] = ()) -> list[float]:
    """The loading, in seconds, of a training of 40 steps, and of its evaluation of 8."""
    timed.write("training.py", TRAINING)
    timed.write("main.py", "".join(map(dedent, (COMMON, HELPED, *parts))))
    ran = timed.voir("--skip", "0", *flags, "main.py")
    assert ran.status == 0, ran.stderr
    tasks = timed.record()["tasks"]
    assert [tasks[name]["steps"] for name in ("train", "eval")] == [40, 8]
    assert tasks["train"]["compute"]["seconds"] == pytest.approx(40 * 0.005, abs=0.0051)
    return [tasks[name]["loading"]["seconds"] for name in ("train", "eval")]


MADE = "get_loader({})"
DIFFERENT: list[tuple[str, str, tuple[str, ...]]] = [
    *((way, MADE, ()) for way in CYCLES),
    ("hands on", "Wrapped(get_loader({}))", ()),
    ("hands on", MADE, ("--loading-rate",)),
    ("works", MADE, ("--loading-rate",)),
]


@pytest.mark.parametrize(("way", "made", "flags"), DIFFERENT)
def test_generators_of_one_function_over_different_loaders_are_different(
    timed: Timed, way: str, made: str, flags: tuple[str, ...]
) -> None:
    own, cycle = CYCLES[way]
    turns = TURNS.format(train=f"cycle({made.format(0.004)})", val=f"cycle({made.format(0.02)})")
    train, evaluation = eval_and_train(timed, cycle, turns, flags=flags)
    assert train == pytest.approx(40 * (0.004 + own), rel=0.001)
    assert evaluation == pytest.approx(8 * (0.02 + own), rel=0.001)


def test_a_generator_is_the_loader_where_it_is_given_as_that(timed: Timed) -> None:
    """Nobody watches what it goes over then."""
    timed.write(
        "voirfile.py",
        """
        def instrument_probes(ov):
            yield ov.phases.load_script
            ov.probe("//train > data as loader").give()
            ov.probe("//train(inp as batch) > #endloop_inp as step").give()
        """,
    )
    train = """
        def train(data, other):
            for inp, _ in zip(data, range(40)):
                next(other) if len(steps) % 10 == 9 else None
                work()

        data, other = cycle(get_loader(0.004)), cycle(get_loader(0.002))
        next(data), next(other)
        train(data, other)
        """
    timed.write("training.py", TRAINING)
    timed.write("main.py", "".join(map(dedent, (COMMON, HELPED, CYCLES["hands on"][1], train))))
    ran = timed.voir("--skip", "0", "--no-auto", "main.py")
    assert ran.status == 0, ran.stderr
    task = timed.record()["tasks"]["train"]
    assert (task["steps"], task["items"]) == (40, 320)
    assert task["loading"]["seconds"] == pytest.approx(40 * 0.004, rel=0.001)
