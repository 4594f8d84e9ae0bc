"""Plain generators as loaders: every wait counts, from the first batch of the first epoch on."""

from __future__ import annotations

from textwrap import dedent

import pytest
from scripts import LOADER, PAIR, STEP, TRAINING, Timed, fake_torch, truth, voirfile

from tests.running import Place, Ran

WHOLE = ("--loading-rate", "--compute-rate", "--interval", "1000")
GIVEN = LOADER.replace("// ", "//train ")
BATCHES = """
    def batches(n=20):
        for i in range(n):
            wait()
            yield [i] * 8

    """
TRAIN = """
    def train(loader):
        for inp in loader:
            work()

    """
EPOCHS = """
    for epoch in range(2):
        spend("train", train, {loader})
    truth()
    """


@pytest.fixture
def training(timed: Timed) -> Place:
    timed.write("training.py", TRAINING)
    return timed


def script(place: Place, *parts: str) -> None:
    place.write("main.py", "from training import *\n" + "".join(map(dedent, parts)))


def agrees(place: Place, ran: Ran) -> None:
    """The run's record says what the script measured itself."""
    told, task = truth(ran), place.record()["tasks"]["train"]
    assert (task["steps"], task["items"]) == (told["steps"], 8 * told["steps"])
    assert task["loading"]["seconds"] == pytest.approx(told["loading"], rel=0.001)
    assert task["compute"]["seconds"] == pytest.approx(told["compute"], rel=0.001)
    assert "unwatched-loader" not in ran.stderr


@pytest.mark.parametrize("selectors", [(STEP,), (STEP, GIVEN), (PAIR, GIVEN), (GIVEN,), ()])
def test_all_waits_count_whatever_is_given(training: Place, selectors: tuple[str, ...]) -> None:
    script(training, BATCHES, TRAIN, EPOCHS.format(loader="batches()"))
    voirfile(training, *selectors)
    agrees(training, training.voir(*WHOLE, "main.py"))


def test_a_given_generator_is_seen_without_the_flag(training: Place) -> None:
    script(training, BATCHES, TRAIN, EPOCHS.format(loader="batches()"))
    voirfile(training, STEP, GIVEN)
    agrees(training, training.voir("main.py"))


