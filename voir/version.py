"""The version of what is installed."""

from overseer.version import version

__all__ = ["version"]
