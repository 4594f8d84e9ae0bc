"""Phases and priorities: what instruments wait for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from ..boundary import SWITCHED_OFF
from ..errors import VoirError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Phase:
    """One stage of a run; ``value`` or ``exception`` tell how it ended.

    Attributes:
        name: For example ``run_script``.
        status: ``pending``, ``running`` (its instruments are being resumed) or ``done``.
        value: What the phase produced; for ``run_script`` the script's value.
        exception: What ended it, or ``None``.
    """

    def __init__(self, name: str, status: str = "pending") -> None:
        self.name = name
        self.status = status
        self.value: object = None
        self.exception: BaseException | None = None

    def __call__(self, priority: float = 0) -> PhaseWithPriority:
        """Wait for this phase with a priority: higher is resumed first.

        Raises:
            TypeError: The priority is not a number.
        """
        if not isinstance(priority, (int, float)) or math.isnan(priority):
            raise TypeError(f"the priority of {self.name} must be a number, not {priority!r}")
        return PhaseWithPriority(self, priority)

    def __repr__(self) -> str:
        return f"<phase {self.name}: {self.status}>"

    @property
    def pending(self) -> bool:
        """Whether the phase has not ended yet."""
        return self.status == "pending"

    @property
    def running(self) -> bool:
        """Whether the instruments that wait for the phase are being resumed."""
        return self.status == "running"

    @property
    def done(self) -> bool:
        """Whether the phase has ended and everybody who waited has been resumed."""
        return self.status == "done"


class PhaseWithPriority:
    """A phase to wait for, and how early among those who wait to be resumed."""

    def __init__(self, phase: Phase, priority: float) -> None:
        self.phase = phase
        self.priority = priority

    def __repr__(self) -> str:
        return f"{self.phase!r}(priority={self.priority})"


class PhaseSequence:
    """The phases of a run in order, each also an attribute; ``IMMEDIATE`` never waits.

    Args:
        names: Phases to make.
        phases: Phases that are there already, by name; they come after those.
    """

    def __init__(self, names: Iterable[str] = (), **phases: Phase) -> None:
        self._boot = Phase("_boot", status="done")
        self.IMMEDIATE = self._boot(0)
        self._sequence = [*map(Phase, names), *phases.values()]
        self.__dict__.update({phase.name: phase for phase in self._sequence})

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(phase.name for phase in vars(self).get("_sequence", ()))
        raise AttributeError(f"there is no phase {name!r}; the phases are {known}")

    def __iter__(self) -> Iterator[Phase]:
        return iter(self._sequence)


class NotAPhase(VoirError):
    """An instrument yielded something that it cannot wait for.

    Attributes:
        place: ``file:line`` of the ``yield``.
    """

    def __init__(self, wanted: object, place: str | None, phases: PhaseSequence) -> None:
        foreign = isinstance(wanted, (Phase, PhaseWithPriority))
        fault = "a phase of another overseer" if foreign else "not a phase"
        names = ", ".join(f"ov.phases.{phase.name}" for phase in phases)
        super().__init__(
            "not-a-phase",
            f"it yielded {wanted!r:.80}, which is {fault}",
            f"Yield one of {names}. {SWITCHED_OFF}",
        )
        self.place = place
