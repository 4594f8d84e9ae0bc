"""Batches from an asynchronous generator, as of a queue that other tasks of the loop fill."""

import asyncio

import torch
from training import Truth, linear

truth = Truth(31)
model, optimizer = linear()


async def batches(n, size):
    queue = asyncio.Queue(2)

    async def fill():
        for _ in range(n):
            await asyncio.sleep(0.001)
            await queue.put((torch.randn(size, 4), torch.randn(size, 1)))
        await queue.put(None)

    filling = asyncio.create_task(fill())
    while (batch := await queue.get()) is not None:
        yield batch
    await filling


async def main():
    for epoch in range(3):
        done = 0
        async for x, y in batches(12, 6):
            loss = torch.nn.functional.mse_loss(model(x), y)
            truth.step(len(x), loss, optimizer)
            done += 1
            if epoch == 1 and done == 7:
                break


asyncio.run(main())
truth.tell()
