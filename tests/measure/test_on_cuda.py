"""On a real GPU: the device's clock tells what torch's profiler does, and harms no graph."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from overseer.clock import Clock
from overseer.measure.accelerator import find_device
from overseer.measure.steps import StepModel

from .on_cuda import kernel_seconds, loading_and_compute


@pytest.fixture
def torch() -> Any:
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("needs a CUDA device: torch.cuda.is_available() is False")
    return found


@pytest.mark.gpu
def test_loading_and_compute_agree_with_the_profiler_within_two_percent(torch: Any) -> None:
    loading, slept, compute, kernels = loading_and_compute(torch)
    assert compute == pytest.approx(kernels, rel=0.02)
    assert loading == pytest.approx(slept, rel=0.02)


@pytest.mark.gpu
def test_a_graph_can_be_captured_while_voirs_thread_asks_the_device(torch: Any) -> None:
    problems: list[Any] = []
    model = StepModel(Clock(), find_device=find_device, report=problems.append)
    value = torch.ones(8, device="cuda")
    for _ in range(20):
        value.mul_(1)
        model({"step": True, "batch_size": 8})
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value.mul_(2)
        model({"step": True, "batch_size": 8})
        asking = threading.Thread(target=model.drain)
        asking.start()
        asking.join()
        model.full()
        value.mul_(2)
    graph.replay()
    torch.cuda.synchronize()
    assert value.tolist() == [4.0] * 8
    model.finish()
    assert problems == []
    assert model.clock_name == "cuda events"


@pytest.mark.gpu
def test_devices_can_be_changed_and_those_not_used_stay_untouched(torch: Any) -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    problems: list[Any] = []
    model = StepModel(Clock(), find_device=find_device, report=problems.append)
    for index in (0, 1, 0, 1):
        with torch.cuda.device(index):
            value = torch.ones(8, device=f"cuda:{index}")
            for _ in range(20):
                value.mul_(1)
                model({"step": True, "batch_size": 8})
            model.drain()
    model.finish()
    assert problems == []
    assert model.clock_name == "cuda events"


def test_kernels_are_counted_once() -> None:
    """The profiler tells a kernel's time twice: of itself, and of the operator that launched it."""
    torch = pytest.importorskip("torch")
    kinds = torch.autograd.DeviceType
    averages = [
        SimpleNamespace(device_type=kind, is_user_annotation=note, self_device_time_total=2e6)
        for kind, note in ((kinds.CPU, False), (kinds.CUDA, False), (kinds.CUDA, True))
    ]
    assert kernel_seconds(torch, averages) == 2.0
