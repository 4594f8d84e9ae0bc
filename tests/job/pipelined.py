"""A pipeline whose stages take known times: their layers sleep in both passes.

Arguments: ranks, a schedule, micro-batches, steps, and the milliseconds of a forward pass of each
stage.
"""

import os
import socket
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed import pipelining
from torch.utils.data import DataLoader, TensorDataset

ranks, name, micro_batches, steps = (
    int(sys.argv[1]),
    sys.argv[2],
    int(sys.argv[3]),
    int(sys.argv[4]),
)
seconds = [float(each) / 1000 for each in sys.argv[5:]]
ROWS = 2


class Slow(torch.autograd.Function):
    """Sleep in the forward pass, and as long in the backward one."""

    @staticmethod
    def forward(context, x, took):
        context.took = took
        time.sleep(took)
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        time.sleep(context.took)
        return gradient, None


class Stage(nn.Module):
    def __init__(self, took):
        super().__init__()
        self.layer, self.took = nn.Linear(8, 8), took

    def forward(self, x):
        return Slow.apply(self.layer(x), self.took)


class OfOnesOwn(pipelining.ScheduleGPipe):
    """A schedule that the library does not know."""


class ByHand:
    """GPipe with sends and receipts of one's own, of one stage per rank."""

    def __init__(self, stage, several, loss_fn):
        self.stage, self.several, self.loss_fn = stage.submod, several, loss_fn

    def step(self, x=None, target=None):
        rank, outputs, inputs = dist.get_rank(), [], []
        for n in range(self.several):
            value = x[n * ROWS : (n + 1) * ROWS] if rank == 0 else torch.empty(ROWS, 8)
            if rank:
                dist.recv(value, rank - 1)
                value.requires_grad_()
            inputs.append(value)
            outputs.append(self.stage(value))
            if rank < ranks - 1:
                dist.send(outputs[-1].detach(), rank + 1)
        for n, output in enumerate(outputs):
            if rank < ranks - 1:
                gradient = torch.empty(ROWS, 8)
                dist.recv(gradient, rank + 1)
                output.backward(gradient)
            else:
                self.loss_fn(output, target[n * ROWS : (n + 1) * ROWS]).backward()
            if rank:
                dist.send(inputs[n].grad, rank - 1)


def train(rank, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.manual_seed(0)
    mine = range(rank, len(seconds), ranks)
    kind = ByHand if name == "ByHand" else getattr(pipelining, name, OfOnesOwn)
    if name == "ScheduleZBVZeroBubble":
        mine = rank, len(seconds) - 1 - rank
    stages = [
        pipelining.PipelineStage(Stage(seconds[i]), i, len(seconds), torch.device("cpu"))
        for i in mine
    ]
    several = issubclass(kind, pipelining.schedules.PipelineScheduleMulti)
    schedule = kind(stages if several else stages[0], micro_batches, loss_fn=nn.MSELoss())
    learned = [p for stage in stages for p in stage.submod.parameters()]
    optimizer = torch.optim.SGD(learned, lr=0.01)
    data = TensorDataset(torch.randn(ROWS * micro_batches * steps, 8))
    for (batch,) in DataLoader(data, batch_size=ROWS * micro_batches):
        given = {"target": batch} if len(seconds) - 1 in mine else {}
        schedule.step(*([batch] if rank == 0 else []), **given)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    mp.start_processes(train, (free,), ranks, start_method="fork")
