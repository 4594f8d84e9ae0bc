"""Stock instruments, for voirfiles: ``from voir.instruments import dash, log, rate``."""

from instruments.argparse_options import instrument_argparse
from instruments.cpu import Cpu
from instruments.dash import dash
from instruments.disk import Disk
from instruments.display import instrument_display
from instruments.early_stop import early_stop
from instruments.gpu import Gpu
from instruments.log import log
from instruments.memory import Memory
from instruments.network import Network
from instruments.process import Process
from instruments.rate import rate

__all__ = [
    "Cpu",
    "Disk",
    "Gpu",
    "Memory",
    "Network",
    "Process",
    "dash",
    "early_stop",
    "instrument_argparse",
    "instrument_display",
    "log",
    "rate",
]
