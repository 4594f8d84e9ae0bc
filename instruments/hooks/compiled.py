"""Compilation by Dynamo: each is a span, and inserted code stays out of it."""

from __future__ import annotations

import sys
from functools import partial

from overseer.probes.names import put
from overseer.recorder import sites as k

from ..auto import Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def place(places: Places, callback: Any) -> None:
    """Record compilations.

    Args:
        places: Where callables are placed.
        callback: ``torch._dynamo.callback``.
    """
    put("compiling", sys.modules["torch"].compiler.is_dynamo_compiling)
    handler, span = callback.callback_handler, places.half(k.COMPILE, "torch.compile")
    places.keep(partial(_remove, handler.start_callbacks, span.enter))
    places.keep(partial(_remove, handler.end_callbacks, span.leave))
    handler.register_start_callback(span.enter)
    handler.register_end_callback(span.leave)


def _remove(callbacks: list[Any], ours: object) -> None:
    if ours in callbacks:  # torch.compiler.reset() clears them.
        callbacks.remove(ours)
