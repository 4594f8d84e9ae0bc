"""The dashboard."""

from instruments.dash import dash

__all__ = ["dash"]
