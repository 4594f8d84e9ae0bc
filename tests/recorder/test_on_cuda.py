"""On a real GPU: the device's clock tells what torch's own events do, and harms no graph."""

from __future__ import annotations

import threading

import pytest

from overseer.model.fold import Fold
from overseer.recorder import device as on
from overseer.recorder import sites as k
from overseer.recorder.values import Values

pytestmark = pytest.mark.gpu


@pytest.fixture
def torch():
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("needs a CUDA device: torch.cuda.is_available() is False")
    return found


class Run:
    """Work on the GPU as a model's forward, and an optimizer's step that ends each step."""

    def __init__(self, recorded, torch):
        self._recorded, self.said, self.steps = recorded, [], []
        self.marks = on.Marks(self.said.append)
        self._fold = Fold(k.table.rows, self.steps.append)
        self._weight = torch.randn(2048, 2048, device="cuda")
        add = k.table.add
        recorded.module.put(0, k.MADE, add(k.MADE, "x"), 1, 0, 0.0, 1, 0)
        self._forward = recorded.module.span(add(k.FORWARD, "x"), k.FORWARD, self._work)
        self._site = recorded.module.Site(add(k.OPTIMIZER, "x"), k.OPTIMIZER)
        self.marks.tick()

    def _work(self):
        for _ in range(10):
            self._weight @ self._weight

    def step(self):
        self._forward()
        self._site.enter(self)
        self._site.leave(self)

    def finish(self):
        self.marks.finish()
        self._fold.feed(self._recorded.data())
        self._fold.finish()


@pytest.fixture
def run(recorded, torch, monkeypatch):
    monkeypatch.setattr(on, "recorder", recorded.module)
    monkeypatch.setattr(on, "values", Values())
    yield Run(recorded, torch)
    recorded.module.marker(0, None)


def test_steps_are_as_long_as_torch_says(run, torch):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for number in range(60):
        if number == 10:
            begin.record()
        run.step()
        run.marks.tick()
    end.record()
    run.finish()
    assert (len(run.steps), run.said, run.marks.clock) == (60, [], "cuda events")
    told = sum(step.ns for step in run.steps[10:]) / 1e6
    assert told == pytest.approx(begin.elapsed_time(end), rel=0.02)


def test_a_graph_can_be_captured_while_voirs_thread_asks_the_device(run, torch):
    for _ in range(5):
        run.step()
    value, graph = torch.ones(8, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value.mul_(2)
        run.step()
        asking = threading.Thread(target=run.marks.tick)
        asking.start()
        asking.join()
        value.mul_(2)
    graph.replay()
    torch.cuda.synchronize()
    assert value.tolist() == [4.0] * 8
    run.step()
    run.finish()
    assert (len(run.steps), run.said) == (7, [])


def test_a_loss_is_read_without_waiting(run, torch):
    """Holding it returns while the device is still at work on it."""
    values = Values()
    values.know(torch)
    values.hold(torch.ones((), device="cuda"), 1, 1)  # Pinned memory is made once.
    torch.cuda.synchronize()
    loss = torch.ones((), device="cuda")
    torch.cuda._sleep(1_000_000_000)
    loss = loss + 1
    assert values.hold(loss, 1, 1)
    assert not torch.cuda.current_stream().query(), "it has waited"
    loss += 1  # The script may go on to change it.
    torch.cuda.synchronize()
    assert values._pending[-1][1].item() == 2.0
