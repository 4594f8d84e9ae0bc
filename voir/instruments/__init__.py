"""Stock instruments, for voirfiles: ``from voir.instruments import dash, log, rate``."""

from instruments.argparse_options import instrument_argparse
from instruments.display import instrument_display
from instruments.early_stop import early_stop
from instruments.log import log

__all__ = ["early_stop", "instrument_argparse", "instrument_display", "log"]
