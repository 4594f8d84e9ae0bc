"""Numbers of a record, those that JSON cannot hold included."""

from __future__ import annotations


def as_number(value: object) -> float | None:
    """A number of a record, ``"NaN"`` and the infinities included; ``None`` for anything else."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else None
