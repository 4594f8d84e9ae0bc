"""On CUDA as it is: graphs that are captured, several devices, devices that hang or are lost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from overseer.clock import FakeClock
from overseer.measure.accelerator import ASKED, TorchDevice, find_device
from overseer.measure.losses import Losses
from overseer.measure.steps import StepModel
from overseer.measure.summary import Tasks

from .fake_cuda import GLOBAL, THREAD_LOCAL, FakeCuda, fake_torch


class Run:
    """A script that trains on fake GPUs, and a step model that voir drains on its own thread."""

    def __init__(self, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch, modes: bool = True) -> None:
        self.cuda, self.clock = cuda, cuda.clock
        self.problems: list[Any] = []
        self.tasks = Tasks()
        self.slept = 0.0
        self.interrupted = False
        torch = fake_torch(cuda)
        monkeypatch.setitem(sys.modules, "torch", torch)
        self.modes = cuda.exchange if modes else None
        self.model = StepModel(
            cuda.clock,
            find_device=self.find,
            report=self.problems.append,
            thread=lambda: hash(cuda.thread),
        )
        self.model.sinks.append(self.tasks)

    def find(self) -> TorchDevice | None:
        found = find_device()
        if found is None:
            return None
        return TorchDevice(sys.modules["torch"], found.kind, self.modes, self.sleep)

    def sleep(self, seconds: float) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.slept += seconds
        self.clock.advance(seconds)

    def drain(self) -> None:
        """What voir's timer does."""
        before, self.cuda.thread = self.cuda.thread, "voir"
        self.model.drain()
        self.cuda.thread = before

    def steps(self, n: int, load: float = 0.004, compute: float = 0.010, gpu: int = 0) -> None:
        for _ in range(n):
            self.model.loading_begins("loader")
            self.clock.advance(load)
            self.model.loading_ends("loader")
            self.cuda.gpus[gpu].stream.launch(compute)
            self.clock.advance(0.000_02)
            self.clock.advance(compute)  # It reads its loss.
            self.model({"step": True, "batch_size": 32})

    def section(self) -> Any:
        self.model.finish()
        return self.tasks.section(self.model.clock_name)["train"]


@pytest.fixture
def cuda() -> FakeCuda:
    made = FakeCuda(FakeClock(now_ns=5_000_000_000), gpus=2)
    made.gpus[0].context = True
    made.gpus[0].allocated = 1 << 30
    return made


@pytest.fixture
def run(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    made = Run(cuda, monkeypatch)
    yield made
    assert cuda.broken == []


def test_loading_and_compute_are_the_devices(run: Run) -> None:
    run.steps(100)
    section = run.section()
    assert section["rate"]["clock"] == "cuda events"
    assert section["loading"]["seconds"] == pytest.approx(0.4, rel=0.01)
    assert section["compute"]["seconds"] == pytest.approx(1.0, rel=0.01)
    assert run.problems == []


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL])
def test_a_graph_that_is_being_captured_is_not_spoilt_by_voirs_thread(run: Run, mode: int) -> None:
    """PyTorch's own watchdog did that: pytorch/pytorch#104487."""
    run.steps(5)
    with run.cuda.graph(mode):
        run.drain()
        run.clock.advance(1.0)
        run.drain()
    assert run.cuda.broken == []
    assert run.cuda.modes.get("voir", GLOBAL) == GLOBAL
    run.steps(5)
    assert run.section()["steps"] == 10
    assert run.problems == []


def test_a_graph_is_not_spoilt_by_notes_that_its_own_thread_works_off(run: Run) -> None:
    run.steps(5)
    with run.cuda.graph():
        run.model({"step": True, "batch_size": 32})
        run.model.full()
    assert run.cuda.modes["script"] == GLOBAL
    run.steps(5)
    assert run.section()["steps"] == 11
    assert run.model.clock_name == "cuda events"


