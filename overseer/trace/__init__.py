"""Traces: channels that a script records with, the log of a run, and the file made from it."""

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
