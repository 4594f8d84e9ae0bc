"""Threads collect states with a shared policy, and the main thread learns from them."""

import queue
import threading

import torch
from torch import nn
from training import Truth

truth = Truth(63)
policy = nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
collected = queue.Queue(maxsize=4)
over = threading.Event()


def collect():
    while not over.is_set():
        states = torch.ones(16, 4)
        with torch.no_grad():
            policy(states)
        try:
            collected.put(states, timeout=0.05)
        except queue.Full:
            continue


threads = [threading.Thread(target=collect) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(15):
    loss = policy(collected.get()).pow(2).mean()
    truth.step(16, loss, optimizer)
over.set()
for thread in threads:
    thread.join()
truth.tell()
