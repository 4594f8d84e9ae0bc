from torch.nn import functional

from . import meters


def train_one_epoch(model, optimizer, data_loader, epoch):
    meter = meters.Average()
    for step, (image, target) in enumerate(data_loader):
        output = model(image)
        loss = functional.cross_entropy(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.update(epoch + step)
