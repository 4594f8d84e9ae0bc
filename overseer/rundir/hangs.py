"""Watches a run that makes no step any more: where it is, and whether it hangs.

The watch runs on voir's thread, once a second, and only while no step has ended for a while.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..boundary import said, where
from ..clock import boottime_ns, now_ns, process_time_ns
from ..errors import Problem
from ..model.facts import main_task, number
from ..model.hangs import hang_text, place_text
from ..recorder import sites as k
from ..recorder.log import Header
from . import killed, stacks
from .killed import LONG, OTHER_CODE, STACKS_FILE, idle_of
from .redact import redact

#: If voir's thread has not run for this many seconds, the machine slept or the process was stopped.
AWAY_SECONDS = 5.0
#: The share of one processor from which a thread that does not move computes.
COMPUTES = 0.5
#: Characters kept of the message of an exception that is being handled.
MAX_SAID = 500

_since_boot: Callable[[], int] = boottime_ns or now_ns


class HangWatch:
    """Where a process is that makes no step any more.

    Args:
        tasks: Returns the ``tasks`` of ``run.json`` so far.
        report: Receives a hang, once for each.
        ranked: Whether it is one of several ranks, of which steps are expected from the start.
        tell: Prints a line; for ranks, whose reports are not printed.
        joins: Whether another run started it, so that not even rank 0's reports are printed.

    Attributes:
        fresh: What it has found is to be written at once.
        hung: When it last saw a hang, and the ``idle`` of then; None for never.
    """

    def __init__(
        self,
        tasks: Callable[[], Mapping[str, Any] | None],
        report: Callable[[Problem], None],
        ranked: bool = False,
        tell: Callable[[str], object] = bool,
        joins: bool = False,
    ) -> None:
        self._tasks, self._report, self._ranked = tasks, report, ranked
        self._tell, self._joins = tell, joins
        self.fresh = False
        self._step, self._typical = -1, 0.0
        self._looked = self._since = self._used = 0
        self._position: object = None
        self._written: object = None
        self._said = False
        self.hung: tuple[int, dict[str, Any]] | None = None
        self._worker: dict[str, Any] = {}
        self._text = ""

    def look(self, found: Header, now: int, directory: Path | None) -> dict[str, Any]:
        """The ``idle`` of the run at this moment, with its place if it makes no step.

        Args:
            found: The run's header.
            now: The recorder's clock.
            directory: That of the run, for its stacks.
        """
        steps = found.control[k.WORD_STEPS]
        idle = idle_of(found, now) or {
            "seconds": (now - found.monotonic) / 1e9, "step": 0, "doing": OTHER_CODE,
        }  # fmt: skip
        if idle["seconds"] < self._least(steps):
            return idle_of(found, now)
        stack = stacks.main_stack()
        self._move((stacks.position(stack), found.head[k.STRUCTURE]))
        still = (_since_boot() - self._since) / 1e9
        if not steps and idle["doing"] == OTHER_CODE and still < killed.IDLE_SECONDS:
            return {}  # It starts; most programs take longer than that.
        idle.update(placed(stack, idle["doing"]), still=round(still, 1))
        worker = idle.get("worker", {})
        if worker.get("pid") == self._worker.get("pid"):
            worker.update(self._worker)
        if self._hangs(stack, idle, still):
            idle["hangs"] = True
            self.hung = now, idle
            self._say(idle, directory)
        if self._written is None or still >= killed.IDLE_SECONDS:
            self._write(directory)
        return idle

    def _least(self, steps: int) -> float:
        """The seconds from which no step is worth a look; the typical step is read once."""
        if steps != self._step:
            self._step, self._said = steps, False
            self._position = self._written = None
            self._worker, self._text = {}, ""
            tasks = self._tasks() or {}
            self._typical = number(main_task({"tasks": tasks}) or {}, "step_seconds.median") or 0.0
        return max(killed.IDLE_SECONDS, killed.IDLE_STEPS * self._typical)

    def _move(self, position: object) -> None:
        """Start the time anew if the main thread has moved, or nothing could."""
        at = _since_boot()
        away, self._looked = at - self._looked > AWAY_SECONDS * 1e9, at
        if away or position != self._position:
            self.fresh = self._position is None
            self._position, self._since, self._used = position, at, process_time_ns()

    def _hangs(self, stack: stacks.Stack, idle: Mapping[str, Any], still: float) -> bool:
        if min(still, idle["seconds"]) < max(
            killed.HANG_SECONDS, killed.HANG_STEPS * self._typical
        ):
            return False
        trains = self._step or self._ranked or "torch" in sys.modules
        if not (trains or stacks.importing(stack)):
            return False
        if "collective" in idle:  # A checkpoint may wait for other ranks.
            return True
        if stacks.long_work(stack) or idle["doing"] in LONG:
            return False
        used = (process_time_ns() - self._used) / 1e9
        return used < COMPUTES * still or _on_gpu()  # A wait for a GPU may use a processor.

    def _say(self, idle: Mapping[str, Any], directory: Path | None) -> None:
        if self._said:
            return
        self._said = self.fresh = True
        if "worker" in idle:
            self._look_at(idle["worker"])
        at = f"; stacks: {directory / STACKS_FILE}" if directory is not None else ""
        where = place_text(idle) or f"in {idle['doing']}"
        problem = Problem("hang", hang_text(idle), f"{where}{at}")
        self._report(problem)
        rank = re.fullmatch(r"rank(\d+)", directory.name) if directory is not None else None
        if directory is not None and rank is not None:
            from .pyspy import look_inside

            look_inside(each for each in directory.parent.glob("rank*") if each != directory)
            lower = (directory.parent / f"rank{each}" for each in range(int(rank[1])))
            if (int(rank[1]) or self._joins) and all(map(killed.is_mute, lower)):
                self._tell(f"rank {rank[1]}: {problem} [{problem.slug}]")

    def _look_at(self, worker: dict[str, Any]) -> None:
        """Add a worker's own place and stacks, if py-spy is installed."""
        from .pyspy import seen_in

        place, self._text = seen_in(worker["pid"])
        self._worker = {"pid": worker["pid"], **place}
        worker.update(place)
        self._written = None

    def _write(self, directory: Path | None) -> None:
        """Write the stacks of all threads, if the main thread's has changed."""
        if directory is None or self._written == self._position:
            return
        with suppress(OSError):
            stacks.write_stacks(directory, self._text and f"\nThe worker:\n{self._text}")
            self._written = self._position


def placed(stack: stacks.Stack, doing: object) -> dict[str, Any]:
    """The place of a stack, for ``idle``.

    Args:
        stack: The main thread's.
        doing: The ``doing`` of ``idle``.
    """
    found = stacks.place_of(stack, doing == k.KINDS[k.COMMUNICATION].doing)
    if not found:
        return {}
    error = stacks.handled(stack)
    if error is not None:
        found["handling"] = redact(said(error)[:MAX_SAID])
        if (raised := where(error)) is not None:
            found["raised"] = raised
    return {**found, "by": "voir"}


def _on_gpu() -> bool:
    with suppress(Exception):
        return bool(sys.modules["torch"].cuda.is_initialized())
    return False
