"""Traces from within a script: ``from voir import trace``; free of cost when none is written."""

from overseer.trace import Channel, Counter, Histogram, Series, Trace, channel, channels, open_trace

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
