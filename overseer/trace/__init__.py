"""Traces: channels for the script, the run's log, and the trace made from it."""

from .channels import Channel, Counter, Histogram, Series, channel, channels
from .finishing import finish
from .reading import Trace
from .timeline import open_trace

__all__ = [
    "Channel",
    "Counter",
    "Histogram",
    "Series",
    "Trace",
    "channel",
    "channels",
    "finish",
    "open_trace",
]
