"""Ending a run early."""

from instruments.early_stop import early_stop

__all__ = ["early_stop"]
