"""Mixed precision with accumulation and clipping; what is left of an epoch is a step as well."""

import torch
from training import Truth, batches

truth = Truth(34)
loader = batches(58, 6, 1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
accum_iter = 4
for _ in range(3):
    items, total = 0, 0.0
    for batch_idx, (inputs, labels) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = torch.nn.functional.mse_loss(model(inputs), labels) / accum_iter
        scaler.scale(loss).backward()
        items, total = items + len(inputs), total + loss.detach()
        if (batch_idx + 1) % accum_iter == 0 or batch_idx + 1 == len(loader):
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            scheduler.step()
            truth.step(items, total if (batch_idx + 1) % accum_iter == 0 else None)
            items, total = 0, 0.0
truth.tell()
