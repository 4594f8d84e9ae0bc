"""Ways to make instruments configurable."""

from overseer.engine.tools import configurable, gated, instrument_definition, parametrized

__all__ = ["configurable", "gated", "instrument_definition", "parametrized"]
