"""Hooks for torch.distributed: the time in which a thread waits for other ranks."""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from weakref import WeakKeyDictionary

from overseer.engine.overseer import active
from overseer.recorder import recorder, table
from overseer.recorder import sites as k

from .pytorch import scripted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..places import Places

#: The communicating methods of a process group: collectives, which all ranks call in one order; and
#: calls that may differ.
COLLECTIVES = (
    "allreduce allreduce_coalesced allgather allgather_coalesced _allgather_base "
    "all_gather_single all_gather_single_coalesced allgather_into_tensor_coalesced "
    "reduce_scatter _reduce_scatter_base reduce_scatter_single reduce_scatter_single_coalesced "
    "reduce_scatter_tensor_coalesced broadcast reduce gather scatter alltoall alltoall_base "
    "all_to_all_single barrier monitored_barrier"
)
MESSAGES = "send recv recv_anysource _end_coalescing"
#: Functional collectives, whose last argument is the group.
FUNCTIONAL = (
    "all_reduce all_reduce_ all_reduce_coalesced all_gather_into_tensor "
    "all_gather_into_tensor_coalesced reduce_scatter_tensor reduce_scatter_tensor_coalesced "
    "all_to_all_single broadcast broadcast_"
)


def collectives(places: Places, c10d: Any) -> None:
    """Record a process group's collectives and the waits for them.

    Args:
        places: Where callables are placed.
        c10d: ``torch.distributed.distributed_c10d``.
    """
    if not hasattr(c10d, "ProcessGroup"):
        return  # Built without distributed.
    for names, read in ((COLLECTIVES, k.COLLECTIVE), (MESSAGES, k.MESSAGE)):
        for name in names.split():
            places.around(c10d.ProcessGroup, name, k.COMMUNICATION, read, 0)
    places.around(c10d.Work, "wait", k.COMMUNICATION)
    number_groups()
    places.keep(partial(recorder.groups, None))
    whole = sys.modules.get("torch.distributed")
    if hasattr(whole, "_broadcast_coalesced"):  # DDP's buffers, in forward.
        places.around(whole, "_broadcast_coalesced", k.COMMUNICATION)


def number_groups() -> None:
    """Number the collectives of each group from 1, with sites of their own; of a new recorder."""
    recorder.groups(_site_of)


def _site_of(site: int, group: str) -> int:
    """The site of a kind of collectives or messages, for one process group."""
    if table.rows[site]["label"].rpartition(".")[2] in MESSAGES.split():
        with suppress(Exception):  # Then no pipeline is found.
            _read_messages()
    return table.add(k.COMMUNICATION, table.rows[site]["label"], group=group)


def _read_messages() -> None:
    """Look for a pipeline in the messages of this process, unless its stages are told."""
    from overseer.model.messages import Messages

    run = active()
    if run is not None and "pipeline" not in run.context.live:
        messages = Messages(table.rows)
        run.context.live["pipeline"] = messages.section
        run.measuring.read(messages.read)


def reducers(places: Places, torch: Any) -> None:
    """Record what ``backward`` waits for at its end, in a script with DDP.

    The first and the last parameter of a DDP get a hook in the autograd graph: at least one of them
    has a gradient in nearly every backward.

    Args:
        places: Where callables are placed.
        torch: The torch module.
    """
    kind, edge = torch.nn.parallel.DistributedDataParallel, torch.autograd.graph.get_gradient_edge
    nodes: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()  # As DDP's reducer keeps them.

    def registered(module: Any, name: str, layer: Any) -> None:
        if not isinstance(module, kind) or getattr(module, "_use_python_reducer", False):
            return  # That one is part of the graph of compiled autograd.
        if not nodes:
            site = table.add(k.COMMUNICATION, "DDP")
            recorder.reducer(site, torch.autograd.Variable._execution_engine.queue_callback)
        with suppress(Exception):  # DDP reports parameters that are not initialized.
            learned = [one for one in layer.parameters() if one.requires_grad]
            nodes[module] = [edge(one).node for one in {*learned[:1], *learned[-1:]}]
            for node in nodes[module]:
                places.keep(node.register_prehook(recorder.gradient).remove)

    register = torch.nn.modules.module.register_module_module_registration_hook
    places.keep(register(registered).remove)
    places.keep(partial(recorder.reducer, 0, None))


def functional(places: Places, collectives: Any) -> None:
    """Record functional collectives and the waits for them; DTensor and compiled graphs call them.

    Dynamo knows the operators by identity, so what they call is replaced.

    Args:
        places: Where callables are placed.
        collectives: ``torch.distributed._functional_collectives``.
    """
    operators = collectives.torch.ops._c10d_functional
    for name in ("wait_tensor", *FUNCTIONAL.split()):
        packet: Any = getattr(operators, name, None)
        site = table.add(k.COMMUNICATION, name)
        read = k.NOTHING if name == "wait_tensor" else k.COLLECTIVE
        overloads: tuple[Any, ...] = (packet, getattr(packet, "default", None))
        for one in overloads:
            if hasattr(one, "_op"):
                places.put(one, "_op", recorder.span(site, k.COMMUNICATION, one._op, read))
                scripted(one._op)
