"""The engine: how a script is run, seen, measured and recorded."""

__version__ = "0.2.0"

# isort: off
from . import apart as apart  # Before all others: they import what may lie beside the script.
from . import clock as clock  # It notes when voir began.

# isort: on
from .boundary import OverseerAbort, StopProgram
from .engine.options import configurable, gated, parametrized
from .engine.overseer import Overseer, active, current_overseer, version
from .engine.phases import Phase, PhaseSequence, PhaseWithPriority, instrument_definition

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
