"""All of the data in each step, a validation on other tensors behind each."""

import torch
from torch import nn
from training import Truth

truth = Truth(70)
X_train, y_train = torch.randn(80, 1), torch.randn(80, 1)
X_test, y_test = torch.randn(20, 1), torch.randn(20, 1)
model = nn.Linear(1, 1)
loss_fn, optimizer = nn.L1Loss(), torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(40):
    model.train()
    loss = loss_fn(model(X_train), y_train)
    truth.step(len(X_train), loss, optimizer)
    model.eval()
    with torch.inference_mode():
        loss_fn(model(X_test), y_test)
        truth.evaluated(len(X_test))
truth.tell()
