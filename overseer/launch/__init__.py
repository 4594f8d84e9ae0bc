"""Runs a script, module, directory, zip or function exactly as python would."""

from .ending import Ending, before_exec, exit_status
from .locate import locate
from .program import CannotRun, Program, Target
from .signals import DeadlySignals, in_child
from .source import Instrument
from .stage import current_directory

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
