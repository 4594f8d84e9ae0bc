"""Probes: from a selector to events.

``Engine`` places probes in code that runs now or later; a ``PlacedProbe`` delivers its events to
plain callables (``listen``) or lets one replace the value (``intercept``, which returns
``ABSENT`` to leave it alone).
"""

from __future__ import annotations

from .engine import Engine
from .placed import ABSENT, Listening, PlacedProbe

__all__ = ["ABSENT", "Engine", "Listening", "PlacedProbe"]
