"""``--verify``: runs a script until there is evidence, and judges what voir can see of it."""

from .instrument import instrument_verify

__all__ = ["instrument_verify"]
