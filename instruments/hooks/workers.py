"""Samples how many of a DataLoader's workers have a batch to make."""

from __future__ import annotations

from contextlib import suppress
from weakref import WeakSet

from ..places import Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overseer import Overseer

#: Interval between samples, seconds.
SAMPLE_SECONDS = 0.05
#: Fewer samples say nothing.
LEAST_SAMPLES = 20


class Workers:
    """Counts busy workers of all iterators that have any.

    A worker is busy while it has a batch to make: more batches were requested than are finished.

    Args:
        ov: The run.
    """

    def __init__(self, ov: Overseer) -> None:
        self._ov = ov
        self._iterators: WeakSet[Any] = WeakSet()
        self._timer: Any = None
        self._samples = self._busy = self._all = self._most = 0

    def add(self, iterator: Any) -> None:
        """Sample an iterator until it is gone; never raises."""
        with suppress(Exception):
            self._iterators.add(iterator)
            if self._timer is None:
                self._timer = self._ov.every(SAMPLE_SECONDS, self._sample)
                self._timer.__enter__()

    def _sample(self) -> None:
        for iterator in tuple(self._iterators):
            with suppress(AttributeError, NotImplementedError, OSError, ValueError):
                workers, busy = counted(iterator)
                if iterator._shutdown or not iterator._send_idx:
                    continue
                self._samples += 1
                self._busy += busy
                self._all += workers
                self._most = max(self._most, workers)

    def end(self) -> None:
        """Stop, and write ``loader_workers`` into the summary."""
        if self._timer is not None:
            self._timer.__exit__(None, None, None)
        if self._samples >= LEAST_SAMPLES:
            share = round(self._busy / self._all, 4)
            self._ov.summary["loader_workers"] = {"count": self._most, "busy": share}


def counted(iterator: Any) -> tuple[int, int]:
    """The number of an iterator's workers, and of those that are busy."""
    results, pinned = iterator._worker_result_queue, iterator._data_queue
    finished = results.qsize() + (pinned.qsize() if pinned is not results else 0)
    workers = iterator._num_workers
    return workers, min(max(iterator._tasks_outstanding - finished, 0), workers)


class Reset:
    """Stands for an iterator's ``_reset``, which each epoch calls; adds no frame to tracebacks.

    Args:
        inner: The original function.
        workers: Receives each iterator.
    """

    def __init__(self, inner: Any, workers: Workers) -> None:
        self._inner, self._workers = inner, workers

    def __get__(self, iterator: Any, kind: Any = None) -> Any:
        if iterator is not None:
            self._workers.add(iterator)
        return self._inner.__get__(iterator, kind)


def place(ov: Overseer, places: Places, dataloader: Any) -> None:
    """Sample the workers of each DataLoader.

    Args:
        ov: The run.
        places: Where callables are placed.
        dataloader: ``torch.utils.data.dataloader``.
    """
    kind = getattr(dataloader, "_MultiProcessingDataLoaderIter", None)
    inner = vars(kind).get("_reset") if isinstance(kind, type) else None
    if inner is not None:
        workers = Workers(ov)
        places.keep(workers.end)
        places.put(kind, "_reset", Reset(inner, workers))
