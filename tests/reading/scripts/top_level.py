"""Everything at module level; 2 x 6 steps of 8."""

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

batch_size, epochs = 8, 2
data = TensorDataset(torch.randn(48, 8), torch.randint(0, 4, (48,)))
train_loader = DataLoader(data, batch_size=batch_size, shuffle=True)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
opt = torch.optim.Adam(net.parameters())

for epoch in range(epochs):
    running_loss = 0.0
    for i, (inputs, labels) in enumerate(train_loader):
        opt.zero_grad()
        outputs = net(inputs)
        loss = F.cross_entropy(outputs, labels)
        loss.backward()
        opt.step()
        running_loss += loss.item()
        if i % 3 == 2:
            print(f"[{epoch}, {i}] loss: {running_loss / 3:.3f}")
            running_loss = 0.0
