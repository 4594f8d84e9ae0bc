"""Distributed data parallel, of one process; a sampler, no_sync while it accumulates."""

import contextlib
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from truth import Truth

truth = Truth(51)
with tempfile.TemporaryDirectory() as directory:
    dist.init_process_group("gloo", init_method=f"file://{directory}/it", rank=0, world_size=1)
    data = TensorDataset(torch.randn(48, 4), torch.randn(48, 1))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        items, total = 0, 0.0
        for i, (x, y) in enumerate(loader, 1):
            with model.no_sync() if i % 2 else contextlib.nullcontext():
                loss = torch.nn.functional.mse_loss(model(x), y) / 2
                loss.backward()
            items, total = items + len(x), total + loss.detach()
            if i % 2 == 0:
                optimizer.step()
                optimizer.zero_grad()
                truth.step(items, total)
                items, total = 0, 0.0
        work = dist.all_reduce(torch.ones(1), async_op=True)
        work.wait()
    dist.destroy_process_group()
truth.tell()
