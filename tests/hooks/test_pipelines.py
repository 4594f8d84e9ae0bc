"""Pipelines: where schedules and passes are marked, and that programs compute the same with it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

import torch
import torch.distributed as dist
from torch.distributed import pipelining

from instruments.hooks import pipelines
from tests.hooks.hooked import Hooked

schedules = pipelining.schedules


@pytest.fixture(autouse=True)
def group() -> Iterator[None]:
    """A process group of this process alone, which runs all stages."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Own(schedules.ScheduleInterleaved1F1B):  # type: ignore[misc]
    """A schedule that the library does not know."""


def placed(hooked: Hooked) -> tuple[Callable[[], Any], list[int]]:
    """Place the hooks; returns the section of ``run.json``, and sizes of pipelines noted."""
    readers: list[Callable[[bytes], object]] = []
    live: dict[str, Callable[[], Any]] = {}
    ov: Any = SimpleNamespace(
        measuring=SimpleNamespace(read=readers.append), context=SimpleNamespace(live=live)
    )
    sizes: list[int] = []
    batches: Any = SimpleNamespace(pipeline=sizes.append)
    pipelines.place(ov, hooked.places, batches, schedules)

    def section() -> Any:
        readers[0](hooked.data())
        return live["pipeline"]()

    return section, sizes


def trained(kind: Any, runs: int = 3) -> list[float]:
    """Train two layers, a stage each, and return the losses."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 4) for _ in range(2)]
    stages = [
        pipelining.PipelineStage(layer, n, 2, torch.device("cpu")) for n, layer in enumerate(layers)
    ]
    schedule = kind(stages, 2, loss_fn=torch.nn.MSELoss())
    x, found = torch.randn(6, 4), list[float]()
    for _ in range(runs):
        losses: list[Any] = []
        schedule.step(x, target=x, losses=losses)
        found += [float(each.detach()) for each in losses]
    last = pipelining.PipelineStage(layers[1], 0, 1, torch.device("cpu"))
    schedules.ScheduleGPipe(last, 2, loss_fn=torch.nn.MSELoss()).eval(x, target=x)
    return found


@pytest.mark.parametrize(("kind", "name"), [
    (schedules.ScheduleInterleaved1F1B, "Interleaved1F1B"), (Own, f"{__name__}.Own"),
    (schedules.ScheduleLoopedBFS, "LoopedBFS"),
    (schedules.ScheduleInterleavedZeroBubble, "InterleavedZeroBubble"),
])  # fmt: skip
def test_schedules_are_named_and_the_passes_of_each_stage_are_timed(
    hooked: Hooked, kind: Any, name: str
) -> None:
    section, sizes = placed(hooked)
    trained(kind)
    found = section()
    assert (found["schedule"], found["stages"], found["micro_batches"]) == (name, 2, 2)
    assert found["runs"] == 3, "an evaluation is none"
    assert found["batch"] == 3 and sizes == [1]
    passes = {"forward", "backward", *(["weight"] if "Zero" in name else [])}
    assert {stage: {*own} for stage, own in found["own"].items()} == {"0": passes, "1": passes}
    busy = sum(ns for own in found["own"].values() for ns in own.values())
    assert 0 < busy <= found["seconds"]


def test_a_program_computes_the_same_and_its_tracebacks_are_its_own(hooked: Hooked) -> None:
    plain = trained(schedules.ScheduleInterleaved1F1B)
    before = [vars(schedules._PipelineStageBase)[name] for name in pipelines.PASSES]
    placed(hooked)
    assert trained(schedules.ScheduleInterleaved1F1B) == plain

    class Fails(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("no")

    stage = pipelining.PipelineStage(Fails(), 0, 1, torch.device("cpu"), (torch.ones(1),))
    with pytest.raises(RuntimeError) as failure:
        stage.forward_one_chunk(0, (torch.ones(1),))
    assert "pipelines.py" not in {
        frame.filename.rpartition("/")[2] for frame in traceback.extract_tb(failure.tb)[1:]
    }
    hooked.places.remove()
    after = [vars(schedules._PipelineStageBase)[name] for name in pipelines.PASSES]
    assert after == before
