"""Traces from within a script: ``from voir import trace``; a no-op unless one is written."""

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
