"""The command line: the only room that prints or exits."""

from .main import main

__all__ = ["main"]
