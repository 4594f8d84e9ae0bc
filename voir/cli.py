"""The command."""

from overseer.cli import main

__all__ = ["main"]
