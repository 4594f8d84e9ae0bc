"""The recorder: callables at sites, which record events of 32 bytes.

``recorder`` is the C extension, or :mod:`.fallback` if that was not built or is forced by
``VOIR_RECORDER=python``; both have the same interface. :mod:`.sites` defines the kinds of events,
:mod:`.log` reads them.
"""

from __future__ import annotations

from .choice import reason, recorder
from .sites import table

__all__ = ["reason", "recorder", "table"]
