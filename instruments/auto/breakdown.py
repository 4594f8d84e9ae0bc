"""Where the time of a task's steps went, phase by phase: ``breakdown`` in ``run.json``."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from typing import Any

from overseer.measure.columns import Columns, Steps
from overseer.measure.device import HostDevice
from overseer.measure.parts import number, part
from overseer.measure.step import Step

from .sink import Spent

#: Points along the run at which sums are kept; with more, every other one is dropped.
POINTS = 128
PARTS = ("loading", "transfer", "forward", "backward", "optimizer")


class Breakdown:
    """Adds up the phases of the steps that the step model has judged; a sink of it.

    What of a step is none of the phases is ``other``; pauses are in none of them. A step is left
    out when its beginning was not seen or a pause in it had no boundary. Sums are kept
    along the way, so that what came before the steady state can be left out.

    Args:
        task: Whose steps.
        spent: Phases of steps, as they were seen; used up.
    """

    def __init__(self, task: str, spent: deque[Spent]) -> None:
        self._task = task
        self._spent = spent
        self._steps = 0
        self._end = -1
        # And how many, their work, their time, the time of all.
        self._sums = [0] * (len(PARTS) + 4)
        self._points: list[tuple[int, int, list[int]]] = [(0, 0, list(self._sums))]
        self._stride = 1

    def __call__(self, steps: Steps) -> None:
        """Take in steps."""
        for columns in steps.by_task():
            if columns.task[0] != self._task:
                continue
            one = columns.thread.count(columns.thread[0]) == columns.rows
            if one and columns.sums.timed == columns.rows and not any(columns.estimated):
                self._take(columns)
            else:
                for step in columns.steps():
                    self._add(step)

    def _take(self, columns: Columns) -> None:
        """Take in steps of one thread, of which the times are known.

        Those of which no phases were seen are added up at once, from one point to the next.
        """
        busy, ends, spent, at = columns.busy_ns, columns.end_ns, self._spent, 0
        while at < columns.rows:
            seen = bisect_left(ends, spent[0].end, at) if spent else columns.rows
            while at < seen:
                stop = min(seen, at + self._stride - self._steps % self._stride)
                self._sums[-1] += sum(busy[at:stop])  # type: ignore[arg-type]
                self._steps += stop - at
                self._end = ends[stop - 1]
                if self._steps % self._stride == 0:
                    self._keep(columns.number[stop - 1])
                at = stop
            if at < columns.rows:
                self._add(Step._make(column[at] for column in columns))
                at += 1

    def _add(self, step: Step) -> None:
        spent, sums, taken = self._spent, self._sums, None
        while spent and spent[0].end <= step.end_ns:
            taken = spent.popleft()
        before, self._end = self._end, step.end_ns
        if step.busy_ns is None or step.estimated:
            return
        sums[-1] += step.busy_ns
        if taken is not None and taken.end > before:
            for i, ns in enumerate(taken.phases):
                sums[i] += ns
            sums[-2] += step.busy_ns
            sums[-3] += step.busy_ns if step.compute_ns is None else step.compute_ns
            sums[-4] += 1
        self._steps += 1
        if self._steps % self._stride == 0:
            self._keep(step.number)

    def _keep(self, number: int) -> None:
        self._points.append((number + 1, self._steps, list(self._sums)))
        if len(self._points) > POINTS:
            self._stride *= 2
            self._points = self._points[::2]

    def section(self, task: Mapping[str, Any]) -> dict[str, Any]:
        """What ``run.json`` says of the task; empty when nothing is known.

        Where loading and compute of all steps are known, so is that part, and the others together
        are the compute: how it is divided, the watched steps tell.

        Args:
            task: The rest of the task's entry, which says when it became steady.
        """
        steady = task.get("steady")
        start = (steady.get("from_step") if isinstance(steady, Mapping) else None) or 0
        # The nearest point at or behind the beginning that leaves something to sum up.
        after = [point for point in self._points if point[0] >= start and point[1] < self._steps]
        _, before, sums = after[0] if after else self._points[0]
        *parts, watched, work, seen, whole = (
            now - then for now, then in zip(self._sums, sums, strict=True)
        )
        if seen <= 0 or not any(parts):
            return {}
        loading = number(part(task, "loading").get("seconds"))
        compute = number(part(task, "compute").get("seconds"))
        known: dict[str, float] = {}
        times = (self._steps - before) / watched
        if loading is not None and compute:
            times *= (loading + compute) * 1e9 / whole
            if loading > 0:
                known["loading"] = loading
            # On a device's clock the host's waits for batches are another time.
            host = part(task, "rate").get("clock", HostDevice.name) == HostDevice.name
            seen, whole = work if host else seen - parts[0], round(compute * 1e9)
            parts[0] = 0
        took = sum(parts)
        seen = max(seen, took)
        if not seen:
            return {}
        # Of short steps not all are watched, and those that are take longer, for they are.
        factor = min(max(whole / seen, times), whole / max(1, took)) / 1e9
        known |= {name: ns * factor for name, ns in zip(PARTS, parts, strict=True) if ns > 0}
        known["other"] = max(0.0, whole / 1e9 - took * factor)
        return {**known, "steps": self._steps - before, "watched": watched}
