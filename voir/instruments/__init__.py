"""Stock instruments, for voirfiles: ``from voir.instruments import dash, log, rate``."""

# Imported from the sibling modules where these exist: a later import of such a module would replace
# the instrument of the same name.
from instruments.argparse_options import instrument_argparse
from instruments.log import instrument_display
from instruments.monitors.gpu import Gpu
from instruments.monitors.host import Cpu, Disk, Memory, Network
from instruments.monitors.process import ProcessTree as Process

from .dash import dash
from .log import log
from .manage import early_stop
from .metric import rate
from .monitor import gpu_monitor, monitor_all

__all__ = [
    "Cpu",
    "Disk",
    "Gpu",
    "Memory",
    "Network",
    "Process",
    "dash",
    "early_stop",
    "gpu_monitor",
    "instrument_argparse",
    "instrument_display",
    "log",
    "monitor_all",
    "rate",
]
