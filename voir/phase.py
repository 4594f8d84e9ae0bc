"""Phases, and runners of phases of one's own."""

from overseer.boundary import OverseerAbort, StopProgram
from overseer.engine.phases import Phase, PhaseSequence, PhaseWithPriority
from overseer.engine.runner import GivenRunner as GivenOverseer
from overseer.engine.runner import PhaseRunner as BaseOverseer

__all__ = [
    "BaseOverseer",
    "GivenOverseer",
    "OverseerAbort",
    "Phase",
    "PhaseSequence",
    "PhaseWithPriority",
    "StopProgram",
]
