"""Rates of a script that trains with PyTorch itself."""

from __future__ import annotations

import pytest
from scripts import LOADER, PAIR, STEP, Timed, logged, voirfile

from tests.running import Place

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

SCRIPT = """
    import gc, pickle, sys, weakref
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    class Saved:
        def __init__(self, tensor):
            self.tensor = tensor.detach()
            graphs.append(weakref.ref(self))

    def train(loader):
        for inp, target in loader:
            with torch.autograd.graph.saved_tensors_hooks(Saved, lambda saved: saved.tensor):
                loss = nn.functional.cross_entropy(model(inp), target)
            assert any(graph() is not None for graph in graphs)
            print(loss.item().hex())
            if len(inp) == 8:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            del loss
            gc.collect()
            alive.append(any(graph() is not None for graph in graphs))

    graphs, alive = [], []
    torch.manual_seed(1)
    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(50, 8), torch.randint(3, (50,)))
    loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=int(sys.argv[1]))
    for epoch in range(2):
        train(loader)
    print(len(loader), sorted(vars(loader)), len(pickle.dumps(loader)), torch.rand(1).item())
    print("kept alive:", sum(alive), "of", len(alive))
    """


@pytest.mark.parametrize("workers", ["0", "2"])
def test_losses_and_loader_are_the_same_to_the_last_bit(place: Place, workers: str) -> None:
    place.write("main.py", SCRIPT)
    voirfile(place, "//train > loss", STEP, PAIR, LOADER)
    under = place.voir("--loading-rate", "--interval", "1000", "main.py", workers)
    plain = place.python("main.py", workers)
    assert under.seen == plain.seen
    assert plain.stdout.splitlines()[-1] == "kept alive: 0 of 14"
    task = place.record()["tasks"]["train"]
    assert (task["steps"], task["items"], task["units"]) == (14, 100, "items")
    (window,) = logged(place, "loading_rate")
    assert 0 < window["share"] < 1
    assert place.record()["problems"] == []


@pytest.mark.parametrize("ends", ["break", "return"])
@pytest.mark.parametrize("evaluates", [True, False])
def test_what_comes_before_a_loop_is_left_in_its_midst_is_a_pause(
    timed: Timed, ends: str, evaluates: bool
) -> None:
    script = """
        import passing as time
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset

        data = TensorDataset(torch.randn(200, 8), torch.randint(3, (200,)))
        model = nn.Linear(8, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def train(n=0):
            for epoch in range(3):
                for inp, target in DataLoader(data, batch_size=8):
                    loss = nn.functional.cross_entropy(model(inp), target)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    time.sleep(0.002)
                    n += 1
                    if n % 20 == 0:
                        EVALUATES
                        time.sleep(0.2)
                    if n == 60:
                        ENDS  # In the midst of the third epoch.

        def evaluate():
            with torch.no_grad():
                for inp, target in DataLoader(data, batch_size=50):
                    model(inp)

        train()
        time.sleep(0.5)
        """
    script = script.replace("EVALUATES", "evaluate()" if evaluates else "pass")
    timed.write("main.py", script.replace("ENDS", ends))
    ran = timed.voir("--no-monitor", "main.py")
    assert (ran.status, ran.stdout) == (0, "")
    train = timed.record()["tasks"]["train"]
    assert (train["steps"], train["items"]) == (60, 480)
    assert train["pause"]["seconds"] == pytest.approx(0.6, abs=0.01)
    assert 480 / train["rate"]["wall"] == pytest.approx(0.72, abs=0.01)


#: A script that works without PyTorch on the batches of its loader; how it has an optimizer.
IDLE = """
    import time
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    def train(loader):
        for (inp,) in loader:
            time.sleep(0.001)
            {turn}

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(DataLoader(TensorDataset(torch.randn(80, 4)), batch_size=8))
    """
GIVEN = "//train > loader"


def test_an_optimizer_that_is_never_used_keeps_no_given_loader_from_showing_steps(
    place: Place,
) -> None:
    place.write("main.py", IDLE.format(turn="pass"))
    voirfile(place, GIVEN)
    ran = place.voir("main.py")
    task = place.record()["tasks"]["train"]
    assert (task["steps"], task["items"]) == (10, 80)
    assert "no-rate" not in ran.stderr


@pytest.mark.parametrize(
    ("flags", "who"), [((), "loader"), (("--loading-rate",), "--loading-rate")]
)
@pytest.mark.parametrize("turn", ["if not inp.shape: optimizer.step()", "used = optimizer"])
def test_where_a_given_loader_shows_no_steps_that_is_said(
    place: Place, flags: tuple[str, ...], who: str, turn: str
) -> None:
    place.write("main.py", IDLE.format(turn=turn))
    voirfile(place, GIVEN)
    ran = place.voir(*flags, "main.py")
    assert f"voir: {who}: batches of the loader that was given are no steps" in ran.stderr
    assert ran.stderr.count("no-rate") == 1
    assert "train" not in place.record()["tasks"]


def test_without_the_hooks_a_given_loader_shows_steps_whatever_the_text_says(place: Place) -> None:
    place.write("main.py", IDLE.format(turn="if not inp.shape: optimizer.step()"))
    voirfile(place, GIVEN)
    assert "no-rate" not in place.voir("--no-auto", "main.py").stderr
    assert place.record()["tasks"]["train"]["steps"] == 10


def test_where_a_model_is_at_work_nothing_is_said_of_a_given_loader(place: Place) -> None:
    turn = "model(inp).mean().backward(); optimizer.step()"
    place.write("main.py", IDLE.format(turn=turn))
    voirfile(place, GIVEN)
    assert "no-rate" not in place.voir("main.py").stderr
    assert place.record()["tasks"]["train"]["steps"] == 10


def test_a_probe_for_steps_that_is_misspelt_is_no_loaders(place: Place) -> None:
    place.write("main.py", IDLE.format(turn="model(inp).mean().backward(); optimizer.step()"))
    voirfile(place, "//training(inp) > #endloop_inp as step")
    ran = place.voir("main.py")
    assert "unresolved" in ran.stderr
    assert place.record()["problems"] == []


ANEW = """
    import time
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    now = time.perf_counter

    def first(loader):
        iterator = iter(loader)
        return next(iterator)

    model = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(80, 8), torch.randint(3, (80,)))
    loader = DataLoader(data, batch_size=8, num_workers=1)
    waits = []
    for step in range(12):
        begin = now()
        inp, target = BATCH
        waits.append(now() - begin)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inp), target).backward()
        optimizer.step()
    print(sum(waits[1:]))
    """


@pytest.mark.parametrize("batch", ["next(iter(loader))", "first(loader)"])
def test_workers_started_and_ended_for_each_step_are_waited_for(place: Place, batch: str) -> None:
    place.write("main.py", ANEW.replace("BATCH", batch))
    ran = place.voir("--skip", "1", "main.py")
    task, waited = place.record()["tasks"]["train"], float(ran.stdout.split()[-1])
    assert (task["steps"], task["items"]) == (12, 96)
    assert task["pause"]["count"] == task["pause"].get("unexplained", 0)  # A busy machine's.
    assert 0.8 * waited < task["loading"]["seconds"] <= waited
