"""Runs a script, module, directory, zip or function exactly as python would."""

from .ending import Ending, before_exec, exit_status
from .program import CannotRun, Program, Target, current_directory, lift
from .script import locate
from .signals import DeadlySignals, in_child

__all__ = [
    "CannotRun",
    "DeadlySignals",
    "Ending",
    "Program",
    "Target",
    "before_exec",
    "current_directory",
    "exit_status",
    "in_child",
    "lift",
    "locate",
]