def test_another_device_that_becomes_the_current_one_is_no_failure(run: Run) -> None:
    """An event belongs to the device that it was first recorded on; so does a pool of them."""
    for gpu in (0, 1, 0, 1):
        run.cuda.set_device(gpu)
        run.steps(50, gpu=gpu)
        run.drain()
    section = run.section()
    assert run.problems == []
    assert section["rate"]["clock"] == "cuda events"
    assert section["steps"] == 200
    assert section["compute"]["seconds"] == pytest.approx(199 * 0.010, rel=0.01)
    assert run.cuda.made < 200


def test_a_thread_for_each_device_is_timed_by_its_own(run: Run) -> None:
    for _ in range(50):
        for gpu in (0, 1):
            run.cuda.thread = f"trainer {gpu}"
            run.cuda.set_device(gpu)
            run.steps(1, gpu=gpu)
        run.drain()
    assert run.section()["steps"] == 100
    assert run.problems == []


def test_a_device_that_is_not_the_current_one_is_found_by_its_memory(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model on cuda:1 in a script that never calls set_device: nothing may be put on cuda:0."""
    cuda.gpus[0].context, cuda.gpus[0].allocated, cuda.gpus[1].allocated = False, 0, 1 << 30
    run = Run(cuda, monkeypatch)
    run.steps(3, gpu=1)
    for _ in range(50):  # The host runs ahead of it, and waits at the end.
        run.model.loading_begins("loader")
        run.clock.advance(0.001)
        run.model.loading_ends("loader")
        cuda.gpus[1].stream.launch(0.010)
        run.model({"step": True, "batch_size": 32})
    run.clock.advance(0.5)
    section = run.section()
    assert not cuda.gpus[0].context
    assert section["loading"]["share"] < 0.1
    assert run.problems == []


def test_a_device_that_was_started_and_has_no_tensors_is_not_in_use(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that prints the name of its GPU and trains on the processor."""
    cuda.gpus[0].allocated, cuda.gpus[0].context = 0, False
    run = Run(cuda, monkeypatch)
    run.steps(5)
    assert run.section()["rate"]["clock"] == "perf_counter"
    assert cuda.made == 0


def test_a_device_whose_tensors_nobody_counts_is_in_use_all_the_same(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with PYTORCH_NO_CUDA_MEMORY_CACHING."""
    cuda.gpus[0].allocated = 0
    run = Run(cuda, monkeypatch)
    run.steps(5)
    assert run.section()["rate"]["clock"] == "cuda events"


def test_a_device_that_nobody_started_is_not_started(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda.initialized = False
    run = Run(cuda, monkeypatch)
    run.steps(5)
    assert run.section()["steps"] == 5
    assert run.problems == []


def test_the_end_of_a_run_does_not_wait_for_ever_for_a_device_that_hangs(run: Run) -> None:
    """A collective that the other ranks never join: Ctrl-C must end the run all the same."""
    run.steps(20)
    run.clock.advance(0.004)
    run.cuda.gpus[0].stream.launch(1e6)
    run.model({"step": True, "batch_size": 32})
    section = run.section()
    assert run.slept < 10
    assert section["steps"] == 21
    assert [problem.slug for problem in run.problems] == ["device-clock"]
    assert f"{ASKED / 1000:g} s" in run.problems[0].what


def test_ctrl_c_ends_the_waiting_for_a_device_and_all_steps_are_told(run: Run) -> None:
    run.steps(20)
    run.clock.advance(0.004)
    run.cuda.gpus[0].stream.launch(1e6)
    run.model({"step": True, "batch_size": 32})
    run.interrupted = True
    assert run.section()["steps"] == 21
    assert [problem.slug for problem in run.problems] == ["device-clock"]
    assert "interrupted" in run.problems[0].what


def test_a_run_whose_device_is_done_does_not_wait(run: Run) -> None:
    run.steps(20)
    run.section()
    assert run.slept == 0


def test_a_device_that_is_lost_is_told_once_and_every_step_counts(run: Run) -> None:
    run.steps(20)
    run.cuda.lost = True
    run.steps(20)
    assert run.section()["steps"] == 40
    assert [problem.slug for problem in run.problems] == ["device-clock"]


class Loss:
    """A tensor of one number that is there when the stream it is computed in has got there."""

    device = "cuda:0"
    shape: tuple[int, ...] = ()

    def __init__(self, run: Run, value: float) -> None:
        self.run, self.value = run, value
        self.at = run.cuda.current_stream().free_at

    def detach(self) -> Loss:
        return self

    def item(self) -> float:
        """As torch reads it: in the reader's own stream, which waits for no other."""
        self.run.cuda.unsafe("cudaStreamSynchronize")
        assert self.at < 1e18, "waits for ever"
        return self.value if self.at <= self.run.clock.now_ns() else -1.0


def trained_ahead(run: Run, losses: Losses, n: int) -> None:
    """Steps that the host launches a millisecond apart, and the device does ten for each."""
    for number in range(n):
        run.clock.advance(0.001)
        run.cuda.current_stream().launch(0.010)
        losses({"loss": Loss(run, 100.0 - number)})
        run.model({"step": True, "batch_size": 32})


def kept_up(run: Run, losses: Losses) -> None:
    run.drain()
    before, run.cuda.thread = run.cuda.thread, "voir"
    losses.keep_up(run.model)
    run.cuda.thread = before


def test_losses_are_read_when_the_device_has_computed_them_and_not_before(run: Run) -> None:
    losses = Losses(run.problems.append)
    for _ in range(10):
        trained_ahead(run, losses, 10)
        run.clock.advance(0.05)
        kept_up(run, losses)
    found = losses.summary()["train"]
    assert (found.first, found.last, found.min) == (100, 91, 91)
    run.clock.advance(5.0)
    run.section()
    losses.read_all(run.model)
    found = losses.summary()["train"]
    assert (found.first, found.last, found.min, found.n, found.exact) == (100, 91, 91, 100, True)


def test_losses_are_read_while_a_graph_is_captured_without_harm(run: Run) -> None:
    losses = Losses(run.problems.append)
    trained_ahead(run, losses, 20)
    kept_up(run, losses)
    run.clock.advance(5.0)
    trained_ahead(run, losses, 20)
    run.clock.advance(5.0)
    with run.cuda.graph():
        kept_up(run, losses)
        kept_up(run, losses)
    assert losses.summary()["train"].first == 100.0


def test_losses_on_a_device_that_hangs_are_not_waited_for(run: Run) -> None:
    losses = Losses(run.problems.append)
    trained_ahead(run, losses, 50)
    run.clock.advance(5.0)
    kept_up(run, losses)
    trained_ahead(run, losses, 50)
    run.clock.advance(5.0)
    kept_up(run, losses)
    run.cuda.current_stream().launch(1e12)
    trained_ahead(run, losses, 1)
    run.section()
    losses.read_all(run.model)
    assert losses.summary()["train"].n == 101
    assert losses.summary()["train"].min == 51.0


def test_events_are_used_again(run: Run) -> None:
    for _ in range(20):
        run.steps(100)
        run.drain()
    run.section()
    assert run.cuda.made <= 250


def test_torch_before_it_had_accelerators_is_asked_what_was_started(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``torch.cuda.is_available`` would start the driver, which no child of a fork survives."""
    monkeypatch.delattr(sys.modules["torch"], "accelerator")
    monkeypatch.delattr(sys.modules["torch"], "Event")
    found = find_device()
    assert found is not None
    assert found.name == "cuda events"


def test_without_a_driver_that_sets_modes_the_device_is_asked_as_it_is() -> None:
    with TorchDevice(fake_torch(FakeCuda(FakeClock())), "cuda").aside():
        pass
