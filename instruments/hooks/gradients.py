"""Gradients: ``backward``, the scaler of mixed precision, and saving, which pauses a training."""

from __future__ import annotations

from overseer.recorder import sites as k

from ..auto import Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def place(places: Places, torch: Any) -> None:
    """Record them."""
    places.around(torch.autograd, "backward", k.BACKWARD, k.NUMBER, 0)
    places.around(torch.autograd, "grad", k.GRADIENTS)
    places.around(torch.amp.GradScaler, "scale", k.SCALE, k.NUMBER, 1)
    places.around(torch.amp.GradScaler, "step", k.SCALER)
    places.around(torch.serialization, "save", k.SAVE)
    places.put(torch, "save", torch.serialization.save)  # It is pickled by the other name.
