"""Which generator functions a script's text shows to give its training's batches."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from overseer.reading.feeds import Feed, feeds

#: A generator, and one that has a thread read that ahead.
READ = """
    import queue, threading, time
    from functools import partial

    def read(n):
        for i in range(n):
            yield [i] * 8

    """
AHEAD = """
    def threaded(n):
        q, end = queue.Queue(1), object()
        def worker():
            for item in read(n):
                q.put(item)
            q.put(end)
        threading.Thread(target=worker, daemon=True).start()
        while (item := q.get()) is not end:
            yield item

    """
THREADED = READ + AHEAD
FIT = """
    def fit(epochs, make):
        for epoch in range(epochs):
            for batch in make():
                time.sleep(0.02)

    """


def found(tmp_path: Path, *texts: str, **others: str) -> list[Feed]:
    for name, other in others.items():
        (tmp_path / f"{name}.py").write_text(dedent(other))
    script = tmp_path / "main.py"
    script.write_text("".join(map(dedent, texts)))
    return feeds(str(script), every=False)


def watched(tmp_path: Path, *texts: str, **others: str) -> list[str]:
    return [feed.reference for feed in found(tmp_path, *texts, **others) if feed.learns]


#: Ways in which a loop gets to call what makes its generator.
FACTORIES = {
    "a lambda": "fit(3, lambda: threaded(50))",
    "a lambda by name": "fit(3, make=lambda: threaded(50))",
    "a variable": """
        make = lambda: threaded(50)
        fit(3, make)
        """,
    "a partial": "fit(3, partial(threaded, 50))",
    "a partial that is given another": "fit(3, partial(threaded, n=len(list(read(9)))))",
    "a function": """
        def ahead():
            return threaded(50)

        fit(3, ahead)
        """,
    "a closure": """
        def ahead(n):
            def give():
                return threaded(n)
            return give

        fit(3, ahead(50))
        """,
    "a lambda from a function": """
        def ahead(n):
            return lambda: threaded(n)

        fit(3, ahead(50))
        """,
    "the generator function": "fit(3, threaded)",
    "one of two": "fit(3, threaded if epochs else partial(threaded, 9))",
    "through another function": """
        def main(make):
            fit(3, make)

        main(lambda: threaded(50))
        """,
    "by somebody else": """
        def spend(act, *args):
            act(*args)

        spend(fit, 3, lambda: threaded(50))
        """,
    "by default": """
        def fit_all(n, make=lambda: threaded(50)):
            for batch in make():
                time.sleep(0.02)

        fit_all(3)
        """,
    "wrapped": "fit(3, lambda: enumerate(iter(threaded(50))))",
    "wrapped by a lambda": """
        shown = lambda things: enumerate(things)
        for i, batch in shown(threaded(50)):
            time.sleep(0.02)
        """,
    "at the top level": """
        make = lambda: threaded(50)
        for epoch in range(3):
            for batch in make():
                time.sleep(0.02)
        """,
    "at the top level, by next": """
        make = partial(threaded, 50)
        data = iter(make())
        for step in range(50):
            batch = next(data)
            time.sleep(0.02)
        """,
    "at the top level, called at once": """
        for batch in (lambda n: threaded(n))(50):
            time.sleep(0.02)
        """,
    "kept by an object": """
        class Trainer:
            def __init__(self, make):
                self.make = make

            def fit(self):
                for batch in self.make():
                    time.sleep(0.02)

        Trainer(lambda: threaded(50)).fit()
        """,
    "kept by an object under the name of another's method": """
        class Other:
            def feed(self):
                return read(9)

        class Trainer:
            def __init__(self, feed):
                self.feed = feed

            def run(self):
                for batch in self.feed():
                    time.sleep(0.02)

        Trainer(lambda: threaded(50)).run()
        """,
    "a name that another function has": """
        def make():
            return read(9)

        fit(3, lambda: threaded(50))
        """,
}


@pytest.mark.parametrize("way", FACTORIES)
def test_a_loop_is_followed_through_what_makes_its_generator(tmp_path: Path, way: str) -> None:
    assert watched(tmp_path, THREADED, FIT, FACTORIES[way]) == ["//threaded"]


#: Loops over what one of several functions in a dictionary makes.
CHOICES = {
    "a dictionary": """
        LOADERS = {"a": threaded, "b": lambda n: threaded(n + 1), "c": partial(threaded, n=3)}

        def train(name, n):
            for batch in LOADERS[name](n):
                time.sleep(0.02)
        """,
    "with a type": """
        LOADERS: dict = {"a": threaded}

        def train(name, n):
            for batch in LOADERS[name](n):
                time.sleep(0.02)
        """,
    "made by a call": """
        LOADERS = dict(a=threaded)

        def train(name, n):
            for batch in LOADERS[name](n):
                time.sleep(0.02)
        """,
    "in place": """
        for batch in {"a": threaded, "b": threaded}[name](50):
            time.sleep(0.02)
        """,
    "by get": """
        LOADERS = {"a": lambda n: threaded(n)}
        for batch in LOADERS.get(name, threaded)(50):
            time.sleep(0.02)
        """,
    "by another name": """
        LOADERS = {"a": threaded}

        def train(loaders, name):
            make = loaders[name]
            for batch in make(50):
                time.sleep(0.02)

        train(LOADERS, "a")
        """,
    "given to a function": """
        LOADERS = {"a": threaded}
        fit(3, LOADERS["a"])
        """,
    "of an object": """
        class Trainer:
            def __init__(self):
                self.loaders = {"a": lambda: threaded(50)}

            def fit(self, name):
                for batch in self.loaders[name]():
                    time.sleep(0.02)
        """,
    "of generators": """
        data = {"train": threaded(50), "other": threaded(9)}
        for batch in data[name]:
            time.sleep(0.02)
        """,
    "by a key that is written": """
        LOADERS = {"plain": read, "ahead": threaded}
        for batch in LOADERS["ahead"](50):
            time.sleep(0.02)
        """,
    "a list": """
        LOADERS = [read, threaded]
        for batch in LOADERS[1](50):
            time.sleep(0.02)
        """,
}


@pytest.mark.parametrize("choice", CHOICES)
def test_a_loop_is_followed_through_dictionaries_of_functions(tmp_path: Path, choice: str) -> None:
    assert watched(tmp_path, THREADED, FIT, CHOICES[choice]) == ["//threaded"]


@pytest.mark.parametrize(
    ("imports", "expression"),
    [
        ("from data import LOADERS", "LOADERS[name](50)"),
        ("from data import LOADERS as known", "known[name](50)"),
        ("import data", "data.LOADERS[name](50)"),
        ("from data import make", "make()"),
        ("import data", "data.make()"),
        ("from data import threaded as ahead", "ahead(50)"),
    ],
)
def test_what_makes_a_generator_may_be_in_another_module(
    tmp_path: Path, imports: str, expression: str
) -> None:
    data = dedent(THREADED) + "LOADERS = {'a': threaded}\nmake = lambda: threaded(50)\n"
    text = f"{imports}\nfor batch in {expression}:\n    print(batch)\n"
    assert watched(tmp_path, text, data=data) == ["/data/threaded"]


#: Generators that are methods, or objects that have one.
METHODS = {
    "called in a lambda": "fit(3, lambda: data.ahead())",
    "given by its name": "fit(3, data.ahead)",
    "in a dictionary": """
        for batch in {"a": data.ahead}[name]():
            time.sleep(0.02)
        """,
    "at the top level": """
        make = data.ahead
        for batch in make():
            time.sleep(0.02)
        """,
}
DATA = """
    import queue, threading, time

    class Data:
        def read(self):
            for i in range(50):
                yield [i] * 8

        def ahead(self):
            q, end = queue.Queue(1), object()
            def worker():
                for item in self.read():
                    q.put(item)
                q.put(end)
            threading.Thread(target=worker).start()
            while (item := q.get()) is not end:
                yield item

    data = Data()
    """


@pytest.mark.parametrize("way", METHODS)
def test_what_makes_a_generator_may_be_a_method(tmp_path: Path, way: str) -> None:
    assert watched(tmp_path, DATA, FIT, METHODS[way]) == ["//Data/ahead"]


def test_an_object_may_read_ahead_in_a_thread(tmp_path: Path) -> None:
    text = """
        class Ahead:
            def __init__(self, items):
                self.items = items
                self.q = queue.Queue(1)
                self.thread = threading.Thread(target=self._fill)
                self.thread.start()

            def _fill(self):
                for item in self.items:
                    batch = collate(item)
                    self.q.put(batch)
                self.q.put(None)

            def __iter__(self):
                while (item := self.q.get()) is not None:
                    yield item

        fit(3, lambda: Ahead(read(50)))
        """
    assert watched(tmp_path, THREADED, FIT, text) == ["//Ahead/__iter__"]


def test_the_loop_around_what_learns_is_followed_so_too(tmp_path: Path) -> None:
    text = """
        def train(make):
            for x, y in make():
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()

        train(lambda: threaded(50))
        for batch in read(9):
            print(batch)
        """
    assert watched(tmp_path, THREADED, text) == ["//threaded"]


def test_where_several_could_be_it_names_tell_or_it_is_said(tmp_path: Path) -> None:
    text = """
        def first(n):
            for i in range(n):
                yield [i] * 8

        def second(n):
            for i in range(n):
                yield [i] * 8

        def run(make):
            for batch in make():
                print(batch)

        def {look}(make):
            for batch in make():
                print(batch)

        run(lambda: first(50))
        {look}(lambda: second(9))
        """
    assert watched(tmp_path, text.format(look="evaluate")) == ["//first"]
    unsure = found(tmp_path, text.format(look="look"))
    assert [(feed.reference, feed.unsure) for feed in unsure] == [
        ("//first", True),
        ("//second", True),
    ]


#: Loops over what is read ahead by a thread, or is not: nobody waits for the thread.
EITHER = {
    "a dictionary": """
        LOADERS = {"plain": read, "ahead": threaded}
        for batch in LOADERS[name](50):
            time.sleep(0.02)
        """,
    "a condition": """
        for batch in threaded(50) if ahead else read(50):
            time.sleep(0.02)
        """,
    "by turns": """
        fit(3, lambda: read(50))
        fit(3, lambda: threaded(50))
        """,
}


@pytest.mark.parametrize("either", EITHER)
def test_it_is_said_where_a_generator_may_be_read_ahead_or_not(tmp_path: Path, either: str) -> None:
    unsure = found(tmp_path, THREADED, FIT, EITHER[either])
    assert {feed.reference for feed in unsure} == {"//read", "//threaded"}
    assert all(feed.unsure for feed in unsure)


#: Threads and processes that hand on what they read; the training loop goes over no generator.
PRODUCERS = {
    "a thread": """
        def fill():
            for item in read(50):
                q.put(item)
            q.put(None)

        threading.Thread(target=fill).start()
        """,
    "a process": """
        def fill(q, n):
            for i, item in enumerate(read(n)):
                if i > 9:
                    break
                q.put((i, item["x"]))

        multiprocessing.Process(target=fill, args=(q, 50)).start()
        """,
    "an executor": """
        def fill(out):
            for item in read(50):
                with lock:
                    out.append(item)
                    lock.notify_all()

        pool.submit(fill, [])
        """,
    "a pool": """
        def fill(n):
            while not stopped.is_set():
                item = next(data)
                q.put_nowait(item)

        data = read(50)
        pool.map(fill, range(3))
        """,
    "until it is stopped": """
        def fill(q):
            for item in read(50):
                while not stopped.is_set():
                    try:
                        q.put(item, timeout=1)
                        break
                    except queue.Full:
                        continue

        threading.Thread(None, partial(fill, q)).start()
        """,
    "in a lambda": """
        def fill(q):
            for item in read(50):
                q.put(item)

        threading.Thread(target=lambda: fill(q)).start()
        """,
    "epoch by epoch": """
        def epochs(n):
            for i in range(n):
                yield i

        def fill(q):
            for epoch in epochs(3):
                for item in read(50):
                    q.put(item)

        threading.Thread(target=fill, args=(q,)).start()
        """,
    "to a device": """
        def fill(q):
            for item in read(50):
                q.put(item.to("cuda", non_blocking=True))

        threading.Thread(target=fill, args=(q,)).start()
        """,
    "a thread of its own": """
        class Filler(threading.Thread):
            def run(self):
                for item in read(50):
                    self.q.put(item)

        Filler().start()
        """,
    "within a generator": """
        def held(n):
            def some():
                for item in read(n):
                    yield item
            yield list(some())

        print(list(held(3)))
        """,
    "made within a generator": """
        def held(n):
            def fill():
                for item in read(n):
                    batch = collate(item)
                    q.put(batch)
            threading.Thread(target=fill).start()
            while (item := q.get()) is not end:
                yield item

        print(list(held(3)))
        """,
    "by a function of the thread's": """
        def fill(q):
            for item in read(50):
                q.put(item)

        def work():
            fill(q)

        threading.Thread(target=work).start()
        """,
}


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_thread_that_hands_on_what_it_reads_goes_over_no_batches(
    tmp_path: Path, producer: str
) -> None:
    training = "while (batch := q.get()) is not None:\n    time.sleep(0.02)\n"
    assert found(tmp_path, READ, PRODUCERS[producer], training) == []


#: Trainings that run in a thread, or have others work for them.
TRAININGS = {
    "in a thread": """
        def run():
            for batch in read(50):
                time.sleep(0.02)
                done.append(batch)

        threading.Thread(target=run).start()
        """,
    "with losses": """
        def run():
            for batch in read(50):
                losses.append(work(batch))

        threading.Thread(target=run).start()
        """,
    "with losses by name": """
        def run():
            for batch in read(50):
                loss = work(batch)
                losses.put(loss)

        pool.submit(run)
        """,
    "told of by a generator": """
        def told():
            def run():
                for batch in read(50):
                    work(batch)
                    q.put("on")
            threading.Thread(target=run).start()
            for i in range(50):
                yield q.get()

        print(list(told()))
        """,
    "whose losses a generator gives": """
        def told():
            def run():
                for batch in read(50):
                    loss = work(batch)
                    q.put(loss)
            threading.Thread(target=run).start()
            for i in range(50):
                yield q.get()

        print(list(told()))
        """,
    "that hands its work to others": """
        for batch in read(50):
            pool.submit(work, batch)
        """,
    "that keeps what it is given": """
        for batch in read(50):
            done.append(batch)
        """,
}


@pytest.mark.parametrize("training", TRAININGS)
def test_a_training_may_be_in_a_thread(tmp_path: Path, training: str) -> None:
    assert watched(tmp_path, READ, TRAININGS[training]) == ["//read"]


#: Trainings that are generators themselves, by what they yield.
TOLD = {
    "loss": "yield loss",
    "a name and a loss": 'yield "train", float(loss)',
    "nothing": "yield",
    "a number": "yield 1.0",
    "batch": "yield batch",
}


@pytest.mark.parametrize("probed", [(), ("//train",)], ids=["unprobed", "probed"])
@pytest.mark.parametrize("yields", TOLD)
def test_a_training_that_is_a_generator_gives_no_batches(
    tmp_path: Path, yields: str, probed: tuple[str, ...]
) -> None:
    text = f"""
        def train(data):
            it = iter(data)
            while True:
                try:
                    batch = next(it)
                except StopIteration:
                    return
                loss = n = work(batch)
                {TOLD[yields]}

        for one in train(read(9)):
            print(one)
        """
    script = tmp_path / "main.py"
    script.write_text(dedent(READ) + dedent(text))
    found = feeds(str(script), every=False, probed=probed)
    learns = [feed.reference for feed in found if feed.learns]
    assert learns == ["//train" if yields == "batch" and not probed else "//read"]


def test_a_generator_that_takes_from_no_other_gives_batches_whatever_it_yields(
    tmp_path: Path,
) -> None:
    text = """
        def batches(n):
            for i in range(n):
                yield 1

        for one in batches(9):
            work(one)
        """
    assert watched(tmp_path, text) == ["//batches"]


def test_what_is_bound_to_itself_is_followed_once(tmp_path: Path) -> None:
    text = "".join(f"make = make or other[{i}]\nother = other or make[{i}]\n" for i in range(40))
    text += "for batch in make():\n    print(batch)\nfor batch in other[0](3):\n    print(batch)\n"
    assert found(tmp_path, THREADED, text) == []


#: Classes whose objects give batches one at a time, and what is watched of each.
NEXT = """
    class Loader:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            return [0] * 8

    class Batches:
        def __iter__(this):
            return Turns()

    class Turns:
        def __next__(me):
            return [0] * 8

    class Both:
        def __iter__(self):
            yield [0] * 8

        def __next__(self):
            return 1

    class Reads:
        def __iter__(self):
            return iter(self.items)

    """
OBJECTS = {
    "Loader(9)": ("//Loader/__next__", "self", ("//Loader/__iter__", "self")),
    "Batches()": ("//Turns/__next__", "me", None),
    "enumerate(Loader(9))": ("//Loader/__next__", "self", ("//Loader/__iter__", "self")),
    "Both()": ("//Both/__iter__", "self", None),
}


@pytest.mark.parametrize("made", OBJECTS)
def test_an_object_that_gives_batches_is_watched_by_its_next(tmp_path: Path, made: str) -> None:
    text = f"def fit(loader):\n    for batch in loader:\n        print(batch)\n\nfit({made})\n"
    (feed,) = found(tmp_path, NEXT, text)
    assert (feed.reference, feed.own, feed.anew) == OBJECTS[made]
    assert feed.learns and feed.answers == feed.reference.endswith("__next__")


def test_an_object_whose_iterator_is_somebody_elses_is_none(tmp_path: Path) -> None:
    assert watched(tmp_path, NEXT, "for batch in Reads():\n    print(batch)\n") == []


def test_a_class_with_a_next_may_be_in_another_module(tmp_path: Path) -> None:
    text = "from data import Loader\n\nfor batch in Loader(9):\n    print(batch)\n"
    (feed,) = found(tmp_path, text, data=NEXT)
    assert feed.reference.endswith("/Loader/__next__") and feed.learns


#: Generator functions, the variables that they are given and go over, and whether they only hand on
#: what these give.
OVER = {
    "for batch in data: yield batch": (("data",), True),
    "for i, batch in enumerate(data): yield batch[0], i": (("data",), True),
    "for one in zip(data, n): yield one": (("data", "n"), True),
    "it = iter(data)\n    for batch in it: yield batch": (("data",), True),
    "for batch in data: yield 2 * batch": (("data",), False),
    "for batch in data: yield batch\n    yield n": (("data",), False),
    "for batch in data: yield batch\n    yield from n": (("data",), False),
    "for batch in data.train: yield batch": (("data",), False),
    "for batch in worked(data): yield batch": (("data",), False),
    "for batch in zip(data, read(9)): yield batch": (("data",), False),
    "data = worked(data)\n    for batch in data: yield batch": (("data",), False),
    "it = n or worked(data)\n    for batch in it: yield batch": ((), False),
    "while True: yield next(data)": (("data",), False),
    "for i in range(9): yield i": ((), False),
    "for part in data:\n        for one in part: yield one": (("data",), True),
    "for batch in everything: yield batch": ((), False),
}


@pytest.mark.parametrize("body", OVER)
def test_what_a_generator_goes_over_is_known(tmp_path: Path, body: str) -> None:
    text = f"def give(data, n=9):\n    {body}\n\neverything = some.things\n"
    loop = "for batch in give(everything):\n    print(batch)\n"
    (feed,) = [each for each in found(tmp_path, READ, text + loop) if each.learns]
    assert (feed.over, feed.hands_on) == OVER[body]


def test_what_a_generator_in_a_function_goes_over_is_that_one_s(tmp_path: Path) -> None:
    text = """
        def cycle(data):
            def give():
                while True:
                    for batch in data:
                        yield batch
            return give()

        for batch in cycle(some.things):
            print(batch)
        """
    (feed,) = found(tmp_path, text)
    assert (feed.reference, feed.over, feed.hands_on) == ("//cycle/give", ("data",), True)
