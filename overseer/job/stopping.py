"""Ranks of a job agree on the step at which all of them stop, through files of the job's directory.

No rank waits for another one:

1. The rank that wants to stop creates ``stop.json`` with a step some seconds ahead.
2. Every rank looks for it once a second. When it next completes a step, and is still before that
   one, it sets an alarm for it and creates ``stop-<step>-rank<R>``.
3. The first rank to reach the step decides for all, with a symbolic link ``stop-<step>``: to
   ``go`` if all ranks that have not ended have created theirs, otherwise to a later step, with
   which this begins again. Each rank that reaches the step does as the link says.
"""

from __future__ import annotations

import math
import os
from contextlib import suppress

from ..files import new, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Protocol

    from ..model.fold import Fold
    from ..rundir.recording import Recording

    class CountedSteps(Protocol):
        """The steps of this process: the part of ``ov.measuring`` that this module uses."""

        @property
        def fold(self) -> Fold | None:
            """Counts the steps."""

        def stop_at(
            self, n: int, task: str | None, reached: Callable[[], object], once: bool = ...
        ) -> None:
            """Call ``reached`` on the script's thread at step ``n``."""

        def stepped(self) -> tuple[float, float] | None:
            """When the first step ended, and the last one, in seconds."""


#: The content of a decision to stop.
GO = "go"
#: How far ahead the step is: a number of steps, and a number of seconds at the rank's mean rate.
AHEAD_STEPS, AHEAD_SECONDS = 3, 2.5


class Agreement:
    """Stops this rank together with all others.

    Args:
        recording: Returns the record, if there is one.
        measuring: Returns the run's steps.
        stop: Ends the script on the thread that has reached the step, given the reason; raises.
    """

    def __init__(
        self,
        recording: Callable[[], Recording | None],
        measuring: Callable[[], CountedSteps],
        stop: Callable[[str], object],
    ) -> None:
        self._recording, self._measuring, self._stop = recording, measuring, stop
        self._seen, self._reason, self._asked = 0, "", False

    def ask(self, reason: str) -> bool:
        """Ask all ranks to stop at a later step.

        Returns:
            False if they cannot be asked: some have no record here, or this one has no steps.
        """
        place, steps = self._place(), self._steps()
        if self._asked:
            return True
        if place is None or not steps or None in members_in(place[0], place[2]):
            return False
        from ..recorder.encode import encode
        from ..rundir.job import publish

        asked = {"step": steps + self._ahead(steps), "reason": reason, "by": place[1]}
        try:
            publish(place[0] / "stop.json", encode(asked))
        except OSError:
            return False
        self._asked = True
        self.poll()
        return True

    def poll(self) -> None:
        """Look whether a rank has asked to stop; called on a timer's thread."""
        place = self._place()
        if place is None or not os.path.exists(place[0] / "stop.json"):
            return
        step, self._reason = pending(place[0])
        if step > self._seen:
            self._seen = step
            self._measuring().stop_at(0, None, lambda: self._acknowledge(step), once=True)

    def _acknowledge(self, step: int) -> None:
        """Set the alarm for ``step``; called on the script's thread at the next step."""
        place = self._place()
        if place is None or self._steps() >= step:
            return
        self._measuring().stop_at(step, None, lambda: self._reached(step), once=True)
        with suppress(OSError):
            os.close(new(place[0] / f"stop-{step}-rank{place[1]}"))

    def _reached(self, step: int) -> None:
        """Stop, or go on, as all other ranks do."""
        place = self._place()
        if place is None:
            return
        later = step + 2 * self._ahead(step)
        if decided(place[0], place[2], step, later) == GO:
            self._stop(self._reason)

    def _place(self) -> tuple[Path, int, int] | None:
        """The directory that the ranks share, this rank, and the number of ranks."""
        recording = self._recording()
        rank = recording.directory.rank if recording is not None else None
        if recording is None or rank is None or not rank.world_size or not recording.made:
            return None
        own = recording.directory.path
        if own is None:
            return None
        return own.parent if own.name == f"rank{rank.rank}" else own, rank.rank, rank.world_size

    def _steps(self) -> int:
        fold = self._measuring().fold
        return fold.steps() if fold is not None else 0

    def _ahead(self, steps: int) -> int:
        """So many steps that all ranks will have seen the request by then."""
        first, last = self._measuring().stepped() or (0.0, 0.0)
        rate = (steps - 1) / (last - first) if last > first else 0.0
        return AHEAD_STEPS + math.ceil(AHEAD_SECONDS * rate)


def pending(directory: Path) -> tuple[int, str]:
    """The step at which the ranks may stop next, and why; 0 if there is none."""
    try:
        asked = read_json(directory / "stop.json")
        step, reason = int(asked["step"]), str(asked["reason"])
        while decision := _decision(directory, step):
            if decision == GO:
                return 0, reason
            step = max(int(decision), step + 1)
    except (OSError, ValueError, TypeError, LookupError):
        return 0, ""
    return step, reason


def _decision(directory: Path, step: int) -> str:
    """What the ranks do at a step; empty if none has decided."""
    try:
        return os.readlink(directory / f"stop-{step}")
    except OSError:
        return ""


def decided(directory: Path, size: int, step: int, later: int) -> str:
    """Decide for all ranks whether they stop at ``step``, unless another rank has.

    Args:
        directory: The directory that the ranks share.
        size: The number of ranks.
        step: The step that this rank has reached.
        later: The step to try next.

    Returns:
        ``go``, or the next step; empty if it cannot be decided.
    """
    from ..rundir.killed import has_ended

    ready = all(
        os.path.exists(directory / f"stop-{step}-rank{rank}")
        or (member is not None and has_ended(member))
        for rank, member in enumerate(members_in(directory, size))
    )
    with suppress(OSError):  # Another rank was first.
        os.symlink(GO if ready else str(later), directory / f"stop-{step}")
    return _decision(directory, step)


def members_in(directory: Path, size: int) -> list[Path | None]:
    """The directories of all ranks; None for one without a record here."""
    found = [directory / f"rank{rank}" for rank in range(size)]
    # The process that started the others may be a rank itself.
    starter = directory if os.path.exists(directory / "run.json") else None
    return [each if each.is_dir() else starter for each in found]
