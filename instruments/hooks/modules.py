"""``Module.__call__``: every root module's call is a span."""

from __future__ import annotations

import sys

from overseer.recorder import recorder, table
from overseer.recorder import sites as k

from ..auto import Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAN = float("nan")


def place(places: Places, torch: Any) -> str:
    """Record calls of root modules; a counter for each thread tells the root.

    Modules within them are recorded while that is on: ``recorder.submodules``.

    Returns:
        Why it could not be done, or an empty string: Dynamo keeps ``Module.__call__`` as it is
        when it is imported, and ends ``fullgraph`` compilation where it is another.
    """
    if "torch._dynamo" in sys.modules:
        return "torch._dynamo was imported before voir could place its hooks"
    call, inner = vars(torch.nn.Module)["__call__"], table.add(k.MODULE, "Module.__call__")
    site = places.site(k.FORWARD, "Module.__call__")
    span = recorder.span(site, k.FORWARD, call, k.MODULE_CALL, 0, inner_site=inner)
    places.put(torch.nn.Module, "__call__", span)
    _watch_layers(places, torch)
    return ""


def _watch_layers(places: Places, torch: Any) -> None:
    """Tell once that a recurrent or attention layer takes time first: rows are no items."""
    site, told = table.add(k.TIME_FIRST, "batch_first=False"), False

    def registered(module: Any, name: str, layer: Any) -> None:
        nonlocal told
        if not told and getattr(layer, "batch_first", True) is False:
            told = True
            recorder.put(k.STRUCTURE, k.TIME_FIRST, site, recorder.now(), 0, NAN, 0, 0)

    register = torch.nn.modules.module.register_module_module_registration_hook
    places.keep(register(registered).remove)
