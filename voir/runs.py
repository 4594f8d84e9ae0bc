"""Runs read back in Python: ``from voir.runs import read_run``."""

from overseer.model.comparability import ComparedSide
from overseer.model.comparison import compare
from overseer.rundir.finishing import finish_run
from overseer.rundir.reading import Metrics, Run, read_run
from overseer.rundir.tables import open_database
from overseer.trace.reading import Trace
from overseer.trace.timeline import open_trace

__all__ = [
    "ComparedSide",
    "Metrics",
    "Run",
    "Trace",
    "compare",
    "finish_run",
    "open_database",
    "open_trace",
    "read_run",
]  # fmt: skip
