"""main.py with a timeline recorded by the script itself; without voir it behaves like main.py."""

import argparse

import numpy as np
import psutil
from sklearn.datasets import load_digits

from voir import trace

application = trace.channel("Digits application")
instants = trace.channel("Instant events")
losses = application.counter("Loss", "nats")
training_loss = losses.series("training")
validation_loss = losses.series("validation")
accuracies = application.counter("Accuracy")
cpu_load = application.counter("CPU load", "%")


def load_data(seed):
    digits = load_digits()
    images = np.hstack([digits.images.reshape(-1, 64) / 16, np.ones((len(digits.target), 1))])
    order = np.random.default_rng(seed).permutation(len(images))
    cut = int(0.8 * len(images))
    train, test = order[:cut], order[cut:]
    return (images[train], digits.target[train]), (images[test], digits.target[test])


def loss_and_gradient(weights, images, labels):
    scores = images @ weights
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances /= chances.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(chances[rows, labels]).mean()
    chances[rows, labels] -= 1
    return loss, images.T @ chances / len(labels)


@application.span("training")
def train(weights, images, labels, batch_size, rate):
    for start in range(0, len(images), batch_size):
        batch = slice(start, start + batch_size)
        loss, gradient = loss_and_gradient(weights, images[batch], labels[batch])
        weights -= rate * gradient
        training_loss.add(loss)
    return loss


@application.span("validation")
def validate(weights, images, labels):
    val_loss, _ = loss_and_gradient(weights, images, labels)
    accuracy = ((images @ weights).argmax(axis=1) == labels).mean()
    return val_loss, accuracy


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1234)
    args = parser.parse_args()

    training, validation = load_data(args.seed)
    weights = np.zeros((65, 10))
    for epoch in range(args.epochs):
        instants.instant(f"Epoch {epoch} begin")
        with application.span(f"Epoch:{epoch}"):
            loss = train(weights, *training, args.batch_size, args.lr)
            val_loss, accuracy = validate(weights, *validation)
        validation_loss.add(val_loss)
        accuracies.add(accuracy)
        cpu_load.add(psutil.cpu_percent())
        print(f"epoch {epoch}: loss {loss:.4f}, validated {val_loss:.4f}, accuracy {accuracy:.1%}")


if __name__ == "__main__":
    main()
