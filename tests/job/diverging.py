"""Jobs of four ranks, one of which does something else than the others: ``diverging.py CASE``.

The process forks the ranks, and ends them as a launcher does: once one has failed, or after a
while.
"""

import multiprocessing as mp
import os
import sys
import time

import torch
import torch._dynamo  # The first optimizer imports it: once is enough.
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

RANKS, PATIENCE = 4, float(os.environ.get("DIVERGING_SECONDS", "13"))


class Case:
    """A case: what the rank ``odd`` does, and when.

    Args:
        kind: What is different.
        odd: The rank.
        step: From this step on.
        ddp: With DDP; otherwise the gradients are averaged by hand.
    """

    def __init__(self, kind, odd, step, ddp):
        self.kind, self.odd, self.step, self.ddp = kind, odd, step, ddp


#: Twenty cases.
CASES = {
    f"{kind}-{n}": Case(kind, odd, step, ddp)
    for n, (kind, odd, step, ddp) in enumerate([
        ("fewer batches", 1, 7, True), ("fewer batches", 3, 12, False),
        ("more batches", 2, 7, True), ("more batches", 0, 9, False),
        ("if rank", 0, 5, True), ("if rank", 2, 6, False), ("if rank", 0, 3, False),
        ("swallowed", 1, 5, True), ("swallowed", 2, 8, False), ("swallowed", 3, 3, True),
        ("swallowed", 0, 10, False),
        ("batch size", 1, 0, True), ("batch size", 2, 0, False), ("batch size", 3, 0, True),
        ("no evaluation", 1, 0, True), ("no evaluation", 3, 0, False),
        ("no evaluation", 0, 0, True),
        ("skipped backward", 1, 4, True), ("another collective", 2, 6, False),
        ("another size", 1, 5, False),
    ])
}  # fmt: skip


def average(model):
    """Average the gradients by hand."""
    for each in model.parameters():
        dist.all_reduce(each.grad)
        each.grad /= RANKS


def evaluate(model, loader):
    """Evaluate on all ranks together."""
    model.eval()
    with torch.no_grad():
        total = sum(model(x).square().mean() for x, _ in loader)
    dist.all_reduce(total)
    model.train()
    return total


def train(rank, case, port):
    """Train for two epochs."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank),
        MASTER_ADDR="127.0.0.1", MASTER_PORT=port)  # fmt: skip
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    odd, kind = rank == case.odd, case.kind
    batches = 15
    if odd and kind in ("fewer batches", "more batches"):
        batches = case.step if kind == "fewer batches" else 15 + case.step
    size = 12 if odd and kind == "batch size" else 8
    data = TensorDataset(torch.randn(8 * batches, 4), torch.randn(8 * batches, 1))
    loader = DataLoader(data, batch_size=size)
    few = DataLoader(TensorDataset(torch.randn(16, 4), torch.randn(16, 1)), batch_size=8)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    model = DistributedDataParallel(model) if case.ddp else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        for step, (x, y) in enumerate(loader):
            time.sleep(0.1)
            now = odd and epoch == 0 and step == case.step
            try:
                loss = (model(x) - y).square().mean()
                if now and kind == "swallowed":
                    raise ValueError("a bad batch")
                optimizer.zero_grad()
                if now and kind == "skipped backward":
                    continue
                loss.backward()
            except ValueError:
                continue
            if now and kind == "another collective":
                dist.broadcast(torch.ones(3), 0)
            if now and kind == "another size":
                dist.all_reduce(torch.ones(3))
            if not case.ddp:
                average(model)
            optimizer.step()
            if now and kind == "if rank":
                dist.barrier()
        if kind == "no evaluation" and not odd:  # gloo aborts where sizes of collectives differ.
            evaluate(model, few)
    dist.destroy_process_group()


def main():
    """Fork the ranks, wait, and end them."""
    case, port = CASES[sys.argv[1]], sys.argv[2]
    context = mp.get_context("fork")
    ranks = [context.Process(target=train, args=(rank, case, port)) for rank in range(RANKS)]
    for each in ranks:
        each.start()
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and any(each.is_alive() for each in ranks):
        if any(each.exitcode for each in ranks):
            break
        time.sleep(0.1)
    time.sleep(0.5)
    for each in ranks:
        each.terminate()
    for each in ranks:
        each.join(5)
        each.kill()  # gloo's destructor may wait forever, with the interpreter's lock.


if __name__ == "__main__":
    main()
