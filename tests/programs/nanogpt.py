"""After nanoGPT's train.py: micro-steps, a scaler, autocast, an evaluation every so often."""

import torch
from torch import nn
from truth import Truth

truth = Truth(4)
block_size, batch_size, vocab = 8, 4, 20
gradient_accumulation_steps, eval_interval, eval_iters, max_iters = 5, 3, 4, 7
data = torch.randint(vocab, (1000,))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, 16), nn.Embedding(block_size, 16)
        self.h = nn.ModuleList([nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)])
        self.lm_head = nn.Linear(16, vocab)

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(x)
        loss = nn.functional.cross_entropy(logits.view(-1, vocab), targets.view(-1))
        return logits, loss


def get_batch(split):
    ix = torch.randint(len(data) - block_size - 1, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
    return x, y


model = GPT()
scaler = torch.amp.GradScaler("cpu", enabled=True, init_scale=1024.0)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
ctx = torch.amp.autocast("cpu", dtype=torch.bfloat16)


@torch.no_grad()
def estimate_loss():
    out = {}
    model.eval()
    for split in ["train", "val"]:
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            X, Y = get_batch(split)
            with ctx:
                _, loss = model(X, Y)
            losses[k] = loss.item()
            truth.other("eval", len(X))
        out[split] = losses.mean()
    model.train()
    return out


X, Y = get_batch("train")
iter_num = 0
while True:
    if iter_num % eval_interval == 0:
        estimate_loss()
    total, items = 0.0, 0
    for _ in range(gradient_accumulation_steps):
        with ctx:
            logits, loss = model(X, Y)
            loss = loss / gradient_accumulation_steps
        items += len(X)
        total += loss.detach()
        X, Y = get_batch("train")
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    truth.step(items, total)
    iter_num += 1
    if iter_num > max_iters:
        break
truth.tell()
