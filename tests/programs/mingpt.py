"""A trainer with callbacks; batches by next() from a sampler that draws with replacement."""

from collections import defaultdict

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler
from truth import Truth


class Sorting(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        digits = torch.randint(3, (6,))
        both = torch.cat((digits, digits.sort().values))
        target = both[1:].clone()
        target[:5] = -1
        return both[:-1], target


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(3, 16), nn.Embedding(11, 16)
        self.h = nn.TransformerEncoderLayer(16, 2, 32, 0.1, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, idx, targets=None):
        x = self.h(self.wte(idx) + self.wpe(torch.arange(idx.size(1))))
        logits = self.head(x)
        loss = None
        if targets is not None:
            loss = nn.functional.cross_entropy(
                logits.view(-1, 3), targets.view(-1), ignore_index=-1
            )
        return logits, loss


class Trainer:
    def __init__(self, model, dataset, max_iters, batch_size):
        self.model, self.dataset = model, dataset
        self.max_iters, self.batch_size = max_iters, batch_size
        self.callbacks = defaultdict(list)

    def run(self):
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-4)
        sampler = RandomSampler(self.dataset, replacement=True, num_samples=50)
        loader = DataLoader(self.dataset, sampler=sampler, batch_size=self.batch_size)
        self.model.train()
        self.iter_num, data_iter = 0, iter(loader)
        while self.iter_num < self.max_iters:
            try:
                batch = next(data_iter)
            except StopIteration:
                data_iter = iter(loader)
                batch = next(data_iter)
            x, y = (t.to("cpu") for t in batch)
            _, self.loss = self.model(x, y)
            self.model.zero_grad(set_to_none=True)
            self.loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            truth.step(len(x), self.loss)
            for callback in self.callbacks["on_batch_end"]:
                callback(self)
            self.iter_num += 1


@torch.no_grad()
def evaluate(trainer):
    if (trainer.iter_num + 1) % 8:
        return
    trainer.model.eval()
    for x, _ in DataLoader(Sorting(), batch_size=20):
        for _ in range(3):  # Token by token.
            trainer.model(x)
        truth.evaluated(len(x))
    trainer.model.train()


torch.manual_seed(32)
truth = Truth()
trainer = Trainer(GPT(), Sorting(), max_iters=24, batch_size=8)
trainer.callbacks["on_batch_end"].append(evaluate)
trainer.run()
truth.tell()
