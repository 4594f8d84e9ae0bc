"""Collectives: the calls of a process group, and what the script waits for them."""

from __future__ import annotations

from overseer.recorder import sites as k

from ..auto import Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The methods of a process group that communicate.
CALLS = (
    "allreduce allreduce_coalesced allgather _allgather_base "
    "allgather_into_tensor_coalesced reduce_scatter _reduce_scatter_base "
    "reduce_scatter_tensor_coalesced broadcast reduce gather scatter alltoall "
    "alltoall_base barrier send recv recv_anysource"
)


def place(places: Places, c10d: Any) -> None:
    """Record them; those that DDP makes within ``backward`` are part of that.

    Args:
        places: Where callables are placed.
        c10d: ``torch.distributed.distributed_c10d``.
    """
    for kind, names in (("ProcessGroup", CALLS.split()), ("Work", ["wait"])):
        owner = getattr(c10d, kind, None)  # Not there where PyTorch was built without.
        for name in names if owner is not None else ():
            places.around(owner, name, k.COMMUNICATION)
