"""The programs: their text, and the lines of a voirfile that tell each thing about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import dedent

HEAD = "from tests.programs.told.truth import T\n"


@dataclass
class Program:
    """A script, and what may be written about it.

    Attributes:
        text: The script.
        marks: Lines that tell the end of each step, with its batch.
        bare: The same without a batch.
        pairs: Lines that tell the work on each batch.
        loading: A line around what waits; ``pause``: around what is no step; ``loss``.
        also: Lines that belong to every set: of other tasks.
        updates: Whether a step takes several batches; ``calls``: it is a call of a function.
        hooks: Whether hooks see some of it too, or all.
    """

    text: str
    marks: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)
    pairs: list[str] = field(default_factory=list)
    loading: str = ""
    pause: str = ""
    loss: str = ""
    also: list[str] = field(default_factory=list)
    updates: bool = False
    calls: bool = False
    hooks: bool = False

    @property
    def script(self) -> str:
        """The whole script."""
        return HEAD + dedent(self.text)


LOAD = """
        def load(n, size=8):
            for i in range(n):
                get()
                yield [float(i)] * size

        def get():
            T.load(10)
"""
SAVE = """
        def save():
            T.pause(100)
"""
MARK = "//train(batch) > #endloop_batch as step"
LOSS_MARK = "//train(batch, !loss as step)"
PAIR = "//train(batch, !#loop_batch as compute_start, !!#endloop_batch as compute_end)"
PAIR_AT = "//train(!batch as compute_start, !!#endloop_{} as compute_end)"
LOADING = "//get(!#enter as loading, !!#exit as loaded)"
PAUSE = "//save(!#enter as pause, !!#exit as resumed)"

PROGRAMS = {
    "a generator": Program(
        LOAD
        + """
        def train(n):
            for batch in load(n):
                T.work(20)
                loss = 1.0 / (len(batch) + n)
                T.step(len(batch), loss)

        train(20)
        """,
        [MARK, LOSS_MARK],
        ["//train > #endloop_batch as step", "//train > loss as step"],
        [PAIR],
        LOADING,
        loss="//train > loss",
    ),
    "a class of batches": Program(
        """
        class Batches:
            def __init__(self, n):
                self.n = n

            def __iter__(self):
                return self

            def __next__(self):
                self.n -= 1
                if self.n < 0:
                    raise StopIteration
                return self.get()

            def get(self):
                T.load(10)
                return [0.0] * (8 + self.n)

        def train(n):
            for batch in Batches(n):
                T.work(20)
                T.step(len(batch))

        train(20)
        """,
        [MARK],
        [],
        [PAIR],
        "//Batches/get(!#enter as loading, !!#exit as loaded)",
    ),
    "while": Program(
        """
        def get(i):
            T.load(10)
            return [0.0] * (i + 1)

        def train(n):
            i = 0
            while i < n:
                batch = get(i)
                T.work(20)
                i += 1
                loss = 1.0 / i
                T.step(len(batch), loss)

        train(20)
        """,
        ["//train(batch) > #endloop_i as step", LOSS_MARK],
        ["//train > loss as step"],
        [PAIR_AT.format("i"), "//train(!batch, !!#endloop_i)"],
        LOADING,
        loss="//train > loss",
    ),
    "range": Program(
        """
        def get(i):
            T.load(10)
            return [0.0] * 4

        def train(n):
            for i in range(n):
                batch = get(i)
                T.work(20)
                T.step(len(batch))

        train(20)
        """,
        ["//train(batch) > #endloop_i as step"],
        ["//train > #endloop_i as step"],
        [PAIR_AT.format("i"), "//train(!batch, !!#endloop_i)"],
        LOADING,
    ),
    "epochs": Program(
        LOAD
        + """
        def train(n):
            for batch in load(n):
                T.work(20)
                loss = 1.0
                T.step(len(batch), loss)

        for epoch in range(3):
            train(10)
        """,
        [MARK, LOSS_MARK],
        ["//train > loss as step"],
        [PAIR],
        LOADING,
        loss="//train > loss",
    ),
    "pauses": Program(
        LOAD
        + SAVE
        + """
        def train(n):
            for i, batch in enumerate(load(n)):
                T.work(20)
                T.step(len(batch))
                if i % 5 == 4 and i + 1 < n:
                    save()

        train(20)
        """,
        [MARK],
        [],
        [PAIR],
        LOADING,
        PAUSE,
    ),
    "continue": Program(
        LOAD
        + """
        def train(n):
            for i, batch in enumerate(load(n)):
                if i % 4 == 3:
                    T.work(5)
                    continue
                T.work(20)
                loss = 0.5
                T.step(len(batch), loss)

        train(21)
        """,
        [LOSS_MARK],
        ["//train > loss as step"],
        [],
        LOADING,
        loss="//train > loss",
    ),
    "break": Program(
        LOAD
        + """
        def train(n):
            for batch in load(n):
                T.work(20)
                loss = 0.5
                T.step(len(batch), loss)
                if len(batch) * n == 160 and T.done("train") == 12:
                    break

        train(20)
        """,
        [MARK, LOSS_MARK],
        [],
        [PAIR],
        LOADING,
        loss="//train > loss",
    ),
    "an exception leaves the loop": Program(
        LOAD
        + """
        def train(n):
            for batch in load(n):
                T.work(20)
                if T.done("train") == 12:
                    raise KeyError
                loss = 0.5
                T.step(len(batch), loss)

        try:
            train(20)
        except KeyError:
            pass
        """,
        [MARK, LOSS_MARK],
        [],
        [PAIR],
        LOADING,
        loss="//train > loss",
    ),
    "exceptions within a turn": Program(
        LOAD
        + """
        def train(n):
            for i, batch in enumerate(load(n)):
                try:
                    T.work(20)
                    if i % 3 == 1:
                        raise ValueError
                except ValueError:
                    T.work(1)
                T.step(len(batch))

        train(20)
        """,
        [MARK],
        [],
        [PAIR],
        LOADING,
    ),
    "a function a step": Program(
        LOAD
        + """
        def step(batch):
            T.work(20)
            T.step(len(batch))
            return len(batch)

        def train(n):
            for batch in load(n):
                step(batch)

        train(20)
        """,
        ["//step(batch) > #exit as step"],
        ["//step > #exit as step"],
        ["//step(batch, !#enter as compute_start, !!#exit as compute_end)"],
        LOADING,
        calls=True,
    ),
    "functional": Program(
        LOAD
        + """
        def update(state, batch):
            T.work(20)
            return [s - 0.1 * sum(batch) for s in state], 1.0 / (1 + len(batch))

        def train(n):
            state = [0.0, 1.0]
            for batch in load(n):
                state, loss = update(state, batch)
                T.step(len(batch), loss)

        train(20)
        """,
        [MARK, LOSS_MARK],
        [],
        [PAIR],
        LOADING,
        loss="//train > loss",
    ),
    "partial_fit": Program(
        """
        class Model:
            def partial_fit(self, X, y):
                T.work(20)
                return self

        def chunks(n):
            for i in range(n):
                get()
                yield [[0.0, float(i), 1.0, 2.0, "a"]] * 16, [0] * 16

        def get():
            T.load(10)

        def train(n):
            model = Model()
            for X, y in chunks(n):
                model.partial_fit(X, y)
                T.step(len(y))

        train(20)
        """,
        ["//train(y as batch) > #endloop_X as step"],
        ["//train > #endloop_X as step"],
        ["//train(y as batch, !#loop_X as compute_start, !!#endloop_X as compute_end)"],
        LOADING,
    ),
    "asynchronous": Program(
        """
        import asyncio

        async def get():
            T.load(10)
            await asyncio.sleep(0)
            return [0.0] * 8

        async def train(n):
            for i in range(n):
                batch = await get()
                T.work(20)
                loss = 1.0
                T.step(len(batch), loss)

        asyncio.run(train(20))
        """,
        ["//train(batch) > #endloop_i as step", LOSS_MARK],
        [],
        [PAIR_AT.format("i")],
        LOADING,
        loss="//train > loss",
    ),
    "updates of four batches": Program(
        LOAD
        + """
        def train(n):
            for i, batch in enumerate(load(n)):
                T.work(20)
                if i % 4 == 3:
                    T.work(5)
                    loss = 0.5
                    T.step(4 * len(batch), loss)

        train(40)
        """,
        [],
        ["//train > loss as step"],
        [PAIR],
        LOADING,
        loss="//train > loss",
        also=["//train > batch"],
        updates=True,
    ),
    "an evaluation between epochs": Program(
        LOAD
        + """
        def train(n):
            for batch in load(n):
                T.work(20)
                loss = 1.0
                T.step(len(batch), loss)

        def evaluate(n):
            for batch in load(n):
                T.work(8)
                T.step(len(batch), task="eval")

        for epoch in range(3):
            train(12)
            evaluate(6)
        """,
        [MARK, LOSS_MARK],
        [],
        [PAIR],
        LOADING,
        loss="//train > loss",
        also=["eval: //evaluate(batch) > #endloop_batch as step"],
    ),
    "an evaluation before and within": Program(
        LOAD
        + """
        def evaluate(n):
            for batch in load(n):
                T.work(8)
                T.step(len(batch), task="eval")

        def train(n):
            for i, batch in enumerate(load(n)):
                T.work(20)
                loss = 1.0
                T.step(len(batch), loss)
                if i % 5 == 4:
                    evaluate(3)

        evaluate(4)
        train(20)
        """,
        [LOSS_MARK],
        [],
        [PAIR],
        LOADING,
        loss="//train > loss",
        also=["eval: //evaluate(batch) > #endloop_batch as step"],
    ),
    "epochs as a task": Program(
        LOAD
        + """
        def train(n):
            for batch in load(n):
                T.work(20)
                loss = 1.0
                T.step(len(batch), loss)

        def main():
            for epoch in range(4):
                train(10)
                T.around("outer")

        main()
        """,
        [MARK, LOSS_MARK],
        [],
        [PAIR],
        LOADING,
        loss="//train > loss",
        also=["outer: //main > #endloop_epoch as step"],
    ),
    "parts of a step as a task": Program(
        LOAD
        + """
        def train(n):
            for batch in load(n):
                for part in range(4):
                    T.work(5)
                    T.around("inner")
                T.work(2)
                T.step(len(batch))

        train(20)
        """,
        [MARK],
        [],
        [PAIR],
        LOADING,
        also=["inner: //train > #endloop_part as step"],
    ),
    "two threads": Program(
        LOAD
        + """
        import threading

        def train(n):
            for batch in load(n):
                T.work(20)
                loss = 1.0
                T.step(len(batch), loss)

        for _ in range(3):
            thread = threading.Thread(target=train, args=(10,))
            thread.start()
            thread.join()
        """,
        [MARK, LOSS_MARK],
        ["//train > loss as step"],
        [PAIR],
        LOADING,
        loss="//train > loss",
    ),
    "a checkpoint on a thread": Program(
        LOAD
        + """
        import threading

        def save():
            pass

        def train(n):
            for i, batch in enumerate(load(n)):
                T.work(20)
                T.step(len(batch))
                if i % 5 == 4:
                    thread = threading.Thread(target=save)
                    thread.start()
                    thread.join()

        train(20)
        """,
        [MARK],
        [],
        [PAIR],
        LOADING,
        PAUSE,
    ),
    "loading within a pause": Program(
        LOAD
        + """
        def evaluate():
            for i in range(5):
                get_other()
                T.pause(15)

        def get_other():
            T.pause(10)

        def train(n):
            for i, batch in enumerate(load(n)):
                T.work(20)
                T.step(len(batch))
                if i % 5 == 4 and i < n - 1:
                    evaluate()

        train(20)
        """,
        [MARK],
        [],
        [PAIR],
        "//get(!#enter as loading, !!#exit as loaded)",
        "//evaluate(!#enter as pause, !!#exit as resumed)",
        also=["//get_other(!#enter as loading, !!#exit as loaded)"],
    ),
    "at the top level": Program(
        LOAD
        + """
        for batch in load(20):
            T.work(20)
            loss = 1.0
            T.step(len(batch), loss)
        """,
        ["//(batch) > #endloop_batch as step", "//(batch, !loss as step)"],
        ["// > loss as step"],
        ["//(batch, !#loop_batch as compute_start, !!#endloop_batch as compute_end)"],
        LOADING,
        loss="// > loss",
    ),
}

#: Scripts that tell their steps themselves; a voirfile may tell them too.
#: Of PyTorch, where hooks see a part of the same, or all of it.
TORCH = {
    "torch, batches of its own and no optimizer": Program(
        """
        import torch

        def load(n):
            for i in range(n):
                T.load(10)
                yield torch.ones(8, 4)

        def train(n):
            weight = torch.ones(4, requires_grad=True)
            for batch in load(n):
                T.work(20)
                loss = (batch @ weight).mean()
                loss.backward()
                with torch.no_grad():
                    weight -= 0.01 * weight.grad
                    weight.grad = None
                T.step(len(batch), loss.item())

        train(20)
        """,
        ["//train(batch) > #endloop_batch as step", "//train(batch, !loss as step)"],
        ["//train > #endloop_batch as step"],
        ["//train(batch, !#loop_batch as compute_start, !!#endloop_batch as compute_end)"],
        loss="//train > loss",
        hooks=True,
    ),
    "torch, a class of batches and no gradients taken": Program(
        """
        import torch

        class Batches:
            def __init__(self, n):
                self.left = n

            def __iter__(self):
                return self

            def __next__(self):
                if not self.left:
                    raise StopIteration
                self.left -= 1
                return get(self.left)

        def get(i):
            T.load(10)
            return torch.ones(8, 4)

        def train(n):
            weight = torch.ones(4)
            for batch in Batches(n):
                T.work(20)
                loss = (batch @ weight).mean()
                weight = weight - 0.01 * batch.mean(0)
                T.step(len(batch), loss.item())

        train(20)
        """,
        ["//train(batch) > #endloop_batch as step", "//train(batch, !loss as step)"],
        ["//train > #endloop_batch as step"],
        ["//train(batch, !#loop_batch as compute_start, !!#endloop_batch as compute_end)"],
        LOADING,
        loss="//train > loss",
        hooks=True,
    ),
    "torch, all of which hooks see": Program(
        """
        import torch

        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 160

            def __getitem__(self, i):
                T.load(10 / 8)
                return torch.ones(4)

        def train():
            model = torch.nn.Linear(4, 1)
            optimizer = torch.optim.SGD(model.parameters(), 0.01)
            for batch in torch.utils.data.DataLoader(Data(), batch_size=8):
                T.work(20)
                loss = model(batch).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                T.step(len(batch), loss.item())

        torch.manual_seed(0)
        train()
        """,
        ["//train(batch) > #endloop_batch as step", "//train(batch, !loss as step)"],
        ["//train > #endloop_batch as step"],
        ["//train(batch, !#loop_batch as compute_start, !!#endloop_batch as compute_end)"],
        loss="//train > loss",
        hooks=True,
    ),
}

TELLING = {
    "iterate": Program(
        LOAD
        + """
        import voir

        def train(n):
            for batch in voir.iterate("train", load(n), report_batch=True):
                T.work(20)
                loss = 1.0
                T.step(len(batch), loss)

        train(20)
        """,
        [MARK, LOSS_MARK],
        ["//train > loss as step"],
        [PAIR],
        loss="//train > loss",
    ),
    "iterate, with its length known": Program(
        LOAD
        + """
        import voir

        class Loader:
            def __len__(self):
                return 20

            def __iter__(self):
                return load(20)

        def train():
            for batch in voir.iterate("train", Loader(), report_batch=True, batch_size=len):
                T.work(20)
                loss = 1.0
                T.step(len(batch), loss)

        train()
        """,
        [MARK, LOSS_MARK],
        ["//train > loss as step"],
        [PAIR],
        loss="//train > loss",
    ),
    "iterate over epochs and batches": Program(
        LOAD
        + """
        import voir

        def main():
            for epoch in voir.iterate("outer", range(4), report_batch=True):
                for batch in voir.iterate("train", load(10), report_batch=True):
                    T.work(20)
                    T.step(len(batch))
                T.around("outer")

        main()
        """,
    ),
    "iterate over an evaluation within": Program(
        LOAD
        + """
        import voir

        def evaluate():
            for batch in voir.iterate("eval", load(3), report_batch=True):
                T.work(8)
                loss = 9.0
                T.step(len(batch), task="eval")

        def train(n):
            for i, batch in enumerate(voir.iterate("train", load(n), report_batch=True)):
                T.work(20)
                loss = 1.0
                T.step(len(batch), loss)
                if i % 5 == 4:
                    evaluate()

        train(20)
        """,
        loss="//train > loss",
        also=["//evaluate > loss"],
    ),
    "given marks": Program(
        LOAD
        + """
        import voir

        def train(n):
            for batch in load(n):
                T.work(20)
                loss = 1.0
                T.step(len(batch), loss)
                voir.give(step=True, batch=batch)

        train(20)
        """,
        [MARK, LOSS_MARK],
        ["//train > loss as step"],
        [PAIR],
        LOADING,
        loss="//train > loss",
        calls=True,
    ),
    "given pairs": Program(
        LOAD
        + """
        import voir

        def train(n):
            for batch in load(n):
                voir.give(compute_start=True)
                T.work(20)
                T.step(len(batch))
                voir.give(compute_end=True, batch=batch)

        train(20)
        """,
        [MARK],
        [],
        [PAIR],
        LOADING,
        calls=True,
    ),
}
#: One function for two tasks.
TASKS = {
    "a variable names the task": Program(
        LOAD
        + """
        def run(task, n):
            for batch in load(n):
                T.work(20 if task == "train" else 8)
                loss = 1.0 if task == "train" else 7.0
                T.step(len(batch), loss if task == "train" else None, task)

        for epoch in range(3):
            run("train", 10)
            run("eval", 4)
        """,
        ["//run(task, batch, !loss as step)"],
        loss="//run(task) > loss",
    ),
    "a task is inherited": Program(
        LOAD
        + """
        from giving import give

        def run(task, n):
            with give.inherit(task=task):
                for batch in load(n):
                    T.work(20 if task == "train" else 8)
                    loss = 1.0 if task == "train" else 7.0
                    T.step(len(batch), loss if task == "train" else None, task)

        for epoch in range(3):
            run("train", 10)
            run("eval", 4)
        """,
        ["//run(batch, !loss as step)"],
        loss="//run > loss",
    ),
}
