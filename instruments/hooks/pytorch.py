"""Hooks for PyTorch: models, gradients, optimizers, loaders, compilation."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial, wraps

from overseer.recorder import recorder, table
from overseer.recorder import sites as k

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..places import Places

NAN = float("nan")


def models(places: Places, torch: Any) -> str:
    """Record calls of root modules, found by a call depth per thread.

    Submodules are recorded too while ``recorder.submodules`` is on.

    Returns:
        The reason why the hook could not be placed, or an empty string. Dynamo stores
        ``Module.__call__`` at its import; a later replacement would break ``fullgraph``.
    """
    if "torch._dynamo" in sys.modules:
        return "torch._dynamo was imported before voir could place its hooks"
    call, inner = vars(torch.nn.Module)["__call__"], table.add(k.MODULE, "Module.__call__")
    site = table.add(k.FORWARD, "Module.__call__")
    span = recorder.span(site, k.FORWARD, call, k.MODULE_CALL, 0, inner_site=inner)
    places.put(torch.nn.Module, "__call__", span)
    _watch_layers(places, torch)
    return ""


def _watch_layers(places: Places, torch: Any) -> None:
    """Record the first recurrent or attention layer with time first: dimension 0 is not items."""
    site, told = table.add(k.TIME_FIRST, "batch_first=False"), False

    def registered(module: Any, name: str, layer: Any) -> None:
        nonlocal told
        if not told and getattr(layer, "batch_first", True) is False:
            told = True
            recorder.put(k.STRUCTURE, k.TIME_FIRST, site, recorder.now(), 0, NAN, 0, 0)

    register = torch.nn.modules.module.register_module_module_registration_hook
    places.keep(register(registered).remove)


def gradients(places: Places, torch: Any) -> None:
    """Record ``backward``, the gradient scaler, and ``torch.save``, which counts as a pause."""
    places.around(torch.autograd, "backward", k.BACKWARD, k.NUMBER, 0)
    places.around(torch.autograd, "grad", k.GRADIENTS)
    places.around(torch.amp.GradScaler, "scale", k.SCALE, k.NUMBER, 1)
    places.around(torch.amp.GradScaler, "step", k.SCALER)
    places.around(torch.serialization, "save", k.SAVE)
    places.put(torch, "save", torch.serialization.save)  # Pickle looks it up by this name.
    for placed in (torch.autograd.backward, torch.autograd.grad, torch.save):
        scripted(placed)


def scripted(placed: Any) -> None:
    """Register a span as TorchScript's builtin, which it looks up by identity."""
    builtins = sys.modules.get("torch.jit._builtins")
    name = builtins and builtins._find_builtin(getattr(placed, "__wrapped__", None))
    if name:
        builtins._register_builtin(placed, name)  # type: ignore[union-attr]


def optimizers(places: Places, optimizer: Any) -> None:
    """Record the steps and the construction of every optimizer.

    Args:
        places: Where callables are placed.
        optimizer: ``torch.optim.optimizer``.
    """
    step, kind = places.half(k.OPTIMIZER, "Optimizer.step"), optimizer.Optimizer
    places.keep(optimizer.register_optimizer_step_pre_hook(step.enter).remove)
    places.keep(optimizer.register_optimizer_step_post_hook(step.leave).remove)
    places.around(kind, "__init__", k.MADE, k.NOTHING, 0)
    site = table.add(k.ZERO_GRAD, "Optimizer.zero_grad")
    zeroed = recorder.span(site, k.ZERO_GRAD, kind.zero_grad)
    places.put(kind, "zero_grad", recorder.method(zeroed))


def parameters(places: Places, optimizer: Any, summary: dict[str, Any]) -> None:
    """Count the elements of all parameters that optimizers are given, in ``run.json``.

    Args:
        places: Where callables are placed.
        optimizer: ``torch.optim.optimizer``.
        summary: Receives ``parameters``.
    """
    kind = optimizer.Optimizer
    add = kind.add_param_group

    @wraps(add)
    def add_param_group(self: Any, *args: Any, **kwargs: Any) -> None:
        add(self, *args, **kwargs)
        with suppress(Exception):  # Lazy ones have no size yet.
            made = sum(each.numel() for each in self.param_groups[-1]["params"])
            summary["parameters"] = summary.get("parameters", 0) + made

    places.put(kind, "add_param_group", add_param_group)


def loaders(places: Places, dataloader: Any) -> None:
    """Record each wait for a batch, and each new iterator.

    Args:
        places: Where callables are placed.
        dataloader: ``torch.utils.data.dataloader``.
    """
    places.around(dataloader._BaseDataLoaderIter, "__next__", k.LOADING, k.RESULT, 0)
    places.around(dataloader.DataLoader, "__iter__", k.ITERATE, k.IDENTITY, 0)


def compilations(places: Places, callback: Any) -> None:
    """Record compilations by Dynamo.

    Args:
        places: Where callables are placed.
        callback: ``torch._dynamo.callback``.
    """
    handler, span = callback.callback_handler, places.half(k.COMPILE, "torch.compile")
    handler.register_start_callback(span.enter)
    handler.register_end_callback(span.leave)

    places.keep(partial(_remove, handler.start_callbacks, span.enter))
    places.keep(partial(_remove, handler.end_callbacks, span.leave))


def graphs(places: Places, dynamo: Any) -> None:
    """Keep the hooks and inserted code out of Dynamo's graphs.

    Args:
        places: Where callables are placed.
        dynamo: ``torch._dynamo``.
    """
    from overseer.probes.dynamo import prepare, record_after_graph

    prepare(dynamo)
    for site in places.halves:
        record_after_graph(site)


def _remove(callbacks: list[Any], ours: object) -> None:
    if ours in callbacks:  # torch.compiler.reset() clears them.
        callbacks.remove(ours)
