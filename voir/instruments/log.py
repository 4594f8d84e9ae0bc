"""Sending given values out of the process."""

from instruments.log import log

__all__ = ["log"]
