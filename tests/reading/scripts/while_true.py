"""``while True`` at module level, accumulation, a scaler, evaluation; 12 steps of 3 x 8."""

from contextlib import nullcontext

import torch

batch_size, gradient_accumulation_steps, max_iters, eval_interval = 8, 3, 12, 6
device = "cpu"
config = {"batch_size": batch_size}
ctx = nullcontext()
data = torch.randn(64, 8)


def get_batch(split):
    ix = torch.randint(len(data) - 1, (batch_size,))
    x = torch.stack([data[i] for i in ix])
    y = torch.stack([data[i + 1] for i in ix])
    return x, y


class GPT(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, idx, targets=None):
        logits = self.layer(idx)
        return logits, torch.nn.functional.mse_loss(logits, targets)


@torch.no_grad()
def estimate_loss():
    model.eval()
    out = {}
    for split in ["train", "val"]:
        losses = torch.zeros(4)
        for k in range(4):
            X, Y = get_batch(split)
            _, loss = model(X, Y)
            losses[k] = loss.item()
        out[split] = losses.mean()
    model.train()
    return out


model = GPT().to(device)
scaler = torch.amp.GradScaler("cpu", enabled=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
X, Y = get_batch("train")
iter_num = 0
while True:
    if iter_num % eval_interval == 0:
        losses = estimate_loss()
    for _micro in range(gradient_accumulation_steps):
        with ctx:
            _, loss = model(X, Y)
            loss = loss / gradient_accumulation_steps
        X, Y = get_batch("train")
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    iter_num += 1
    if iter_num >= max_iters:
        break
