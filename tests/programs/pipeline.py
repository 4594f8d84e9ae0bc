"""A pipeline whose stages take known times: their layers sleep in both passes.

Arguments: a schedule, micro-batches, steps, and the milliseconds of a forward pass of each stage.
"""

import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import pipelining
from torch.utils.data import DataLoader, TensorDataset

name, micro_batches, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
seconds = [float(each) / 1000 for each in sys.argv[4:]]
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


dist.init_process_group("gloo")
torch.manual_seed(0)
rank, ranks = dist.get_rank(), dist.get_world_size()
mine = range(rank, len(seconds), ranks)
stages = [
    pipelining.PipelineStage(Stage(seconds[i]), i, len(seconds), torch.device("cpu")) for i in mine
]
kind = getattr(pipelining, name, None)
if kind is None:

    class OfOnesOwn(pipelining.ScheduleGPipe):
        """A schedule that the library does not know."""

    kind = OfOnesOwn
several = issubclass(kind, pipelining.schedules.PipelineScheduleMulti)
schedule = kind(stages if several else stages[0], micro_batches, loss_fn=nn.MSELoss())
learned = [p for stage in stages for p in stage.submod.parameters()]
optimizer = torch.optim.SGD(learned, lr=0.01)
data = TensorDataset(torch.randn(ROWS * micro_batches * steps, 8))
for (batch,) in DataLoader(data, batch_size=ROWS * micro_batches):
    if rank == 0:
        schedule.step(batch)
    elif len(seconds) - 1 in mine:
        schedule.step(target=batch)
    else:
        schedule.step()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
