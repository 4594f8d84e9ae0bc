"""A language model on batches from a function, evaluated every so often; no accumulation."""

import torch
from torch import nn
from torch.nn import functional as F
from truth import Truth

truth = Truth(33)
batch_size, block_size, vocab_size = 8, 6, 11
max_iters, eval_interval, eval_iters = 30, 10, 3
data = torch.randint(vocab_size, (500,))


def get_batch(split):
    source = data[:450] if split == "train" else data[450:]
    ix = torch.randint(len(source) - block_size, (batch_size,))
    x = torch.stack([source[i : i + block_size] for i in ix])
    return x, torch.stack([source[i + 1 : i + block_size + 1] for i in ix])


class Bigram(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_embedding_table = nn.Embedding(vocab_size, vocab_size)

    def forward(self, idx, targets=None):
        logits = self.token_embedding_table(idx)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, vocab_size), targets.view(-1))

    def generate(self, idx, n):
        for _ in range(n):
            logits, _ = self(idx)
            chosen = torch.multinomial(F.softmax(logits[:, -1, :], dim=-1), num_samples=1)
            idx = torch.cat((idx, chosen), dim=1)
        return idx


@torch.no_grad()
def estimate_loss():
    model.eval()
    for split in ("train", "val"):
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            X, Y = get_batch(split)
            _, loss = model(X, Y)
            losses[k] = loss.item()
            truth.evaluated(len(X))
    model.train()


model = Bigram()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for iteration in range(max_iters):
    if iteration % eval_interval == 0 or iteration == max_iters - 1:
        estimate_loss()
    xb, yb = get_batch("train")
    logits, loss = model(xb, yb)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    truth.step(len(xb), loss)
model.generate(torch.zeros((1, 1), dtype=torch.long), 20)  # With gradients: of nothing.
truth.tell()
