"""Notes which of how many different batches this rank sees: its place in data parallelism."""

from __future__ import annotations

from contextlib import suppress
from functools import wraps

from overseer.engine.overseer import active

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from overseer import Overseer

    from ..places import Places

#: Names of dimensions of a device mesh along which batches differ, and along which they do not.
DIFFERENT = frozenset(
    ("dp", "ddp", "data", "data_parallel", "batch", "replicate", "dp_replicate", "shard",
     "dp_shard", "fsdp")
)  # fmt: skip
SAME = frozenset(
    ("tp", "cp", "pp", "sp", "ep", "etp", "model", "tensor", "context", "sequence", "expert",
     "pipe", "pipeline", "stage")
)  # fmt: skip
#: What tells it, the most certain first.
BY = ("device mesh", "FSDP", "DDP", "pipeline")


class DataParallel:
    """Keeps what is most certain, for ``run.json``.

    Args:
        ov: The run.
        torch: The torch module.
    """

    def __init__(self, ov: Overseer, torch: Any) -> None:
        self._ov, self._torch = ov, torch
        self._worth: tuple[bool, int, int] | None = None

    def _world_size(self) -> int:
        return int(self._torch.distributed.get_world_size())

    def note(self, by: str, index: int, size: int) -> None:
        """This rank sees batch ``index`` of ``size`` different ones.

        A mesh without a dimension for data is the least certain. A voirfile's word stays.
        """
        worth = size > 1, -BY.index(by), size
        context = (active() or self._ov).context  # A forked process has a run of its own.
        if context.parallel is not None and context.parallel["by"] not in BY:
            return
        if self._world_size() > 1 and (self._worth is None or worth > self._worth):
            self._worth, context.parallel = worth, {"data": [index, size], "by": by}

    def module(self, module: Any, name: str, layer: Any) -> None:
        """The same by the group of a DDP or of an FSDP (1), which registers its ``layer``."""
        if name == "_fsdp_wrapped_module":
            across = getattr(module, "_inter_node_pg", None)
            self._groups("FSDP", *([across] if across is not None else []), module.process_group)
        elif isinstance(module, self._torch.nn.parallel.DistributedDataParallel):
            self._groups("DDP", module.process_group)

    def _groups(self, by: str, *groups: Any) -> None:
        index, size = 0, 1
        for group in groups:
            index, size = index * group.size() + group.rank(), size * group.size()
        self.note(by, index, size)

    def mesh(self, mesh: Any, place: Sequence[int] | None) -> None:
        """The same by the names of a mesh's dimensions, and this rank's place in it."""
        names = mesh.mesh_dim_names
        if not names or place is None:
            return
        index, size = 0, 1
        for name, at, n in zip(names, place, mesh.shape, strict=True):
            if name in DIFFERENT:
                index, size = index * n + at, size * n
        if DIFFERENT & {*names} or ({*names} <= SAME and mesh.size() == self._world_size()):
            self.note("device mesh", index, size)

    def pipeline(self, size: int) -> None:
        """The same by the group of a pipeline: all ranks in one pipeline see the same batch."""
        if size == self._world_size():
            self.note("pipeline", 0, 1)

    def sharded(self, info: Any) -> None:
        """The same by the mesh of ``fully_shard`` or ``replicate``."""
        index, size = 0, 1
        for dim in (info.replicate_mesh_dim, info.shard_mesh_dim):
            if dim is not None:
                n = info.mesh.size(dim)
                index, size = index * n + info.mesh.get_local_rank(dim), size * n
        self.note("FSDP", index, size)


def modules(places: Places, told: DataParallel, torch: Any) -> None:
    """Note the groups of DDP and FSDP (1)."""

    def registered(module: Any, name: str, layer: Any) -> None:
        if name in ("module", "_fsdp_wrapped_module"):
            with suppress(Exception):  # The script goes on, whatever these are.
                told.module(module, name, layer)

    register = torch.nn.modules.module.register_module_module_registration_hook
    places.keep(register(registered).remove)


def meshes(places: Places, told: DataParallel, device_mesh: Any) -> None:
    """Note device meshes.

    Args:
        places: Where callables are placed.
        told: Keeps what is known.
        device_mesh: ``torch.distributed.device_mesh``.
    """
    # Its constructor stays as it is: it raises errors, whose tracebacks would change.
    _after(places, device_mesh.DeviceMesh, "_compute_coordinate_on_dim", told.mesh)


def sharded(places: Places, told: DataParallel, common: Any) -> None:
    """Note the meshes of ``fully_shard``.

    Args:
        places: Where callables are placed.
        told: Keeps what is known.
        common: ``torch.distributed.fsdp._fully_shard._fsdp_common``.
    """
    _after(places, common.DataParallelMeshInfo, "__post_init__", lambda info, _: told.sharded(info))


def _after(places: Places, owner: Any, name: str, then: Callable[[Any, Any], object]) -> None:
    """Call ``then`` with the object and the result, after each call of a method."""
    inner = vars(owner).get(name)
    if inner is None:
        return

    @wraps(inner)
    def call(self: Any) -> Any:
        result = inner(self)
        with suppress(Exception):
            then(self, result)
        return result

    places.put(owner, name, call)
