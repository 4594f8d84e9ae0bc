"""Runs a script, and probes, measures and records it."""

# isort: off
from . import apart as apart  # Before all others: they import what may lie beside the script.
from . import clock as clock  # It notes when voir began.

# isort: on
from .boundary import OverseerAbort, StopProgram
from .context import VERSION
from .engine.options import configurable, gated, parametrized
from .engine.overseer import Overseer, active, current_overseer
from .engine.phases import Phase, PhaseSequence, PhaseWithPriority, instrument_definition

version = __version__ = VERSION

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
