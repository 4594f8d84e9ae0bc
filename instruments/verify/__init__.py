"""``--verify``: runs a script until there is evidence, and checks what voir sees of it."""

from .instrument import instrument_verify

__all__ = ["instrument_verify"]
