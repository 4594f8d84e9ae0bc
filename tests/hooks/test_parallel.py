"""Which of how many different batches a rank sees, as groups and meshes tell it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

import torch
import torch.distributed as dist
from torch.distributed import device_mesh
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from instruments.hooks import parallel
from instruments.places import Places

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="built without distributed")


@pytest.fixture
def told() -> Iterator[Any]:
    """The context of a run that is rank 5 of 8, with hooks."""
    from torch.distributed.fsdp._fully_shard import _fsdp_common
    from torch.testing._internal.distributed.fake_pg import FakeStore

    places, context = Places(), SimpleNamespace(parallel=None)
    keeps: Any = parallel.DataParallel(SimpleNamespace(context=context), torch)  # type: ignore[arg-type]
    dist.init_process_group("fake", store=FakeStore(), rank=5, world_size=8)
    parallel.modules(places, keeps, torch)
    parallel.meshes(places, keeps, device_mesh)
    parallel.sharded(places, keeps, _fsdp_common)
    yield context
    places.remove()
    dist.destroy_process_group()


def mesh(*dims: tuple[str, int]) -> Any:
    names, shape = zip(*dims, strict=True)
    return init_device_mesh("cpu", shape, mesh_dim_names=names)


def ddp(of: Any = None) -> Any:
    return DistributedDataParallel(torch.nn.Linear(2, 2), device_mesh=of)


def of_half() -> Any:
    halves = [dist.new_group(range(4)), dist.new_group(range(4, 8))]
    return DistributedDataParallel(torch.nn.Linear(2, 2), process_group=halves[1])


def fsdp(of: Any = None) -> Any:
    from torch.distributed.fsdp import fully_shard

    return fully_shard(torch.nn.Linear(8, 8), mesh=of)


def fsdp_1() -> Any:
    """FSDP 1 itself needs a device."""

    class Sharded(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.process_group = dist.group.WORLD
            self._fsdp_wrapped_module = torch.nn.Linear(8, 8)

    return Sharded()


def flattened() -> Any:
    """Context parallelism: FSDP's mesh is larger than the number of batches."""
    whole = mesh(("dp_shard", 2), ("cp", 2), ("tp", 2))
    return fsdp(whole["dp_shard", "cp"]._flatten("dp_shard_cp"))


CASES: dict[str, tuple[Callable[[], Any], list[int] | None, str]] = {
    "ddp": (ddp, [5, 8], "DDP"),
    "ddp of a group": (of_half, [1, 4], "DDP"),
    "fsdp 1": (fsdp_1, [5, 8], "FSDP"),
    "fsdp": (fsdp, [5, 8], "FSDP"),
    "hybrid": (lambda: fsdp(mesh(("between", 2), ("within", 4))), [5, 8], "FSDP"),
    "a mesh with tensor parallelism": (lambda: mesh(("dp", 4), ("tp", 2)), [2, 4], "device mesh"),
    "two dimensions for data": (
        lambda: mesh(("pp", 2), ("dp_replicate", 2), ("dp_shard", 2)), [1, 4], "device mesh"),
    "a mesh and ddp of a part": (
        lambda: ddp(mesh(("dp", 4), ("tp", 2))["dp"]), [2, 4], "device mesh"),
    "a flattened mesh": (flattened, [1, 2], "device mesh"),
    "pipeline and tensor parallelism alone": (
        lambda: mesh(("pp", 4), ("tp", 2)), [0, 1], "device mesh"),
    "other names": (lambda: mesh(("x", 4), ("y", 2)), None, ""),
    "ddp and tensor parallelism of the world": (lambda: (mesh(("tp", 8)), ddp()), [5, 8], "DDP"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_groups_and_meshes_tell_which_batches_a_rank_sees(name: str, told: Any) -> None:
    make, data, by = CASES[name]
    made = make()
    assert made is not None
    assert told.parallel == (None if data is None else {"data": data, "by": by})


def test_what_a_voirfile_says_stays(told: Any) -> None:
    told.parallel = {"data": [0, 2], "by": "voirfile"}
    ddp()
    assert told.parallel["by"] == "voirfile"
