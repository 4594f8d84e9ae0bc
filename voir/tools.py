"""Ways to make instruments configurable."""

from overseer import configurable, gated, instrument_definition, parametrized

__all__ = ["configurable", "gated", "instrument_definition", "parametrized"]
