"""The import name that voirfiles and scripts use: re-exports, nothing else."""

from overseer.boundary import OverseerAbort, StopProgram
from overseer.engine.overseer import Overseer
from overseer.engine.profiling import profile
from overseer.engine.script import app, give, iterate, log
from overseer.engine.tools import configurable, gated, instrument_definition, parametrized
from overseer.version import version as __version__

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
]
