"""Automatic instrumentation: what a plain PyTorch script does, without probes or edits."""

from .instrument import instrument_auto
from .phases import PhaseListener, Phases, phases_of

__all__ = ["PhaseListener", "Phases", "instrument_auto", "phases_of"]
