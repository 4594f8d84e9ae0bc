"""Rates."""

from instruments.rate import rate

__all__ = ["rate"]
