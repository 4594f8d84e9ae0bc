"""The recorder: callables at sites, and one log of events of 32 bytes.

``recorder`` is the C extension, or :mod:`.fallback` where that was not built or is forced by
``VOIR_RECORDER=python``; both have the same interface. :mod:`.sites` says what events stand for,
:mod:`.log` how they are read.
"""

from __future__ import annotations

from .choice import reason, recorder
from .sites import table

__all__ = ["reason", "recorder", "table"]
