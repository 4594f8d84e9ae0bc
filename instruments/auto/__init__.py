"""Automatic instrumentation: what a plain PyTorch script does, without probes or edits."""

from .phases import PhaseListener, Phases, phases_of

__all__ = ["PhaseListener", "Phases", "phases_of"]
