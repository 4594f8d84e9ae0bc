"""Runs a script, module, directory, zip or function exactly as python would."""

from .ending import Ending, exit_status
from .locate import locate
from .program import Program
from .replacing import before_exec
from .signals import DeadlySignals, in_child
from .source import Instrument
from .stage import current_directory
from .target import CannotRun, Target

__all__ = [
    "CannotRun",
    "DeadlySignals",
    "Ending",
    "Instrument",
    "Program",
    "Target",
    "before_exec",
    "current_directory",
    "exit_status",
    "in_child",
    "locate",
]
