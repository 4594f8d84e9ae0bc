"""The import name that voirfiles and scripts use: re-exports, nothing else."""

from overseer import configurable, gated, instrument_definition, parametrized
from overseer.boundary import OverseerAbort, StopProgram
from overseer.context import VERSION as __version__
from overseer.engine.overseer import Overseer
from overseer.engine.script import app, give, iterate, log, profile

from .pages import report

__all__ = [
    "Overseer",
    "OverseerAbort",
    "StopProgram",
    "__version__",
    "app",
    "configurable",
    "gated",
    "give",
    "instrument_definition",
    "iterate",
    "log",
    "parametrized",
    "profile",
    "report",
]
