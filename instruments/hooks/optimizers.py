"""Optimizers: each step is a span, and so is the making of one."""

from __future__ import annotations

from overseer.recorder import recorder
from overseer.recorder import sites as k

from ..auto import Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def place(places: Places, optimizer: Any) -> None:
    """Record every optimizer, by torch's global hooks.

    Args:
        places: Where callables are placed.
        optimizer: ``torch.optim.optimizer``.
    """
    step = places.half(k.OPTIMIZER, "Optimizer.step")
    places.keep(optimizer.register_optimizer_step_pre_hook(step.enter).remove)
    places.keep(optimizer.register_optimizer_step_post_hook(step.leave).remove)
    kind = optimizer.Optimizer
    places.around(kind, "__init__", k.MADE, k.NOTHING, 0)
    zeroed = recorder.span(
        places.site(k.ZERO_GRAD, "Optimizer.zero_grad"), k.ZERO_GRAD, kind.zero_grad
    )
    places.put(kind, "zero_grad", recorder.method(zeroed))
