"""The engine: how a script is run, seen, measured and recorded."""

from . import began as began
from .boundary import OverseerAbort, StopProgram
from .overseer import Overseer, active, current_overseer
from .phases import Phase, PhaseSequence, PhaseWithPriority
from .tools import configurable, gated, instrument_definition, parametrized
from .version import version

__all__ = [
    "Overseer",
    "OverseerAbort",
    "Phase",
    "PhaseSequence",
    "PhaseWithPriority",
    "StopProgram",
    "active",
    "configurable",
    "current_overseer",
    "gated",
    "instrument_definition",
    "parametrized",
    "version",
]
