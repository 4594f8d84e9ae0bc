"""For scripts: give, log and iterate; and the overseer of the run, if there is one."""

from overseer.engine.overseer import current_overseer
from overseer.engine.script import give, iterate, log

__all__ = ["current_overseer", "give", "iterate", "log"]
