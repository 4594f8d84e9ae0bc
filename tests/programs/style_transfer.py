"""LBFGS over pixels: a frozen network in eval() mode, closures with several losses."""

import torch
from torch import nn, optim
from truth import Truth

truth = Truth(13, unknown="items")  # Nothing is learned by a model: the pixels are.
network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3))
network.eval()
network.requires_grad_(False)
content, style = torch.rand(1, 3, 8, 8), torch.rand(1, 3, 8, 8)
input_img = content.clone().requires_grad_(True)
optimizer = optim.LBFGS([input_img])


def gram(x):
    flat = x.view(x.size(1), -1)
    return flat @ flat.t()


with torch.no_grad():
    content_target, style_target = network(content), gram(network(style))
run = [0]
while run[0] <= 60:
    first = []

    def closure(first=first):
        with torch.no_grad():
            input_img.clamp_(0, 1)
        optimizer.zero_grad()
        found = network(input_img)
        style_score = 1e3 * (gram(found) - style_target).pow(2).mean()
        content_score = (found - content_target).pow(2).mean()
        loss = style_score + content_score
        loss.backward()
        run[0] += 1
        first.append(loss.detach())
        return loss

    optimizer.step(closure)
    truth.step(1, first[0])
truth.tell()
