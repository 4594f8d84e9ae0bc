"""Hides data in a stream of text; :mod:`voir.proc` separates them."""

from overseer.rundir.smuggle import (
    SmuggleWriter,
    decode_escape_sequence,
    encode_as_escape_sequence,
)

__all__ = ["SmuggleWriter", "decode_escape_sequence", "encode_as_escape_sequence"]
