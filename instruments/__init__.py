"""The stock instruments: one file each, all of them listed here."""

from .app import instrument_app
from .dash import instrument_dash
from .early_stop import instrument_stop
from .hooks.instrument import instrument_auto
from .log import instrument_display
from .monitors.instrument import instrument_monitors
from .observe import instrument_observe
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
    instrument_observe,
    instrument_out_of_memory,
    instrument_rates,
    instrument_stop,
    instrument_tensorboard,
    instrument_trace,
    instrument_verify,
]
