"""The stock instruments: one file each, all of them listed here."""

from .app import instrument_app
from .auto import instrument_auto
from .dash import instrument_dash
from .display import instrument_display
from .early_stop import instrument_stop
from .monitors import instrument_monitors
from .out_of_memory import instrument_out_of_memory
from .rate import instrument_rates
from .tensorboard import instrument_tensorboard
from .trace import instrument_trace
from .verify import instrument_verify

__instruments__ = [
    instrument_app,
    instrument_auto,
    instrument_dash,
    instrument_display,
    instrument_monitors,
    instrument_out_of_memory,
    instrument_rates,
    instrument_stop,
    instrument_tensorboard,
    instrument_trace,
    instrument_verify,
]
