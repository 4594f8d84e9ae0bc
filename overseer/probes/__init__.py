"""Probes: from a selector to events.

``Engine`` places probes in code that runs now or later. A ``PlacedProbe`` has sites, which record
events, and hands events to plain callables (``listen``), or lets one replace the value
(``intercept``, which returns ``ABSENT`` to leave it alone).

:mod:`.selector` parses selectors, :mod:`.unit` compiles source with calls inserted
(:mod:`.insert`), and :mod:`.functions` replaces the code of live functions.
"""

from __future__ import annotations

from .engine import Engine
from .probe import ABSENT, Listening, PlacedProbe

__all__ = ["ABSENT", "Engine", "Listening", "PlacedProbe"]
