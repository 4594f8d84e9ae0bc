"""The version of what is installed."""

from overseer import version

__all__ = ["version"]
