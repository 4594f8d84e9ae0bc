"""A real loop on a real GPU, measured by the step model and by torch's own profiler."""

from __future__ import annotations

import time
from typing import Any

from overseer.clock import Clock
from overseer.measure.accelerator import find_device
from overseer.measure.spans import Span
from overseer.measure.steps import StepModel
from overseer.measure.summary import Tasks

STEPS = 40
LOAD_SECONDS = 0.02
#: Nothing is left out as warm-up, for the profiler leaves nothing out.
ALL = Span(seconds=1e-10)


def loading_and_compute(torch: Any) -> tuple[float, float, float, float]:
    """Loading by the step model and as slept, compute by it and by the profiler; seconds."""
    tasks = Tasks(ALL)
    model = StepModel(Clock(), find_device=find_device)
    model.sinks.append(tasks)
    weight = torch.randn(4096, 4096, device="cuda")
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities):  # Its first kernel ever waits for it.
        run(torch, weight, 5, None)
    with torch.profiler.profile(activities=activities) as profile:
        slept = run(torch, weight, STEPS, model)
        torch.cuda.synchronize()
    model.finish()
    assert model.clock_name == "cuda events"
    section = tasks.section(model.clock_name)["train"]
    kernels = kernel_seconds(torch, profile.key_averages())
    return section["loading"]["seconds"], slept, section["compute"]["seconds"], kernels


def kernel_seconds(torch: Any, averages: Any) -> float:
    """What the device executed, as the profiler's own table sums it up.

    A kernel's time is also that of the operator that launched it, and of ranges around it.
    """
    return sum(
        each.self_device_time_total / 1e6
        for each in averages
        if each.device_type == torch.autograd.DeviceType.CUDA and not each.is_user_annotation
    )


def run(torch: Any, weight: Any, steps: int, model: StepModel | None) -> float:
    """Train; returns how long it slept in place of loading."""
    slept = 0.0
    for _ in range(steps):
        if model is not None:
            model.loading_begins()
        since = time.perf_counter()
        time.sleep(LOAD_SECONDS)
        slept += time.perf_counter() - since
        if model is not None:
            model.loading_ends()
        out = weight
        for _ in range(20):
            out = torch.mm(out, weight).mul_(1e-3)
        torch.cuda.synchronize()  # The script's own wait: so that the device idles while loading.
        if model is not None:
            model({"step": True, "batch_size": 32})
    return slept
