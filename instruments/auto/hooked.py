"""What hooks cost that torch calls: some are timed where they happen, and stand for the rest."""

from __future__ import annotations

from overseer import Overseer

#: One in so many is timed: of those around a module's forward, or of an optimizer's in steps that
#: are watched in full; and in steps that are only counted.
FULL, LIGHT = 8, 16


class Hooked:
    """Times hooks that are due.

    Args:
        ov: The run, whose own cost they are.

    Attributes:
        on: The optimizer's are timed in this step.
        times: For as many of the like each of these stands.
        passes: How many forward passes there have been.
        now: Reads the clock that hooks are timed by.
    """

    __slots__ = ("now", "on", "passes", "times")

    def __init__(self, ov: Overseer) -> None:
        self.now = ov.clock.cpu_ns
        self.on, self.times, self.passes = True, 1, 0

    def begins(self) -> tuple[int, int]:
        """A hook begins: the time, and how many events there have been."""
        return self.now(), 0

    def ends(self, begun: tuple[int, int], times: int | None = None) -> None:
        """It has ended; the events that it gave are counted with it, and not once more.

        Args:
            begun: What :meth:`begins` returned.
            times: For how many it stands; as many as an optimizer's, if not given.
        """

    def stepped(self, steps: int) -> None:
        """A step has ended that was watched in full: the first few are timed each."""
        few = steps < FULL
        self.on, self.times = few or not steps % FULL, 1 if few else FULL

    @property
    def pass_times(self) -> int:
        """For how many the hooks of this forward pass stand; 0: they are not timed."""
        passes = self.passes
        return FULL if passes % FULL == 0 else passes == 1
