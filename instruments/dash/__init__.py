"""The live dashboard: ``dash``, and ``instrument_dash`` that offers it as ``--dash``."""

from instruments.dash.instrument import dash, instrument_dash

__all__ = ["dash", "instrument_dash"]
