"""Running programs as processes, and reading what they print and log as one stream of events."""

from .entry import LogEntry
from .multiplexer import Multiplexer, run
from .source import Source

__all__ = ["LogEntry", "Multiplexer", "Source", "run"]
