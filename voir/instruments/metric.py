"""Rates."""

from __future__ import annotations

from typing import Any

from instruments.rate import rate

__all__ = ["default_batch_size_calc", "rate"]


def default_batch_size_calc(batch: Any) -> int:
    """The number of items in a batch; of several things together, that of the first."""
    return len(batch[0] if isinstance(batch, (list, tuple)) else batch)
