"""Workers of a DataLoader: busy while they have a batch to make, and left alone by the sampling."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

import torch
from torch.utils.data import DataLoader, TensorDataset, dataloader

from instruments.hooks.workers import LEAST_SAMPLES, counted, place
from instruments.places import Places


class Timer:
    """A timer that ticks when it is told."""

    def __init__(self) -> None:
        self.tick: Any = None

    def __call__(self, seconds: float, tick: Any) -> Timer:
        self.tick = tick
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.tick = None


@pytest.mark.parametrize(("outstanding", "finished", "pinned", "busy"), [
    (4, 0, None, 2), (4, 3, None, 1), (4, 4, None, 0), (4, 1, 2, 1), (0, 0, None, 0),
])  # fmt: skip
def test_a_worker_is_busy_while_a_requested_batch_is_not_finished(
    outstanding: int, finished: int, pinned: int | None, busy: int
) -> None:
    results = SimpleNamespace(qsize=lambda: finished)
    data = results if pinned is None else SimpleNamespace(qsize=lambda: pinned)
    iterator = SimpleNamespace(
        _worker_result_queue=results, _data_queue=data, _num_workers=2,
        _tasks_outstanding=outstanding,
    )  # fmt: skip
    assert counted(iterator) == (2, busy)


def test_each_epoch_is_sampled_and_the_loader_is_as_it_was_afterwards() -> None:
    timer, summary = Timer(), dict[str, Any]()
    ov: Any = SimpleNamespace(every=timer, summary=summary)
    before, places = dataloader._MultiProcessingDataLoaderIter._reset, Places()
    place(ov, places, dataloader)
    assert dataloader._MultiProcessingDataLoaderIter._reset is before
    for _ in range(2):
        batches = iter(DataLoader(TensorDataset(torch.ones(32, 4)), 4, num_workers=1))
        assert next(batches)[0].shape == (4, 4)
        for _ in range(LEAST_SAMPLES):
            timer.tick()
    places.remove()
    assert vars(dataloader._MultiProcessingDataLoaderIter)["_reset"] is before
    assert summary["loader_workers"]["count"] == 1
    assert 0 <= summary["loader_workers"]["busy"] <= 1
    assert timer.tick is None
