"""Records operators and kernels of chosen steps with PyTorch's profiler."""

from __future__ import annotations

import sys

from overseer.errors import Problem
from overseer.recorder import sites as k
from overseer.recorder import table
from overseer.recorder.log import EVENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from overseer import Overseer

#: Operators kept per window of steps; later ones are dropped.
MAX_OPERATORS = 1_000_000


class Operators:
    """Runs ``torch.profiler`` while it is switched on.

    Args:
        ov: The run.
        keep: Takes events in the value ring's format.
    """

    def __init__(self, ov: Overseer, keep: Callable[[bytes], object]) -> None:
        self._ov, self._keep = ov, keep
        self._offset = ov.clock.wall_ns() - ov.clock.now_ns()
        self._profiler: Any = None
        self._sites: dict[tuple[str, str], int] = {}

    def switch(self, on: bool) -> None:
        """Start the profiler, or stop it and keep its events; on the script's thread."""
        if on and self._profiler is None:
            self._begin()
        elif not on and self._profiler is not None:
            self._end()

    def _begin(self) -> None:
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "profiler"):
            return  # Not imported yet: tried again at the first call of a model.
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_initialized():  # is_available() may start the driver.
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        profiler = torch.profiler.profile(activities=activities)
        try:
            profiler.start()
        except Exception as error:  # The script may run a profiler itself.
            self._failed(error)
        else:
            self._profiler = profiler

    def _end(self) -> None:
        profiler, self._profiler = self._profiler, None
        try:
            profiler.stop()
            self._record(profiler.profiler.kineto_results.events())
        except Exception as error:  # The results have no stable interface.
            self._failed(error)

    def _record(self, events: Any) -> None:
        found = []
        for event in events:
            start, took = event.start_ns(), event.duration_ns()
            if start > 0 and took >= 0:
                found.append((start + took, -start, self._site(event)))
        found.sort()  # In the recorder's order: inner ones first.
        nan = float("nan")
        for at in range(0, min(len(found), MAX_OPERATORS), 4096):
            self._keep(
                b"".join(
                    EVENT.pack(-start - self._offset, nan, 0, site, 0, min(end + start, 2**48 - 1))
                    for end, start, site in found[at : at + 4096]
                )
            )

    def _site(self, event: Any) -> int:
        """The site of an operator in its row: one row per launching thread and per stream."""
        kind, name = str(event.device_type()).rpartition(".")[2], event.name()
        if kind == "CPU":
            row = f"operators {event.start_thread_id()}"
        else:
            row = f"{kind.lower()}:{event.device_index()} stream {event.device_resource_id()}"
        site = self._sites.get((row, name))
        if site is None:
            more = {"channel": "operators", "row": row, "always": True}
            site = self._sites[row, name] = table.add(k.SPAN, name, **more)
        return site

    def _failed(self, error: Exception) -> None:
        what = f"PyTorch's profiler did not work: {type(error).__name__}: {error}"
        remedy = "Record without operators: --trace-level module."
        self._ov.report(Problem("trace-operators", "--trace-level op", what[:300], remedy=remedy))
