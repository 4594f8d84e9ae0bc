"""Ways to make instruments configurable."""

from overseer.tools import configurable, gated, instrument_definition, parametrized

__all__ = ["configurable", "gated", "instrument_definition", "parametrized"]
