"""Runs a script, module, directory, zip file or function exactly as Python would."""

from .ending import Ending, before_exec, exit_status
from .program import (
    CannotRun,
    Program,
    Target,
    current_directory,
    end_script_limit,
    is_launcher,
)
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
    "end_script_limit",
    "exit_status",
    "in_child",
    "is_launcher",
    "locate",
]