#: Ways in which a generator gets to its loop.
WAYS = {
    "made in the loop": """
        def train(n):
            for inp in batches(n):
                work()

        spend("train", train, 20)
        truth()
        """,
    "counted and shown": """
        def shown(things):
            return things

        def train(loader):
            for i, inp in enumerate(shown(loader)):
                work()

        spend("train", train, batches())
        truth()
        """,
    "kept by an object": """
        class Trainer:
            def __init__(self, data):
                self.data = data

            def train(self):
                for inp in self.data:
                    work()

        trainer = Trainer(data=batches())
        spend("train", trainer.train)
        truth()
        """,
    "asked for the next": """
        def train(data):
            data = iter(data)
            for step in range(20):
                inp = next(data)
                work()

        spend("train", train, batches())
        truth()
        """,
    "made elsewhere": """
        def make(n):
            return batches(n)

        def train(data):
            for inp in data:
                work()

        data, epochs = make(20), 1
        spend("train", train, data)
        truth()
        """,
    "with another": """
        def train(n):
            for inp, other in zip(batches(n), others(n)):
                work()

        def others(n):
            for i in range(n):
                wait(0.02)
                yield [0] * 8

        spend("train", train, 20)
        truth()
        """,
    "epoch by epoch": """
        def train(data):
            for epoch in range(2):
                for step in range(10):
                    inp = next(data)
                    work()

        spend("train", train, batches())
        truth()
        """,
    "by one of two": """
        def train(data):
            for inp in data:
                work()

        import sys
        data = batches(5) if sys.argv[1:] else batches(20)
        spend("train", train, data)
        truth()
        """,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_generator_is_followed_from_its_loop_to_where_it_is_made(
    training: Place, way: str
) -> None:
    script(training, BATCHES, WAYS[way])
    agrees(training, training.voir(*WHOLE, "main.py"))


#: Generator functions of other kinds, all called ``batches``.
KINDS = {
    "decorated": """
        def same(fn):
            return fn

        @same
        @same
        def batches(n=20):
            for i in range(n):
                wait()
                yield [i] * 8
        """,
    "in parts": """
        def parts(n):
            for i in range(n):
                wait(0.005)
                yield [i] * 4

        def batches(n=20):
            waiting = []
            for part in parts(2 * n):
                waiting.extend(part)
                if len(waiting) == 8:
                    yield waiting
                    waiting = []
        """,
    "handing on": """
        def some(n):
            for i in range(n):
                wait()
                yield [i] * 8

        def batches():
            yield from some(10)
            yield from some(10)
        """,
    "a method": """
        class Data:
            def batches(self, n):
                for i in range(n):
                    wait()
                    yield [i] * 8

        data = Data()
        batches = lambda: data.batches(20)
        """,
    "a closure": """
        def batches():
            def inner():
                for i in range(20):
                    wait()
                    yield [i] * 8
            return inner()
        """,
    "of a module": """
        from data import batches
        """,
}


@pytest.mark.parametrize("kind", KINDS)
def test_any_generator_function_is_watched(training: Place, kind: str) -> None:
    training.write("data.py", "from training import *\n" + dedent(BATCHES))
    script(training, KINDS[kind], TRAIN, EPOCHS.format(loader="batches()"))
    voirfile(training, STEP, GIVEN)
    agrees(training, training.voir(*WHOLE, "main.py"))


def test_what_only_hands_on_the_batches_of_a_loader_is_waited_for_once(training: Place) -> None:
    fake_torch(training)
    script(
        training,
        """
        from torch.utils.data import DataLoader

        class Items(list):
            def __getitem__(self, i):
                if i % 8 == 0:
                    wait()
                return i

        def cycle(loader):
            while True:
                for inp in loader:
                    yield inp

        def train(data):
            for step in range(20):
                inp = next(data)
                work()

        data = cycle(DataLoader(Items(range(40)), batch_size=8))
        spend("train", train, data)
        truth()
        """,
    )
    agrees(training, training.voir(*WHOLE, "main.py"))


#: Generators that take what they work on from others, and loops within loops.
CHAINS = {
    "of lines": """
        def read():
            for i in range(160):
                wait(0.001)
                yield i

        def batches(lines):
            part = []
            for line in lines:
                part.append(line)
                if len(part) == 8:
                    wait(0.002)
                    yield part
                    part = []

        def main():
            for inp in batches(read()):
                work()
        """,
    "in parts": """
        def src():
            for i in range(160):
                wait(0.001)
                yield i

        def batched(it, n):
            it = iter(it)
            while part := [x for _, x in zip(range(n), it)]:
                yield part

        def main():
            for inp in batched(src(), 8):
                work()
        """,
    "ahead of the work": """
        def lines():
            for i in range(20):
                wait()
                yield [i] * 8

        def prefetch(it):
            waiting = []
            for each in it:
                waiting.append(each)
                if len(waiting) > 2:
                    yield waiting.pop(0)
            while waiting:
                yield waiting.pop(0)

        def main():
            for inp in prefetch(lines()):
                work()
        """,
    "by a helper": """
        def rows():
            for i in range(8):
                wait(0.001)
                yield i

        def make():
            return [row for row in rows()] + [0 for row in drop(rows)]

        def drop(rows):
            for row in rows():
                pass
            return []

        def batches():
            for i in range(20):
                yield make()

        def main():
            for inp in batches():
                work()
        """,
    "in epochs": """
        def epochs(n):
            for epoch in range(n):
                yield epoch

        def src(epoch):
            for i in range(10):
                wait()
                yield [i] * 8

        def main():
            for epoch in epochs(2):
                for inp in src(epoch):
                    work()
        """,
    "in epochs of another function": """
        def rounds(n):
            yield from [0] * n
            yield 0

        def src():
            for i in range(10):
                wait()
                yield [i] * 8

        def epoch():
            for inp in src():
                work()

        def main():
            for each in rounds(1):
                epoch()
        """,
    "with rows of a batch": """
        def batches():
            for i in range(20):
                wait()
                yield [i] * 8

        def rows(inp):
            for each in inp:
                yield each

        def look(inp):
            for row in rows(inp):
                pass

        def main():
            for inp in batches():
                look(inp)
                work()
        """,
    "with an evaluation": """
        def batches():
            for i in range(20):
                wait()
                yield [i] * 8

        def held_out():
            for i in range(5):
                yield [i] * 4

        def evaluate():
            for inp in held_out():
                pass

        def main():
            for inp in batches():
                work()
                if len(steps) % 10 == 0:
                    evaluate()
        """,
}


@pytest.mark.parametrize("probed", [False, True])
@pytest.mark.parametrize("chain", CHAINS)
def test_the_loader_is_what_the_loop_over_batches_asks_with_all_that_it_waits_for(
    training: Place, chain: str, probed: bool
) -> None:
    script(training, CHAINS[chain], 'spend("train", main)\ntruth()\n')
    if probed:
        function = "epoch" if "another function" in chain else "main"
        voirfile(training, f"//{function}(inp as batch) > #endloop_inp as step")
    agrees(training, training.voir(*WHOLE, "--skip", "0", "main.py"))


#: Generators of one function that come together, and the turns of the loop over them.
TOGETHER = {
    "zip": """
        def train(a, b):
            for inp, other in zip(a, b):
                work()
        """,
    "next": """
        def train(a, b):
            while True:
                try:
                    inp, other = next(a), next(b)
                except StopIteration:
                    break
                work()
        """,
    "the second begins anew": """
        def train(a, b):
            b = batches(7)
            for inp in a:
                try:
                    other = next(b)
                except StopIteration:
                    b = batches(7)
                    other = next(b)
                work()
        """,
}


@pytest.mark.parametrize("way", TOGETHER)
def test_generators_of_one_function_that_come_together_are_one_step(
    training: Place, way: str
) -> None:
    epochs = """
        for epoch in range(2):
            spend("train", train, batches(), batches())
        truth()
        """
    script(training, BATCHES, TOGETHER[way], epochs)
    agrees(training, training.voir(*WHOLE, "main.py"))


@pytest.mark.parametrize("first", [0, 3])
def test_an_evaluation_by_a_generator_of_the_same_function_is_steps_of_one_loader(
    training: Place, first: int
) -> None:
    text = f"""
        def train(data):
            for i, inp in enumerate(data):
                work()
                if i % 10 == {first}:
                    for one in batches(5):
                        work()

        spend("train", train, batches())
        truth()
        """
    script(training, BATCHES, text)
    training.voir(*WHOLE, "main.py")
    task = training.record()["tasks"]["train"]
    assert (task["steps"], task["items"]) == (30, 240)


#: How loops take batches: as they are, and through what says how far they are.
BARS = {
    "bare": "batches({n})",
    "within a bar of progress": "bar(batches({n}))",
}


@pytest.mark.parametrize("bar", BARS)
@pytest.mark.parametrize("flags", [(), ("--loading-rate",)])
def test_an_evaluation_in_the_midst_by_the_same_function_is_a_loader_of_its_own(
    training: Place, bar: str, flags: tuple[str, ...]
) -> None:
    """The wait behind it is one for the training's next batch."""
    text = f"""
        def bar(data):
            for each in data:
                yield each

        def evaluate():
            for one in {BARS[bar].format(n=5)}:
                time.sleep(0.002)

        def train(loader, data):
            for i, inp in enumerate(data):
                work()
                if i % 4 == 3:
                    evaluate()

        for epoch in range(2):
            data = batches(20)
            train(data, {BARS[bar].format(n=20).replace("batches(20)", "data")})
        """
    script(training, BATCHES, text)
    training.write(
        "voirfile.py",
        f"""
        def instrument_probes(ov):
            yield ov.phases.load_script
            ov.probe("//train > loader").give()
            ov.probe("{STEP}").give()
            evaluated = ov.probe("//evaluate(one as batch) > #endloop_one as step")
            evaluated.subscribe(lambda event: ov.give(task="eval", **event))
        """,
    )
    ran = training.voir("--skip", "0", *flags, "main.py")
    assert ran.status == 0, ran.stderr
    tasks = training.record()["tasks"]
    assert [tasks[name]["steps"] for name in ("train", "eval")] == [40, 50]
    assert tasks["train"]["loading"]["seconds"] == pytest.approx(40 * 0.01, rel=0.001)
    assert tasks["train"]["compute"]["seconds"] == pytest.approx(40 * 0.005, rel=0.001)


@pytest.mark.parametrize("selector", [STEP, GIVEN])
def test_a_generator_that_is_left_and_kept_gives_way_to_the_next_of_its_loop(
    training: Place, selector: str
) -> None:
    text = """
        kept = []

        def train():
            loader = batches()
            kept.append(loader)
            for inp in loader:
                work()
                if len(steps) % 10 == 0:
                    break

        for epoch in range(3):
            train()
            time.sleep(1)
        """
    script(training, BATCHES, text)
    voirfile(training, selector)
    training.voir("--skip", "0", "--loading-rate", "main.py")
    task = training.record()["tasks"]["train"]
    assert task["steps"] == 30
    assert task["compute"]["seconds"] == pytest.approx(30 * 0.005, rel=0.001)


def test_a_generator_that_asks_others_of_its_function_is_one_loader(training: Place) -> None:
    text = """
        def walk(n):
            if n > 1:
                yield from walk(n // 2)
                for one in walk(n - n // 2):
                    yield one
            else:
                wait()
                yield [n] * 8

        def train(data):
            for inp in data:
                work()

        spend("train", train, walk(20))
        truth()
        """
    script(training, text)
    training.voir(*WHOLE, "main.py")
    assert training.record()["tasks"]["train"]["steps"] == 20


#: A training and an evaluation by generators of their own; the evaluation is no loading.
EVALUATED = """
    def {train}(n=20):
        for i in range(n):
            wait()
            yield [i] * 8

    def {val}(n=9):
        for i in range(n):
            wait(0.002)
            seconds["loading"] -= 0.002
            yield [i] * 4

    def {train_epoch}():
        for inp in {train}():
            work()

    def {evaluate}():
        for inp in {val}():
            time.sleep(0.003)

    for epoch in range(2):
        {evaluate}()
        spend("train", {train_epoch})
        {evaluate}()
    truth()
    """
NAMES = [
    ("train_batches", "val_batches", "run", "look"),
    ("first", "testBatches", "run", "look"),
    ("first", "second", "train_epoch", "look"),
    ("first", "second", "run", "evaluate_all"),
]


def evaluated(place: Place, names: tuple[str, ...]) -> None:
    keys = ("train", "val", "train_epoch", "evaluate")
    script(place, EVALUATED.format(**dict(zip(keys, names, strict=True))))


@pytest.mark.parametrize("names", NAMES)
def test_of_several_generators_names_tell_which_one_training_goes_over(
    training: Place, names: tuple[str, ...]
) -> None:
    evaluated(training, names)
    agrees(training, training.voir(*WHOLE, "main.py"))


@pytest.mark.parametrize("names", [NAMES[0], ("first", "second", "run", "look")])
def test_a_probe_for_steps_tells_which_one_training_goes_over(
    training: Place, names: tuple[str, ...]
) -> None:
    evaluated(training, names)
    voirfile(training, f"//{names[2]}(inp as batch) > #endloop_inp as step")
    agrees(training, training.voir(*WHOLE, "main.py"))


def test_so_does_a_probe_in_what_the_loop_calls(training: Place) -> None:
    evaluated(training, ("first", "second", "run", "look"))
    training.write("training.py", dedent(TRAINING).replace("(delay)\n", "(delay)\n    size = 8\n"))
    voirfile(training, "/training/work(size as batch_size) > size as step")
    assert training.voir(*WHOLE, "main.py").status == 0
    loading = training.record()["tasks"]["train"]["loading"]["seconds"]
    assert loading == pytest.approx(0.4, rel=0.001)


def test_where_nothing_tells_which_one_it_is_that_is_said(training: Place) -> None:
    evaluated(training, ("first", "second", "run", "look"))
    ran = training.voir(*WHOLE, "main.py")
    assert "//first and //second" in ran.stderr
    assert "[unwatched-loader]" in ran.stderr
    assert "[no-rate]" in ran.stderr


#: Generators that a thread reads ahead, and how a loop gets to them.
AHEAD = """
    import queue, threading

    def read(n):
        for i in range(n):
            yield [i] * 8

    def ahead(n):
        q, end = queue.Queue(1), object()
        def worker():
            for item in read(n):
                q.put(item)
            q.put(end)
        thread = threading.Thread(target=worker)
        thread.start()
        while (item := q.get()) is not end:
            wait()
            yield item
        thread.join()

    class Data:
        def ahead(self, n):
            for item in ahead(n):
                yield item

    """
FIT = """
    def fit(make):
        for inp in make():
            work()

    """
GETS = {
    "directly": "for inp in ahead(20):\n    work()",
    "by a lambda": "fit(lambda: ahead(20))",
    "by a lambda at the top level": "make = lambda: ahead(20)\nfor inp in make():\n    work()",
    "by a partial": "from functools import partial\nfit(partial(ahead, 20))",
    "by a dictionary": "MAKE = {'a': ahead}\nfor inp in MAKE['ba'[1]](20):\n    work()",
    "by a method": "fit(lambda: Data().ahead(20))",
}


@pytest.mark.parametrize("gets", GETS)
def test_what_a_thread_reads_ahead_is_waited_for_where_it_arrives(
    training: Place, gets: str
) -> None:
    script(training, AHEAD, FIT, GETS[gets] + "\ntruth()\n")
    ran = training.voir(*WHOLE, "--skip", "0", "main.py")
    told, task = truth(ran), training.record()["tasks"]["train"]
    assert (told["steps"], task["steps"], task["items"]) == (20, 20, 160)
    assert task["loading"]["seconds"] == pytest.approx(told["loading"], rel=0.001)
    assert task["compute"]["seconds"] == pytest.approx(0.1, rel=0.001)


def test_other_generators_of_the_script_are_no_loaders(training: Place) -> None:
    others = """
        def names():
            for name in "abcdefgh":
                wait(0.1)
                seconds["loading"] -= 0.1
                yield [name] * 8

        def describe():
            for name in names():
                pass

        """
    script(
        training, BATCHES, others, TRAIN, "spend('train', train, batches())\ndescribe()\ntruth()"
    )
    voirfile(training, STEP, GIVEN)
    agrees(training, training.voir(*WHOLE, "main.py"))


def test_a_generator_that_is_closed_early_or_fails_behaves_as_without(place: Place) -> None:
    place.write(
        "main.py",
        """
        import traceback

        def batches(n):
            try:
                for i in range(n):
                    got = yield [i]
                    if got:
                        print("got", got)
                raise ValueError("no more")
            finally:
                print("closed")

        def train(loader):
            for inp in loader:
                print(inp)
                if inp == [2]:
                    break

        train(batches(9))
        try:
            train(batches(2))
        except ValueError:
            traceback.print_exc()
        batch = batches(3)
        print(next(batch), batch.send("this"), batch.gi_frame.f_lineno, batch.__name__)
        batch.close()
        """,
    )
    voirfile(place, STEP, GIVEN)
    under = place.voir("--quiet", "--loading-rate", "main.py")
    plain = place.python("main.py")
    assert under.seen == plain.seen
    assert under.stderr == plain.stderr
    assert "no more" in plain.stderr


# Steps by the loader alone


def test_a_probe_for_steps_goes_before_the_loaders_turns(training: Place) -> None:
    """Each step learns from four batches."""
    accumulating = """
        def train(loader):
            for i, inp in enumerate(loader):
                work()
                if i % 4 == 3:
                    updated = inp

        """
    script(training, BATCHES, accumulating, EPOCHS.format(loader="batches()"))
    voirfile(training, "//train(inp as batch) > updated as step", GIVEN)
    assert training.voir(*WHOLE, "main.py").status == 0
    assert training.record()["tasks"]["train"]["steps"] == 10


def test_steps_that_the_script_gives_itself_end_those_of_the_loader(training: Place) -> None:
    giving = """
        import voir

        def train(loader):
            for inp in loader:
                work()
                voir.give(step=True, batch_size=8)

        """
    script(training, BATCHES, giving, EPOCHS.format(loader="batches()"))
    voirfile(training, GIVEN)
    agrees(training, training.voir(*WHOLE, "main.py"))


@pytest.mark.parametrize("selectors", [(GIVEN,), ()])
def test_a_dataloader_alone_shows_steps(training: Place, selectors: tuple[str, ...]) -> None:
    fake_torch(training)
    items = """
        from torch.utils.data import DataLoader

        class Items(list):
            def __getitem__(self, i):
                if i % 8 == 0:
                    wait()
                return i

        """
    script(training, items, TRAIN, EPOCHS.format(loader="DataLoader(Items(range(80)), 8)"))
    voirfile(training, *selectors)
    agrees(training, training.voir(*WHOLE, "main.py"))


def test_of_several_loaders_only_the_one_that_is_given_shows_steps(training: Place) -> None:
    script(
        training,
        """
        class Loader:
            def __init__(self, n):
                self.n = n

            def __iter__(self):
                for i in range(self.n):
                    wait()
                    yield [i] * 8

        def train(loader):
            for inp in loader:
                work()

        def look(other):
            for inp in other:
                pass

        """,
        # Loaders go by their ids: another may get that of one that is gone.
        "kept = Loader(20)\nspend('train', train, kept)\ntold = dict(seconds)\nlook(Loader(9))\n"
        "seconds.update(told)\ntruth()",
    )
    voirfile(training, GIVEN)
    agrees(training, training.voir("--no-auto", "main.py"))


def test_the_turns_of_a_loader_are_steps_to_stop_at(training: Place) -> None:
    script(training, BATCHES, TRAIN, "try:\n    train(batches())\nfinally:\n    print(steps)")
    voirfile(training, GIVEN)
    ran = training.voir("--stop", "3", "main.py")
    assert (ran.status, ran.stdout) == (0, "[0.005, 0.005, 0.005]\n")
    assert training.record()["tasks"]["train"]["steps"] == 3


def test_what_iterate_goes_over_is_a_step_only_where_it_says_so(training: Place) -> None:
    iterating = """
        import voir

        def train(loader):
            for inp in voir.iterate("train", loader, report_batch={report}):
                work()

        """
    for report, told in (("True", True), ("False", False)):
        script(training, BATCHES, iterating.format(report=report), "train(batches())")
        ran = training.voir("--train-rate", "--no-record", "main.py")
        assert ("[no-rate]" not in ran.stderr, "20 steps" in ran.stderr) == (told, told)
