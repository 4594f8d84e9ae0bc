"""Traces: channels for the script, the run's log, and the trace made from it."""

from .channels import Channel, Counter, Histogram, Series, channel, channels
from .reading import Trace, finish, open_trace

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
