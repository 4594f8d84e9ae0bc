"""Running programs, and reading what they print and log as one stream of entries."""

from overseer.proc import LogEntry, Multiplexer, run

__all__ = ["LogEntry", "Multiplexer", "run"]
