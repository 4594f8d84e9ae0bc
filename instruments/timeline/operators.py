"""PyTorch's operators and kernels in the same timeline, by its own profiler, for chosen steps."""

from __future__ import annotations

import sys
from typing import Any

from overseer import Overseer
from overseer.errors import Problem
from overseer.trace.emit import channel
from overseer.trace.recorder import BEGIN, END
from overseer.trace.tracks import Track

#: Operators of one window of steps that are kept; a longer one is cut off.
MOST = 1_000_000


class Operators:
    """Runs ``torch.profiler`` while it is switched on.

    Args:
        ov: The run.
    """

    def __init__(self, ov: Overseer) -> None:
        self._ov = ov
        self._channel = channel("operators", always=True)
        self._offset = ov.clock.wall_ns() - ov.clock.now_ns()
        self._profiler: Any = None
        self._tracks: dict[tuple[str, int], Track] = {}

    def switch(self, on: bool) -> None:
        """Begin to profile, or end that and record what was seen; on the script's thread."""
        if on and self._profiler is None:
            self._begin()
        elif not on and self._profiler is not None:
            self._end()

    def _begin(self) -> None:
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "profiler"):
            return  # Not imported yet: it is asked again with the next window.
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_initialized():  # To ask if CUDA is available may start its driver.
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        profiler = torch.profiler.profile(activities=activities)
        try:
            profiler.start()
        except Exception as error:  # The script profiles itself, say.
            self._failed(error)
        else:
            self._profiler = profiler

    def _end(self) -> None:
        profiler, self._profiler = self._profiler, None
        try:
            profiler.stop()
            self._record(profiler.profiler.kineto_results.events())
        except Exception as error:  # Its insides are not promised to stay as they are.
            self._failed(error)

    def _record(self, events: Any) -> None:
        found = []
        for event in events:
            start, took = event.start_ns(), event.duration_ns()
            if start > 0 and took >= 0:
                found.append((start, -took, event))
        found.sort(key=lambda one: one[:2])
        stacks: dict[Track, list[tuple[int, str]]] = {}
        for start, took, event in found[:MOST]:
            track = self._track(event)
            self._place(stacks.setdefault(track, []), track, start, start - took, event.name())
        for track, stack in stacks.items():
            self._unwind(stack, track, None)

    def _place(
        self, stack: list[tuple[int, str]], track: Track, start: int, end: int, name: str
    ) -> None:
        self._unwind(stack, track, start)
        if stack:
            end = min(end, stack[-1][0])  # Rounded apart: what is within stays within.
        self._channel.at(start - self._offset, BEGIN, track, name)
        stack.append((end, name))

    def _unwind(self, stack: list[tuple[int, str]], track: Track, until: int | None) -> None:
        while stack and (until is None or stack[-1][0] <= until):
            end, name = stack.pop()
            self._channel.at(end - self._offset, END, track, name)

    def _track(self, event: Any) -> Track:
        """A row for each thread that launches, and each stream of each device."""
        kind = str(event.device_type()).rpartition(".")[2]
        if kind == "CPU":
            key, name = ("CPU", event.start_thread_id()), f"operators {event.start_thread_id()}"
        else:
            stream = event.device_resource_id()
            key, name = (f"{kind} {event.device_index()}", stream), ""
            name = f"{kind.lower()}:{event.device_index()} stream {stream}"
        if key not in self._tracks:
            self._tracks[key] = Track(name)
        return self._tracks[key]

    def _failed(self, error: Exception) -> None:
        what = f"PyTorch's profiler did not work: {type(error).__name__}: {error}"
        remedy = "Record without operators: --trace-level module."
        self._ov.report(Problem("trace-operators", "--trace-level op", what[:300], remedy=remedy))
