"""Spans, instants and counters: recorded at little cost, written to files that survive."""

from .emit import Channel, Counter, Histogram, Series, channel, channels
from .reading import Trace, open_trace

__all__ = [
    "Channel",
    "Counter",
    "Histogram",
    "Series",
    "Trace",
    "channel",
    "channels",
    "open_trace",
]
